"""PyTorch's names for the inductor: `config`, and what its modes and options are called.

Enters: programs that set `torch._inductor.config`. Leaves: `rushlight.inductor`, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..inductor import settings
from ..inductor.compile_fx import compile_graph
from . import config

__all__ = ["compile", "config", "list_mode_options", "list_options"]


def list_options() -> list[str]:
    """The options that `compile(options=...)` takes with an effect."""
    return sorted(config.get_config_copy())


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that a mode of `compile` stands for."""
    modes = {name: dict(options) for name, options in settings.MODES.items()}
    if mode is not None and mode not in modes:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(modes)}")
    return modes if mode is None else modes[mode]


def compile(gm: Any, example_inputs: list[Any], options: dict[str, Any] | None = None) -> Callable:
    """A graph of ops as native code: a function of its inputs that returns its results."""
    with settings.applied(options or {}):
        result = compile_graph(gm, example_inputs)

    def call(*inputs: Any) -> Any:
        return result(list(inputs))

    return call
