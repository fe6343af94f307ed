"""Planning attention that never holds all scores: the launches of both directions.

Enters: 4-D query, key and value on the CPU whose rows are `readable`, and what the result's strides are to be. Leaves:
schedules over the nests of codegen/schedule/cpu/attention.py and attention_backward.py, with copies of operands whose
rows lie badly; for half types those of tiles.py. Refuses nothing: definitions ask before.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.assertions import sym_sqrt
from ...codegen.schedule.cpu.attention import Cut, dense_nest, forward_nest
from ...codegen.schedule.cpu.attention_backward import backward_nest, inner_nest
from ...codegen.schedule.forms.launch import Launch, Schedule, Temp
from . import tiles

WORK, COPIES = 1 << 17, 1 << 15 # multiply-adds, and elements copied, worth a chunk
ITEMS = 8                       # blocks of queries there should be, for threads to share
FEW_QUERIES = 3                 # up to which each reads keys and values for itself
FEW_ROWS = 16                   # of which copying costs more than reading them far apart
WHOLE = ("f32", "f64")          # types that vectors multiply; halves go to tile registers
NESTS: dict[str, Callable[..., Any]] = {
    "forward": forward_nest, "backward": backward_nest, "inner": inner_nest, "dense": dense_nest,
}


def launch(key: tuple, operands: Sequence[int], params: Sequence[int], extent: int, grain: int) -> Launch:
    """A kernel of NESTS, named by the first part of its key."""
    return Launch(key, functools.partial(NESTS[key[0]], *key[1:]), tuple(operands), tuple(params), extent, grain)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a call and what follows from them."""

    batch: int
    heads: int          # of key and value
    group: int          # query heads that share one of them
    length: int
    keys: int
    width: int
    value_width: int
    causal: bool
    scale: float
    code: str
    mask: str | None

    @staticmethod
    def of(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None) -> Sizes:
        batch, heads, length, width = query.shape
        own, keys = key.shape[1:3]
        factor = 1.0 / sym_sqrt(width) if scale is None else scale
        return Sizes(
            batch,
            own,
            heads // own,
            length,
            keys,
            width,
            value.shape[3],
            causal,
            factor,
            query.dtype.code,
            None if mask is None else mask.dtype.code,
        )


def bits_of(number: float) -> int:
    """A double as the integer a parameter is."""
    return struct.unpack("<q", struct.pack("<d", number))[0]


def readable(t: Any) -> bool:
    """Whether products can read the rows of `t`: elements side by side, rows apart, nothing repeated."""
    (batch, heads, rows, cols), (by_batch, by_head, by_row, by_col) = t.shape, t.stride()
    return (
        (by_col == 1 or cols == 1)
        and (by_row >= cols or rows == 1)
        and (by_batch > 0 or batch == 1)
        and (by_head > 0 or heads == 1)
    )


def rows_of(t: Any) -> tuple[int, ...]:
    """Strides of `t`, with a row stride a product accepts where there is one row only."""
    a, b, row, col = t.stride()
    return (a, b, max(row, t.shape[-1]), col)


