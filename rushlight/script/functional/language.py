"""Names that the bodies of this package use: builtins of the language, under the names programs call them by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..frontend.errors import CompileError
from ..frontend.sugared import Builtin, Sugared
from ..schemas import is_builtin
from ..source import Range

if TYPE_CHECKING:
    from ..frontend.emitter import Emitter


class Builtins(Sugared):
    """`torch` of these bodies: every name is a builtin."""

    def kind(self) -> str:
        return "builtins"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        if not is_builtin(f"aten::{name}"):
            raise CompileError(f"torch has no builtin '{name}'", at)
        return Builtin(f"aten::{name}")


torch: Any = Builtins()


class Functions(Sugared):
    """`F` of these bodies: the functions of this package, and builtins where it has none."""

    def kind(self) -> str:
        return "functions"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        from . import script_named

        body = script_named(name)
        return e.unit.function_of(body, at) if body is not None else torch.attribute(e, at, name)


F: Any = Functions()
