"""What names mean at a place of a program: frames of blocks, one inside the other.

Enters: names set to values. Leaves: `prim::Store` and `prim::Load` nodes, which `ssa` takes out again once all blocks
are known. A name that is no plain value (a module, a function) is kept beside them. Refuses: a variable that changes
its type in an inner block, where the outer one could not follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import types as t
from ..ir import Block, Graph, Value
from ..source import Range
from .errors import CompileError

if TYPE_CHECKING:
    from .sugared import Sugared


class Frame:
    """The names of one block."""

    def __init__(self, graph: Graph, block: Block, outer: Frame | None) -> None:
        self.graph, self.block, self.outer = graph, block, outer
        self.types: dict[str, t.Type] = {}
        self.others: dict[str, Sugared] = {}
        self.problems: dict[str, str] = {}

    def type_of(self, name: str) -> t.Type | None:
        """The type of a variable, here or further out."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.types:
                return frame.types[name]
            frame = frame.outer
        return None

    def other_of(self, name: str) -> Sugared | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.types:
                return None
            if name in frame.others:
                return frame.others[name]
            frame = frame.outer
        return None

    def problem_of(self, name: str) -> str | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.problems:
                return frame.problems[name]
            frame = frame.outer
        return None

    def load(self, name: str) -> Value | None:
        """A variable's value, read where nodes go now; None for names that are no variables."""
        type = self.type_of(name)
        if type is None or self.other_of(name) is not None:
            return None
        node = self.graph.insert("prim::Load", (), type).set("s", "name", name)
        return node.outputs_[0].set_debug_name(name)

    def store(self, name: str, value: Value, at: Range | None, annotated: t.Type | None = None, *,
              names: bool = True) -> None:
        """Set a variable; its value is called by its name, unless not `names`."""
        plain = t.plain(value.type_)
        outer = self.outer.type_of(name) if self.outer is not None and name not in self.types else None
        if outer is not None and not plain.is_subtype_of(outer):
            hint = ""
            if isinstance(outer, t.ListType) and isinstance(outer.element, t.TensorType):
                hint = ("\nIf it began as `[]`: that is a List[Tensor] unless said otherwise, by `name: List[int] = []`"
                        " or torch.jit.annotate(List[int], [])")
            raise CompileError(f"Variable '{name}' previously had type {outer} and cannot hold a value of type"
                               f" {value.type_}{hint}", at)
        if annotated is not None and not plain.is_subtype_of(annotated):
            raise CompileError(f"Variable '{name}' is annotated with type {annotated} and cannot hold a value of type"
                               f" {value.type_}", at)
        if names and not value.has_name() and value.node_.block is self.block and is_telling(name):
            value.set_debug_name(name)
        self.graph.insert("prim::Store", [value], outputs=0).set("s", "name", name)
        self.others.pop(name, None)
        self.problems.pop(name, None)
        self.types[name] = annotated if annotated is not None else plain

    def keep(self, name: str, other: Sugared, at: Range | None) -> None:
        """Set a name to something that is no value of the program."""
        if self.outer is not None and self.outer.type_of(name) is not None:
            raise CompileError(f"Cannot re-assign '{name}' to a value of type {other.kind()}: it is a variable of an"
                               " outer block", at)
        self.types.pop(name, None)
        self.others[name] = other

    def defined(self) -> list[str]:
        """Variables set in this block."""
        return sorted(self.types)


def is_telling(name: str) -> bool:
    """Whether a name says more than a number would."""
    return bool(name) and name != "_" and not (name[0] in "_$" and name[1:].isdigit())
