"""`torch.sparse._triton_ops_meta`: sizes of blocks that Triton's kernels over block-sparse matrices were found to run
fastest with.

Enters: an op's name, a key of its inputs, a device's name and a version. Leaves: the parameters stored for them, as a
dict of names. The table starts empty: what was measured on this machine is put there with `update`. Refuses: ops whose
parameters have no names.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Hashable
from typing import Any

from .. import _C
from ..base import late

__all__ = ["get_meta", "minimize", "update"]

NAMES = {
    "scatter_mm": ("GROUP_SIZE", "SPLIT_N", "TILE_M", "TILE_N", "num_stages", "num_warps"),
    "bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
    "_int_bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
}
ALIKE = 1e-3             # relative difference of times that counts as none
_stored: dict[tuple[str, str, Hashable], dict[tuple, tuple]] = {}


def _device_name() -> str:
    cuda = late.provided("cuda")
    return cuda.get_device_name() if cuda.is_available() else ""


def get_meta(op: str, key: tuple, device_name: str | None = None, version: Hashable = (0, _C.float16, 0.5),
             exact: bool = False) -> dict | None:
    """The parameters of one op for one key; where the key holds "*", those of all keys that fit, by key. None where
    nothing is stored. Devices are told apart by their whole name, so `exact` changes nothing."""
    known = _stored.get((op, _device_name() if device_name is None else device_name, version))
    if known is None:
        return None
    if op not in NAMES:
        raise NotImplementedError(f"get_meta: expected op to be one of {sorted(NAMES)}, got {op!r}")
    if "*" not in key:
        return dict(zip(NAMES[op], known[key], strict=True)) if key in known else None
    return {
        stored: dict(zip(NAMES[op], values, strict=True))
        for stored, values in known.items()
        if all(asked in ("*", has) for has, asked in zip(stored, key, strict=True))
    }


def update(op: str, device_name: str, version: Hashable, key: tuple, value: tuple) -> None:
    """Store parameters, for this process. Nothing is stored of a search that found none, with a warning."""
    if not value:
        warnings.warn(f"update: {op} has no parameters for {key} on {device_name!r}; nothing is stored", stacklevel=2)
        return
    _stored.setdefault((op, device_name, version), {})[key] = value


def minimize(
    target_func: Callable[[dict], float],
    initial_parameters: dict,
    reference_parameters: dict,
    step_func: Callable[[str, Any, int, dict], Any],
    max_step: int = 2,
    verbose: bool = False,
    all_values: dict | None = None,
) -> tuple[dict, float, float, str]:
    """Walk from the initial parameters to neighbours (at most `max_step` steps away in all) that take less, until none
    does. Leaves: the parameters, by how many percent they beat the reference, their time, and a line of text. Where
    neither start can be measured: ({}, -1, -1, why)."""
    measured: dict = {} if all_values is None else all_values
    names = sorted(initial_parameters)

    def time_of(parameters: dict) -> Any:
        key = tuple(parameters[name] for name in names)
        if key not in measured:
            try:
                measured[key] = target_func(parameters)
            except Exception as failure:   # sizes that a device has no room for are part of the search
                measured[key] = str(failure)
                if verbose:
                    print(f"minimize: {parameters} cannot be measured: {failure}")
        return measured[key]

    starts = [p for p in (initial_parameters, reference_parameters) if not isinstance(time_of(p), str)]
    if not starts:
        return {}, -1, -1, str(time_of(initial_parameters))
    best = min(starts, key=time_of)
    while (better := _faster_neighbour(best, names, time_of, step_func, max_step)) is not None:
        best = better
    reference = time_of(starts[-1])
    text = f"timing0={time_of(starts[0]):.3f}, " + ", ".join(f"{name}={best[name]}" for name in names)
    return best, (1 - time_of(best) / reference) * 100, time_of(best), text


def _faster_neighbour(best: dict, names: list[str], time_of: Callable[[dict], Any],
                      step_func: Callable[[str, Any, int, dict], Any], max_step: int) -> dict | None:
    """The first neighbour, nearest first, that takes noticeably less; None where there is none."""
    reach = range(-max_step, max_step + 1)
    around = [d for d in itertools.product(reach, repeat=len(names)) if 0 < sum(map(abs, d)) <= max_step]
    for directions in sorted(around, key=lambda d: sum(map(abs, d))):
        moved = {n: step_func(n, best[n], d, best) if d else best[n] for n, d in zip(names, directions, strict=True)}
        if any(d and moved[n] == best[n] for n, d in zip(names, directions, strict=True)):
            continue
        found = time_of(moved)
        if not isinstance(found, str) and found < time_of(best) * (1 - ALIKE):
            return moved
    return None