def mask_strides(mask: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the mask as if it had the scores' shape."""
    return (0, 0, 0, 0) if mask is None else tuple(mask.expand(shape).stride())


class Heads:
    """Operands of a schedule in the making: where rows lie, and copies of those that products cannot read there."""

    def __init__(self, sizes: Sizes, next_slot: int) -> None:
        self.sizes, self.next_slot = sizes, next_slot
        self.temps: list[Temp] = []
        self.launches: list[Launch] = []

    def whole(self, t: Any, slot: int) -> tuple[int, tuple]:
        """Slot and strides of `t` with rows of whole vectors, side by side: copied if they are not and are many."""
        lanes = Cut(self.sizes.code).lanes
        batch, heads, length, width = t.shape
        if width % lanes == 0 and (length < FEW_ROWS or t.stride(2) == width):
            return slot, rows_of(t)[:3]
        row = -(-width // lanes) * lanes
        params = [heads, length, width, *rows_of(t)[:3], row]
        grain = max(1, COPIES // (length * row))
        self.launches.append(launch(("dense", self.sizes.code), [slot, self.next_slot], params, batch * heads, grain))
        self.temps.append(Temp(self.sizes.code, (batch, heads, length, row)))
        self.next_slot += 1
        return self.next_slot - 1, (heads * length * row, length * row, row)


def query_blocks(s: Sizes) -> tuple[int, int]:
    """Rows of a block of queries, and how many blocks there are: a few for threads to share, where heads are few."""
    cut = Cut(s.code)
    strips = -(-s.length // cut.height)
    wanted = -(-ITEMS // (s.batch * s.heads * s.group))
    blocks = max(-(-strips // cut.strips), min(wanted, -(-strips // cut.group)))
    block = -(-strips // blocks) * cut.height
    return block, -(-s.length // block)


def forward_schedule(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None, result: tuple[int, ...]
) -> Schedule:
    """Attention and the logarithms of its summed exponentials; `result`: the strides of the former."""
    s = Sizes.of(query, key, value, mask, is_causal, scale)
    if s.code not in WHOLE:
        return tiles.forward_schedule(query, key, value, mask, s, result)
    first = 4 if mask is not None else 3
    heads = Heads(s, first + 2)
    form = "rows" if s.length <= FEW_QUERIES else "tiles"
    value_slot, value_strides = (2, rows_of(value)[:3]) if form == "rows" else heads.whole(value, 2)
    block, blocks = (1, s.length) if form == "rows" else query_blocks(s)
    params = [s.heads * s.group, s.group, s.length, s.keys, s.width, s.value_width, block, blocks, bits_of(s.scale)]
    params += [*rows_of(query)[:3], *rows_of(key)[:3], *value_strides, *result[:3]]
    params += mask_strides(mask, (*query.shape[:3], s.keys)) if mask is not None else ()
    work = block * s.keys * (s.width + s.value_width)
    operands, extent = (0, 1, value_slot, *range(3, first + 2)), s.batch * s.heads * s.group * blocks
    forward = launch(("forward", s.code, s.causal, s.mask, form), operands, params, extent, max(1, WORK // work))
    return Schedule((*heads.launches, forward), tuple(heads.temps))


def backward_schedule(
    tensors: tuple, mask: Any, is_causal: bool, scale: float | None, results: list[tuple[int, ...]]
) -> Schedule:
    """The gradients, from (gradient, query, key, value, result); `results`: strides of rows of the gradients."""
    grad, query, key, value, out = tensors
    s = Sizes.of(query, key, value, mask, is_causal, scale)
    if s.code not in WHOLE:
        return tiles.backward_schedule(tensors, mask, s, results)
    first = 7 if mask is not None else 6
    inner, count = first + 3, s.batch * s.heads * s.group
    sums = [s.heads * s.group, s.length, s.value_width, *rows_of(grad)[:3], *rows_of(out)[:3]]
    grain = max(1, COPIES // (s.length * s.value_width))
    inner_sums = launch(("inner", s.code), [0, 4, inner], sums, count, grain)
    heads = Heads(s, inner + 1)
    given = [heads.whole(t, slot) for slot, t in enumerate((grad, query, key))]
    params = [s.heads, s.group, s.length, s.keys, s.width, s.value_width, bits_of(s.scale)]
    places = [*[p for _, p in given], rows_of(value)[:3], *results]
    params += [stride for place in places for stride in place]
    params += mask_strides(mask, (*query.shape[:3], s.keys)) if mask is not None else ()
    work = s.group * s.length * s.keys * (s.width + s.value_width)
    operands = [*[slot for slot, _ in given], 3, 5, inner, *([] if mask is None else [6]), *range(first, first + 3)]
    key = ("backward", s.code, s.causal, s.mask)
    backward = launch(key, operands, params, s.batch * s.heads, max(1, WORK // work))
    temps = (Temp(s.code, tuple(query.shape[:3])), *heads.temps)
    return Schedule((*heads.launches, inner_sums, backward), temps)
