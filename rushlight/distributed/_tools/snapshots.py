"""Snapshots of memory as text: bytes by kind, for each device.

Enters: snapshots and a unit. Leaves: lines on stdout; tables need the package tabulate. Refuses: units it does not
know.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

TOTAL = "Total"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

Snapshot = dict[Any, dict[Any, int]]      # device -> kind -> bytes


def table_of(rows: Any, headers: Any) -> str:
    """Rows as a table. Refuses where tabulate is not installed."""
    try:
        from tabulate import tabulate  # noqa: PLC0415 - a package of its own, needed here only
    except ImportError as error:
        raise ImportError("tables need the package tabulate: pip install tabulate") from error
    return tabulate(rows, headers=headers, tablefmt="rst")


def _shown(found: dict[Any, int], units: str) -> dict[str, str] | None:
    """Kind -> text, None where nothing is held."""
    if units not in UNITS:
        raise ValueError(f"Unsupported unit: {units}. Supported units are: {', '.join(UNITS)}")
    size = UNITS[units]
    numbers = {k.value if isinstance(k, Enum) else k: v if size == 1 else round(v / size, 2) for k, v in found.items()}
    return {k: f"{v} {units}" for k, v in numbers.items()} if numbers[TOTAL] > 0 else None


def print_snapshot(snapshot: Snapshot, units: str) -> None:
    """One line per kind, below its device."""
    if not snapshot:
        print("No memory tracked.")
    for device, found in snapshot.items():
        shown = _shown(found, units)
        if shown is not None:
            print(f"Device: {device}", *(f"\t{kind}: {text}" for kind, text in shown.items()), sep="\n")


def print_snapshot_table(snapshot: Snapshot, units: str) -> None:
    """One row per device."""
    if not snapshot:
        print("No memory tracked.")
        return
    rows = [(device, _shown(found, units)) for device, found in snapshot.items()]
    kinds = [k.value if isinstance(k, Enum) else k for k in next(iter(snapshot.values()))]
    print(table_of([[str(device), *shown.values()] for device, shown in rows if shown is not None], ["Device", *kinds]))


def print_states(snapshots: dict[Any, list[Snapshot]], units: str) -> None:
    """All snapshots of a module, by state."""
    for state, taken in snapshots.items():
        print(state.value)
        for k, snapshot in enumerate(taken):
            print(f"# {k + 1}:")
            print_snapshot(snapshot, units)
    print()


def print_states_table(snapshots: dict[Any, list[Snapshot]], units: str) -> None:
    """All snapshots of a module, a row each."""
    rows, last = [], None
    for state, taken in snapshots.items():
        for k, snapshot in enumerate(taken):
            call = f"{state.value} # {k + 1}"
            for device, found in snapshot.items():
                shown = _shown(found, units)
                if shown is not None:
                    rows.append({"State & Call": call if call != last else "", "Device": str(device), **shown})
                    last = call
    print(table_of(rows, "keys"))
