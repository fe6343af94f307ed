"""One program, run by processes of Rushlight and by processes of PyTorch: what it says must be the same.

A program is a function of a test's file: `program(torch, rank, ranks, *args)`. It gives plain data; `plain` makes that
of tensors. `both` runs it twice and gives what each rank said, ours and PyTorch's.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from . import processes
from .processes import results_of, run

# What most of PyTorch's ranks import; theirs are forked too, but not from a process that Rushlight's are forked from.
LIBRARIES = ("torch", "torch.distributed.tensor", "torch.distributed.fsdp", *processes.LIBRARIES)


def part(torch: Any, name: str) -> Any:
    """A module of the library a program runs with, by its name in PyTorch."""
    return importlib.import_module(f"{torch.__name__}.{name}")


def plain(value: Any) -> Any:
    """Distributed tensors as (placements, sizes, this process's part), plain ones as (sizes, elements)."""
    if hasattr(value, "to_local"):
        local = value.detach().to_local()
        return [str(p) for p in value.placements], list(value.shape), plain(local)
    if hasattr(value, "detach"):
        return list(value.shape), value.detach().flatten().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def cases(torch: Any, table: dict[str, Callable], *args: Any) -> dict[str, Any]:
    """What each function of a table gives; the class of what it raised."""
    found: dict[str, Any] = {}
    for name, case in table.items():
        torch.manual_seed(0)
        try:
            found[name] = plain(case(torch, *args))
        except Exception as error:
            found[name] = f"raised {type(error).__name__}"
            found[name + " because"] = str(error)
    return found


def _program(rank: int, ranks: int, library: str, path: str, program: Callable, args: tuple) -> Any:
    torch = importlib.import_module(library)
    if library == "rushlight":
        return program(torch, rank, ranks, *args)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    try:
        return program(torch, rank, ranks, *args)
    finally:
        torch.distributed.destroy_process_group()


def run_ours(ranks: int, program: Callable, *args: Any) -> list[Any]:
    """What Rushlight's processes said."""
    return results_of(run(ranks, _program, "rushlight", "", program, args))


def run_theirs(ranks: int, program: Callable, *args: Any) -> list[Any]:
    """What PyTorch's processes said; they may need minutes to import it, if the machine has other things to do."""
    pytest.importorskip("torch")
    path = os.path.join(tempfile.mkdtemp(), "meeting")
    options = {"libraries": LIBRARIES, "make_world": False, "patience": 240.0}
    return results_of(run(ranks, _program, "torch", path, program, args, **options))


def both(ranks: int, program: Callable, *args: Any) -> tuple[list[Any], list[Any]]:
    """(ours, PyTorch's)."""
    theirs = run_theirs(ranks, program, *args)
    return run_ours(ranks, program, *args), theirs


def close(a: Any, b: Any, tolerance: float = 2e-5) -> bool:
    """Whether two pieces of plain data are the same, numbers to rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= tolerance * (1 + abs(b)) or (a != a and b != b)
    return a == b
