"""`torch` and `F` in the bodies of `script/functional`: their names are builtins and functions of that package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...base import late
from ..constants import insert_constant
from ..schemas import is_builtin
from ..source import Range
from .errors import CompileError
from .sugared import Builtin, Simple, Sugared

if TYPE_CHECKING:
    from .emitter import Emitter


class Names(Sugared):
    """A namespace: `find` knows functions by name; what it does not know is a builtin."""

    def __init__(self, find: Callable[[str], Any | None]) -> None:
        self.find = find

    def kind(self) -> str:
        return "namespace"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        found = self.find(name)
        if found is not None:
            return e.unit.function_of(found, at)
        if name.endswith("_format"):
            return Simple(insert_constant(e.graph, getattr(late.provided("package"), name)))
        if not is_builtin(f"aten::{name}"):
            raise CompileError(f"torch has no builtin '{name}'", at)
        return Builtin(f"aten::{name}")
