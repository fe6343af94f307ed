"""`visualize_sharding`: which processes have which rows and columns, as a table."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

from .._utils import shape_and_offset_at

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor: Any, header: str = "", use_rich: bool = False) -> None:
    """Print, on the first process of its mesh, where a distributed tensor of one or two dimensions lies. The table is
    `tabulate`'s where that is installed, `rich`'s if asked for and installed, and our own otherwise. Nothing is printed
    of a tensor without elements."""
    if dtensor.numel() == 0:
        return
    if dtensor.ndim > 2:
        raise RuntimeError(f"visualize_sharding: tensors of one or two dimensions can be shown, got {dtensor.ndim}")
    place = dtensor.device_mesh.get_coordinate()
    if place is None or any(place):
        return
    if header:
        print(header)
    rows, columns, cells = _cells(dtensor)
    if use_rich and importlib.util.find_spec("rich"):
        _print_rich(rows, columns, cells)
    elif importlib.util.find_spec("tabulate"):
        from tabulate import tabulate  # noqa: PLC0415 - another package's

        print(tabulate([[row, *line] for row, line in zip(rows, cells, strict=True)], headers=["", *columns]))
    else:
        print(_plain(rows, columns, cells))


def _cells(dtensor: Any) -> tuple[list[str], list[str], list[list[str]]]:
    """Stretches of rows and of columns, and who has each of their crossings."""
    mesh = dtensor.device_mesh
    owners: dict[tuple, list[int]] = {}
    for place in itertools.product(*[range(n) for n in mesh.shape]):
        shape, offset = shape_and_offset_at(dtensor.shape, mesh, dtensor.placements, list(place))
        shape, offset = (*shape, 1)[:2], (*offset, 0)[:2]
        if len(dtensor.shape) == 0:
            shape, offset = (1, 1), (0, 0)
        stretch = tuple((start, start + length - 1) for start, length in zip(offset, shape, strict=True))
        owners.setdefault(stretch, []).append(int(mesh.mesh[place]))
    rows, columns = (sorted({stretch[k] for stretch in owners}) for k in range(2))
    kind = mesh.device_type
    cells = [[", ".join(f"{kind}:{rank}" for rank in owners.get((row, column), ())) for column in columns]
             for row in rows]
    names = [[f"{k} {first}-{last}" for first, last in stretches] for k, stretches in (("Row", rows), ("Col", columns))]
    return names[0], names[1], cells


def _plain(rows: list[str], columns: list[str], cells: list[list[str]]) -> str:
    table = [["", *columns], *[[row, *line] for row, line in zip(rows, cells, strict=True)]]
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _print_rich(rows: list[str], columns: list[str], cells: list[list[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - another package's
    from rich.table import Table  # noqa: PLC0415

    table = Table("", *columns, show_lines=True)
    for row, line in zip(rows, cells, strict=True):
        table.add_row(row, *line)
    Console().print(table)
