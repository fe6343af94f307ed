"""A program in the linalg dialect: its nodes, one after the other, by what their definitions say of one element.

Enters: a program without writes (exporting.py), and the builder of its function. Leaves: values of tensors. A view
becomes `tensor.extract_slice` or another shape where it is one; whatever a definition can state as loops becomes them
(lowered.py); few ops have a rule of their own (rules.py). Refuses: the others, by name and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...fx.node import Node, map_aggregate
from ...loops.lowered import NotLowerable
from ...op.view import View
from .. import types
from ..building import Builder
from ..errors import UnsupportedOp
from ..printing import Value as Built
from ..walking import Walk, bound, line_of, meta_of
from .bodies import body_of, traced
from .lowered import lowered_ops
from .rules import RULES
from .sizes import Size
from .tensors import INDEX, Tensors, same


class Linalg(Walk):
    """One function."""

    dialect = "linalg"

    def __init__(self, b: Builder) -> None:
        super().__init__(b)
        self.tensors = Tensors(b, self.size_of)
        self.symbols: dict[str, tuple[Built, int]] = {}      # where each symbol's size can be asked for

    # --- sizes --------------------------------------------------------------------------------------------------------

    def learn(self, value: Built) -> None:
        """Symbols that are sizes of an argument."""
        for d, n in enumerate(value.shape):
            if type(n) is not int and str(n) not in self.symbols:
                self.symbols[str(n)] = (value, d)

    def size_of(self, n: Any) -> Built:
        """The index that a symbolic size is."""
        if str(n) in self.symbols:
            t, d = self.symbols[str(n)]
            return self.b.op("tensor.dim", [t, self.tensors.index(d)], Built(INDEX))
        names = {name: Size(self, self.size_of_symbol(name)) for name in n.expression.names}
        result = n.expression.evaluate(names)
        return result.value if isinstance(result, Size) else self.tensors.index(int(result))

    def size_of_symbol(self, name: str) -> Built:
        if name not in self.symbols:
            raise NotImplementedError(f"the size {name} is that of no argument")
        t, d = self.symbols[name]
        return self.b.op("tensor.dim", [t, self.tensors.index(d)], Built(INDEX))

    # --- what the walk asks -------------------------------------------------------------------------------------------

    def constant(self, name: str, t: Tensor) -> Built:
        result = self.tensors.like(t.dtype.code, tuple(t.shape))
        return self.b.op("arith.constant", [], result, {"value": types.tensor_constant(t, result.type)})

    def call(self, node: Node) -> Any:
        found = bound(node)
        if found is None:
            raise UnsupportedOp(f"mlir: {node.target} is no single op here, and has no rule.{line_of(node)}")
        overload, args = found
        result = self.of(overload, map_aggregate(meta_of(args), dense), self.given(args), node.meta.get("val"))
        if result is None:
            raise UnsupportedOp(f"mlir: the linalg dialect has no rule for {node.target}.{line_of(node)}")
        return result

    def of(self, overload: Any, fakes: tuple, given: tuple, seen: Any) -> Any:
        """The results of an op, or None."""
        definition = overload.definition
        rule = RULES.get(definition.name)
        if rule is not None:
            result = rule(self, seen, fakes, *given)
            if result is not None:
                return result
        if isinstance(definition, View) and not definition.written:
            return self.view(definition, fakes, given)
        try:
            lowered = definition.lower(fakes)
        except NotLowerable as error:
            return self.parts(overload, fakes, given, error)
        inputs = [t for t in leaves(given) if isinstance(t, Built)]
        if len(inputs) != len(lowered.memories):
            raise NotImplementedError(f"{definition.name}: {len(inputs)} tensors for {len(lowered.memories)} reads")
        results = lowered_ops(self.tensors, lowered, inputs)
        return results[0] if len(results) == 1 and not isinstance(seen, (tuple, list)) else tuple(results)

    def parts(self, overload: Any, fakes: tuple, given: tuple, why: Exception) -> Any:
        """An op by the ops that it is made of."""
        function = body_of(overload)
        if function is None:
            raise NotImplementedError(str(why)) from why
        graph = traced(function, fakes)
        results = type(self).inner(self).run(graph, [t for t in leaves(given) if isinstance(t, Built)])
        structure = getattr(graph, "structure", None)
        return results[0] if structure is None else tuple(results)

    def inner(self) -> Linalg:
        """A walk of the same function over another graph."""
        walk = Linalg(self.b)
        walk.tensors, walk.symbols, walk.node = self.tensors, self.symbols, self.node
        return walk

    def view(self, definition: View, fakes: tuple, given: tuple) -> Any:
        from .views import shown  # noqa: PLC0415

        found = definition.geometry(*fakes)
        if isinstance(found, list):
            return tuple([shown(self.tensors, given[0], g) for g in found])
        return shown(self.tensors, given[0], found)


def dense(a: Any) -> Any:
    """A stand-in in row-major order, as all tensors of a module are."""
    if not isinstance(a, Tensor):
        return a
    if all(type(n) is int for n in a.shape):
        return _C.empty(tuple(a.shape), None, a.dtype, _C.device("meta"))
    return a if a.is_contiguous() else a.new_empty(a.shape)


def leaves(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for a in args:
        found += leaves(a) if isinstance(a, (list, tuple)) else [a]
    return found


__all__ = ["Linalg", "same"]
