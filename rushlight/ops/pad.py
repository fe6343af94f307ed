"""Padding: constants, reflections, repeated edges and wrapping around.

Enters: a tensor and amounts for its last dims, innermost first, two per dim; negative amounts cut. Leaves: the padded
tensor. Constant padding is a fill and a copy; the others read through an index table per dim, and their gradient adds
through its transpose. Refuses: amounts a mode cannot provide, values with modes that take none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rushlight import _C
from rushlight.loops.expr import Value, cast, const, ge, idiv, irem, le, load, lt, max_, min_, select, var
from rushlight.loops.lowered import At, Lowered, Memory, Number, Piece, number_value
from rushlight.loops.nest import Assign, For, Local, Nest, Statement, Store, operands, rows
from rushlight.op import Composite, Loops, find_op
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.pointwise import compile_for, compute_code
from rushlight.op.reduction import GRAIN, as_step, product

from .copy import prefers_channels_last
from .window.axes import Constants, integers
from .window.layout import ONE, ZERO, channels_last_strides, dense, is_channels_last, is_dense, nested, unravel

REFLECT, REPLICATE, CIRCULAR = "reflect", "replicate", "circular"


def amounts(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """(before, after) per dim, outermost first."""
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


class ConstantPad(Loops):
    """`value` around the last dims; negative amounts cut."""

    schema = "constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor"
    method = False
    batch = "leading"

    def settled(self, input: Any, pad: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
        """What is added before and after every dim, and the shape; raises for what the op refuses."""
        if len(pad) % 2 or len(pad) > 2 * input.ndim:
            raise RuntimeError(f"constant_pad_nd: pad has two numbers per dimension: expected an even length up to {2 * input.ndim}, got {len(pad)}")
        around = amounts(pad, input.ndim)
        shape = tuple(n + a + b for n, (a, b) in zip(input.shape, around, strict=True))
        if any(n < 0 for n in shape):
            raise RuntimeError(f"constant_pad_nd: padding {list(pad)} makes an input of size {list(input.shape)} one of negative size, {list(shape)}")
        return around, shape

    def lower(self, args):
        input, pad, value = args
        around, shape = self.settled(input, pad)
        empty = any(n == 0 for n in input.shape)
        changed = [d for d, (a, b) in enumerate(around) if (a, b) != (0, 0)]
        code = input.dtype.code
        given = [Number(f"before{d}", "i64", around[d][0]) for d in changed]
        reads = (Memory("input", code, tuple(input.shape), input.stride()), Number("value", number_value("value", value).dtype, value), *given)

        def body(at: At, sources: Any) -> tuple:
            if empty:
                return (cast(sources[1].value, code),)
            place, inside = list(at), const(True, "b1")
            for d, before in zip(changed, sources[2:], strict=True):
                own, last = at[d] - before.value, sources[0].shape[d] - ONE
                inside = inside & ge(own, ZERO) & le(own, last)
                place[d] = max_(min_(own, last), ZERO)       # read even where it is not used
            return (select(inside, sources[0][tuple(place)], cast(sources[1].value, code)),)

        channels = input.ndim in (4, 5) and input._is_channels_last() and prefers_channels_last(input)
        return Lowered(
            self.spec.name, (self.spec.name, tuple(changed), empty), shape, shape, (code,), reads, body, aligned=False,
            through=frozenset(range(input.ndim)).difference(changed), pieces=(shown(input, around),),
            background=1 if any(a > 0 or b > 0 for a, b in around) else None, layout=channels_last_strides(shape) if channels else None,
        )  # fmt: skip

    def vjp(self, g, pad):
        return {"input": find_op("constant_pad_nd")(g, [-n for n in pad], 0)}


def shown(input: Any, around: Sequence[tuple[int, int]]) -> Piece:
    """The part of the input that is seen inside its padding."""
    sizes, skipped = [], 0
    for d, (a, b) in enumerate(around):
        low, high = max(0, -a), input.shape[d] - max(0, -b)
        skipped += low * input.stride(d)
        sizes.append(max(0, high - low))
    return Piece(0, tuple([max(a, 0) for a, _ in around]), tuple(sizes), tuple(input.stride()), skipped)


class Pad(Composite):
    """Padding by `mode` around the last dims."""

    schema = "pad(Tensor input, int[] pad, str mode='constant', float? value=None) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, pad, mode, value):
        pad = list(pad)
        if len(pad) % 2:
            raise RuntimeError(f"pad: Padding length must be divisible by 2, got {len(pad)}")
        if len(pad) > 2 * input.ndim:
            raise RuntimeError(f"pad: padding has two numbers per dimension: expected a length up to {2 * input.ndim}, got {len(pad)}")
        mode = mode.strip("'")
        if mode == "constant":
            return find_op("constant_pad_nd")(input, pad, 0 if value is None else value)
        if value:
            raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
        if mode not in (REFLECT, REPLICATE, CIRCULAR):
            raise NotImplementedError(f"pad: Unrecognised padding mode {mode}")
        count = len(pad) // 2
        if count > 3 or count == 0 or input.ndim not in (count + 1, count + 2):
            raise NotImplementedError(f"pad: Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got {len(pad)} amounts for {input.ndim} dims")
        check_amounts(input, pad, mode)
        if mode == CIRCULAR and not input._is_contiguous():
            input = input.contiguous()   # this mode does not keep channels last
        return find_op("_pad_by_index")(input, pad, mode)


def check_amounts(input: Any, pad: Sequence[int], mode: str) -> None:
    """Raise for amounts that the input cannot provide."""
    count = len(pad) // 2
    around = amounts(pad, input.ndim)[input.ndim - count :]
    space = input.shape[input.ndim - count :]
    first_required = 1 if input.ndim == count + 2 else 0
    if mode != CIRCULAR and 0 in input.shape[first_required:]:
        raise RuntimeError(f"pad: expected an input with {count + 1} dimensions, or {count + 2} with a batch (which alone may be empty), got shape {list(input.shape)}")
    for d, (n, (a, b)) in enumerate(zip(space, around, strict=True)):
        if mode == REFLECT and (a >= n or b >= n):
            raise RuntimeError(f"pad: expected padding smaller than the dimension it reflects, got ({a}, {b}) at dimension {d} of an input of shape {list(input.shape)}")
        if mode == CIRCULAR and (a > n or b > n):
            raise RuntimeError(f"pad: circular padding wraps around once: expected padding up to size {n}, got ({a}, {b})")
        if n + a + b < (0 if mode == CIRCULAR else 1):
            raise RuntimeError(f"pad: input size {n} at dimension {d} is too small for padding ({a}, {b}): the calculated output size is {n + a + b}")


def sources(mode: str, size: int, before: int, after: int) -> list[int]:
    """The input position of every output position of a dim."""
    places = range(-before, size + after)
    if mode == REPLICATE:
        return [min(max(at, 0), size - 1) for at in places]
    if mode == CIRCULAR:   # what was cut off does not come back on the other side
        first, kept = max(0, -before), size - max(0, -before) - max(0, -after)
        return [min(first + (at - first) % max(1, kept), size - 1) for at in places]   # nothing kept: PyTorch shows memory nobody wrote
    return [abs(at) if at < size else abs(2 * (size - 1) - at) for at in places]


def middle(size: int, before: int, after: int) -> tuple[int, int]:
    """Output positions [low, high) that show the input as it is."""
    return max(before, 0), size + before + min(after, 0)


class _ByIndex(OpDefinition):
    """What padding through tables and its gradient share."""

    function = method = out = False
    batch = "leading"
    kind = KIND_PLANNED
    build: Any

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, input: Any, pad: Sequence[int], *args: Any) -> Any:
        """Inputs in another memory order are copied first."""
        input = dense(input, len(pad) // 2)
        return self.plan((input, pad, *args))(input)

    def shaped(self, input: Any, space: Sequence[int], targets: Sequence[int], table: Sequence[bytes] = (), bounds: tuple[int, int, int] = (0, 0, 0)) -> Any:
        """The plan, given sizes read and written, a table per dim, and the stretch of the last dim that is a plain copy."""
        count, device = len(space), input.device
        channels = is_channels_last(input, count)
        shape = (*input.shape[: input.ndim - count], *targets)
        slots: list[tuple] = [("new", input.dtype, shape, channels_last_strides(shape) if channels else None, 0, 0)]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(1, device, slots, [])
        key = (input.dtype.code, count, channels, device.type)
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.kernels[key] = as_step(compile_for(device, self.build(*key[:3])))
        constants = Constants()
        places = [constants.add(t) for t in table]
        params = [n for pair in zip(targets, space, strict=True) for n in pair]
        params += [shape[1]] if channels else [*bounds]
        extent = shape[0] * product(targets) if channels else product(shape[:-1])
        grain = max(1, GRAIN // (shape[1] if channels else shape[-1]))
        if self.has_scratch and not channels:
            params.append(grain)
            slots.append(("temp", dtype_for(compute_code(input.dtype.code)), (-(-extent // grain), space[-1]), None, 0, 0))
        operand_slots = [0, *places, *range(1, 1 + len(slots))]
        return _C.Plan(1, device, slots, [(kernel, operand_slots, params, extent, grain, -1, bytes(constants.data))])

    has_scratch = False


def dtype_for(code: str) -> Any:
    """The dtype object with a code."""
    return next(d for d in vars(_C).values() if isinstance(d, _C.dtype) and d.code == code)


class PadByIndex(Loops):
    """Every output position shows the input position its mode says."""

    schema = "_pad_by_index(Tensor input, int[] pad, str mode) -> Tensor"
    function = method = out = False
    batch = "leading"

    def lower(self, args):
        input, pad, mode = args
        around = amounts(pad, input.ndim)
        shape = tuple([n + a + b for n, (a, b) in zip(input.shape, around, strict=True)])
        changed = [d for d, (a, b) in enumerate(around) if (a, b) != (0, 0)]
        cut = tuple([min(around[d]) < 0 for d in changed])
        given = [Number(f"{label}{d}", "i64", n) for d in changed for label, n in zip(("before", "after"), around[d], strict=True)]
        reads = (Memory("input", input.dtype.code, tuple(input.shape), input.stride()), *given)

        def body(at: At, sources: Any) -> tuple:
            place = list(at)
            for k, d in enumerate(changed):
                before, after = (s.value for s in sources[1 + 2 * k : 3 + 2 * k])
                place[d] = shown_place(mode, at[d] - before, sources[0].shape[d], before, after, cut[k])
            return (sources[0][tuple(place)],)

        channels = len(pad) > 2 and input.ndim == len(pad) // 2 + 2 and prefers_channels_last(input)
        return Lowered(
            self.spec.name, (self.spec.name, mode, tuple(changed), cut), shape, shape, (input.dtype.code,), reads, body, aligned=False,
            through=frozenset(range(input.ndim)).difference(changed), layout=channels_last_strides(shape) if channels else None,
        )  # fmt: skip

    def vjp(self, g, input: Any, pad, mode):
        space = input.shape[input.ndim - len(pad) // 2 :]
        return {"input": find_op("_pad_by_index_backward")(g, pad, mode, space)}


def shown_place(mode: str, at: Value, size: Value, before: Value, after: Value, cut: bool) -> Value:
    """The input position that position `at`, counted from the input's first, shows: `sources`, for one of them."""
    last = size - ONE
    if mode == REPLICATE:
        return max_(min_(at, last), ZERO)
    if mode == REFLECT:
        return select(lt(at, ZERO), -at, select(le(at, last), at, 2 * last - at))
    if not cut:          # wraps around once
        return select(lt(at, ZERO), at + size, select(le(at, last), at, at - size))
    first = max_(-before, ZERO)      # what was cut off does not come back on the other side
    kept = max_(size - first - max_(-after, ZERO), ONE)
    own = at - first
    return min_(first + select(ge(own, ZERO), irem(own, kept), irem(kept - ONE + irem(own + ONE, kept), kept)), last)


