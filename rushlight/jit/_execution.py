"""How compiled programs run, as programs set it: fusion, calls side by side, what ran last.

Enters: settings. Leaves: `rushlight.script`'s, which it reads when a program becomes hot. Refuses: kinds of fusion that
there are not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._jit_internal import Future

if TYPE_CHECKING:
    from ..script.settings import Settings

_FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3")


def _settings() -> Settings:
    from ..script.settings import SETTINGS  # when it is used: most programs that import jit compile nothing

    return SETTINGS


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """Start a call and answer with its future. In a compiled program it runs beside the rest; from Python at once."""
    done: Future = Future()
    done.set_result(func(*args, **kwargs))
    return done


def wait(future: Future) -> Any:
    """The result of a fork."""
    return future.wait()


def last_executed_optimized_graph() -> Any:
    """The graph of the compiled function that Python called last, without calls. Refused before the first."""
    from ..script.passes.inline import inlined
    from ..script.unit import Function

    if Function.last is None:
        raise RuntimeError("last_executed_optimized_graph: no compiled function has been called yet")
    return inlined(Function.last.graph)


@contextlib.contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    settings = _settings()
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)


def optimized_execution(should_optimize: bool) -> Any:
    """Whether compiled programs that become hot inside are made faster."""
    return _set("optimizes", bool(should_optimize))


def fuser(name: str) -> Any:
    """Which fuser compiled programs use inside. There is one here; all names but those PyTorch has are refused."""
    if name not in _FUSERS:
        raise Exception(f"unrecognized fuser option (name: {name})")  # noqa: TRY002 - as PyTorch raises
    return _set("fuses", True)


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Whether kernels are made for one shape or for all, and for how many; what it was before."""
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"set_fusion_strategy: expected 'STATIC' or 'DYNAMIC', got {kind!r}")
    settings = _settings()
    before, settings.strategy = settings.strategy, list(strategy)
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep whether programs asked for oneDNN's fusion; the kernels are the same ones."""
    _settings().onednn = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """Whether that was asked for."""
    return _settings().onednn


class strict_fusion:  # noqa: N801 - PyTorch's name
    """In a compiled program, a region that should become one kernel. It changes nothing here: what is pointwise is
    fused when it is hot, wherever it stands, and nothing is said of the rest."""

    __scriptable__ = True

    def __init__(self) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        pass
