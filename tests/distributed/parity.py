"""One program, run by processes of Rushlight and by processes of PyTorch: what it says must be the same.

A program is a function of a test's file: `program(torch, rank, ranks, *args)`. It gives plain data; `plain` makes that
of tensors. `both` runs it twice and gives what each rank said, ours and PyTorch's.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .processes import TIMEOUT, Raised, results_of, run


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


def _ours(rank: int, ranks: int, program: Callable, args: tuple) -> Any:
    import rushlight

    return program(rushlight, rank, ranks, *args)


def _theirs(pipe: Any, program: Callable, rank: int, ranks: int, path: str, args: tuple) -> None:
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=ranks, timeout=timedelta(seconds=30)
    )
    try:
        result = program(torch, rank, ranks, *args)
    except Exception as error:
        result = Raised(error)
    pipe.send(result)
    pipe.close()
    torch.distributed.destroy_process_group()


def run_theirs(ranks: int, program: Callable, *args: Any) -> list[Any]:
    """What PyTorch's processes said."""
    context = multiprocessing.get_context("spawn")
    path = os.path.join(tempfile.mkdtemp(), "meeting")
    pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
    processes = [
        context.Process(target=_theirs, args=(pipes[r][1], program, r, ranks, path, args)) for r in range(ranks)
    ]
    for process in processes:
        process.start()
    results = [p.recv() if p.poll(2 * TIMEOUT) else Raised(TimeoutError("the rank said nothing")) for p, _ in pipes]
    for process in processes:
        process.join(10)
        if process.is_alive():
            process.kill()
    return results


def run_ours(ranks: int, program: Callable, *args: Any) -> list[Any]:
    """What Rushlight's processes said."""
    return results_of(run(ranks, _ours, program, args))


def both(ranks: int, program: Callable, *args: Any) -> tuple[list[Any], list[Any]]:
    """(ours, PyTorch's)."""
    return run_ours(ranks, program, *args), results_of(run_theirs(ranks, program, *args))


def close(a: Any, b: Any, tolerance: float = 2e-5) -> bool:
    """Whether two pieces of plain data are the same, numbers to rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= tolerance * (1 + abs(b)) or (a != a and b != b)
    return a == b
