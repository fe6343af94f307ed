"""Scans: a running state along one dim, with an output for every element.

Enters: a definition with `init`, `step` and `emit` over a tuple of accumulators. Leaves: one kernel that walks `dim`
in order; other dims are divided among threads and, where the contiguous dim is among them, put on lanes. With `merge`,
a few long rows are divided too, in chunks that depend on sizes alone.
Refuses: dims out of range.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..loops.expr import Value, cast, const, idiv, irem, load, min_, var
from ..loops.nest import Assign, For, Local, Nest, Store, operands, reduction, rows
from .definition import KIND_PLANNED, OpDefinition
from .pointwise import BY_CODE, compile_for, scalars
from .reduction import GRAIN, Types, as_step, product
from .results import result_type
from .view import wrap_dim

ZERO = const(0, "i64")
CHUNK = 65536            # elements of a long row that one thread folds at a time


class Scan(OpDefinition):
    """A definition that accumulates along `dim` and keeps every intermediate result."""

    kind = KIND_PLANNED
    uses_index: ClassVar[bool] = False

    def types(self, input: Any, *args: Any) -> Types:
        """Dtypes elements are read as, computed in and stored as."""
        raise NotImplementedError

    def init(self, s: Any, code: str) -> tuple[Value, ...]:
        """Accumulators before the first element."""
        raise NotImplementedError

    def step(self, s: Any, acc: tuple[Value, ...], x: Value, index: Value) -> tuple[Value, ...]:
        """Accumulators after one more element."""
        raise NotImplementedError

    def emit(self, s: Any, acc: tuple[Value, ...]) -> tuple[Value, ...]:
        """Outputs for the element just seen."""
        return acc

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def plan(self, args: tuple) -> Any:
        if self.is_inplace:
            return None
        input = args[0]
        dim = wrap_dim(self.name, args[1], input.ndim)
        types = self.types(*args)
        shape = tuple(input.shape)
        slots = [("new", d, shape, None, 0, 0) for d in types.outs]
        wrap = result_type(self.spec.name, self.spec.return_names) if self.spec.return_names else None
        steps = []
        if input.device.type != "meta" and 0 not in shape:
            steps = self.chunked_steps(input, dim, types, slots) or [self.step_for(input, dim, types)]
        return _C.Plan(1, input.device, slots, steps, len(types.outs) == 1, wrap)

    def step_for(self, input: Any, dim: int, types: Types) -> tuple:
        shape, strides = input.shape or (1,), input.stride() or (1,)
        before = [(n, s) for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
        after = [(n, s) for n, s in zip(shape[dim + 1 :], strides[dim + 1 :], strict=True) if n != 1]
        lane = after.pop() if after else None
        others = before + after
        dense = lane is None and strides[dim] == 1   # neighbours in memory: no multiplications in the walk
        key = (len(before), len(after), lane is not None, dense, input.dtype.code, types, input.device.type)
        kernel = self.kernels.get(key)
        if kernel is None:
            nest = self.nest(len(before), len(after), lane is not None, dense, input.dtype.code, types)
            kernel = self.kernels[key] = as_step(compile_for(input.device, nest))
        inner = product(n for n, _ in after) * (lane[0] if lane else 1)
        params = [n for n, _ in others] + [s for _, s in others] + [shape[dim], strides[dim], inner]
        extent = product(n for n, _ in others)
        work = shape[dim]
        if lane:
            width = max(64, GRAIN // max(1, work) // 64 * 64)
            blocks = -(-lane[0] // width)
            params += [*lane, width, blocks]
            extent *= blocks
            work *= min(width, lane[0])
        return (kernel, list(range(1 + len(types.outs))), params, extent, max(1, GRAIN // max(1, work)), -1)

    # One long row: chunks are folded side by side, then walked, each from where the one before it ends ------------------------

    def merge(self, s: Any, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, ...]:
        """Accumulators of a run from those of its two halves, whatever the halves: products would overflow on their own.

        Scans without one walk long rows on one thread.
        """
        raise NotImplementedError

    def chunked_steps(self, input: Any, dim: int, types: Types, slots: list) -> list:
        """Steps for a few long dense rows; none where rows are many, short or strided, or halves cannot be merged."""
        shape, strides = input.shape, input.stride()
        rows_, length = product(shape[:dim]), shape[dim] if shape else 1
        far = [s for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
        if type(self).merge is Scan.merge or length < 4 * CHUNK or rows_ > 2 or strides[dim] != 1 or product(shape[dim + 1 :]) != 1 or len(types.outs) != 1:
            return []
        key = ("chunks", input.dtype.code, types)
        kernels = self.kernels.get(key)
        if kernels is None:
            kernels = self.kernels[key] = [as_step(compile_for(input.device, nest)) for nest in self.chunk_nests(input.dtype.code, types)]
        chunks = -(-length // CHUNK)
        params = [length, chunks, far[0] if far else 0]
        place = 1 + len(slots)
        slots.append(("temp", BY_CODE[types.compute], (rows_ * chunks,), None, 0, 0))
        first, second, third = kernels
        return [
            (first, [0, place], params, rows_ * chunks, 1, -1),
            (second, [place], params, rows_, 1, -1),
            (third, [0, place, 1], params, rows_ * chunks, 1, -1),
        ]

    def chunk_nests(self, code: str, types: Types) -> tuple[Nest, Nest, Nest]:
        i, j, chunks = var("i"), var("j"), var("chunks")
        row, chunk = idiv(i, chunks), irem(i, chunks)
        start = chunk * const(CHUNK, "i64")
        stop = min_(start + const(CHUNK, "i64"), var("length"))
        x = cast(cast(load(0, row * var("row") + j, code), types.read), types.compute)
        init = list(self.init(scalars, types.compute))
        params = ("length", "chunks", "row")

        def joined(a: list[Value], b: list[Value]) -> list[Value]:
            return list(self.merge(scalars, tuple(a), tuple(b)))

        fold = reduction("j", start, stop, ["acc"], init, lambda acc: list(self.step(scalars, tuple(acc), x, j)), joined)
        first = Nest(f"{self.spec.name}_fold", operands([code], [types.compute]), params, rows(fold, Store(1, i, var("acc", types.compute))))
        at, now = i * chunks + j, var("now", types.compute)
        step = (Local("here", load(0, at, types.compute)), Store(0, at, now), Assign("now", joined([now], [var("here", types.compute)])[0]))
        second = Nest(f"{self.spec.name}_starts", operands([], [types.compute]), params, rows(Local("now", init[0]), For("j", ZERO, chunks, step)))
        out = types.outs[0].code
        following = self.step(scalars, (now,), x, j)[0]
        store = Store(2, row * var("length") + j, cast(self.emit(scalars, (now,))[0], out))
        walk = For("j", start, stop, (Assign("now", following), store))
        third = Nest(f"{self.spec.name}_chunks", operands([code, types.compute], [out]), params, rows(Local("now", load(1, i, types.compute)), walk))
        return first, second, third

    def nest(self, before: int, after: int, has_lane: bool, dense: bool, code: str, types: Types) -> Nest:
        """Outer loop over the other dims, a vector loop over lanes if any, the walk along `dim` inside."""
        count = before + after
        sizes, strides = [f"n{k}" for k in range(count)], [f"s{k}" for k in range(count)]
        params = [*sizes, *strides, "length", "stride", "inner"]
        item = var("i")
        if has_lane:
            params += ["lanes", "lane_stride", "width", "blocks"]
            block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
        # Output positions: [before..., dim, after..., lane], contiguous; `inner` elements follow each step along dim.
        read, inside, step = ZERO, ZERO, var("lanes") if has_lane else const(1, "i64")
        rest = item
        for k in range(count - 1, before - 1, -1):
            at = rest if k == 0 else irem(rest, var(sizes[k]))
            rest = rest if k == 0 else idiv(rest, var(sizes[k]))
            read, inside, step = read + at * var(strides[k]), inside + at * step, step * var(sizes[k])
        write = inside + (ZERO if before == 0 else rest * var("length") * var("inner"))
        for k in range(before - 1, -1, -1):
            at = rest if k == 0 else irem(rest, var(sizes[k]))
            rest = rest if k == 0 else idiv(rest, var(sizes[k]))
            read = read + at * var(strides[k])
        head = [Local("read", read), Local("write", write)]
        place = var("write") + (var("j") if dense else var("j") * var("inner"))
        source = var("read") + (var("j") if dense else var("j") * var("stride"))
        if has_lane:
            place, source = place + var("v"), source + var("v") * var("lane_stride")
        walk = self.walk(code, types, source, place)
        if has_lane:
            first = block * var("width")
            walk = [For("v", first, min_(first + var("width"), var("lanes")), tuple(walk), vector=True)]
        return Nest(self.spec.name, operands([code], [d.code for d in types.outs]), tuple(params), rows(*head, *walk))

    def walk(self, code: str, types: Types, source: Value, place: Value) -> list:
        first = self.init(scalars, types.compute)
        names = [f"acc{k}" for k in range(len(first))]
        now = tuple(var(n, v.dtype) for n, v in zip(names, first, strict=True))
        x = cast(cast(load(0, source, code), types.read), types.compute)
        following = self.step(scalars, now, x, var("j"))
        body = [Local(f"next{k}", v) for k, v in enumerate(following)]
        body += [Assign(n, var(f"next{k}", v.dtype)) for k, (n, v) in enumerate(zip(names, first, strict=True))]
        body += [Store(1 + k, place, cast(v, d.code)) for k, (v, d) in enumerate(zip(self.emit(scalars, now), types.outs, strict=True))]
        return [*[Local(n, v) for n, v in zip(names, first, strict=True)], For("j", ZERO, var("length"), tuple(body))]
