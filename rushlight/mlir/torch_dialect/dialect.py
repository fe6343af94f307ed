"""The walk over a graph in the torch dialect: which op serves a call.

Enters: nodes of a functional graph. Leaves: values. A call of an overload that torch-mlir has an op for
(registered.txt) is that op, with every argument of PyTorch's signature; others go out as what they are decomposed into,
or by the loops that their definitions state, on whole tensors (whole.py). Refuses: ops that have none of these, naming
them and the user's line.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from ..._decomp.core import core_rule
from ...aten.calls import aten_call, aten_overload
from ...aten.overloads import REQUIRED, AtenOverload
from ...base.tables import rows
from ...fx.node import Node, map_aggregate
from ...loops.lowered import Memory
from ...op.composite import Composite
from ...op.view import View, elements
from .. import types
from ..building import Builder
from ..errors import UnsupportedOp
from ..expanding import leaves
from ..linalg.dialect import lowered_call, read_by
from ..printing import Value
from ..sized import SIZES, Sized
from ..walking import bound, line_of, meta_of
from .avoided import AVOIDED, RULES
from .operands import ELEMENTS, INT, NONE, Operands, tensor
from .whole import whole_results


@functools.cache
def registered() -> frozenset[str]:
    """Overloads that torch-mlir has an op for."""
    return frozenset(" ".join(rows(__file__, "registered")).split())


class Torch(Sized):
    """One graph in the torch dialect."""

    dialect = "torch"

    def __init__(self, b: Builder, keeps_inline: bool = True) -> None:
        super().__init__(b, keeps_inline)
        self.operands = Operands(b, self.size_of)
        self.within: tuple[str, ...] = ()                    # the ops that are being taken apart

    def another(self) -> Torch:
        walk = Torch(self.b, self.keeps_inline)
        walk.symbols, walk.scalars, walk.within = self.symbols, self.scalars, self.within
        return walk

    # --- sizes --------------------------------------------------------------------------------------------------------

    def argument(self, t: Tensor) -> Value:
        return tensor(t.dtype, tuple(t.shape))

    def scalar_argument(self) -> Value:
        return Value(INT)

    def number(self, n: int) -> Value:
        return self.operands.int(n)

    def dim_of(self, t: Value, d: int) -> Value:
        return self.b.op("torch.aten.size.int", [t, self.operands.int(d)], Value(INT))

    def computed(self, name: str, a: Value, b: Value) -> Value:
        return self.b.op(f"torch.aten.{name}.int", [a, b], Value(INT))

    def as_result(self, v: Any) -> Value:
        """Tensors as they are, sizes and numbers as the dialect's numbers."""
        if isinstance(v, Value):
            return v
        if isinstance(v, (bool, int, float, _C.SymbolicInt)):
            return self.operands.of(v, "float" if isinstance(v, float) else "bool" if isinstance(v, bool) else "int")
        raise UnsupportedOp(f"mlir: the program returns a {type(v).__name__}; modules return tensors and numbers")

    # --- what the walk asks -------------------------------------------------------------------------------------------

    def constant(self, name: str, t: Tensor) -> Value:
        result = tensor(t.dtype, tuple(t.shape))
        kind = types.TensorType(tuple(t.shape), str(result.type).rpartition(",")[2].removesuffix(">"))
        if self.keeps_inline or t.numel() <= types.LONG or t.dtype.code == "b1":
            return self.b.op("torch.vtensor.literal", [], result, {"value": types.tensor_constant(t, kind)})
        key = self.b.resource_key(name, t)
        return self.b.op("torch.vtensor.literal", [], result, {"value": f"dense_resource<{key}> : {kind}"})

    def call(self, node: Node) -> Any:
        target, seen = node.target, self.seen(node)
        if getattr(target, "definition", None) is not None and target.definition.name in SIZES:
            return seen
        named = self.as_aten(node)
        if named is not None:
            overload, args, kwargs = named
            name = name_of(overload)
            made = RULES[name](self, seen, *args, **kwargs) if name in RULES else NotImplemented
            if made is not NotImplemented:
                return self.settled(made, seen)
            if name in registered() and name not in AVOIDED and not along_nothing(overload, args):
                return self.direct(overload, name, args, kwargs, seen)
            if name in AVOIDED:
                made = self.by_loops(node, seen)
                if made is not None:
                    return self.settled(made, seen)
        made = None
        if named is None or not along_nothing(overload, args):
            made = self.by_rule(target, self.given(node.args), self.given(node.kwargs))
        if made is None:
            made = self.by_loops(node, seen)
        if made is None:
            raise UnsupportedOp(f"mlir: there is no rule for {target} in the torch dialect.{line_of(self.node)}")
        return self.settled(made, seen)

    def as_aten(self, node: Node) -> tuple[AtenOverload, tuple, dict[str, Any]] | None:
        """The call by PyTorch's signature; None where it has none."""
        target = node.target
        if isinstance(target, AtenOverload):
            return target, tuple(self.given(node.args)), dict(self.given(node.kwargs))
        found = bound(node)
        if found is None:
            return None
        fakes = meta_of(found[1])
        values: dict[int, Any] = {}
        pairs = zip(leaves(fakes), leaves(self.given(found[1])), strict=True)
        values.update({id(fake): value for fake, value in pairs if isinstance(fake, Tensor)})
        call = aten_call(found[0], fakes)
        if call is None:
            return None
        overload, args, kwargs = call
        if not isinstance(overload, AtenOverload):
            overload = aten_overload(overload.name, overload._overloadname)
        args, kwargs = map_aggregate((args, kwargs), lambda a: values[id(a)] if isinstance(a, Tensor) else a)
        return overload, tuple(args), dict(kwargs)

    def by_rule(self, target: Any, args: tuple, kwargs: dict) -> Any:
        """A call by what it is decomposed into, or None."""
        rule, before = core_rule(target), self.within
        if rule is None or str(target) in before:      # a rule may come back to its op
            return None
        self.within = (*before, str(target))
        try:
            return self.expanded(rule, args, kwargs)
        except UnsupportedOp:
            return None
        finally:
            self.within = before

    def by_loops(self, node: Node, seen: Any) -> Any:
        """A call by the loops that its definition states, on whole tensors; or by its body, or None."""
        found = bound(node)
        if found is None:
            return None
        overload, args = found
        definition, given = overload.definition, tuple(self.given(args))
        fakes = tuple(map_aggregate(meta_of(args), self.in_order))
        if isinstance(definition, View) and not definition.written:
            shown = definition.geometry(*fakes)
            lowered = None if isinstance(shown, list) or shown.dtype is not None else elements(
                definition.name, Memory("view", fakes[0].dtype.code, tuple(shown.sizes), tuple(shown.strides),
                                        tuple(range(len(shown.sizes))), shown.offset))
        else:
            lowered = lowered_call(definition, fakes)
        if lowered is None:
            if not isinstance(definition, Composite) or definition.only_inplace:
                return None
            return self.expanded(definition.compute, given)
        shapes = [tuple(t.shape) for t in (seen if isinstance(seen, (tuple, list)) else [seen])]

        def results(*tensors: Tensor) -> Any:
            made = [t.reshape(shape) for t, shape in zip(whole_results(lowered, tensors), shapes, strict=True)]
            return tuple(made) if isinstance(seen, (tuple, list)) else made[0]

        return self.expanded(results, read_by(lowered, definition, given))

    def direct(self, target: AtenOverload, name: str, args: tuple, kwargs: dict, seen: Any) -> Any:
        """The op of the same name."""
        operands = []
        if any(p.type == "Tensor" and isinstance(a, (bool, int, float, _C.SymbolicInt))
               for p, a in zip(target._schema.arguments, args, strict=False)):
            return self.with_number(target, name, args, kwargs, seen)
        for i, p in enumerate(target._schema.arguments):
            a = args[i] if i < len(args) else kwargs.get(p.name, p.default)
            if a is REQUIRED:
                raise NotImplementedError(f"the argument {p.name} is missing")
            operands.append(self.operands.of(a, p.type))
        if isinstance(seen, Tensor):
            return self.b.op(f"torch.aten.{name}", operands, tensor(seen.dtype, tuple(seen.shape)))
        results = [tensor(t.dtype, tuple(t.shape)) if isinstance(t, Tensor) else Value(NONE) for t in seen]
        if any("[]" in r.type for r in target._schema.returns):
            whole = self.b.op(f"torch.aten.{name}", operands, Value("!torch.list<vtensor>"))
            return tuple(self.b.ops("torch.prim.ListUnpack", [whole], results))
        return tuple(self.b.ops(f"torch.aten.{name}", operands, results))

    def with_number(self, target: AtenOverload, name: str, args: tuple, kwargs: dict, seen: Any) -> Any:
        """A call with a number where a tensor may be: by the overload for numbers, or on a tensor of it."""
        scalar = name.replace("Tensor", "Scalar")
        label = scalar.partition(".")[2]
        found = aten_overload(target._schema.op, label) if scalar != name and scalar in registered() else None
        if found is not None and isinstance(args[0], Value):
            return self.direct(found, scalar, args, kwargs, seen)
        dtype = seen.dtype if not isinstance(seen, (tuple, list)) else None
        given = next((a.dtype for a in args if isinstance(a, Value)), dtype)
        kinds = [p.type for p in target._schema.arguments]
        held = []
        for a, kind in zip(args, kinds, strict=False):
            if kind != "Tensor" or isinstance(a, Value):
                held.append(a)
                continue
            takes_it = isinstance(a, int) or (given is not None and given.is_floating_point)
            held.append(self.as_tensor(a, given if takes_it else dtype))
        return self.direct(target, name, tuple(held), kwargs, seen)

    def as_tensor(self, a: Any, dtype: Any) -> Value:
        """A number as a tensor without dims."""
        result = tensor(dtype, ())
        element = ELEMENTS[dtype.code]
        kind = types.TensorType((), element)
        return self.b.op("torch.vtensor.literal", [], result, {"value": types.splat(a, kind)})

    def settled(self, made: Any, seen: Any) -> Any:
        """Results with the shapes that tracing saw."""
        if isinstance(made, Value) and isinstance(seen, Tensor):
            if made.dtype is not seen.dtype or [*map(str, made.shape)] != [*map(str, seen.shape)]:
                raise NotImplementedError(f"a result is {made.type}, where {tensor(seen.dtype, seen.shape).type} is "
                                          "wanted")
            return made
        if isinstance(made, (list, tuple)) and isinstance(seen, (list, tuple)):
            return tuple([self.settled(m, s) for m, s in zip(made, seen, strict=True)])
        return made


def along_nothing(overload: AtenOverload, args: tuple) -> bool:
    """Whether a call works along a dim of a tensor that has none, which torch-mlir does not lower."""
    has_dim = any(p.name in ("dim", "dims") for p in overload._schema.arguments)
    return has_dim and bool(args) and isinstance(args[0], Value) and args[0].ndim == 0


def name_of(target: AtenOverload) -> str:
    """An overload's name in ATen, without a label where it has none."""
    label = target._schema.overload_name
    return f"{target._schema.op}.{label}" if label and label != "default" else target._schema.op


__all__ = ["Torch"]
