"""Conditions: what a test of the program tells about the types of its variables, and which branch is never taken.

Enters: an expression in the place of a condition. Leaves: a `Condition`: a bool of the graph, what is known of
variables where it holds and where it does not, and its value where the compiler knows it (then one branch is compiled
alone).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import types as t
from ..classes import ClassType
from ..constants import constant_of, insert_constant
from ..ir import Value
from ..source import Range
from .errors import CompileError
from .sugared import PythonValue, Special

if TYPE_CHECKING:
    from .emitter import Emitter

_UNKNOWN = object()
Known = dict[str, t.Type]


class Condition(NamedTuple):
    value: Value
    if_true: Known
    if_false: Known
    static: bool | None = None


class Conditions:
    """The part of the emitter that compiles conditions."""

    def condition(self: Emitter, tree: ast.expr) -> Condition:  # type: ignore[misc]
        at = self.definition.range(tree)
        with self.graph.at_range(at):
            if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
                return self._negated(tree, at)
            if isinstance(tree, ast.BoolOp):
                return self._logical(tree.values, isinstance(tree.op, ast.And), at)
            if isinstance(tree, ast.Compare):
                return self._compared(tree, at)
            found = self._asked(tree, at)
            if found is not None:
                return found
            value = self.as_bool(self.value(tree), at)
            known = constant_of(value, _UNKNOWN)
            return Condition(value, {}, {}, bool(known) if known is not _UNKNOWN else None)

    def _negated(self: Emitter, tree: ast.UnaryOp, at: Range) -> Condition:  # type: ignore[misc]
        inner = self.condition(tree.operand)
        if inner.static is not None:
            value = insert_constant(self.graph, not inner.static)
        else:
            value = self.builtin("aten::__not__", at, [inner.value])
        return Condition(value, inner.if_false, inner.if_true, None if inner.static is None else not inner.static)

    def _compared(self: Emitter, tree: ast.Compare, at: Range) -> Condition:  # type: ignore[misc]
        """`a < b < c` is `a < b and b < c`."""
        if len(tree.ops) > 1:
            lefts = [tree.left, *tree.comparators[:-1]]
            parts: list[ast.expr] = [
                ast.copy_location(ast.Compare(left, [op], [right]), left)
                for left, op, right in zip(lefts, tree.ops, tree.comparators, strict=True)
            ]
            for part, right in zip(parts, tree.comparators, strict=True):
                part.end_lineno, part.end_col_offset = right.end_lineno, right.end_col_offset
            return self._logical(parts, True, at)
        if isinstance(tree.ops[0], (ast.Is, ast.IsNot)):
            return self._is_none(tree, at)
        value = self.as_bool(self.compare(tree, at), at)
        known = constant_of(value, _UNKNOWN)
        return Condition(value, {}, {}, bool(known) if known is not _UNKNOWN else None)

    def _is_none(self: Emitter, tree: ast.Compare, at: Range) -> Condition:  # type: ignore[misc]
        left, right = self.value(tree.left), self.value(tree.comparators[0])
        is_not = isinstance(tree.ops[0], ast.IsNot)
        asked = [isinstance(side.type_, t.NoneType) for side in (left, right)]
        never = [not isinstance(side.type_, t.UnionType) or not t.NoneType().is_subtype_of(side.type_)
                 for side in (left, right)]        # of Any neither: it is not asked
        if all(asked) or (asked[0] and never[1]) or (asked[1] and never[0]):
            answer = all(asked) is not is_not
            return Condition(insert_constant(self.graph, answer), {}, {}, answer)
        value = self.builtin("aten::__isnot__" if is_not else "aten::__is__", at, [left, right])
        subject, other = (left, right) if isinstance(right.type_, t.NoneType) else (right, left)
        name = tree.left if subject is left else tree.comparators[0]
        if not isinstance(other.type_, t.NoneType):
            return Condition(value, {}, {})
        known: tuple[Known, Known] = ({}, {})
        if isinstance(name, ast.Name):
            known = ({name.id: t.without_none(subject.type_)}, {})
        return Condition(value, known[0] if is_not else known[1], known[1] if is_not else known[0])

    def _logical(self: Emitter, parts: list[ast.expr], is_and: bool, at: Range) -> Condition:  # type: ignore[misc]
        """`and`, `or`: the right side is compiled, and runs, only where the left does not decide. Several are taken
        from the left: `(a and b) and c`."""
        if len(parts) == 1:
            return self.condition(parts[0])
        left = self._logical(parts[:-1], is_and, at)
        if left.static is not None and left.static is not is_and:
            return left
        if left.static is not None:
            self.refine(left.if_true if is_and else left.if_false, at)
            return self.condition(parts[-1])
        right: list[Condition] = []

        def ask() -> Value:
            right.append(self.condition(parts[-1]))
            return right[0].value

        def decided() -> Value:
            return insert_constant(self.graph, not is_and)

        value = self.choose(left, ask if is_and else decided, decided if is_and else ask, at)
        found = right[0]
        if is_and:
            return Condition(value, {**left.if_true, **found.if_true}, _both(left.if_false, found.if_false),
                             False if found.static is False else None)
        return Condition(value, _both(left.if_true, found.if_true), {**left.if_false, **found.if_false},
                         True if found.static is True else None)

    def choose(self: Emitter, condition: Condition, when_true: Callable[[], Value],  # type: ignore[misc]
               when_false: Callable[[], Value], at: Range, hint: t.Type | None = None) -> Value:
        """An If whose blocks each give one value."""
        node = self.graph.insert("prim::If", [condition.value], outputs=0)
        frames, values = [], []
        for emit, known in ((when_true, condition.if_true), (when_false, condition.if_false)):
            block = node.add_block()
            with self.within(block) as frame:
                self.refine(known, at)
                value = emit()
                block.register_output(value)
                values.append(value)
                frames.append(frame)
        both = t.unify(values[0].type_, values[1].type_, hint=hint)
        if both is None:
            raise CompileError(f"if-expression: its true branch is of type {values[0].type_}, its false branch of type"
                               f" {values[1].type_}, and no type holds both", at)
        output = node.add_output(t.plain(both))
        self._join(node, frames, at)
        return output

    def refine(self: Emitter, known: Known, at: Range) -> None:  # type: ignore[misc]
        """Read variables as the types they are known to have."""
        with self.graph.at_range(None):
            for name, type in known.items():
                value = self.frame.load(name)
                if value is None:
                    continue
                self._store_refined(name, self.graph.insert("prim::unchecked_cast", [value], type).outputs_[0])

    def _store_refined(self: Emitter, name: str, value: Value) -> None:  # type: ignore[misc]
        """A store that leaves the outer type of the variable as it is."""
        self.graph.insert("prim::Store", [value], outputs=0).set("s", "name", name)
        if not value.has_name() and value.node_.block is self.frame.block:
            value.set_debug_name(name)
        self.frame.types[name] = value.type_

    def _asked(self: Emitter, tree: ast.expr, at: Range) -> Condition | None:  # type: ignore[misc]
        """`isinstance`, `hasattr` and the like, whose answer the compiler may know."""
        if not isinstance(tree, ast.Call):
            return None
        called = self.callee(tree.func)
        if not isinstance(called, Special):
            return None
        if called.name == "isinstance":
            return self._is_instance(tree, at)
        if called.name in ("is_scripting", "is_tracing"):
            answer = called.name == "is_scripting"
            return Condition(insert_constant(self.graph, answer), {}, {}, answer)
        if called.name == "hasattr":
            answer = self._has_attribute(tree, at)
            return Condition(insert_constant(self.graph, answer), {}, {}, answer)
        return None

    def _has_attribute(self: Emitter, tree: ast.Call, at: Range) -> bool:  # type: ignore[misc]
        if len(tree.args) < 2 or not isinstance(tree.args[1], ast.Constant) or not isinstance(tree.args[1].value, str):
            raise CompileError("hasattr's second argument must be a string literal", at)
        owner = self.expression(tree.args[0])
        if isinstance(owner, PythonValue):
            return hasattr(owner.held, tree.args[1].value)
        mark = self.graph.insert_at.prev_
        from ..matching import _undo

        try:
            owner.attribute(self, at, tree.args[1].value)
        except CompileError:
            return False
        finally:
            _undo(self.graph, mark)  # type: ignore[arg-type]
        return True

    def _is_instance(self: Emitter, tree: ast.Call, at: Range) -> Condition:  # type: ignore[misc]
        if len(tree.args) != 2:
            raise CompileError(f"isinstance expected exactly 2 arguments but found {len(tree.args)}", at)
        subject = self.value(tree.args[0])
        wanted = self._types(tree.args[1], at)
        members = subject.type_.members() if isinstance(subject.type_, t.UnionType) else (subject.type_,)
        hits = [m for m in members if any(m.is_subtype_of(w) for w in wanted)]
        if isinstance(subject.type_, t.AnyType):
            hits = []
        elif len(hits) == len(members):
            return Condition(insert_constant(self.graph, True), {}, {}, True)
        elif not hits:
            return Condition(insert_constant(self.graph, False), {}, {}, False)
        with self.graph.at_range(None):
            node = self.graph.insert("prim::isinstance", [subject], t.BoolType()).set("tys", "types", wanted)
        if not isinstance(tree.args[0], ast.Name):
            return Condition(node.outputs_[0], {}, {})
        name = tree.args[0].id
        true = t.union_of(wanted if isinstance(subject.type_, t.AnyType) else hits)
        false = {name: t.without_members(subject.type_, wanted)}
        return Condition(node.outputs_[0], {name: true}, false)

    def _types(self: Emitter, tree: ast.expr, at: Range) -> list[t.Type]:  # type: ignore[misc]
        """The classes of an isinstance."""
        if isinstance(tree, ast.Tuple):
            return [found for part in tree.elts for found in self._types(part, at)]
        if isinstance(tree, ast.Attribute) and tree.attr == "__class__":      # the class of a value, self most often
            return [self.value(tree.value).type_]
        return [self._annotation(tree)]

    def as_bool(self: Emitter, value: Value, at: Range) -> Value:  # type: ignore[misc]
        """A value as a condition takes it."""
        if isinstance(value.type_, t.BoolType):
            return value
        if isinstance(value.type_, (t.TensorType, t.IntType, t.FloatType)) or (
                isinstance(value.type_, ClassType) and "__bool__" in value.type_.methods):
            return self.builtin("aten::Bool", at, [value])
        if isinstance(value.type_, (t.StringType, t.ListType, t.DictType)):
            with self.graph.at_range(None):
                length = self.builtin("aten::len", at, [value])
                return self.builtin("aten::gt", at, [length, insert_constant(self.graph, 0)])
        raise CompileError(f"Could not cast value of type {value.type_} to bool", at)


def _both(first: Known, second: Known) -> Known:
    """What is known either way."""
    found: Known = {}
    for name in first.keys() & second.keys():
        both = t.unify(first[name], second[name], to_union=True)
        if both is not None:
            found[name] = both
    return found


def is_special(found: Any, name: str) -> bool:
    return isinstance(found, Special) and found.name == name
