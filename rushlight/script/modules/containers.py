"""Rows of modules: what loops over ModuleLists and ModuleDicts, indices, `items()` and overloads mean.

Enters: submodules in their order. Leaves: loops unrolled over them, elements chosen by constants. Refuses: indices that
are not known when the program is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..constants import insert_constant
from ..frontend.errors import CompileError
from ..frontend.objects import Method
from ..frontend.sugared import Simple, Sugared, SugaredTuple
from ..ir import Value
from ..source import Range

if TYPE_CHECKING:
    from ..frontend.emitter import Emitter
    from .values import ModuleValue

LISTINGS = frozenset(("keys", "values", "items", "named_modules", "modules", "children", "named_children",
                      "named_parameters", "parameters", "named_buffers", "buffers"))


class ModuleRow(SugaredTuple):
    """The submodules of a list, or a part of them."""

    def kind(self) -> str:
        return "module list"

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        place = e.known_integer(index)
        if not isinstance(place, int) or isinstance(place, bool):
            raise CompileError("Expected integer literal for index: which module of a ModuleList or Sequential is meant"
                               " must be known before the program runs. A loop, as in 'for i, layer in"
                               " enumerate(self.layers)', reaches them all", at)
        if not -len(self.parts) <= place < len(self.parts):
            raise CompileError(f"Index {place} out of range of length {len(self.parts)}", at)
        return self.parts[place]

    def slice(self, e: Emitter, at: Range, where: slice) -> Sugared:
        return ModuleRow(self.parts[where])


class Entries(Sugared):
    """`items`, `keys`, `named_parameters` and the like, before they are called."""

    def __init__(self, module: ModuleValue, name: str) -> None:
        self.module, self.name = module, name

    def kind(self) -> str:
        return "module dict method"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        if args or kwargs:
            raise CompileError(f"{self.name}() of a module takes no arguments", at)
        return self.row(e, at)

    def row(self, e: Emitter, at: Range) -> ModuleRow:
        """All there is to walk over."""
        found = self._found(e, at)
        if self.name in ("keys",):
            return ModuleRow([constant_value(e, name) for name, _ in found])
        if self.name in ("values", "modules", "children", "parameters", "buffers"):
            return ModuleRow([part for _, part in found])
        return ModuleRow([SugaredTuple([constant_value(e, name), part]) for name, part in found])

    def _found(self, e: Emitter, at: Range) -> list[tuple[str, Sugared]]:
        if self.name.endswith(("parameters", "buffers")):
            return list(_tensors(e, self.module, "", self.name.endswith("parameters")))
        if self.name.endswith("modules"):
            return _tree(e, at, self.module, "")
        return self.module.entries(e, at)


def _tree(e: Emitter, at: Range, module: ModuleValue, prefix: str) -> list[tuple[str, Sugared]]:
    found: list[tuple[str, Sugared]] = [(prefix, module)]
    for name, part in module.entries(e, at):
        found += _tree(e, at, part, f"{prefix}.{name}" if prefix else name)  # type: ignore[arg-type]
    return found


def _tensors(e: Emitter, module: ModuleValue, prefix: str, of_parameters: bool) -> list[tuple[str, Sugared]]:
    from ..frontend.objects import get_attribute

    type: Any = module.held.type_
    return [(f"{prefix}{slot.name}", Simple(get_attribute(e, module.held, slot.name, slot.type)))
            for slot in type.slots if (slot.is_parameter if of_parameters else slot.is_buffer)]


class OverloadedMethod(Sugared):
    """A method with several signatures: the first that fits a call."""

    def __init__(self, held: Value, names: Sequence[str]) -> None:
        self.held, self.names = held, names

    def kind(self) -> str:
        return "overloaded method"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        reasons: list[str] = []
        for convert in (False, True):
            reasons = []
            for name in self.names:
                try:
                    return Method(self.held, name).call(e, at, args, kwargs, convert=convert)
                except CompileError as error:
                    reasons.append(error.msg)
        raise CompileError("no overload fits this call:\n" + "\n".join(reasons), at)


def constant_value(e: Emitter, held: Any) -> Sugared:
    """A constant of a module, tuples element by element."""
    if isinstance(held, (tuple, list)):
        return SugaredTuple([constant_value(e, item) for item in held])
    return Simple(insert_constant(e.graph, held))
