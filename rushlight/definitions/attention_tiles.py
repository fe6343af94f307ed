"""Attention of bfloat16 on processors with tile registers: the launches of its plans.

Enters: what the ops of attention_flash.py get on the CPU, without a mask, heads of at most 128 elements. Leaves:
schedules: operands packed in blocks, then the kernel over them (codegen/tile_attention.py and
tile_attention_backward.py). Refuses: nothing, but `fits` says what has no such plan: all else is computed in float32.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base.shape import is_below
from ..codegen import tile_attention, tile_attention_backward
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


def fits(query: Any, value: Any, mask: Any) -> bool:
    """Whether tiles serve such tensors."""
    past = tile_attention.WIDEST + 1
    return (
        query.dtype is _C.bfloat16
        and mask is None
        and is_below(query.shape[3], past)
        and is_below(value.shape[3], past)
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


def forward_schedule(query: Any, key: Any, value: Any, sizes: Any, out: tuple[int, ...]) -> Schedule:
    """Slots are query, key, value, result, logarithms; `out` are strides of the result."""
    s, packs = sizes, Packs(5)
    places = packs.pack(key, 1, "rows") + packs.pack(query, 0, "words") + packs.pack(value, 2, "turned")
    heads, blocks = s.heads * s.group, ceil(s.length)
    params = [heads, s.group, s.length, s.keys, s.value_width, blocks, ceil(s.keys), ceil(s.width)]
    params += [ceil(s.value_width), int(s.causal), *number_bits(float(s.scale)), *out[:3]]
    grain = max(1, WORK // (BLOCK * s.keys * (s.width + s.value_width)))
    launch = written("forward", [*places, 3, 4], params, s.batch * heads * blocks, grain)
    return Schedule((*packs.launches, launch), tuple(packs.temps))


def backward_schedule(tensors: tuple, sizes: Any, outs: list[tuple[int, ...]]) -> Schedule:
    """Slots are gradient, query, key, value, result, logarithms, gradients of query, key and value; `outs` are the
    strides of the last three."""
    grad, query, keys, value, out = tensors
    s, packs = sizes, Packs(9)
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
    params += [ceil(s.value_width), int(s.causal), *number_bits(float(s.scale)), *(n for o in outs for n in o[:3])]
    grain = max(1, WORK // (s.group * s.length * s.keys * (s.width + s.value_width)))
    launch = written("backward", [*places, 5, inner, sums, 6, 7, 8], params, s.batch * s.heads, grain)
    return Schedule((*packs.launches, inner_sums, launch), tuple(packs.temps))
