"""The walk over a graph as linalg on tensors: which rule serves a call.

Enters: nodes of a functional graph. Leaves: values. A call is served by a rule of its name (rules.py); a view by what
it does to places (views.py); else by the loops of its definition (lowered.py), or by the ops that its body is written
with, which are traced and served in their turn. Refuses: ops that have none of these, naming them and the user's line.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ..._decomp.core import WRITTEN
from ...fx.node import Node, map_aggregate
from ...loops.lowered import Lowered, NotLowerable, Table
from ...op.composite import Composite
from ...op.fused import Fused
from ...op.view import View
from .. import types
from ..building import Builder
from ..errors import UnsupportedOp
from ..expanding import leaves
from ..printing import Value
from ..sized import SIZES, Sized
from ..walking import bound, line_of, meta_of
from .lowered import lowered_ops
from .rules import RULES, Call, made
from .tensors import INDEX, Tensors
from .views import shown

ARITHMETIC = {"add": "addi", "sub": "subi", "mul": "muli", "floordiv": "floordivsi"}


class Linalg(Sized):
    """One graph as linalg on tensors."""

    dialect = "linalg"

    def __init__(self, b: Builder, keeps_inline: bool = True) -> None:
        super().__init__(b, keeps_inline)
        self.tensors = Tensors(b, self.size_of)

    def another(self) -> Linalg:
        walk = Linalg(self.b, self.keeps_inline)
        walk.tensors, walk.symbols, walk.scalars = self.tensors, self.symbols, self.scalars
        return walk

    # --- sizes --------------------------------------------------------------------------------------------------------

    def argument(self, t: Tensor) -> Value:
        return self.tensors.like(t.dtype.code, tuple(t.shape))

    def scalar_argument(self) -> Value:
        return Value("i64", _C.int64)

    def from_scalar(self, scalar: Value) -> Value:
        return self.b.op("arith.index_cast", [scalar], Value(INDEX))

    def number(self, n: int) -> Value:
        return self.tensors.index(n)

    def dim_of(self, t: Value, d: int) -> Value:
        return self.b.op("tensor.dim", [t, self.tensors.index(d)], Value(INDEX))

    def computed(self, name: str, a: Value, b: Value) -> Value:
        if name == "remainder":      # of a floor division, which `arith` has not
            whole = self.computed("mul", self.computed("floordiv", a, b), b)
            return self.computed("sub", a, whole)
        return self.b.op(f"arith.{ARITHMETIC[name]}", [a, b], Value(INDEX))

    def as_result(self, v: Any) -> Value:
        """Tensors as they are, sizes and numbers as tensors without dims."""
        if isinstance(v, Value):
            return v
        if isinstance(v, (bool, int, float)):
            code = "b1" if isinstance(v, bool) else "i64" if isinstance(v, int) else "f64"
            return self.tensors.constant(code, (), [v])
        if isinstance(v, _C.SymbolicInt):
            number = self.tensors.number(self.tensors.index(v))
            return self.b.op("tensor.from_elements", [number], self.tensors.like("i64", ()))
        raise UnsupportedOp(f"mlir: the program returns a {type(v).__name__}; modules return tensors")

    # --- what the walk asks -------------------------------------------------------------------------------------------

    def constant(self, name: str, t: Tensor) -> Value:
        result = self.tensors.like(t.dtype.code, tuple(t.shape))
        if self.keeps_inline or t.numel() <= types.LONG or t.dtype.code == "b1":
            return self.b.op("arith.constant", [], result, {"value": types.tensor_constant(t, result.type)})
        key = self.b.resource_key(name, t)
        return self.b.op("arith.constant", [], result, {"value": f"dense_resource<{key}> : {result.type}"})

    def call(self, node: Node) -> Any:
        found, seen = bound(node), self.seen(node)
        if found is None:      # ATen has in one op what a few of ours do
            made = self.expanded(node.target, self.given(node.args), self.given(node.kwargs))
        else:
            overload, args = found
            if overload.definition.name in SIZES:
                return node.meta.get("val")
            fakes = map_aggregate(meta_of(args), self.in_order)
            made = self.of(overload, tuple(fakes), tuple(self.given(args)), seen)
        if made is None:
            raise UnsupportedOp(f"mlir: there is no rule for {node.target} in the linalg dialect.{line_of(self.node)}")
        return self.settled(made, seen)

    def of(self, overload: Any, fakes: tuple, given: tuple, seen: Any) -> Any:
        """The results of an op, or None."""
        definition = overload.definition
        rule = RULES.get(definition.name)
        call = Call(self, definition, seen)
        if rule is not None:
            names = [p.name for p in definition.spec.params]
            result = rule(call, **dict(zip(names, given, strict=True)))
            if result is not NotImplemented:
                return result
        if not any(isinstance(v, Value) for v in leaves(given)):
            result = made(call, given)
            return self.by_body(overload, given) if result is None else result
        if isinstance(definition, View) and not definition.written:
            found = definition.geometry(*fakes)
            several = isinstance(found, list)
            parts = [shown(self.tensors, given[0], g) for g in (found if several else [found])]
            return tuple(parts) if several else parts[0]
        lowered = lowered_call(definition, fakes)
        if lowered is None:
            return self.by_body(overload, given)
        results = lowered_ops(self.tensors, lowered, read_by(lowered, definition, given))
        return results[0] if len(results) == 1 else tuple(results)

    def by_body(self, overload: Any, given: tuple) -> Any:
        """An op by the ops that it is made of; None if it is made of none."""
        definition = overload.definition
        if definition.only_inplace:
            return None
        if isinstance(definition, (Composite, Fused)):
            return self.expanded(definition.run if isinstance(definition, Fused) else definition.compute, given)
        written = WRITTEN.get(definition.name)
        if written is None:
            return None
        names = [p.name for p in definition.spec.params]
        return self.expanded(lambda *args: written(**dict(zip(names, args, strict=True))), given)

    def settled(self, made: Any, seen: Any) -> Any:
        """Results in the shapes that tracing saw: some ops compute tensors without dims as ones with a dim."""
        if isinstance(made, Value) and isinstance(seen, Tensor):
            if made.dtype is not seen.dtype:
                raise NotImplementedError(f"a result is {made.dtype}, where {seen.dtype} is wanted")
            return self.tensors.reshape(made, tuple(seen.shape))
        if isinstance(made, (list, tuple)) and isinstance(seen, (list, tuple)):
            return tuple([self.settled(m, s) for m, s in zip(made, seen, strict=True)])
        return made


def lowered_call(definition: Any, fakes: tuple) -> Lowered | None:
    """The loops that a definition states for a call; None where it states none."""
    try:
        lowered = definition.lower(fakes)
        if lowered.body is None and lowered.scatter is None and lowered.walk is None:
            lowered = definition.lower(tuple(map_aggregate(fakes, plain)))
    except NotLowerable:
        return None
    return lowered


def plain(a: Any) -> Any:
    """A tensor with memory that nobody looks at, for a fake whose sizes are numbers: windows are stated for those
    alone."""
    if not isinstance(a, Tensor) or not all(type(n) is int for n in a.shape):
        return a
    return _C.empty(tuple(a.shape), None, a.dtype, _C.device("cpu"))


def read_by(lowered: Lowered, definition: Any, given: tuple) -> list[Value]:
    """The tensors of a call in the order in which its loops read them: they name the parameters."""
    named: dict[str, Value] = {}
    for p, a in zip(definition.spec.params, given, strict=True):
        for name, value in ([(f"{p.name}{k}", v) for k, v in enumerate(a)] if isinstance(a, (list, tuple))
                            else [(p.name, a)]):
            if isinstance(value, Value):
                named[name] = value
    wanted = [m.name for m in lowered.memories if not isinstance(m, Table)]
    if set(wanted) <= named.keys():
        return [named[name] for name in wanted]
    if len(wanted) != len(named):
        raise NotImplementedError(f"its loops read {', '.join(wanted)} of {', '.join(named)}")
    return list(named.values())
