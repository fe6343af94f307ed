"""PyTorch's names for the inductor: `config`, and what its modes and options are called.

Enters: programs that set `torch._inductor.config`. Leaves: `rushlight.inductor`, which does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import late
from ..inductor import settings
from ..inductor.compile_fx import compile_graph
from . import config

__all__ = [
    "aot_compile", "aoti_compile_and_package", "aoti_load_package", "compile", "config", "list_mode_options",
    "list_options",
]


def list_options() -> list[str]:
    """The options that `compile(options=...)` takes: those with an effect first, then PyTorch's that have none."""
    return [*sorted(config.get_config_copy()), *sorted(settings.WITHOUT_EFFECT)]


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


def aoti_compile_and_package(exported_program: Any, _deprecated_unused_args: Any = None,
                             _deprecated_unused_kwargs: Any = None, *, package_path: Any = None,
                             inductor_configs: dict[str, Any] | None = None) -> str:
    """Compile an exported program for this machine, and write a package (`.pt2`) of it, its weights and its code to
    `package_path` (a path or a stream; by default a new file in the folder for temporary ones). Returns where."""
    if _deprecated_unused_args is not None or _deprecated_unused_kwargs is not None:
        raise TypeError("aoti_compile_and_package: arguments are those that the program was exported with; give none")
    return late.provided("compiled packages").compile_and_package(exported_program, package_path, inductor_configs)


def aoti_load_package(path: Any, run_single_threaded: bool = False, device_index: int = -1) -> Any:
    """The program in a package, compiled: an `AOTICompiledModel`. Calls share one runner, which never runs two graphs
    at once per thread, so `run_single_threaded` changes nothing."""
    return late.provided("compiled packages").load_package(path, "model", run_single_threaded, 1, device_index)


def aot_compile(gm: Any, args: tuple, kwargs: dict[str, Any] | None = None, *,
                options: dict[str, Any] | None = None) -> str:
    """Compile a graph module for these arguments; where the package is. `aoti_load_package` loads it."""
    return late.provided("compiled packages").compile_module(gm, args, kwargs, options)
