"""Attention of bfloat16 on processors with tile registers: the launches of its plans.

Enters: what the ops of attention_flash.py get on the CPU, heads of at most 128 elements. Leaves:
schedules: operands packed in blocks, then the kernel over them (codegen/tile_attention.py and
tile_attention_backward.py). Refuses: nothing, but `fits` says what has no such plan: all else is computed in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import _C
from ..base.shape import is_below
from ..codegen import tile_attention, tile_attention_backward
from ..codegen.schedule.cpu_attention import turned_mask_nest
from ..codegen.schedule.cpu_attention_backward import inner_nest
from ..codegen.schedule.launch import Launch, Schedule, Temp, number_bits
from ..codegen.tiles import BLOCK
from ..op.gemm import has_tiles

COPIES = 1 << 15  # elements packed, worth a chunk
WORK = 1 << 20  # multiply-adds worth one
NESTS = {
    "pack": tile_attention.pack_nest,
    "forward": tile_attention.forward_nest,
    "backward": tile_attention_backward.backward_nest,
}


def fits(query: Any, value: Any) -> bool:
    """Whether tiles serve such tensors. Values of another width than queries are left to float32, which is what
    PyTorch computes these in: weights rounded to bfloat16 would be less exact."""
    return (
        query.dtype is _C.bfloat16
        and is_below(query.shape[3], tile_attention.WIDEST + 1)
        and query.shape[3] == value.shape[3]
        and has_tiles()
    )


def ceil(n: Any) -> Any:
    """Blocks that hold so many rows or elements."""
    return -(-n // BLOCK)


def written(name: str, operands: list[int], params: list[Any], extent: Any, grain: Any) -> Launch:
    return Launch(("tiles", name), NESTS[name], tuple(operands), tuple(params), extent, grain)


class Packs:
    """Operands packed in the making: launches, and the temporaries they fill."""

    def __init__(self, next_slot: int) -> None:
        self.next_slot = next_slot
        self.launches: list[Launch] = []
        self.temps: list[Temp] = []

    def temp(self, code: str, *sizes: Any) -> int:
        self.temps.append(Temp(code, sizes))
        self.next_slot += 1
        return self.next_slot - 1

    def pack(self, t: Any, slot: int, *orders: str) -> list[int]:
        """Slots of the rows of `t` in each order."""
        batch, heads, rows, width = t.shape
        count = batch * heads * ceil(rows)
        places = {order: self.temp("bf16", count, ceil(width), BLOCK, BLOCK) for order in orders}
        wanted = [int(order in orders) for order in tile_attention.ORDERS]
        operands = [slot, *(places.get(order, slot) for order in tile_attention.ORDERS)]
        params = [heads, rows, width, *t.stride()[:3], *wanted]
        grain = max(1, COPIES // (BLOCK * width))
        self.launches.append(written("pack", operands, params, count, grain))
        return [places[order] for order in orders]


    def mask(self, mask: Any, slot: int, other: int, sizes: Any) -> tuple[int, list[Any]]:
        """The slot of the turned mask, `other` where there is none, and what kernels are told of it. Batches, heads and
        queries that share a mask share it turned."""
        if mask is None:
            return other, [0, 0, 0, 0]
        missing = 4 - mask.ndim
        steps = (*(0,) * missing, *[0 if n == 1 else step for n, step in zip(mask.shape, mask.stride(), strict=True)])
        wanted = (sizes.batch, sizes.heads * sizes.group, sizes.length)
        batch, heads, rows = (1 if step == 0 else n for n, step in zip(wanted, steps, strict=False))
        blocks_q, blocks_k = ceil(rows), ceil(sizes.keys)
        count = batch * heads * blocks_q
        place = self.temp("f32", count, blocks_k, BLOCK, BLOCK)
        code, params = mask.dtype.code, [heads, rows, sizes.keys, blocks_q, blocks_k, *steps]
        nest = functools.partial(turned_mask_nest, code, BLOCK)
        grain = max(1, COPIES // (BLOCK * sizes.keys))
        self.launches.append(Launch(("turned mask", code), nest, (slot, place), tuple(params), count, grain))
        apart = [heads * blocks_q * blocks_k, blocks_q * blocks_k, blocks_k]
        return place, [1, *(0 if step == 0 else n for n, step in zip(apart, steps, strict=False))]


def forward_schedule(query: Any, key: Any, value: Any, mask: Any, sizes: Any, out: tuple[int, ...]) -> Schedule:
    """Slots are query, key, value, the mask if there is one, result, logarithms; `out` are strides of the result."""
    s, first = sizes, 3 if mask is None else 4
    packs = Packs(first + 2)
    places = packs.pack(key, 1, "rows") + packs.pack(query, 0, "words") + packs.pack(value, 2, "turned")
    heads, blocks = s.heads * s.group, ceil(s.length)
    params = [heads, s.group, s.length, s.keys, s.value_width, blocks, ceil(s.keys), ceil(s.width)]
    mask_slot, mask_params = packs.mask(mask, 3, 0, s)
    params += [ceil(s.value_width), int(s.causal), *number_bits(float(s.scale)), *mask_params, *out[:3]]
    grain = max(1, WORK // (BLOCK * s.keys * (s.width + s.value_width)))
    launch = written("forward", [*places, mask_slot, first, first + 1], params, s.batch * heads * blocks, grain)
    return Schedule((*packs.launches, launch), tuple(packs.temps))


def backward_schedule(tensors: tuple, mask: Any, sizes: Any, outs: list[tuple[int, ...]]) -> Schedule:
    """Slots are gradient, query, key, value, result, logarithms, the mask if there is one, gradients of query, key and
    value; `outs` are the strides of the last three."""
    grad, query, keys, value, out = tensors
    s, first = sizes, 6 if mask is None else 7
    packs = Packs(first + 3)
    places = packs.pack(keys, 2, "rows", "turned") + packs.pack(value, 3, "rows")
    places += packs.pack(query, 1, "words", "pairs") + packs.pack(grad, 0, "words", "pairs")
    heads, blocks = s.heads * s.group, ceil(s.length)
    inner = packs.temp("f32", s.batch, heads, s.length)
    sums = packs.temp("f32", s.batch * heads * blocks, ceil(s.width), BLOCK, BLOCK)
    given = [heads, s.length, s.value_width, *grad.stride()[:3], *out.stride()[:3]]
    grain = max(1, COPIES // (s.length * s.value_width))
    inner_sums = Launch(
        ("inner", "bf16"), lambda: inner_nest("bf16"), (0, 4, inner), tuple(given), s.batch * heads, grain
    )
    params = [s.heads, s.group, s.length, s.keys, s.width, s.value_width, blocks, ceil(s.keys), ceil(s.width)]
    mask_slot, mask_params = packs.mask(mask, 6, 0, s)
    params += [ceil(s.value_width), int(s.causal), *number_bits(float(s.scale)), *mask_params]
    params += [stride for strides in outs for stride in strides[:3]]
    grain = max(1, WORK // (s.group * s.length * s.keys * (s.width + s.value_width)))
    operands = [*places, mask_slot, 5, inner, sums, *range(first, first + 3)]
    launch = written("backward", operands, params, s.batch * s.heads, grain)
    return Schedule((*packs.launches, inner_sums, launch), tuple(packs.temps))
