"""What an op computes, element by element, by ops on whole tensors: for ops that torch-mlir has no lowering of.

Enters: a `Lowered` and tensors (fakes, while a graph is traced). Leaves: its results, computed by simple ops of ATen:
a position is an `arange`, a read at positions a permutation, any other an index; a fold is the reduction of its step,
or its steps one after the other where there are few. Refuses: sizes that vary, bits of floats, complex numbers, and
long folds, walks and scatters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...loops.expr import COMPLEX, Value, cast, const, ge, lt, select, var, walk
from ...loops.lowered import ONE, ZERO, body_of, folding_of
from ...loops.math.expand import expand
from ...op import find_op
from ...op.indexed import contiguous_strides
from ...op.pack import BY_CODE
from ..linalg.lowered import VOCABULARY, Nest, Source, depends, position
from ..linalg.scalars import READ, is_read
from ..linalg.tensors import Tensors, is_position, loop, range_of

MOST = 48      # steps that are written out


def whole_results(lowered: Any, tensors: Sequence[Any]) -> list[Any]:
    """The results of an op that reads `tensors`."""
    return WholeNest(Whole(), lowered, list(tensors)).results()


class Whole:
    """What `Nest` asks of tensors, of tensors themselves."""

    read = Tensors.read

    def extent(self, n: Any) -> Value:
        if type(n) is not int:
            raise NotImplementedError("sizes that vary, in an op that is written out")
        return const(n, "i64")

    def reshape(self, t: Any, shape: Sequence[Any]) -> Any:
        return t if tuple(t.shape) == tuple(shape) else t.reshape(list(shape))

    def full(self, code: str, shape: Sequence[int], value: Any) -> Any:
        return find_op("full")(list(shape), value, dtype=BY_CODE[code])

    def constant(self, code: str, shape: Sequence[int], values: Sequence[Any]) -> Any:
        """A tensor of numbers, from ops: traces hold no constants."""
        flat = self.full(code, (len(values),), 0)
        place = find_op("arange")(len(values))
        for value in set(values):      # tables repeat themselves
            at = [i for i, v in enumerate(values) if v == value]
            if value == 0 or len(set(values)) > MOST:
                continue
            mask = None
            for first, past in runs(at):
                here = (place >= first) & (place < past)
                mask = here if mask is None else mask | here
            flat = find_op("where")(mask, self.full(code, (len(values),), value), flat)
        if len(set(values)) > MOST:
            raise NotImplementedError("a long table, in an op that is written out")
        return flat.reshape(list(shape))

    def pointwise(self, ranges: Sequence[Any], tensors: Sequence[Any], values: Sequence[Value],
                  checks: Sequence[Value] = ()) -> list[Any]:
        own = Elements(ranges, tensors)
        return [own.whole(v) for v in values]


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """First and past of neighbours."""
    found: list[tuple[int, int]] = []
    for i in places:
        if found and found[-1][1] == i:
            found[-1] = found[-1][0], i + 1
        else:
            found.append((i, i + 1))
    return found


class Elements:
    """Expressions over ranges, as tensors that broadcast to them, or numbers."""

    def __init__(self, ranges: Sequence[int], tensors: Sequence[Any], known: dict[Value, Any] | None = None) -> None:
        self.ranges, self.tensors, self.known = list(ranges), tensors, dict(known or {})

    def whole(self, v: Value) -> Any:
        """A tensor over all of the ranges."""
        found = self.of(v)
        if not isinstance(found, _C.Tensor):
            return find_op("full")(self.ranges, found, dtype=BY_CODE[v.dtype])
        return found if list(found.shape) == self.ranges else found.expand(self.ranges)

    def of(self, root: Value) -> Any:
        for e in walk((root,)):
            if e not in self.known:
                self.known[e] = self.one(e)
        return self.known[root]

    def one(self, e: Value) -> Any:
        if e.dtype in COMPLEX:
            raise NotImplementedError("complex numbers, in an op that is written out")
        if e.op == "const":
            return e.attr
        if is_position(e):
            d = range_of(e)
            return find_op("arange")(self.ranges[d]).reshape([-1 if k == d else 1 for k in range(len(self.ranges))])
        if is_read(e):
            return self.element(e)
        args = [self.known[a] for a in e.args]
        if e.op == "call":
            rule = FUNCTIONS.get(str(e.attr))
            if rule is None:
                return self.of(expand(str(e.attr), e.args, e.dtype))
            return find_op(rule)(*[self.tensor(a, x.dtype) for a, x in zip(args, e.args, strict=True)])
        if e.op == "table":
            return self.tensor_at(Whole().constant(e.dtype, (len(e.attr),), e.attr), args[0])
        if e.op not in OPS:
            raise NotImplementedError(f"{e.op}, in an op that is written out")
        if not any(isinstance(a, _C.Tensor) for a in args):
            args[0] = self.tensor(args[0], e.args[0].dtype)
        return OPS[e.op](self, e, *args)

    def tensor(self, a: Any, code: str) -> Any:
        """A number as a tensor."""
        return a if isinstance(a, _C.Tensor) else find_op("full")([1] * len(self.ranges), a, dtype=BY_CODE[code])

    def tensor_at(self, flat: Any, place: Any) -> Any:
        place = self.tensor(place, "i64")
        found = find_op("index_select")(flat, 0, place.reshape([-1]).clamp(0, flat.shape[0] - 1))
        return found.reshape(list(place.shape))

    def element(self, e: Value) -> Any:
        t = self.tensors[int(str(e.attr)[len(READ):])]
        ndim = len(self.ranges)
        dims = [range_of(a) if is_position(a) else None for a in e.args]
        is_plain = all(d is not None or (a.op == "const" and a.attr == 0) for d, a in zip(dims, e.args, strict=True))
        named = [d for d in dims if d is not None]
        if is_plain and len(set(named)) == len(named) and all(
                d is None or t.shape[k] == self.ranges[d] for k, d in enumerate(dims)):
            for k in reversed(range(t.ndim)):
                if dims[k] is None:
                    t = t.select(k, 0)
            order = sorted(range(len(named)), key=lambda k: named[k])
            t = t.permute(order) if order != list(range(len(named))) else t
            return t.reshape([self.ranges[d] if d in named else 1 for d in range(ndim)])
        place: Any = 0
        for a, stride in zip(e.args, contiguous_strides(t.shape), strict=True):
            place = place + self.known[a] * stride
        if not isinstance(place, _C.Tensor):
            return t.reshape([-1]).select(0, place).reshape([1] * ndim)
        return self.tensor_at(t.reshape([-1]), place)


class WholeNest(Nest):
    """One Lowered, by ops on whole tensors."""

    def reduced(self, read: list[Any], init: Sequence[Value], accs: Sequence[Value], following: Sequence[Value],
                kept: Sequence[int], checks: Sequence[Value] = ()) -> list[Any]:
        return self.by_steps(read, list(init), accs, following, kept, None)

    def by_steps(self, read: Sequence[Any], init: Sequence[Value], accs: Sequence[Value], following: Sequence[Value],
                 kept: Sequence[int], within: Value | None) -> list[Any]:
        """Accumulators over the kept ranges; only positions `within` windows count."""
        own = Elements(self.ranges, read)
        folded = [d for d in range(len(self.ranges)) if d not in kept]
        shape = [self.ranges[d] for d in kept]
        if len(accs) == 1 and folded:
            reduction, x = reduction_of(accs[0], following[0])
            if reduction is not None and within is None and init[0].op == "const":
                found = own.whole(x)
                if reduction == "prod":
                    for d in reversed(folded):
                        found = found.prod(d)
                    return [found]
                options = {"dtype": found.dtype} if reduction == "sum" else {}
                return [find_op(reduction)(found, folded, **options)]
        count = math.prod(self.ranges[d] for d in folded)
        if count > MOST:
            raise NotImplementedError(f"a fold of {count} elements, in an op that is written out")
        leaves = {e for v in (*following, *([] if within is None else [within])) for e in walk((v,))
                  if is_read(e) or is_position(e)}
        parts = {e: own.whole(e).permute([*kept, *folded]).reshape([*shape, count]) for e in leaves}
        now = [Elements(shape, read).whole(v) for v in init]
        for t in range(count):
            known = {e: p.select(len(shape), t) for e, p in parts.items()}
            step = Elements(shape, read, {**known, **dict(zip(accs, now, strict=True))})
            after = [step.whole(v) for v in following]
            if within is not None:
                inside = step.whole(within)
                after = [find_op("where")(inside, a, b) for a, b in zip(after, now, strict=True)]
            now = after
        return now

    def folded_inside(self) -> list[Any]:
        folding = folding_of(self.of)
        kept = [d for d in range(len(self.ranges)) if d not in folding.reduced]
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        sources, windows = self.opened(own), dict(folding.windows)
        flat = position([])
        flat = type(flat)([loop(d) if d in kept else ZERO for d in range(len(self.ranges))])
        flat.checks = []
        at = position(range(len(self.ranges)))
        values = body_of(self.of)(at, sources)
        within: Value | None = None
        count: Value = ONE
        for d in self.folded_dims():
            first, past = (windows[d].bounds(flat, sources) if d in windows
                           else (ZERO, self.tensors.extent(self.ranges[d])))
            count = count * (past - first)
            if d in windows:
                here = ge(loop(d), first) & lt(loop(d), past)
                within = here if within is None else within & here
        x = cast(values[0], folding.compute)
        index = values[1] if len(values) > 1 else self.count_up(at) if folding.fold.uses_index else None
        places = {loop(d): loop(k) for k, d in enumerate(kept)}
        init = [_moved(v, places) for v in (folding.start(flat, sources) if folding.start else
                                            folding.fold.init(VOCABULARY, folding.compute))]
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)]
        following = [cast(v, a.dtype) for v, a in zip(folding.fold.step(VOCABULARY, accs, x, index), accs, strict=True)]
        is_one = len(accs) == 1 and not folding.start and reduction_of(accs[0], following[0])[0] is not None
        if within is not None and is_one:
            following, within = [_replaced(following[0], x, select(within, x, init[0]))], None
        parts = self.by_steps(own.read, init, accs, following, kept, within)

        def finish(found: Sequence[Value]) -> Any:
            done = (folding.result(flat, sources, found) if folding.result
                    else folding.fold.finish(VOCABULARY, found, count))
            done = done if isinstance(done, (tuple, list)) else (done,)
            return folding.epilogue(sources, done) if folding.epilogue is not None else done

        shape = [self.ranges[d] for d in kept]
        outs = [cast(v, code) for v, code in zip(finish(accs), self.of.outs, strict=True)]
        last = Elements(shape, own.read, dict(zip(accs, parts, strict=True)))
        return [last.whole(_moved(v, places)) for v in outs]

    def walked(self) -> list[Any]:
        walked = self.of.walk
        assert walked is not None, "it walks"
        count = self.ranges[walked.dim] if self.ranges else 1
        if count > MOST:
            raise NotImplementedError(f"a walk along {count} elements, in an op that is written out")
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        (x,) = body_of(self.of)(position(range(len(self.ranges))), self.opened(own))
        init = list(walked.init())
        accs, element = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)], var("x", x.dtype)
        shape = [n for d, n in enumerate(self.ranges) if d != walked.dim]
        elements = Elements(self.ranges, own.read).whole(x)
        now = [Elements(shape, own.read).whole(v) for v in init]
        rows: list[list[Any]] = [[] for _ in self.of.outs]
        for t in range(count):
            known = {element: elements.select(walked.dim, t) if self.ranges else elements}
            step = Elements(shape, own.read, {**known, **dict(zip(accs, now, strict=True))})
            now = [step.whole(v) for v in walked.step(accs, element, const(t, "i64"))]
            after = Elements(shape, own.read, dict(zip(accs, now, strict=True)))
            outs = zip(walked.emit(accs), self.of.outs, strict=True)
            for row, (v, code) in zip(rows, outs, strict=True):
                row.append(after.whole(cast(v, code)))
        if not self.ranges:
            return [row[0] for row in rows]
        return [find_op("stack")(row, walked.dim) for row in rows]

    def scattered(self) -> Any:
        """Values that are combined into places, one position after the other."""
        scatter = self.of.scatter
        assert scatter is not None, "it scatters"
        count = math.prod(self.ranges)
        if count > MOST:
            raise NotImplementedError(f"a scatter of {count} elements, in an op that is written out")
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        at, target, sources = position(range(len(self.ranges))), scatter.target, self.opened(own)
        sizes = [int(n) for n in target.sizes]
        first = (self.tensors.full(target.code, sizes, 0) if scatter.cleared
                 else self.tensors.reshape(self.given[0], sizes))
        out = Source(own, target.but(strides=contiguous_strides(sizes)), first)
        place, value = scatter.writes(at, out, sources)
        linear = ZERO
        for i, stride in zip(place, contiguous_strides(sizes), strict=True):
            linear = linear + cast(i, "i64") * const(stride, "i64")
        every = Elements(self.ranges, own.read)
        places, values = (every.whole(v).reshape([count]) for v in (linear, cast(value, target.code)))
        old, new = var("old", target.code), var("new", target.code)
        combined = cast(scatter.combine(old, new, sources), target.code)
        if depends(combined, [e for e in walk((combined,)) if is_position(e)]):
            raise NotImplementedError("a combination that knows where it is, in an op that is written out")
        now = first.reshape([-1])
        here = find_op("arange")(now.shape[0])
        for t in range(count):
            step = Elements([now.shape[0]], own.read, {old: now, new: values.select(0, t).reshape([1])})
            now = find_op("where")(here == places.select(0, t), step.whole(combined), now)
        return now.reshape(sizes)


def reduction_of(acc: Value, following: Value) -> tuple[str | None, Value]:
    """The reduction that a step is one of, and the element."""
    name = {"add": "sum", "mul": "prod"}.get(following.op)
    if following.op == "call":
        name = {"maximum": "amax", "minimum": "amin"}.get(str(following.attr))
    if name is None or acc not in following.args or following.dtype == "b1":
        return None, following
    x = following.args[1] if following.args[0] is acc else following.args[0]
    return (None, x) if depends(x, [acc]) else (name, x)


def _replaced(root: Value, old: Value, new: Value) -> Value:
    from ...loops.expr import replace  # noqa: PLC0415

    return replace(root, {old: new})


def _moved(root: Value, places: dict[Value, Value]) -> Value:
    """An expression with other positions."""
    from ...loops.expr import replace_all  # noqa: PLC0415

    return replace_all([root], {k: v for k, v in places.items() if k is not v})[0]


# --- nodes ------------------------------------------------------------------------------------------------------------

Op = Callable[..., Any]


def _op(name: str) -> Op:
    return lambda own, e, *args: find_op(name)(own.tensor(args[0], e.args[0].dtype), *args[1:])


def _commuting(name: str) -> Op:
    def rule(own: Elements, e: Value, a: Any, b: Any) -> Any:
        return find_op(name)(a, b) if isinstance(a, _C.Tensor) else find_op(name)(b, a)

    return rule


def _bitwise(logical: str, bits: str) -> Op:
    def rule(own: Elements, e: Value, a: Any, b: Any) -> Any:
        a, b = own.tensor(a, e.args[0].dtype), own.tensor(b, e.args[1].dtype)
        return find_op(logical if e.dtype == "b1" else bits)(a, b)

    return rule


def _extreme(compare: str) -> Op:
    def rule(own: Elements, e: Value, a: Any, b: Any) -> Any:
        a, b = own.tensor(a, e.dtype), own.tensor(b, e.dtype)
        return find_op("where")(find_op(compare)(a, b), a, b)

    return rule


def _divide(own: Elements, e: Value, a: Any, b: Any) -> Any:
    """Towards zero; by zero it gives 0."""
    a, b = own.tensor(a, e.dtype), own.tensor(b, e.dtype)
    if e.args[1].op == "const" and e.args[1].attr:
        return find_op("div")(a, b, rounding_mode="trunc") if e.op == "idiv" else find_op("fmod")(a, b)
    is_zero = b == 0
    safe = find_op("where")(is_zero, own.tensor(1, e.dtype), b)
    found = find_op("div")(a, safe, rounding_mode="trunc") if e.op == "idiv" else find_op("fmod")(a, safe)
    return find_op("where")(is_zero, own.tensor(0, e.dtype), found)


def _select(own: Elements, e: Value, condition: Any, a: Any, b: Any) -> Any:
    return find_op("where")(own.tensor(condition, "b1"), own.tensor(a, e.dtype), own.tensor(b, e.dtype))


def _cast(own: Elements, e: Value, x: Any) -> Any:
    x = own.tensor(x, e.args[0].dtype)
    if e.dtype == "b1":
        return x != 0
    return x.to(BY_CODE[e.dtype])


def _copysign(own: Elements, e: Value, a: Any, b: Any) -> Any:
    a, b = own.tensor(a, e.dtype), own.tensor(b, e.dtype)
    negative = (b < 0) | ((b == 0) & (b.reciprocal() < 0))
    return find_op("where")(negative, -a.abs(), a.abs())


def _not(own: Elements, e: Value, a: Any) -> Any:
    return find_op("logical_not" if e.dtype == "b1" else "bitwise_not")(own.tensor(a, e.dtype))


OPS: dict[str, Op] = {
    "add": _commuting("add"), "mul": _commuting("mul"), "sub": _op("sub"), "div": _op("div"), "idiv": _divide,
    "irem": _divide, "neg": _op("neg"), "abs": _op("abs"), "sqrt": _op("sqrt"), "floor": _op("floor"),
    "ceil": _op("ceil"), "trunc": _op("trunc"), "rint": _op("round"), "copysign": _copysign,
    "fma": lambda own, e, a, b, c: own.tensor(a, e.dtype) * b + c, "min": _extreme("lt"), "max": _extreme("gt"),
    "and": _bitwise("logical_and", "bitwise_and"), "or": _bitwise("logical_or", "bitwise_or"),
    "xor": _bitwise("logical_xor", "bitwise_xor"), "not": _not,
    "bitcast": lambda own, e, x: own.tensor(x, e.args[0].dtype).view(BY_CODE[e.dtype]),
    "shl": _bitwise("bitwise_left_shift", "bitwise_left_shift"),
    "shr": _bitwise("bitwise_right_shift", "bitwise_right_shift"),
    **{name: _op(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}, "select": _select, "cast": _cast,
}
FUNCTIONS = {
    **{name: name for name in (
        "exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid rsqrt "
        "pow maximum minimum atan2 exp2").split()},
    "exp_of_negative": "exp",
}

__all__ = ["whole_results"]
