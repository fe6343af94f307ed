"""Ops with a rule of their own in the linalg dialect: those that no definition states as loops.

Enters: a `Call` (the walk, the definition, what tracing saw) and the op's arguments by their names in its schema:
tensors as values, all else as it is. Leaves: a value, or a tuple where the op has several results; NotImplemented where
the op's loops do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...dispatch.modes import disable_dispatch_modes
from ...loops import expr
from ...loops.expr import Value, cast, const, eq, ge, lt, ne, select, var
from ...op import find_op
from ...op.factory import Factory
from ...op.indexed import contiguous_strides
from ..expanding import leaves
from ..printing import Value as Built
from .lowered import VOCABULARY, lowered_ops, scatter_into
from .tensors import Tensors, loop, named, product, same as same_size

RULES: dict[str, Callable[..., Any]] = {}
REAL = {"c64": "f32", "c128": "f64"}


@dataclasses.dataclass
class Call:
    """One call: the walk, the op, and what tracing saw of its results."""

    walk: Any
    definition: Any
    result: Any

    @property
    def tensors(self) -> Tensors:
        return self.walk.tensors

    def out(self, k: int | None = None) -> Any:
        """The fake of the result, or of one of several."""
        return self.result if k is None else self.result[k]

    def each(self, x: Built, function: Callable[[Value], Value]) -> Built:
        """A function of every element."""
        return self.over(x.shape, lambda read, at: function(read(x, at)))

    def over(self, shape: Sequence[Any], function: Callable[[Callable, list[Value]], Value]) -> Built:
        """A tensor from its elements: `function(read, at)`, where `read(x, at)` is an element of another."""
        tensors: list[Built] = []
        at = [loop(d) for d in range(len(shape))]
        value = function(functools.partial(self.tensors.read, tensors), at)
        return self.tensors.pointwise(shape, tensors, [value])[0]

    def summed(self, ranges: Sequence[Any], kept: int, function: Callable[[Callable, list[Value]], Value]) -> Built:
        """Elements added up over all ranges but the first `kept`."""
        tensors: list[Built] = []
        value = function(functools.partial(self.tensors.read, tensors), [loop(d) for d in range(len(ranges))])
        acc = var("acc0", value.dtype)
        init = self.tensors.full(value.dtype, ranges[:kept], 0)
        following = acc + value

        def body(s: Any, now: Sequence[Built]) -> list[Built]:
            s.known[acc] = now[0]
            return s.all([following])

        return self.tensors.generic(ranges, frozenset(range(kept, len(ranges))), tensors, [init], body, [following])[0]


def rule(*names: str) -> Callable[[Callable], Callable]:
    """The rule of the definitions of these names."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = function
        return function

    return keep


def positive(dim: int, ndim: int) -> int:
    """A dim counted from the front."""
    return dim + ndim if dim < 0 else dim


# --- tensors of numbers -----------------------------------------------------------------------------------------------


@rule("zeros", "empty", "empty_strided", "empty_permuted", "ones", "full", "scalar_tensor")
def full(call: Call, *args: Any, **given: Any) -> Any:
    number = given.get("fill_value", given.get("s", 1 if call.definition.name == "ones" else 0))
    code, shape = call.out().dtype.code, tuple(call.out().shape)
    if isinstance(number, _C.SymbolicInt):
        return call.over(shape, lambda read, at: cast(call.tensors.extent(number), code))
    if isinstance(number, Built):
        return call.over(shape, lambda read, at: cast(read(number, []), code))
    return call.tensors.full(code, shape, number)


