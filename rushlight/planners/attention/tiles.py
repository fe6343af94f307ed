"""Attention of bfloat16 on processors with tile registers: the launches of its plans.

Enters: what the ops of definitions/attention/flash.py get on the CPU, heads of at most 128 elements. Leaves:
schedules: operands packed in blocks, then the kernel over them (codegen/library/attention/forward.py and
attention/backward.py). Refuses: nothing, but `fits` says what has no such plan: all else is computed in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ...base.shape import is_below
from ...codegen.library.attention import backward as tile_attention_backward, forward as tile_attention
from ...codegen.schedule.cpu.attention import turned_mask_nest
from ...codegen.schedule.cpu.attention_backward import inner_nest
from ...codegen.schedule.forms.launch import Launch, Schedule, Temp, number_bits
from ...codegen.tiles.tiles import BLOCK
from ..products.tiles import has_tiles

HEADS = 16             # as many as threads, mostly
COPIES = 1 << 15  # elements packed, worth a chunk
WORK = 1 << 20  # multiply-adds worth one
NESTS = {
    "pack": tile_attention.pack_nest,
    "forward": tile_attention.forward_nest,
    "backward": tile_attention_backward.backward_nest,
    "held forward": tile_attention.held_forward_nest,
    "held backward": tile_attention_backward.held_backward_nest,
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


def is_held(s: Any, count: int) -> bool:
    """Whether a thread can pack and hold so many operands of a head itself, and there are enough heads to share."""
    most = (max(s.length, s.keys) + BLOCK - 1) * ceil(s.width) * BLOCK * 2
    return most * count <= tile_attention.HELD and s.batch * s.heads >= HEADS


def forward_schedule(query: Any, key: Any, value: Any, mask: Any, sizes: Any, out: tuple[int, ...]) -> Schedule:
    """Slots are query, key, value, the mask if there is one, result, logarithms; `out` are strides of the result."""
    s, first = sizes, 3 if mask is None else 4
    packs, heads = Packs(first + 2), sizes.heads * sizes.group
    mask_slot, mask_params = packs.mask(mask, 3, 0, s)
    blocks = [ceil(n) for n in (s.length, s.keys, s.width, s.value_width)]
    params = [heads, s.group, s.length, s.keys, s.value_width, *blocks, int(s.causal), *number_bits(float(s.scale))]
    params += [*mask_params, *out[:3]]
    work, results = s.keys * (s.width + s.value_width), [mask_slot, first, first + 1]
    if is_held(s, 3):
        params += [s.width, *(stride for t in (key, query, value) for stride in t.stride()[:3])]
        grain = max(1, WORK // (s.length * work))
        launch = written("held forward", [1, 0, 2, *results], params, s.batch * heads, grain)
    else:
        places = packs.pack(key, 1, "rows") + packs.pack(query, 0, "words") + packs.pack(value, 2, "turned")
        grain = max(1, WORK // (BLOCK * work))
        launch = written("forward", [*places, *results], params, s.batch * heads * blocks[0], grain)
    return Schedule((*packs.launches, launch), tuple(packs.temps))


def backward_schedule(tensors: tuple, mask: Any, sizes: Any, outs: list[tuple[int, ...]]) -> Schedule:
    """Slots are gradient, query, key, value, result, logarithms, the mask if there is one, gradients of query, key and
    value; `outs` are the strides of the last three."""
    grad, query, keys, value, out = tensors
    s, first = sizes, 6 if mask is None else 7
    packs, heads = Packs(first + 3), sizes.heads * sizes.group
    inner = packs.temp("f32", s.batch, heads, s.length)
    given = [heads, s.length, s.value_width, *grad.stride()[:3], *out.stride()[:3]]
    grain = max(1, COPIES // (s.length * s.value_width))
    key = ("inner", "bf16")
    inner_sums = Launch(key, lambda: inner_nest("bf16"), (0, 4, inner), tuple(given), s.batch * heads, grain)
    mask_slot, mask_params = packs.mask(mask, 6, 0, s)
    blocks = [ceil(n) for n in (s.length, s.keys, s.width, s.value_width)]
    params = [s.heads, s.group, s.length, s.keys, s.width, s.value_width, *blocks, int(s.causal)]
    params += [*number_bits(float(s.scale)), *mask_params, *(stride for strides in outs for stride in strides[:3])]
    results = range(first, first + 3)
    if s.group == 1 and is_held(s, len(tile_attention_backward.HELD_SIZES)):
        params += [stride for t in (keys, value, query, grad) for stride in t.stride()[:3]]
        name, operands = "held backward", [2, 3, 1, 0, mask_slot, 5, inner, *results]
    else:
        places = packs.pack(keys, 2, "rows", "turned") + packs.pack(value, 3, "rows")
        places += packs.pack(query, 1, "words", "pairs") + packs.pack(grad, 0, "words", "pairs")
        sums = packs.temp("f32", s.batch * heads * blocks[0], blocks[2], BLOCK, BLOCK)
        name, operands = "backward", [*places, mask_slot, 5, inner, sums, *results]
    grain = max(1, WORK // (s.group * s.length * s.keys * (s.width + s.value_width)))
    launch = written(name, operands, params, s.batch * s.heads, grain)
    return Schedule((*packs.launches, inner_sums, launch), tuple(packs.temps))
