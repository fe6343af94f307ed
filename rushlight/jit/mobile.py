"""Files of the lite interpreter: read by the code that they hold beside their bytecode; written by export instead.

Enters: a path or file object. Leaves: a `LiteScriptModule` that runs forward and other methods. Refuses: to write such
files, naming what makes models for phones here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ._serialization import load, validate_map_location

REFUSAL = ("bytecode of the lite interpreter is not written here: `export` a program and make it ahead of time, or use"
           " `jit.save`, whose archives PyTorch's own `_save_for_lite_interpreter` can turn into such files")


class LiteScriptModule:
    """A module of a lite file."""

    def __init__(self, module: Any) -> None:
        self._c = module

    def __call__(self, *args: Any) -> Any:
        return self._c.forward(*args)

    def forward(self, *args: Any) -> Any:
        return self._c.forward(*args)

    def find_method(self, method_name: str) -> bool:
        """Whether there is such a method."""
        return self._c._c._has_method(method_name)

    def run_method(self, method_name: str, *args: Any) -> Any:
        """Call a method by its name."""
        return getattr(self._c, method_name)(*args)


def _load_for_lite_interpreter(f: Any, map_location: Any = None) -> LiteScriptModule:
    """The module of a lite file, run from its code."""
    return LiteScriptModule(load(f, map_location=validate_map_location(map_location)))


def _save_for_lite_interpreter(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(f"_save_for_lite_interpreter: {REFUSAL}")