def made(call: Call, args: tuple) -> Built | None:
    """What a definition makes of numbers alone: by its loops, or by running it."""
    definition = call.definition
    if isinstance(definition, Factory) and hasattr(definition, "spec_and_content"):
        own, dtype, _, _ = definition.split(args)
        spec, content = definition.spec_and_content(own, dtype, _C.device("cpu"))
        if hasattr(content, "ranges"):
            return call.tensors.reshape(lowered_ops(call.tensors, content, [])[0], tuple(spec.shape))
    if definition.is_composite or not isinstance(call.out(), _C.Tensor) or any(
            isinstance(a, _C.SymbolicInt) for a in leaves(args)):
        return None
    with no_grad(), disable_dispatch_modes():
        return call.walk.constant(definition.name, definition.run(*args))


@rule("eye")
def eye(call: Call, n: Any, m: Any = None, **rest: Any) -> Built:
    return call.over(tuple(call.out().shape), lambda read, at: cast(eq(at[0], at[1]), call.out().dtype.code))


@rule("arange")
def arange(call: Call, start: Any = 0, end: Any = None, step: Any = 1, **rest: Any) -> Any:
    code = call.out().dtype.code
    if isinstance(start, float) or isinstance(step, float) or code[0] not in "iu":
        return NotImplemented
    first, by = call.tensors.extent(start), call.tensors.extent(step)
    return call.over(tuple(call.out().shape), lambda read, at: cast(first + at[0] * by, code))


@rule("alias", "detach", "clone", "contiguous", "resolve_conj", "resolve_neg", "lift_fresh", "lift_fresh_copy",
      "_laid_out")
def same(call: Call, input: Built, *args: Any, **rest: Any) -> Built:
    return input      # values have no layout


