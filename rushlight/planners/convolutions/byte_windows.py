"""Planning convolutions of bytes: how weights are packed, and the steps that meet them with windows.

Enters: sizes of a call, and weights as int8 tensors. Leaves: packed weights, and steps over the kernels of
codegen/library/convolution/byte_windows.py. Refuses nothing: every processor has a form.

Groups with few outputs would fill a fraction of a vector of columns, so that neighbours are taken together: one group
whose weights are zero where inputs of one meet outputs of another.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ... import _C
from ...codegen.library.convolution.byte_depthwise import (
    MOST_TAPS,
    QUAD,
    block_of,
    depthwise_kernel,
    forms_of,
    order_of,
)
from ...codegen.library.convolution.byte_finish import FINISHES, SUMS as SUMS
from ...codegen.library.convolution.byte_windows import LONG, strip_forms, windows_kernel
from ...codegen.library.products.byte_forms import ByteForm, host_form
from ...loops.record import Record
from ...op import find_op
from ...op.step import Step
from .walk import Window

WORK = 1 << 21           # multiply-adds worth an item
DEPTHWISE_WORK = 1 << 17
NEAR = 1 << 16           # bytes of windows that are packed at a time: the second-level cache holds these of all items
FAR = 1 << 19            # bytes of weights that are not there any more when the next windows want them
LINE, PAGE = 64, 4096    # bytes of a line of the cache; rows so far apart would share one


def parts_of(whole: int, part: int) -> int:
    """How many parts cover the whole; no size is made a number by it."""
    return -(-whole // part)


class Packing(Record):
    """How the weights of a convolution lie: groups (as joined), and the columns of each."""

    form: ByteForm
    groups: int
    channels: int
    outs: int
    taps: int

    @property
    def runs(self) -> int:
        """Parts of a window in which the channels of a group lie together."""
        return 1 if self.groups == 1 else self.taps

    @property
    def run(self) -> int:
        """Bytes of such a part."""
        return self.channels * (self.taps // self.runs)

    @property
    def deep(self) -> int:
        """Steps of k in a part."""
        return parts_of(self.run, self.form.group)

    @property
    def padded(self) -> int:
        """Columns of a group: whole strips, or whole vectors where strips may be narrower."""
        unit = strip_forms(self.form)[0].width
        return parts_of(self.outs, unit) * unit

    @property
    def group_bytes(self) -> int:
        return self.padded * self.runs * self.deep * self.form.group


def packing_of(groups: int, channels: int, outs: int, taps: int, form: ByteForm | None = None) -> Packing:
    """The packing for so many groups, channels and outputs of each, and taps."""
    form = form or host_form()
    joined = 1
    while groups % (2 * joined) == 0 and 2 * joined * outs <= form.columns:
        joined *= 2
    return Packing(form, groups // joined, channels * joined, outs * joined, taps)


def pack_weight(weight: Any, packing: Packing) -> Any:
    """int8 weights [outs, channels of a group, kernel...] as the kernel reads them, one dimension."""
    channels = weight.shape[1]
    joined = packing.channels // channels
    # [groups, joined, outs of each, taps, channels of each]
    w = weight.flatten(2).transpose(1, 2).reshape(packing.groups, joined, -1, packing.taps, channels)
    deep = packing.deep * packing.form.group
    if joined > 1:      # zeros where inputs of one group meet outputs of another
        pad, before = find_op("constant_pad_nd"), [j * channels for j in range(joined)]
        w = find_op("stack")([pad(w[:, j], [b, before[-1] - b]) for j, b in enumerate(before)], 1)
    wide = w.reshape(packing.groups, packing.outs, packing.runs, packing.run)
    wide = find_op("constant_pad_nd")(wide, [0, deep - packing.run, 0, 0, 0, packing.padded - packing.outs])
    width, strips = packing.form.width, []
    for first in range(0, packing.padded, width):
        part = wide[:, first : first + width]
        part = part.reshape(packing.groups, part.shape[1], -1, packing.form.group).transpose(1, 2)
        strips.append(part.reshape(packing.groups, -1))
    return find_op("cat")(strips, 1).flatten()


def spread_columns(values: Any, packing: Packing) -> Any:
    """One number for every output as the kernel reads it: zeros for columns that only fill vectors."""
    wide = values.reshape(packing.groups, packing.outs)
    return find_op("constant_pad_nd")(wide, [0, packing.padded - packing.outs]).flatten()


# --- depthwise --------------------------------------------------------------------------------------------------------


class Blocks(Record):
    """How the weights of a depthwise convolution lie: blocks of channels, the last of which ends with the last."""

    form: ByteForm
    channels: int
    taps: int

    @property
    def count(self) -> int:
        return parts_of(self.channels, block_of(self.form))

    @property
    def quads(self) -> int:
        return parts_of(self.taps, QUAD)

    def order(self) -> list[int]:
        """Which channel each column belongs to."""
        block, within = block_of(self.form), order_of(self.form)
        firsts = [min(b * block, self.channels - block) for b in range(self.count)]
        return [first + n for first in firsts for n in within]


def blocks_of(groups: int, channels: int, outs: int, taps: int, form: ByteForm | None = None) -> Blocks | None:
    """The blocks of a convolution of so many groups, channels and outputs of each; None where it is not depthwise, or
    its channels fill no block."""
    if channels != 1 or outs != 1 or taps > MOST_TAPS - QUAD:
        return None
    fits = (f for f in forms_of(form or host_form()) if block_of(f) <= groups)
    found = next(fits, None)
    return None if found is None else Blocks(found, groups, taps)


def pack_blocks(weight: Any, blocks: Blocks) -> Any:
    """int8 weights [channels, 1, kernel...] as the kernel reads them: quads of taps of each column."""
    taps = weight.flatten(1)[blocks.order()]
    wide = find_op("constant_pad_nd")(taps, [0, blocks.quads * QUAD - blocks.taps])
    # [blocks, columns of a block, quads, taps of a quad] -> quads before columns
    return wide.reshape(blocks.count, -1, blocks.quads, QUAD).transpose(1, 2).reshape(-1)


def depthwise_steps(
    blocks: Blocks, window: Window, shapes: tuple[tuple[int, ...], tuple[int, ...]], finish: str, slots: tuple[int, ...]
) -> list[Step]:
    """The steps. `slots`: activations, weights, columns (and a pixel of padding), head, result, what is added."""
    (images, channels, *sizes), (_, _, *out_sizes) = shapes
    rows = images * prod(out_sizes[:-1])
    params = [
        *geometry_of(window, tuple(sizes), tuple(out_sizes)), channels, blocks.count, blocks.quads,
        blocks.count * block_of(blocks.form),
    ]
    work = out_sizes[-1] * channels * blocks.taps
    kernel = depthwise_kernel(blocks.form, finish, blocks.taps).address
    return [Step(kernel, list(slots), params, rows, max(1, DEPTHWISE_WORK // work), -1)]


# --- windows ----------------------------------------------------------------------------------------------------------


def geometry_of(window: Window, sizes: tuple[int, ...], out_sizes: tuple[int, ...]) -> list[int]:
    """Sizes, result sizes and window along three dims; there are ones in front."""
    missing = 3 - len(sizes)
    spans = (sizes, out_sizes, window.kernel, window.stride, window.padding, window.dilation)
    return [n for k, span in enumerate(spans) for n in (*[0 if k == 4 else 1] * missing, *span)]


def tile_height(form: ByteForm, pixels: int) -> int:
    """Rows of a tile: fewer where these would leave much of the last one empty."""
    heights = [form.height, *(h for h in (form.height - 2,) if form.height >= 12)]
    return min(heights, key=lambda h: parts_of(pixels, h) * (h + 1))


def finish_of(number: int) -> str:
    """What follows sums, by the number that ops have for it."""
    return FINISHES[number]


def window_steps(
    packing: Packing, window: Window, shapes: tuple[tuple[int, ...], tuple[int, ...]], finish: str,
    slots: tuple[int, int, int, int, int, int, int],
) -> tuple[list[Step], int]:
    """The steps and the bytes of scratch memory. `shapes`: of input and result, channels second. `slots`: activations,
    weights, columns, head, scratch, result, what is added."""
    (images, channels, *sizes), (_, outs, *out_sizes) = shapes
    pixels = images * prod(out_sizes)
    form = packing.form.but(height=tile_height(packing.form, pixels))
    geometry = geometry_of(window, tuple(sizes), tuple(out_sizes))
    single = prod(window.kernel) == prod(window.stride) == 1 and not any(window.padding)
    in_place = single and packing.run % form.group == 0 and not form.signed and channels % PAGE != 0
    window_bytes = packing.taps * channels
    pitch = (parts_of((window_bytes + LONG), LINE) | 1) * LINE      # vectors may pass the last taps
    total = parts_of(pixels, form.height)
    tile = form.height * (channels if in_place else pitch)
    per = parts_of(packing.padded, form.width)
    strips = per * packing.groups
    weights = packing.group_bytes * packing.groups
    work = pixels * weights
    threads = _C.get_num_threads()
    items = max(1, min(work // WORK, 2 * threads if threads > 1 else 1))
    # weights that no cache holds are read once, by threads that share them; else threads share pixels
    is_far = weights > FAR and weights > total * tile
    blocks = 1 if is_far else min(total, items)
    block = parts_of(total, blocks)
    blocks = parts_of(total, block)
    parts = max(1, min(strips, (threads if is_far else items) // blocks))
    part = parts_of(strips, parts)
    parts = parts_of(strips, part)
    tiles = min(max(1, (FAR if is_far else NEAR) // tile), block)
    area = tiles * form.height * pitch
    params = [
        *geometry, pixels, packing.channels, channels, packing.runs, packing.deep,
        channels - packing.deep * form.group, pitch, area, packing.outs, outs, packing.padded,
        packing.padded * packing.groups, per, packing.group_bytes, tiles, block, blocks, part, parts, int(in_place),
    ]
    grain = max(1, WORK * blocks * parts // max(1, work))
    step = Step(windows_kernel(form, finish).address, list(slots), params, blocks * parts, grain, -1)
    return [step], blocks * parts * area
