"""Elements and slices, read and written.

Enters: `x[...]` on tensors, lists, tuples, dicts and strings. Leaves: `select`, `slice`, `unsqueeze` and `index` for
tensors, one dimension at a time, as PyTorch has them; `__getitem__` and `slice` for the rest.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .. import types as t
from ..classes import ClassType
from ..constants import constant_of, insert_constant
from ..ir import Value
from ..source import Range
from .errors import CompileError
from .sugared import Simple, Sugared

if TYPE_CHECKING:
    from .emitter import Emitter

_UNKNOWN = object()


class Indexing:
    """The part of the emitter that compiles subscripts."""

    def _Subscript(self: Emitter, tree: ast.Subscript, at: Range, hint: Any) -> Sugared | Value:  # type: ignore[misc]
        owner = self.expression(tree.value)
        if not isinstance(owner, Simple):
            if isinstance(tree.slice, ast.Slice):
                return owner.slice(self, at, slice(*self._known_bounds(tree.slice, at)))
            return owner.item(self, at, self.value(tree.slice))
        held = owner.held
        if isinstance(held.type_, t.TensorType):
            return self._of_tensor(held, tree.slice, at)
        if isinstance(held.type_, ClassType) and not isinstance(tree.slice, (ast.Slice, ast.Tuple)):
            return self.builtin("aten::__getitem__", at, [held, self.value(tree.slice)])
        if isinstance(tree.slice, ast.Slice):
            return self._slice_of(held, tree.slice, at)
        if isinstance(tree.slice, ast.Tuple) and not isinstance(held.type_, t.DictType):
            raise CompileError(f"Tried to use multiple indices on a value of type {held.type_}: only tensors take them",
                               at)
        index = self.value(tree.slice)
        if isinstance(held.type_, t.TupleType):
            return self._of_tuple(held, index, at)
        if isinstance(held.type_, (t.ListType, t.StringType, t.DictType)):
            return self.builtin("aten::__getitem__", at, [held, index])
        raise CompileError(f"'{held.type_}' object is not subscriptable", at)

    # --- tuples, lists, strings
    def tuple_item(self: Emitter, held: Value, at: int) -> Value:  # type: ignore[misc]
        type: t.TupleType = held.type_  # type: ignore[assignment]
        with self.graph.at_range(None):
            index = insert_constant(self.graph, at)
            return self.graph.insert("prim::TupleIndex", [held, index], type.elements_[at]).outputs_[0]

    def _of_tuple(self: Emitter, held: Value, index: Value, at: Range) -> Value:  # type: ignore[misc]
        type: t.TupleType = held.type_  # type: ignore[assignment]
        place = self.known_integer(index)
        if place is None:
            both = t.unify_all(type.elements_) if type.elements_ else None
            if not isinstance(index.type_, t.IntType) or both is None:
                raise CompileError(f"Cannot index into a {type} by a value that is known only as the program runs: its"
                                   " elements differ in type", at)
            made = both
        else:
            if not -len(type.elements_) <= place < len(type.elements_):
                raise CompileError(f"Tuple index out of range: {place}, of a tuple of length"
                                   f" {len(type.elements_)}", at)
            made = type.elements_[place]
        with self.graph.at_range(None):
            return self.graph.insert("prim::TupleIndex", [held, index], made).outputs_[0]

    def known_integer(self: Emitter, value: Value) -> int | None:  # type: ignore[misc]
        """The number a value is, where the compiler can tell: a literal, or minus a literal."""
        found = constant_of(value, _UNKNOWN)
        if isinstance(found, int):
            return found
        if value.node_.kind_ == "aten::neg":
            inner = constant_of(value.node_.inputs_[0], _UNKNOWN)
            return -inner if isinstance(inner, int) else None
        return None

    def _slice_of(self: Emitter, held: Value, tree: ast.Slice, at: Range) -> Value:  # type: ignore[misc]
        if isinstance(held.type_, t.TupleType):
            bounds = self._known_bounds(tree, at)
            type = held.type_
            parts = [self.tuple_item(held, i) for i in range(len(type.elements_))[slice(*bounds)]]
            with self.graph.at_range(None):
                return self.graph.insert("prim::TupleConstruct", parts,
                                         t.TupleType([part.type_ for part in parts])).outputs_[0]
        if not isinstance(held.type_, (t.ListType, t.StringType)):
            raise CompileError(f"'{held.type_}' object is not subscriptable", at)
        return self.builtin("aten::slice", at, [held, *self._bounds(tree)])

    def _known_bounds(self: Emitter, tree: ast.Slice, at: Range) -> list[int | None]:  # type: ignore[misc]
        """Start, end and step that are literals."""
        parts = (tree.lower, tree.upper, tree.step)
        bounds = [None if part is None else self.known_integer(self.value(part)) for part in parts]
        if any(part is not None and bound is None for part, bound in zip(parts, bounds, strict=True)):
            raise CompileError("Tuple slices need bounds that are literals", at)
        return bounds

    def _bounds(self: Emitter, tree: ast.Slice) -> list[Value]:  # type: ignore[misc]
        """Start, end and step; what is written is computed before what is not becomes a constant."""
        parts = ((tree.lower, None), (tree.upper, None), (tree.step, 1))
        found = [None if part is None else self.value(part) for part, _ in parts]
        with self.graph.at_range(None):
            for place in (2, 0, 1):
                if found[place] is None:
                    found[place] = insert_constant(self.graph, parts[place][1])
        return found  # type: ignore[return-value]

    # --- tensors
    def _of_tensor(self: Emitter, held: Value, tree: ast.expr, at: Range) -> Value:  # type: ignore[misc]
        viewed, indices = self._viewed(held, tree, at)
        return self._indexed(viewed, indices, at) if indices else viewed

    def _indexed(self: Emitter, held: Value, indices: list[Value | None], at: Range) -> Value:  # type: ignore[misc]
        return self.builtin("aten::index", at, [held, self._row(indices)])

    def _row(self: Emitter, indices: list[Value | None]) -> Value:  # type: ignore[misc]
        """Indices as `index` takes them; where there is none, None."""
        values = []
        with self.graph.at_range(None):
            for index in indices:
                values.append(index if index is not None else insert_constant(self.graph, None))
            return self.graph.insert("prim::ListConstruct", values, t.ListType(t.optional_of(t.TENSOR))).outputs_[0]

    def _viewed(self: Emitter, held: Value, tree: ast.expr, at: Range) -> tuple[Value, list[Value | None]]:  # type: ignore
        """Apply all that makes a view; and the tensors that index the rest, by dimension."""
        parts = list(tree.elts) if isinstance(tree, ast.Tuple) else [tree]
        dots = [i for i, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is Ellipsis]
        if len(dots) > 1:
            raise CompileError("an index may hold '...' once, not more", at)
        values = [self._index_value(part) for part in parts]
        indices: list[tuple[int, Value]] = []
        for part, value, dim in zip(parts, values, self._dims(parts, values, dots), strict=True):
            if dim is not None:
                held = self._one(held, part, value, dim, indices, at)
        return held, self._placed(indices)

    def _dims(self: Emitter, parts: list[ast.expr], values: list[Value | None],  # type: ignore[misc]
              dots: list[int]) -> list[int | None]:
        """The dim that each part is about when its turn comes: from the front, and behind "..." from the back, where
        those further back have not had their turn."""
        places = range(len(parts))
        first = dots[0] if dots else len(parts)
        found: list[int | None] = [None] * len(parts)
        dim = 0
        for i in places[:first]:
            found[i] = dim
            is_int = values[i] is not None and isinstance(values[i].type_, t.IntType)  # type: ignore[union-attr]
            dim += not is_int
        dim = -1
        for i in reversed(places[first + 1 :]):
            found[i] = dim
            is_new = values[i] is not None and isinstance(values[i].type_, t.NoneType)  # type: ignore[union-attr]
            dim -= not is_new
        return found

    def _index_value(self: Emitter, part: ast.expr) -> Value | None:  # type: ignore[misc]
        if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is Ellipsis):
            return None
        value = self.value(part)
        if isinstance(value.type_, t.ListType):
            with self.graph.at_range(None):
                kind = {"dtype": insert_constant(self.graph, 4)}        # whatever is in it: positions
                return self.builtin("aten::tensor", self.definition.range(part), [value], kind)
        return value

    def _one(self: Emitter, held: Value, part: ast.expr, value: Value | None, dim: int,  # type: ignore[misc]
             indices: list[tuple[int, Value]], at: Range) -> Value:
        where = self._dim(dim)
        if isinstance(part, ast.Slice):
            return self.builtin("aten::slice", at, [held, where, *self._bounds(part)])
        if isinstance(value.type_, t.NoneType):  # type: ignore[union-attr]
            return self.builtin("aten::unsqueeze", at, [held, where])
        if isinstance(value.type_, t.IntType):  # type: ignore[union-attr]
            return self.builtin("aten::select", at, [held, where, value])  # type: ignore[list-item]
        if not isinstance(value.type_, t.TensorType):  # type: ignore[union-attr]
            raise CompileError(f"indexing tensor with unsupported index type '{value.type_}': an index is an int,"  # type: ignore
                               " a slice, a list or a tensor", at)
        if dim < 0:
            raise CompileError("a tensor or list cannot be an index behind '...': write out the dimensions before it"
                               " as ':', or use index_select", at)
        indices.append((dim, value))  # type: ignore[arg-type]
        return held

    def _dim(self: Emitter, dim: int) -> Value:  # type: ignore[misc]
        with self.graph.at_range(None):
            return insert_constant(self.graph, dim)

    def _placed(self: Emitter, indices: list[tuple[int, Value]]) -> list[Value | None]:  # type: ignore[misc]
        if not indices:
            return []
        row: list[Value | None] = [None] * (max(dim for dim, _ in indices) + 1)
        for dim, value in indices:
            row[dim] = value
        return row

    # --- writing
    def set_item(self: Emitter, target: ast.Subscript, value: Value, at: Range) -> None:  # type: ignore[misc]
        held = self.value(target.value)
        if not isinstance(held.type_, t.TensorType):
            if isinstance(held.type_, t.TupleType) or isinstance(target.slice, ast.Slice):
                raise CompileError(f"a slice of a {held.type_} cannot be assigned to: only slices of tensors"
                                   " can" if isinstance(target.slice, ast.Slice) else
                                   f"'{held.type_}' object does not support item assignment", at)
            self.builtin("aten::_set_item", at, [held, self.value(target.slice), value])
            return
        viewed, indices = self._viewed(held, target.slice, at)
        self._write(viewed, indices, value, at)

    def _write(self: Emitter, viewed: Value, indices: list[Value | None], value: Value, at: Range) -> None:  # type: ignore
        if not isinstance(value.type_, t.TensorType):
            with self.graph.at_range(None):
                dtype = self.graph.insert("prim::dtype", [viewed], t.IntType()).outputs_[0]
                device = self.graph.insert("prim::device", [viewed], t.DeviceObjType()).outputs_[0]
                value = self.builtin("aten::tensor", at, [value], {"dtype": dtype, "device": device})
                value.node_.range = None
        if indices:
            self.builtin("aten::index_put_", at, [viewed, self._row(indices), value])
        else:
            self.builtin("aten::copy_", at, [viewed, value])

    def augment_item(self: Emitter, tree: ast.AugAssign, word: str, at: Range) -> None:  # type: ignore[misc]
        """`x[i] += y`: views are written where they lie, the rest read, changed and put back."""
        target: ast.Subscript = tree.target  # type: ignore[assignment]
        held = self.value(target.value)
        if isinstance(held.type_, ClassType):
            raise CompileError(f"{held.type_} does not support augmented assignment.", at)
        if not isinstance(held.type_, t.TensorType):
            index = self.value(target.slice)
            before = self.builtin("aten::__getitem__", at, [held, index])
            after = self.builtin(f"aten::{word}", at, [before, self.value(tree.value)])
            self.builtin("aten::_set_item", at, [held, index, after])
            return
        viewed, indices = self._viewed(held, target.slice, at)
        right = self.value(tree.value)
        kind = augmented(word)
        if not indices:
            self.builtin(kind, at, [viewed, right])
            return
        row = self._row(indices)
        before = self.builtin("aten::index", at, [viewed, row])
        after = self.builtin(kind, at, [before, right])
        self.builtin("aten::index_put_", at, [viewed, row, after])


def augmented(word: str) -> str:
    """The op that `x += y` is for tensors: in place, where there is one."""
    if word == "pow":
        return "aten::pow"
    if word in ("__and__", "__or__", "__xor__"):
        return f"aten::bitwise{word.rstrip('_')[1:]}"
    return f"aten::__i{word[2:]}" if word.startswith("__") else f"aten::{word}_"
