"""Planning products of bytes: rows of unsigned ones times packed weights, with what follows fused
(codegen/library/products/byte_products.py).

Enters: sizes, slots. Leaves: plan steps, and weights as the kernels read them (`packed_weights`). Refuses nothing:
callers ask for CPUs only, and give rows that are consecutive.
"""

from __future__ import annotations

import struct
from typing import Any

from ... import _C
from ...codegen.library.products import byte_products, byte_rows
from ...codegen.library.products.byte_forms import ByteForm, host_form
from ...codegen.library.products.requantize import HEAD_WORDS
from ...codegen.schedule.cpu.contraction import items_for_threads
from ...loops.record import Record
from ...op.library import Room
from ...op.step import Step

WORK = 1 << 20               # multiply-adds of full tiles worth an item
LEAST_ROWS = 6               # a product of fewer rows takes as long: it waits for weights
ROW_BLOCK = 1 << 18          # bytes of rows that meet a strip of weights, in the second-level cache
ROW_GRAIN = 1 << 15          # elements of rows that a thread copies or quantizes at a time
EXTREMES = 1 << 15           # floats of a part whose extremes are found at a time
SAME_SETS = 4096             # bytes between rows, and multiples of them, that share sets of the nearest cache
FLIP = 128                   # what is taken from bytes that must be signed
KINDS = {_C.uint8: "u8", _C.int8: "u8", _C.float32: "f32", _C.int32: "i32"}


class Sizes(Record):
    """A product: rows, columns, values of k, columns with those that fill the last strip, and whether weights have
    zero points."""

    m: int
    n: int
    k: int
    padded: int
    by_row: bool


def packed_weights(weight: Any, form: ByteForm | None = None) -> tuple[Any, Any]:
    """Weights [n, k] of int8 in strips of columns, and the sums of each, which fill the last strip."""
    form = form or host_form()
    n, k = weight.shape
    strips, groups = -(-n // form.width), -(-k // form.group)
    full = weight.new_zeros(strips * form.width, groups * form.group)
    full[:n, :k] = weight
    strip = full.reshape(strips, form.width, groups, form.group).permute(0, 2, 1, 3)
    return strip.contiguous(), full.sum(1, dtype=_C.int32)


def unpacked_weights(packed: Any, n: int, k: int, form: ByteForm | None = None) -> Any:
    """The weights that were packed."""
    form = form or host_form()
    strips, groups = packed.shape[:2]
    full = packed.permute(0, 2, 1, 3).reshape(strips * form.width, groups * form.group)
    return full[:n, :k].clone()      # not a view: files keep whole storages


def strip_width() -> int:
    """Columns of a strip of packed weights, on this processor."""
    return host_form().width


def packing() -> tuple[int, int]:
    """Columns of a strip here, and values of k that lie side by side."""
    form = host_form()
    return form.width, form.group


def row_flip() -> int:
    """What is taken from the bytes of rows, and so from their zero point, before they are multiplied here."""
    return FLIP if host_form().signed else 0


def static_steps(
    room: Room, sizes: Sizes, given: Any, dtype: Any, flip: int, form: ByteForm | None = None
) -> list[Step]:
    """Slots 0 to 4: rows, of bytes or of floats (`given`) that the head's scale makes bytes of, weights, columns, head,
    result. `flip`: bytes are 128 away from what is read."""
    form = form or host_form()
    steps, rows, pitch, sums = [], 0, sizes.k, 3
    if given is _C.float32:
        pitch = pitch_of(sizes.k)
        rows, sums = staging(room, sizes, pitch)
        steps = [_rows_step("quantize_rows", [0, rows, sums, 3], sizes, pitch, flip, form)]
    elif flip or sizes.by_row or sizes.k % form.group or (sizes.k % SAME_SETS == 0 and sizes.m >= form.height):
        pitch = pitch_of(sizes.k)
        rows, sums = staging(room, sizes, pitch)
        steps = [_rows_step("stage_rows", [0, rows, sums], sizes, pitch, flip, form)]
    return [*steps, product_step(form, KINDS[dtype], [rows, 1, 2, 3, sums, 4], sizes, pitch)]


def dynamic_steps(
    room: Room, sizes: Sizes, relu: bool, largest: int, form: ByteForm | None = None
) -> list[Step]:
    """Slots 0 to 3: rows of floats, weights, columns, result. Bytes go from 0 to `largest`."""
    form = form or host_form()
    flip, count, pitch = FLIP if form.signed else 0, sizes.m * sizes.k, pitch_of(sizes.k)
    rows, sums = staging(room, sizes, pitch)
    head, parts = room.temp(_C.int32, (HEAD_WORDS,)), -(-count // EXTREMES)
    extremes, error = room.temp(_C.float32, (2 * parts,)), room.temp(_C.int64, (1,))
    low = struct.unpack("<i", struct.pack("<f", 0.0 if relu else -float("inf")))[0]
    find, choose = (byte_rows.row_kernel(name).address for name in ("find_extremes", "choose_scale"))
    return [
        Step(find, [0, extremes], [count, EXTREMES], parts, 1, -1),
        Step(choose, [extremes, head, error], [parts, largest, low, flip], 1, 1, error),
        _rows_step("quantize_rows", [0, rows, sums, head], sizes, pitch, flip, form),
        product_step(form, "f32", [rows, 1, 2, head, sums, 3], sizes, pitch),
    ]


def pitch_of(k: int) -> int:
    """Bytes between rows that are put where they suit."""
    pitch = -(-k // 64) * 64
    return pitch + 64 if pitch % SAME_SETS == 0 else pitch


def staging(room: Room, sizes: Sizes, pitch: int) -> tuple[int, int]:
    """Slots for rows and their sums."""
    return room.temp(_C.uint8, (sizes.m * pitch,)), room.temp(_C.int32, (sizes.m if sizes.by_row else 1,))


def _rows_step(name: str, operands: list[int], sizes: Sizes, pitch: int, flip: int, form: ByteForm) -> Step:
    kernel = byte_rows.row_kernel(name, sizes.by_row, form.has_fma)
    return Step(kernel.address, operands, [sizes.k, sizes.k, pitch, flip], sizes.m, max(1, ROW_GRAIN // sizes.k), -1)


def product_step(form: ByteForm, kind: str, operands: list[int], sizes: Sizes, pitch: int) -> Step:
    """Operands: rows, weights, columns, head, sums of rows, result."""
    m, n, k = sizes.m, sizes.n, sizes.k
    tiles, strips = -(-m // form.height), sizes.padded // form.width
    low, extra = divmod(m, tiles)
    work = max(m, LEAST_ROWS) * n * k
    blocks = max(1, -(-m * pitch // ROW_BLOCK))
    block = -(-tiles // min(blocks, tiles))
    blocks = -(-tiles // block)
    items = max(1, min(items_for_threads(), work // WORK))
    parts = max(1, min(strips, -(-items // blocks)))
    part = -(-strips // parts)
    parts = -(-strips // part)
    params = [n, -(-k // form.group), pitch, n, sizes.padded, extra, block, part, parts, tiles]
    kernel = byte_products.product_kernel(form, kind, low, sizes.by_row)
    return Step(kernel.address, operands, params, blocks * parts, max(1, WORK * blocks * parts // work), -1)
