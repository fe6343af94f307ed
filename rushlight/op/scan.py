"""Scans: a running state along one dim, with an output for every element.

Enters: a definition with `init`, `step` and `emit` over a tuple of accumulators. Leaves: one kernel that walks `dim`
in order; other dims are divided among threads and, where the contiguous dim is among them, put on lanes.
Refuses: dims out of range.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..loops.expr import Value, cast, const, idiv, irem, load, min_, var
from ..loops.nest import Assign, For, Local, Nest, Store, operands, rows
from .definition import KIND_PLANNED, OpDefinition
from .pointwise import compile_for, scalars
from .reduction import GRAIN, Types, as_step, product
from .results import result_type
from .view import wrap_dim

ZERO = const(0, "i64")


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
            steps.append(self.step_for(input, dim, types))
        return _C.Plan(1, input.device, slots, steps, len(slots) == 1, wrap)

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
