"""StableHLO operations, a method each: what rules are written with.

Enters: values, dtypes and shapes, whose sizes are numbers or symbols. Leaves: values. Where a size varies, the dynamic
form of an operation is built, which takes its sizes from values. Refuses: sizes that nothing in the program tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...op.pack import BY_CODE
from ...symbols.functions import sym_min
from .. import types
from ..building import Builder
from ..errors import UnsupportedOp
from ..printing import Block, Value

I64 = BY_CODE["i64"]
B1 = BY_CODE["b1"]
Shape = Sequence[Any]


def value(dtype: Any, shape: Shape) -> Value:
    """A value of a dtype and shape."""
    return Value(types.tensor_type(dtype, shape), dtype, shape)


def is_fixed(shape: Shape) -> bool:
    """Whether all sizes are numbers."""
    return all(type(n) is int for n in shape)


class Hlo(Builder):
    """A builder that knows StableHLO."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[str, tuple[Value, int]] = {}      # of which argument, and which dim of it
        self.scalars: dict[str, Value] = {}                  # sizes that are arguments themselves

    def ops(self, name: str, operands: Sequence[Value], results: Sequence[Value], attributes: Any = None,
            regions: Sequence[Block] = ()) -> list[Value]:
        """Results without elements are constants, whatever makes them."""
        if name.startswith("stablehlo.") and name not in ("stablehlo.constant", "stablehlo.while", "stablehlo.case"):
            empty = [is_fixed(r.shape) and 0 in r.shape for r in results]
            if results and all(empty):
                return [self.constant(0, r.dtype, r.shape) for r in results]
        return super().ops(name, operands, results, attributes, regions)

    # --- leaves -------------------------------------------------------------------------------------------------------

    def constant(self, number: Any, dtype: Any, shape: Shape = ()) -> Value:
        """A number, or as many times as a shape says."""
        if not is_fixed(shape):
            return self.broadcast(self.constant(number, dtype), shape, ())
        result = value(dtype, shape)
        text = types.dense((), result.type) if 0 in result.shape else types.splat(number, result.type)
        return self.op("stablehlo.constant", (), result, {"value": text})

    def list(self, numbers: Sequence[Any], dtype: Any = I64, shape: Shape | None = None) -> Value:
        """Numbers in order."""
        result = value(dtype, (len(numbers),) if shape is None else shape)
        return self.op("stablehlo.constant", (), result, {"value": types.dense(list(numbers), result.type)})

    def tensor(self, t: Any) -> Value:
        """A tensor's elements, in the text."""
        result = value(t.dtype, t.shape)
        return self.op("stablehlo.constant", (), result, {"value": types.tensor_constant(t, result.type)})

    def resource(self, name: str, t: Any) -> Value:
        """A tensor's elements, behind the module."""
        if not t.numel() or t.dtype.code == "b1":
            return self.tensor(t)
        result = value(t.dtype, t.shape)
        key = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        key = key if key[:1].isalpha() else f"t_{key}"
        while self.resources.get(key, data := types.content(t)) != data:
            key += "_"
        self.resources[key] = data
        return self.op("stablehlo.constant", (), result, {"value": f"dense_resource<{key}> : {result.type}"})

    def iota(self, dtype: Any, shape: Shape, dim: int) -> Value:
        """Positions along a dim."""
        at = {"iota_dimension": types.integer(dim)}
        if is_fixed(shape):
            return self.op("stablehlo.iota", (), value(dtype, shape), at)
        return self.op("stablehlo.dynamic_iota", [self.extents(shape)], value(dtype, shape), at)

    # --- sizes --------------------------------------------------------------------------------------------------------

    def extent(self, n: Any) -> Value:
        """A size as a scalar of int64."""
        if type(n) is int:
            return self.constant(n, I64)
        if isinstance(n, _C.SymbolicInt):
            return self.formula(n.expression)
        raise UnsupportedOp(f"mlir: {n!r} is no size")

    def extents(self, shape: Shape) -> Value:
        """Sizes as one tensor."""
        if is_fixed(shape):
            return self.list(shape)
        return self.concatenate([self.reshape(self.extent(n), (1,)) for n in shape], 0)

    def formula(self, e: Any) -> Value:
        """An integer expression over sizes."""
        terms = []
        for monomial, factor in e.terms.items():
            parts = [self.atom(a) for a, power in monomial for _ in range(power)]
            if factor != 1 or not parts:
                parts.insert(0, self.constant(factor, I64))
            product = parts[0]
            for p in parts[1:]:
                product = self.binary("multiply", product, p)
            terms.append(product)
        result = terms[0] if terms else self.constant(0, I64)
        for t in terms[1:]:
            result = self.binary("add", result, t)
        return result

    def atom(self, a: Any) -> Value:
        if not a.arguments:
            if a.name in self.scalars:
                return self.scalars[a.name]
            if a.name not in self.symbols:
                raise UnsupportedOp(f"mlir: the size {a.name} is known only when the program runs")
            whose, dim = self.symbols[a.name]
            return self.dimension(whose, dim)
        rule = {"//": self.floor_divide, "max": lambda x, y: self.binary("maximum", x, y),
                "min": lambda x, y: self.binary("minimum", x, y), "%": self.modulo}.get(a.name)
        if rule is None:
            raise UnsupportedOp(f"mlir: sizes that are computed with {a.name!r}")
        return rule(*[self.formula(x) for x in a.arguments])

    def floor_divide(self, a: Value, b: Value) -> Value:
        """Division that rounds down."""
        rest = self.modulo(a, b)
        return self.binary("divide", self.binary("subtract", a, rest), b)

    def modulo(self, a: Value, b: Value) -> Value:
        """What is left of it: of the divisor's sign."""
        rest = self.binary("remainder", a, b)
        zero = self.constant(0, a.dtype, a.shape)
        differs = self.binary("and", self.compare("NE", rest, zero),
                              self.binary("xor", self.compare("LT", rest, zero), self.compare("LT", b, zero)))
        return self.select(differs, self.binary("add", rest, b), rest)

    def dimension(self, x: Value, dim: int) -> Value:
        """What size a dim has."""
        found = self.op("stablehlo.get_dimension_size", [x], value(BY_CODE["i32"], ()),
                        {"dimension": types.integer(dim)})
        return self.convert(found, I64)

    # --- element by element -------------------------------------------------------------------------------------------

    def unary(self, name: str, x: Value, dtype: Any = None) -> Value:
        return self.op(f"stablehlo.{name}", [x], value(dtype or x.dtype, x.shape))

    def binary(self, name: str, x: Value, y: Value) -> Value:
        return self.op(f"stablehlo.{name}", [x, y], value(x.dtype, x.shape))

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        return self.op("stablehlo.compare", [x, y], value(B1, x.shape),
                       {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"})

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.op("stablehlo.select", [condition, x, y], value(x.dtype, x.shape))

    def convert(self, x: Value, dtype: Any) -> Value:
        """By value; numbers become truths by being other than 0."""
        if x.dtype is dtype:
            return x
        if dtype is B1:
            return self.compare("NE", x, self.constant(0, x.dtype, x.shape))
        if x.dtype.is_complex and not dtype.is_complex:
            part = BY_CODE["f32" if x.dtype.code == "c64" else "f64"]
            x = self.unary("real", x, part)
            return self.convert(x, dtype)
        return self.unary("convert", x, dtype)

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """The same bits, of a type as wide."""
        return x if x.dtype is dtype else self.unary("bitcast_convert", x, dtype)

    # --- shapes -------------------------------------------------------------------------------------------------------

    def broadcast(self, x: Value, shape: Shape, dims: Sequence[int] | None = None) -> Value:
        """x repeated: its dim i is dim dims[i] of the result; by default its dims are the last."""
        if dims is None:
            dims = range(len(shape) - x.ndim, len(shape))
        if x.shape == tuple(shape) and list(dims) == list(range(len(shape))):
            return x
        at = {"broadcast_dimensions": types.integers(list(dims))}
        if is_fixed(shape):
            return self.op("stablehlo.broadcast_in_dim", [x], value(x.dtype, shape), at)
        return self.op("stablehlo.dynamic_broadcast_in_dim", [x, self.extents(shape)], value(x.dtype, shape), at)

    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in order."""
        if x.shape == tuple(shape):
            return x
        if is_fixed(shape) and is_fixed(x.shape):
            return self.op("stablehlo.reshape", [x], value(x.dtype, shape))
        return self.op("stablehlo.dynamic_reshape", [x, self.extents(shape)], value(x.dtype, shape))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Dim i of the result is dim order[i]."""
        if list(order) == list(range(x.ndim)):
            return x
        return self.op("stablehlo.transpose", [x], value(x.dtype, [x.shape[d] for d in order]),
                       {"permutation": types.integers(order)})

    def concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        """One behind the other."""
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        for p in parts[1:]:
            shape[dim] = shape[dim] + p.shape[dim]
        return self.op("stablehlo.concatenate", parts, value(parts[0].dtype, shape), {"dimension": types.integer(dim)})

    def slice(self, x: Value, start: Sequence[int], shape: Shape, steps: Sequence[int] | None = None) -> Value:
        """`shape` elements from `start` on, every `steps`-th."""
        steps = [1] * x.ndim if steps is None else list(steps)
        if tuple(shape) == x.shape and all(type(s) is int and s == 0 for s in start):
            return x
        if is_fixed((*shape, *start, *x.shape, *steps)):
            limits = [min(s + (n - 1) * k + 1, whole) if n else s
                      for s, n, k, whole in zip(start, shape, steps, x.shape, strict=True)]
            return self.op("stablehlo.slice", [x], value(x.dtype, shape), {
                "start_indices": types.integers(start), "limit_indices": types.integers(limits),
                "strides": types.integers(steps)})
        limits = [s + n * k for s, n, k in zip(start, shape, steps, strict=True)]
        held = [limit if k == 1 else sym_min(limit, whole)
                for limit, k, whole in zip(limits, steps, x.shape, strict=True)]
        return self.op("stablehlo.real_dynamic_slice",
                       [x, self.extents(start), self.extents(held), self.extents(steps)], value(x.dtype, shape))

    def pad(self, x: Value, fill: Value, low: Sequence[int], high: Sequence[int], inner: Sequence[int] | None = None
            ) -> Value:
        """`fill` around x, and between its elements; negative numbers cut off."""
        inner = [0] * x.ndim if inner is None else inner
        shape = [n + a + b + ((n - 1) * k if k else 0) for n, a, b, k in zip(x.shape, low, high, inner, strict=True)]
        if is_fixed((*low, *high)):
            return self.op("stablehlo.pad", [x, fill], value(x.dtype, shape), {
                "edge_padding_low": types.integers(low), "edge_padding_high": types.integers(high),
                "interior_padding": types.integers(inner)})
        return self.op("stablehlo.dynamic_pad", [x, fill, self.extents(low), self.extents(high), self.extents(inner)],
                       value(x.dtype, shape))

    def reverse(self, x: Value, dims: Sequence[int]) -> Value:
        """From the end to the beginning."""
        if not dims:
            return x
        return self.op("stablehlo.reverse", [x], value(x.dtype, x.shape), {"dimensions": types.integers(dims)})

    def gather_at(self, x: Value, index: Value, shape: Shape) -> Value:
        """Single elements: `index` has their places in x in its last dim. Places outside of x are moved inside."""
        n = x.ndim
        dims = types_list(range(n))
        numbers = (f"#stablehlo.gather<collapsed_slice_dims = {dims}, start_index_map = {dims}, "
                   f"index_vector_dim = {len(shape)}>")
        return self.op("stablehlo.gather", [x, index], value(x.dtype, shape), {
            "dimension_numbers": numbers, "slice_sizes": types.integers([1] * n), "indices_are_sorted": "false"})

    # --- regions ------------------------------------------------------------------------------------------------------

    def scalar_region(self, dtypes: Sequence[Any], body: Callable[..., Sequence[Value]]) -> Block:
        """A region over scalars."""
        return self.region([value(d, ()) for d in dtypes], body, "stablehlo.return")

    def reduce(self, inputs: Sequence[Value], starts: Sequence[Value], dims: Sequence[int],
               body: Callable[..., Sequence[Value]]) -> list[Value]:
        """Inputs folded along dims; `body` joins two of each."""
        kept = [n for d, n in enumerate(inputs[0].shape) if d not in dims]
        dtypes = [x.dtype for x in inputs]
        region = self.scalar_region([*dtypes, *dtypes], body)
        return self.ops("stablehlo.reduce", [*inputs, *starts], [value(d, kept) for d in dtypes],
                        {"dimensions": types.integers(sorted(dims))}, [region])

    def fold(self, name: str, x: Value, start: Any, dims: Sequence[int]) -> Value:
        """x folded by a binary operation, from a number on."""
        return self.reduce([x], [self.constant(start, x.dtype)], dims, lambda a, b: [self.binary(name, a, b)])[0]


def types_list(numbers: Any) -> str:
    """Numbers as dimension numbers list them."""
    return "[" + ", ".join(str(n) for n in numbers) + "]"