@rule("linspace", "logspace")
def linspace(call: Call, start: Any, end: Any, steps: int, base: float = 10.0, **rest: Any) -> Any:
    """From both ends towards the middle; numbers alone are the definition's."""
    if not isinstance(start, Built) and not isinstance(end, Built):
        return NotImplemented
    code, count = call.out().dtype.code, int(call.out().shape[0])
    compute = "f64" if code in ("f64", "i64", "i32") else "f32"

    def element(read: Callable, at: list[Value]) -> Value:
        first, last = (cast(read(x, []), compute) if isinstance(x, Built) else const(x, compute) for x in (start, end))
        step = (last - first) / const(max(count - 1, 1), compute)
        back = const(count - 1, "i64") - at[0]
        x = select(lt(at[0], count // 2), first + step * cast(at[0], compute), last - step * cast(back, compute))
        x = first if count == 1 else x
        if call.definition.name == "logspace":
            x = VOCABULARY.pow(const(base, compute), x)
        return cast(x, code)

    return call.over((count,), element)


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "ravel", "view_as",
      "reshape_as")
def reshape(call: Call, input: Built, *args: Any, **rest: Any) -> Any:
    if call.out().dtype is not input.dtype:
        return NotImplemented
    return call.tensors.reshape(input, tuple(call.out().shape))


# --- writing through a view -------------------------------------------------------------------------------------------


@rule("select_scatter", "slice_scatter", "diagonal_scatter")
def view_scatter(call: Call, input: Built, src: Built, *args: Any, **given: Any) -> Built:
    """`input` with `src` where a view of it looks: the view is that of the elements' numbers."""
    looked = find_op(call.definition.name.removesuffix("_scatter"))
    strides = contiguous_strides(input.shape)
    numbers = call.over(input.shape, lambda read, at: functools.reduce(
        lambda a, b: a + b, [i * call.tensors.extent(n) for i, n in zip(at, strides, strict=True)], const(0, "i64")))
    places = call.walk.expanded(lambda t: looked(t, *args, **given), (numbers,))
    flat = call.tensors.reshape(input, (product(input.shape),))
    read: list[Built] = []
    at = [loop(d) for d in range(places.ndim)]
    lead = places.ndim - src.ndim
    own = [const(0, "i64") if same_size(n, 1) else i for i, n in zip(at[lead:], src.shape, strict=True)]
    value = cast(call.tensors.read(read, src, own), named(input))
    place = [call.tensors.read(read, places, at)]
    found = scatter_into(call.tensors, places.shape, read, flat, place, value, lambda old, new: new)
    return call.tensors.reshape(found, input.shape)


# --- complex numbers --------------------------------------------------------------------------------------------------


@rule("_conj", "conj", "_conj_physical")
def conj(call: Call, input: Built) -> Built:
    if named(input) not in REAL:
        return input
    return call.each(input, lambda x: expr.complex_(expr.real(x), -expr.imag(x)))


@rule("_neg_view")
def neg_view(call: Call, input: Built) -> Built:
    return call.each(input, lambda x: -x)


@rule("real", "_real_part")
def real(call: Call, input: Built) -> Built:
    return call.each(input, expr.real) if named(input) in REAL else input


@rule("imag", "_imag_part")
def imag(call: Call, input: Built) -> Built:
    return call.each(input, expr.imag)


@rule("view_as_real")
def view_as_real(call: Call, input: Built) -> Built:
    def element(read: Callable, at: list[Value]) -> Value:
        x = read(input, at[:-1])
        return select(eq(at[-1], 0), expr.real(x), expr.imag(x))

    return call.over((*input.shape, 2), element)


@rule("view_as_complex")
def view_as_complex(call: Call, input: Built) -> Built:
    return call.over(input.shape[:-1], lambda read, at: expr.complex_(
        *[read(input, [*at, const(k, "i64")]) for k in (0, 1)]))


# --- orders -----------------------------------------------------------------------------------------------------------


def before(x: Value, y: Value) -> Value:
    """Whether x comes before y in order: what is no number comes last, and false before true."""
    if x.dtype == "b1":
        return lt(cast(x, "u8"), cast(y, "u8"))
    less = lt(x, y)
    return less | (eq(x, x) & ne(y, y)) if x.dtype[0] in "fb" else less


def in_order(call: Call, x: Built, dim: int, descending: bool) -> tuple[Built, Built]:
    """x in order along a dim, equal ones as they came, and where each was: the place of an element is how many come
    before it."""
    if not x.ndim:
        return x, call.tensors.full("i64", (), 0)
    last = x.ndim

    def precedes(read: Callable, at: list[Value]) -> Value:
        other, here = list(at[:last]), at[dim]
        other[dim] = at[last]
        a, b = read(x, other), read(x, at[:last])
        first, second = (before(b, a), before(a, b)) if descending else (before(a, b), before(b, a))
        return cast(first | (~second & lt(at[last], here)), "i64")

    rank = call.summed((*x.shape, x.shape[dim]), last, precedes)

    def whose(read: Callable, at: list[Value]) -> Value:
        other = list(at[:last])
        other[dim] = at[last]
        return select(eq(read(rank, other), at[dim]), at[last], const(0, "i64"))

    places = call.summed((*x.shape, x.shape[dim]), last, whose)
    return call.over(x.shape, lambda read, at: read(x, [*at[:dim], read(places, at), *at[dim + 1:]])), places


def part(call: Call, x: Built, start: Sequence[int], shape: Sequence[Any]) -> Built:
    """A box of a tensor."""
    return call.over(shape, lambda read, at: read(x, [i + const(s, "i64") for i, s in zip(at, start, strict=True)]))


@rule("sort")
def sort(call: Call, input: Built, dim: int = -1, descending: bool = False, **rest: Any) -> tuple:
    return in_order(call, input, positive(dim, input.ndim), bool(descending))


@rule("topk")
def topk(call: Call, input: Built, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple:
    found = in_order(call, input, positive(dim, input.ndim), bool(largest))
    if not input.ndim:
        return found
    return tuple([part(call, f, [0] * f.ndim, tuple(call.out(0).shape)) for f in found])


@rule("_ranked_element")
def ranked_element(call: Call, input: Built, position: int, missing: str, dim: int) -> tuple:
    """The element at a position in order: the same of all rows, or where what is no number moves it."""
    values, order = in_order(call, input, dim, False)
    if not input.ndim:
        return values, order
    shape = tuple(call.out(0).shape)
    gone = None
    if named(input)[0] in "fb" and named(input) != "b1" and missing != "kept":
        around = [n for d, n in enumerate(input.shape) if d != dim]

        def is_gone(read: Callable, at: list[Value]) -> Value:
            x = read(input, [*at[:dim], at[len(around)], *at[dim:len(around)]])
            return cast(ne(x, x), "i64")

        gone = call.summed((*around, input.shape[dim]), len(around), is_gone)

    def at_rank(x: Built) -> Built:
        def element(read: Callable, at: list[Value]) -> Value:
            wanted = const(position, "i64")
            if gone is not None:
                lost, n = read(gone, [*at[:dim], *at[dim + 1:]]), call.tensors.extent(input.shape[dim])
                if missing == "skipped":
                    left = expr.max_(n - lost - const(1, "i64"), const(0, "i64"))
                    wanted = expr.idiv(left, const(2, "i64"))
                else:
                    wanted = select(eq(lost, 0), wanted, n - lost)
            return read(x, [*at[:dim], wanted, *at[dim + 1:]])

        return call.over(shape, element)

    return at_rank(values), at_rank(order)


# --- convolutions -----------------------------------------------------------------------------------------------------


def wide(numbers: Any, dims: int) -> list[int]:
    """A number for each dim."""
    listed = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return listed if len(listed) == dims else listed * dims


def widened(x: Value) -> Value:
    return cast(x, "f32") if x.dtype in ("f16", "bf16") else x


@rule("convolution")
def convolution(call: Call, input: Built, weight: Built, bias: Built | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Built:
    """Sums over the channels of a group and the places of the kernel. What is transposed is the same under a turned
    kernel, on an input with zeros between its elements."""
    dims, code, shape = weight.ndim - 2, named(input), tuple(call.out().shape)
    stride, padding, dilation = (wide(v, dims) for v in (stride, padding, dilation))
    kernel = weight.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if transposed:
        starts, steps, spread = [r - p for r, p in zip(reach, padding, strict=True)], [1] * dims, stride
        of_group, outs = weight.shape[0] // groups, weight.shape[1]
    else:
        starts, steps, spread = padding, stride, [1] * dims
        of_group, outs = weight.shape[1], weight.shape[0] // groups
    sizes = [(o - 1) * s + r + 1 if type(o) is int else (o - 1) * s + (r + 1)
             for o, s, r in zip(shape[2:], steps, reach, strict=True)]
    zero = const(0, code)

    def padded(read: Callable, at: list[Value]) -> Value:
        inside, places = None, []
        for i, first, gap, n in zip(at[2:], starts, spread, input.shape[2:], strict=True):
            place, size = i - const(first, "i64"), call.tensors.extent(n)
            within = ge(place, 0) & lt(place, size * const(gap, "i64"))
            if gap != 1:
                within = within & eq(expr.irem(place, const(gap, "i64")), 0)
                place = expr.idiv(place, const(gap, "i64"))
            inside = within if inside is None else inside & within
            places.append(expr.min_(expr.max_(place, const(0, "i64")), size - const(1, "i64")))
        x = read(input, [*at[:2], *places])
        return x if inside is None else select(inside, x, zero)

    is_plain = all(s == 0 for s in starts) and all(g == 1 for g in spread) and all(
        str(a) == str(b) for a, b in zip(sizes, input.shape[2:], strict=True))
    x = input if is_plain else call.over((*input.shape[:2], *sizes), padded)
    x = call.tensors.reshape(x, (x.shape[0], groups, of_group, *x.shape[2:]))
    w = call.tensors.reshape(weight, (groups, of_group, outs, *kernel) if transposed
                             else (groups, outs, of_group, *kernel))

    def product(read: Callable, at: list[Value]) -> Value:
        n, g, o, *rest = at
        places, (c, *taps) = rest[:dims], rest[dims:]
        here = [i * const(s, "i64") + t * const(d, "i64")
                for i, s, t, d in zip(places, steps, taps, dilation, strict=True)]
        if transposed:
            taps = [call.tensors.extent(k) - const(1, "i64") - t for k, t in zip(kernel, taps, strict=True)]
        factor = read(w, [g, c, o, *taps] if transposed else [g, o, c, *taps])
        return widened(read(x, [n, g, c, *here])) * widened(factor)

    ranges = (x.shape[0], groups, outs, *shape[2:], of_group, *kernel)
    sums = call.summed(ranges, 3 + dims, product)
    sums = call.tensors.reshape(sums, shape)
    if bias is None and named(sums) == code:
        return sums

    def finished(read: Callable, at: list[Value]) -> Value:
        total = read(sums, at)
        return cast(total if bias is None else total + cast(read(bias, [at[1]]), total.dtype), code)

    return call.over(shape, finished)


# --- masks, and places that meet --------------------------------------------------------------------------------------


@rule("index_put", "_index_put_new")
def index_put(call: Call, input: Built, indices: Sequence[Any], values: Built, accumulate: bool = False) -> Any:
    masks = [i for i in indices if isinstance(i, Built) and named(i) in ("b1", "u8")]
    if not masks or len(masks) != len(indices) or len(masks) != 1 or accumulate or values.ndim:
        return NotImplemented
    mask = masks[0]
    return call.over(input.shape, lambda read, at: select(
        cast(read(mask, at[:mask.ndim]), "b1"), read(values, []), read(input, at)))


@rule("scatter_reduce", "_scatter_reduce_same")
def scatter_reduce(call: Call, input: Built, dim: int, index: Built, src: Built, reduce: str,
                   include_self: bool = True) -> Any:
    if not input.ndim:
        return NotImplemented
    dim, code = positive(dim, input.ndim), named(input)
    at = [loop(d) for d in range(input.ndim)]

    def scattered(into: Built, value: Callable[[list[Built]], Value], combine: Callable) -> Built:
        read: list[Built] = []
        new = value(read)
        place = [*at[:dim], cast(call.tensors.read(read, index, at), "i64"), *at[dim + 1:]]
        return scatter_into(call.tensors, index.shape, read, into, place, new, combine)

    if not include_self:      # what is written to forgets what it held
        neutral = const(NEUTRAL[reduce](code), code)
        input = scattered(input, lambda read: neutral, lambda old, new: new)
    found = scattered(input, lambda read: call.tensors.read(read, src, at), REDUCTIONS[reduce])
    if reduce != "mean":
        return found
    one = const(1, "i64")
    counts = scattered(call.tensors.full("i64", input.shape, int(include_self)), lambda read: one, lambda a, b: a + b)

    def divided(read: Callable, at: list[Value]) -> Value:
        count = expr.max_(read(counts, at), one)
        total = read(found, at)
        if code[0] in "iu":
            return expr.floor_divide(total, cast(count, code))
        return total / cast(count, code)

    return call.over(input.shape, divided)


def lowest(code: str) -> float:
    if code[0] in "iu":
        return -(1 << (int(code[1:]) - 1)) if code[0] == "i" else 0
    return 0 if code == "b1" else -math.inf


def highest(code: str) -> float:
    if code[0] in "iu":
        return (1 << (int(code[1:]) - (code[0] == "i"))) - 1
    return 1 if code == "b1" else math.inf


REDUCTIONS: dict[str, Callable[[Value, Value], Value]] = {
    "sum": lambda a, b: a + b, "mean": lambda a, b: a + b, "prod": lambda a, b: a * b,
    "amax": VOCABULARY.maximum, "amin": VOCABULARY.minimum,
}
NEUTRAL: dict[str, Callable[[str], float]] = {
    "sum": lambda code: 0, "mean": lambda code: 0, "prod": lambda code: 1, "amax": lowest, "amin": highest,
}