class PadByIndexBackward(_ByIndex):
    """Every input position gets the sum over the output positions that show it."""

    schema = "_pad_by_index_backward(Tensor g, int[] pad, str mode, int[] sizes) -> Tensor"
    has_scratch = True

    def plan(self, args):
        g, pad, mode, sizes = args
        count = len(pad) // 2
        if not is_dense(g, count):
            return None
        around = amounts(pad, count)
        if g.device.type == "meta":
            return self.shaped(g, g.shape[g.ndim - count :], sizes)
        tables = []
        for n, (a, b) in zip(sizes, around, strict=True):
            seen: list[list[int]] = [[] for _ in range(n)]
            for o, i in enumerate(sources(mode, n, a, b)):
                seen[i].append(o)
            starts = [0]
            for own in seen:
                starts.append(starts[-1] + len(own))
            tables.append(integers([*starts, *(o for own in seen for o in own)]))
        low, high = single_stretch(mode, sizes[-1], *around[-1])
        return self.shaped(g, g.shape[g.ndim - count :], sizes, tables, (low, high, around[-1][0]))

    def build(self, code: str, count: int, channels: bool) -> Nest:
        """Rows of the input: rows that show it are added into scratch, then the row's own positions are gathered."""
        compute, last, out = compute_code(code), count - 1, 1 + count
        targets = [f"n{d}" for d in range(count)]
        params = [name for d in range(count) for name in (f"n{d}", f"m{d}")]
        outer = range(count if channels else last)

        def span(d: int, at: Any) -> tuple[Any, Any]:
            return load(1 + d, at, "i64"), load(1 + d, at + ONE, "i64")

        body: list[Statement] = [*unravel(var("i"), targets if channels else targets[:-1], "o")]
        place = var("o.rest")
        for d in outer:
            first, past = span(d, var(f"o{d}"))
            body += [Local(f"first{d}", first), Local(f"length{d}", past - first)]
            shown = load(1 + d, var(f"n{d}") + ONE + var(f"first{d}") + var(f"k{d}"), "i64")
            place = place * var(f"m{d}") + shown
        lane = "c" if channels else "x"
        width = var("channels") if channels else var(f"m{last}")
        x = cast(load(0, place * width + var(lane), code), compute)
        add = nested([(f"k{d}", var(f"length{d}")) for d in outer], [Assign("acc", var("acc", compute) + x)])
        start = Local("acc", const(0, compute))
        signature = [code, *["i64"] * count]
        if channels:
            store = Store(out, var("i") * width + var(lane), cast(var("acc", compute), code))
            body.append(For(lane, ZERO, width, (start, *add, store), vector=True))
            return Nest("pad_backward_channels", operands(signature, [code]), (*params, "channels"), rows(*body))
        body.append(Local("own", idiv(var("begin"), var("grain")) * width))
        body.append(For(lane, ZERO, width, (start, *add, Store(out + 1, var("own") + var(lane), var("acc", compute))), vector=True))
        target = var("i") * var(f"n{last}")

        def edge(name: str, low: Any, high: Any) -> For:
            first, past = span(last, var(name))
            shown = load(1 + last, var(f"n{last}") + ONE + var(f"{name}.k"), "i64")
            more = Assign(f"{name}.acc", var(f"{name}.acc", compute) + load(out + 1, var("own") + shown, compute))
            total = Store(out, target + var(name), cast(var(f"{name}.acc", compute), code))
            return For(name, low, high, (Local(f"{name}.acc", const(0, compute)), For(f"{name}.k", first, past, (more,)), total))

        single = load(out + 1, var("own") + var("w") + var("before"), compute)
        whole = For("w", var("low"), var("high"), (Store(out, target + var("w"), cast(single, code)),), vector=True)
        body += [edge("a", ZERO, var("low")), whole, edge("b", var("high"), var(f"n{last}"))]
        return Nest("pad_backward", operands(signature, [code, compute]), (*params, "low", "high", "before", "grain"), rows(*body))

    def vjp(self, gg, pad, mode):
        return {"g": find_op("_pad_by_index")(gg, pad, mode)}


def single_stretch(mode: str, size: int, before: int, after: int) -> tuple[int, int]:
    """Input positions [low, high) that exactly one output position shows, the one in the middle of the output."""
    counts = [0] * size
    for i in sources(mode, size, before, after):
        counts[i] += 1
    inside = [i for i in range(size) if counts[i] == 1 and 0 <= i + before < size + before + after]
    best = (0, 0)
    start = 0
    for k, i in enumerate(inside):
        if k and inside[k - 1] != i - 1:
            start = k
        if k - start + 1 > best[1] - best[0]:
            best = (inside[start], i + 1)
    return best
