"""How long compiling a model takes, and how long its runs take then, for one backend or all of them.

Enters: a model or function, an input for it and, for training, an optimizer and a loss. Leaves: milliseconds, or a
table as text. A backend that fails is reported and left out. The table needs the package tabulate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import late
from .timing import Timer

__all__ = ["bench_all", "benchmark_compile"]

_TRAINING = """
output = model(sample_input)
loss = loss_fn(output) if loss_fn else output.sum()
loss.backward()
optimizer.step()
optimizer.zero_grad()
"""
_HEADERS = ("Train/Inference", "Backend", "Mode", "Compilation Time", "Average Running Time")


def _timer(model: Callable, sample_input: Any, optimizer: Any, loss_fn: Callable | None) -> Timer:
    given = {"model": model, "sample_input": sample_input, "optimizer": optimizer, "loss_fn": loss_fn}
    return Timer(_TRAINING if optimizer and loss_fn else "model(sample_input)", globals=given)


def bench_loop(
    model: Callable, sample_input: Any, num_iters: int = 5, optimizer: Any = None, loss_fn: Callable | None = None
) -> float:
    """Milliseconds of a run: of a training step, given an optimizer and a loss."""
    return round(_timer(model, sample_input, optimizer, loss_fn).timeit(num_iters).mean * 1000, 2)


def benchmark_compile(
    model: Callable, sample_input: Any, num_iters: int = 5, backend: str | None = None, mode: str | None = "default",
    optimizer: Any = None, loss_fn: Callable | None = None,
) -> tuple[float | None, float | None]:
    """(milliseconds of compiling, of a run): without a backend the first is None, where it fails both are."""
    if not backend:
        return None, bench_loop(model, sample_input, num_iters, optimizer, loss_fn)
    package = late.provided("package")
    try:
        package._dynamo.reset()
        before = _graphs()
        compiled = package.compile(model, backend=backend, mode=mode)
        # Nothing is run before it, as `timeit` would: the first run compiles.
        compilation_time = round(_timer(compiled, sample_input, optimizer, loss_fn)._timeit(1) * 1000, 2)
        first = _graphs()
        running_time = bench_loop(compiled, sample_input, num_iters, optimizer, loss_fn)
        if first == before:
            raise RuntimeError("No compilation occurred during benchmarking.")
        if _graphs() > first:
            raise RuntimeError("Recompilation occurred during benchmarking.")
    except Exception as error:  # whatever a backend raises: others are still to be timed
        print(error)
        print(f"Failed to compile {backend} with mode {mode}")
        return None, None
    return compilation_time, running_time


def _graphs() -> int:
    """How many graphs were compiled so far."""
    return late.provided("package")._dynamo.utils.counters["stats"]["unique_graphs"]


def bench_all(
    model: Callable, sample_input: Any, num_iters: int = 5, optimizer: Any = None, loss_fn: Callable | None = None
) -> str:
    """A table of all backends, and of the modes of the inductor, with runs that are not compiled first."""
    try:
        from tabulate import tabulate  # noqa: PLC0415 - a package of its own, needed here only
    except ImportError as error:
        raise ImportError("bench_all: tables need the package tabulate: pip install tabulate") from error
    package, kind = late.provided("package"), "Training" if optimizer else "Inference"
    _, eager = benchmark_compile(model, sample_input, num_iters, None, None, optimizer, loss_fn)
    rows = [[kind, "Eager", "-", "-", f"{eager} ms"]]
    modes = [mode for mode in package._inductor.list_mode_options() if mode != "default"]
    for backend in package._dynamo.list_backends():
        for mode in [*modes, None] if backend == "inductor" else [None]:
            compiling, running = benchmark_compile(model, sample_input, num_iters, backend, mode, optimizer, loss_fn)
            if running is not None or backend == "inductor":
                rows.append(
                    [kind, backend, mode or "-", "-" if compiling is None else f"{compiling} ms ",
                     "-" if running is None else f"{running} ms "]
                )
    return tabulate(rows, headers=_HEADERS, tablefmt="github")
