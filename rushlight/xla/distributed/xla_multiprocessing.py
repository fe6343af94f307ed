"""torch_xla.distributed.xla_multiprocessing: a function for each unit. There is one, and it is this process's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..stepping import launch


def spawn(
    fn: Callable, args: tuple = (), nprocs: int | None = None, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> None:
    """Call `fn(0, *args)`, and return when it has."""
    if nprocs not in (None, 1):
        raise ValueError(f"xmp.spawn: there is one unit, so nprocs can be None or 1, got {nprocs}")
    if not join or daemon:
        raise ValueError("xmp.spawn: the one unit is this process's, which cannot go on meanwhile: join=True,"
                         " daemon=False")
    launch(fn, args, start_method)


class MpModelWrapper:
    """A model that is moved to the device once."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def to(self, device: Any) -> Any:
        """The model, there."""
        return self._model.to(device)


class MpSerialExecutor:
    """Functions that processes call one after the other."""

    def run(self, fn: Callable[[], Any]) -> Any:
        """Call it."""
        return fn()
