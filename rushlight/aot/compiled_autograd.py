"""Compiled autograd by PyTorch's names: `backward()` inside a block runs as one compiled graph (`aot.backward_graph`).

Enters: a function that compiles a graph (`torch.compile(backend=...)`, or one of yours). Leaves: context managers.
Refuses: nothing; what is no graph the engine runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..autograd.backward import running

_made: dict[Any, Any] = {}      # by compile function: what it compiled so far


@contextmanager
def _enable(compiler_fn: Callable, *, dynamic: bool = True, ignore_active_disable_ctx: bool = True) -> Iterator[None]:
    """Inside, `backward()` of this thread is a graph that `compiler_fn(graph)` compiled. Tapes whose sizes differ are
    graphs of their own, whatever `dynamic` says."""
    if not callable(compiler_fn):
        raise TypeError(f"_enable: expected a function that compiles a graph, got {type(compiler_fn).__name__}")
    with _running_by(_backward_of(compiler_fn, _from_graph(compiler_fn))):
        yield


@contextmanager
def _disable() -> Iterator[None]:
    """Inside, `backward()` of this thread runs on the engine."""
    with _running_by(None):
        yield


@contextmanager
def enabled_for(backend: Any, compiler: Callable) -> Iterator[None]:
    """Inside, what the setting `compiled_autograd` asks for: `compiler` makes a function of a graph and its inputs."""
    if running.otherwise is not None:
        yield
        return
    with _running_by(_backward_of(backend, compiler)):
        yield


def _backward_of(key: Any, compiler: Callable) -> Any:
    if key not in _made:
        from .backward_graph import CompiledBackward  # noqa: PLC0415 - for those who ask for it

        _made[key] = CompiledBackward(compiler)
    return _made[key]


def _from_graph(compiler_fn: Callable) -> Callable:
    def compiler(gm: Any, example_inputs: list[Any]) -> Callable:
        from ..fx._lazy_graph_module import _LazyGraphModule  # noqa: PLC0415 - for those who ask for it

        _LazyGraphModule.force_recompile(gm)
        result = compiler_fn(gm)

        def call(args: list[Any]) -> Any:
            return result(*args)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return compiler


@contextmanager
def _running_by(otherwise: Any) -> Iterator[None]:
    before, running.otherwise = running.otherwise, otherwise
    _C._ask_python_for_backward(1)
    try:
        yield
    finally:
        running.otherwise = before
        _C._ask_python_for_backward(-1)


def reset() -> None:
    """Forget all graphs of backward()."""
    _made.clear()


def __getattr__(name: str) -> Any:
    if name == "compiled_autograd_enabled":
        return running.otherwise is not None
    if name == "in_compiled_autograd_region":
        return False      # graphs are recorded, never run, while a tape is walked
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
