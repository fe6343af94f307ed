"""The package's own functions: devices by their names, and the ends of steps.

Enters: nothing but settings. Leaves: devices, and programs that ran. Refuses: units that are not there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C, random
from ..lazy import metrics
from ..lazy.step import mark_step
from .unit import NAME, require, units

EXECUTIONS = ("UncachedCompile", "CachedCompile")


def device(index: int | None = None) -> Any:
    """The device of this package, or the unit `index` of it."""
    count = require().device_count()
    if index is not None and (type(index) is not int or not 0 <= index < count):
        raise RuntimeError(f"xla.device: expected a unit from 0 to {count - 1}, got {index!r}")
    return _C.device(NAME, index or 0)


def devices() -> list[Any]:
    """All units."""
    return units()


def real_devices() -> list[str]:
    """What the units are, in XLA's words."""
    return [f"CPU:{d.index}" for d in units()]


def device_count() -> int:
    """How many units there are; 0 where jaxlib is not installed."""
    from .unit import is_available  # noqa: PLC0415 - asked by programs that may not have it

    return len(units()) if is_available() else 0


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """End the step: what this thread wrote down becomes one program and runs. `wait`: return when it has ended.
    `reset_scope` is about names in traces, of which there are none here."""
    require()
    mark_step(NAME, wait)


@contextlib.contextmanager
def step() -> Iterator[None]:
    """A step of its own: what was written down before runs first, what is written down inside runs at its end."""
    sync()
    try:
        yield
    finally:
        sync()


def _executions() -> int:
    return sum(metrics.counter_value(name) for name in EXECUTIONS)


@contextlib.contextmanager
def _traced(full_graph: bool, allowed: int | None, name: str | None) -> Iterator[None]:
    """A step that checks how its graphs came about."""
    sync()
    before, compiled = _executions(), metrics.counter_value("UncachedCompile")
    told = f" {name!r}" if name else ""
    yield
    if full_graph and _executions() != before:
        raise RuntimeError(
            f"xla.compile: the region{told} looks at {_executions() - before} tensors before it ends, and"
            " full_graph=True wants one graph. RUSHLIGHT_SHOW=lazy prints the lines that look.")
    sync()
    graphs = metrics.counter_value("UncachedCompile") - compiled
    if allowed is not None:
        _graphs_of(allowed, graphs, told)


def _graphs_of(allowed: int, graphs: int, told: str) -> None:
    if graphs > allowed:
        raise RuntimeError(f"xla.compile: the region{told} compiled {graphs} graphs, and {allowed} are allowed")


def compile(  # noqa: A001 - torch_xla's name
    f: Callable | None = None, full_graph: bool = False, name: str | None = None,
    num_different_graphs_allowed: int | None = None,
) -> Any:
    """A function that is one step each time it is called; without one, such a region for `with`. `full_graph`: raise
    where something inside looks at a tensor. `num_different_graphs_allowed`: raise where more are compiled, over all
    calls."""
    if num_different_graphs_allowed is not None and num_different_graphs_allowed < 1:
        raise ValueError(f"xla.compile: expected at least 1 graph to be allowed, got {num_different_graphs_allowed}")
    if f is None:
        return _traced(full_graph, num_different_graphs_allowed, name)
    if not callable(f):
        raise TypeError(f"xla.compile: expected a function, got {type(f).__name__}")
    told = name or getattr(f, "__name__", type(f).__name__)
    made = [0]

    @functools.wraps(f)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        sync()
        before = metrics.counter_value("UncachedCompile")
        with _traced(full_graph, None, told):
            result = f(*args, **kwargs)
        made[0] += metrics.counter_value("UncachedCompile") - before
        if num_different_graphs_allowed is not None:
            _graphs_of(num_different_graphs_allowed, made[0], f" {told!r}")
        return result

    return compiled


def manual_seed(seed: int, device: Any = None) -> None:
    """Restart the random numbers: one stream, of the host, serves all units."""
    if device is not None and _C.device(device).type != NAME:
        raise RuntimeError(f"xla.manual_seed: expected an xla device, got {device}")
    random.manual_seed(seed)


def launch(
    fn: Callable, args: tuple = (), start_method: str = "spawn", debug_single_process: bool = False
) -> None:
    """Call `fn(index, *args)` for each unit: there is one, and it is this process's. `start_method` and
    `debug_single_process` are about further processes."""
    require()
    if start_method not in ("spawn", "fork", "forkserver"):
        raise ValueError(f"xla.launch: expected 'spawn', 'fork' or 'forkserver', got {start_method!r}")
    fn(0, *args)
