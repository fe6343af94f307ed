"""Planning matrix products: which kernel, which strides, how batches are shared between threads.

Enters: geometries of the operands. Leaves: plan steps over a BLAS (found in the `scipy-openblas64` package, opened at
the first product) or, for small sizes and types no BLAS knows, over a generated kernel. Refuses: operands whose
layout neither can read; callers make those contiguous first.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any

from ... import _C
from ...base.show import is_shown, show
from ...codegen.library import transpose
from ...codegen.library.products import few_rows, tiled_products
from ...codegen.schedule import schedule
from ...codegen.schedule.cpu.contraction import CHUNK, is_tiled, schedule_contraction
from ...codegen.schedule.forms.launch import grain_of
from ...codegen.schedule.forms.wishes import NONE, Wishes
from ...codegen.text.targets import vector_bits
from ...devices import handlers
from ...loops import expr
from ...loops.contraction import ADDING, contraction, with_addend
from ...loops.lowered import Folding, Lowered, Memory
from ...loops.nest import For, Local, Nest, Statement, Store, operands, pointwise_nest, reduction, rows
from ...loops.record import Record
from ...loops.show_lowered import show_lowered
from ...loops.sizes import larger, smaller
from ...op.library import Room
from ...op.pack import BY_CODE, as_step, compile_for, lowered_steps, packed, packer
from ...op.step import Step
from . import blas
from .padded import Matrix, padded_steps

SMALL = 32 * 32 * 32            # multiply-adds below which the generated kernel beats a BLAS call
TINY, MANY_TINY = 4, 16         # sizes up to which a product of many has a kernel of its own, and how many these are
MANY_VECTORS = 2048             # and from which those of many vectors are sums, not products that fill no vector
IN_CACHE = 1 << 20              # multiply-adds up to which packing operands, as a BLAS does, costs more than it gains
# up to here the matrices of a batch go one to a thread, beyond threads share the rows of each
SHARED = 1 << 27
MASKED_FROM = 1 << 12           # multiply-adds from which columns that fill half a vector have tiles with masks

SIZES = {"f32": 4, "f64": 8}
# multiply-adds up to which a transposed right operand is packed here rather than by a BLAS
PACKED = 1 << 27
PACKED_ROWS = 4                 # rows from which that pays
PACKED_PART = 1 << 20           # multiply-adds a thread takes at a time
ROW_BLOCK = 128                 # rows of a tall left operand that meet every strip before the next ones are read

FROM_MEMORY = 1 << 20           # bytes of a matrix that meets one vector from which reading it is all that takes time
ROWS_FROM_MEMORY = {128: 4096, 512: 1024}     # bytes of its rows from which such a matrix is read row by row
ALONE_CHUNK = 1 << 18           # multiply-adds worth a part of a product with one row, which waits for memory
# elements of the right operand from which few rows have kernels of their own: its rows are runs, or its columns
FEW_ROWS_FROM = (1 << 15, 1 << 11)

_small_kernels: dict[tuple, Any] = {}
_copy_kernels: dict[tuple, Any] = {}
_product_kernels: dict[tuple, Any] = {}


def explain(code: str, m: int, n: int, k: int, batch: int, why: str) -> None:
    """RUSHLIGHT_SHOW=lowered: which kernel a product takes that is not scheduled from its Lowered, and why."""
    if is_shown("lowered"):
        show("lowered", "product", f"extern: {batch} x [{m}, {k}] @ [{k}, {n}] of {code}: {why}")


def steps(
    code: str,
    device: Any,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> list[Step] | None:
    """Steps computing c = alpha * a @ b + beta * c, or None if a layout needs a copy first,
    or the device has its own matmul."""
    if device.type == "meta" or not (batch and m and n):
        return []
    if device.type != "cpu" and handlers[device.type].own("matmul") is not None:
        return None
    if device.type != "cpu" and k and (kernel := own_kernel(device, code)) is not None:
        return own_step(kernel, a, b, c, (m, n, k, batch), alpha, beta)
    fills = n >= 8 or (vector_bits() == 512 and m * n * k * batch >= MASKED_FROM and not is_tiny(m, n, k, batch))
    if device.type == "cpu" and code in ("f32", "f64") and fills and 0 < m * n * k <= IN_CACHE:
        panel = panel_step(code, a, b, c, m, n, k, batch, alpha, beta)
        if panel is not None:
            explain(code, m, n, k, batch, "a panel kernel, since operands in the caches are not worth packing")
            return [panel]
    if (m * n * k <= SMALL and c.col == 1) or code not in ("f32", "f64", "c64", "c128") or device.type != "cpu":
        if alpha == 1.0 and beta in (0.0, 1.0):
            explain(code, m, n, k, batch, "a row kernel, since it is small or of a type without tiles and BLAS")
            return [generated(code, device, a, b, c, m, n, k, batch, beta)]
    if code not in ("f32", "f64", "c64", "c128") or device.type != "cpu":
        return None
    left, right, out = a.leading(m, k), b.leading(k, n), c.leading(m, n)
    if k == 0:
        return None
    if left is None or right is None or out is None or out[1]:
        return None
    size = {"f32": 4, "f64": 8, "c64": 8, "c128": 16}[code]
    bits = struct.unpack("<qq", struct.pack("<dd", alpha, beta))
    work = m * n * k
    explain(code, m, n, k, batch, "OpenBLAS, since tiles do not suit its type, layout or number of rows and columns")
    product = Product(code, a, b, c, m, n, k, left, right, out, bits, size)
    if batch == 1 or work > SHARED:   # threads share one matrix after another
        return [product.shared(i) for i in range(batch)]
    return [product.batched(batch, max(1, CHUNK // work))]


def own_kernel(device: Any, code: str) -> Any:
    """The kernel that a plugged-in device has for products of a type, as steps hold it;
    None where the generated one serves."""
    key = ("own", device.type, code)
    if key not in _small_kernels:
        out = handlers[device.type].product(code)
        _small_kernels[key] = None if out is None else ("handle", _C.kernel_handle(out))
    return _small_kernels[key]


def needs_no_library(device: Any, code: str) -> bool:
    """Whether products on a plugged-in device are its scheduler's: it has no kernels of its own for them."""
    return device.type not in ("cpu", "meta") and own_kernel(device, code) is None


def contraction_steps(definition: Any, args: tuple, room: Any) -> list[Step]:
    """The steps of a product as its scheduler makes them; all tensors given are read."""
    lowered = definition.lower(args)
    tensors = [p.name for p, a in zip(definition.spec.params, args, strict=True) if isinstance(a, _C.Tensor)]
    places = [(tensors.index(m.name), 0) for m in lowered.memories]
    return packed(schedule(lowered, room.device.type), room.device, definition.kernels, room.slots, places)


def tiled_contraction_steps(lowered: Lowered, kernels: dict[tuple, Any], room: Room) -> list[Step] | None:
    """The steps of a product in register tiles, whatever its types; None where a CPU would not run it so."""
    return lowered_steps(lowered, room.device, kernels, room.slots, room.wishes) if is_tiled(lowered) else None


def biased_step(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, bias: int, m: int, n: int, k: int
) -> list[Step] | None:
    """A step of c = a @ b + bias by a plugged-in device's own kernel; None where it has none for these layouts."""
    if device.type in ("cpu", "meta") or not (m and n and k):
        return None
    key = ("biased", device.type, code)
    if key not in _small_kernels:
        out = handlers[device.type].product_with_bias(code)
        _small_kernels[key] = None if out is None else ("handle", _C.kernel_handle(out))
    if _small_kernels[key] is None:
        return None
    out = own_step(_small_kernels[key], a, b, c, (m, n, k, 1), 1.0, 0.0)
    return None if out is None else [out[0]._replace(operands=[*out[0].operands, bias])]


def own_step(
    kernel: Any, a: Matrix, b: Matrix, c: Matrix, sizes: tuple[int, int, int, int], alpha: float, beta: float
) -> list[Step] | None:
    """A step of such a kernel (`Device.product` says what its parameters are),
    or None if a layout needs a copy first."""
    m, n, k, batch = sizes
    left, right, out = a.leading(m, k), b.leading(k, n), c.leading(m, n)
    if left is None or right is None or out is None or out[1]:
        return None
    bits = struct.unpack("<qq", struct.pack("<dd", alpha, beta))
    params = [m, n, k, left[0], int(left[1]), a.batch, right[0], int(right[1]), b.batch, out[0], c.batch, batch, *bits]
    return [Step(kernel, [a.slot, b.slot, c.slot], params, 1, 1, -1)]


def panel_step(
    code: str,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    m: int,
    n: int,
    k: int,
    batch: int,
    alpha: float,
    beta: float,
    addend: Matrix | None = None,
    whole: tuple[bool, bool] = (False, False),
) -> Step | None:
    """A step of register tiles over operands as they lie in memory; None where rows on the right are not consecutive.

    beta multiplies `addend`, or what is in `c`. `whole`: see `tiled_products.product_kernel`."""
    d = c if addend is None else addend
    transposed = a.col != 1 and k > 1
    if (b.col != 1 and n > 1) or (c.col != 1 and n > 1) or (transposed and a.row != 1 and m > 1):
        return None
    size = 4 if code == "f32" else 8
    bits = struct.unpack("<qq", struct.pack("<dd", alpha, beta))
    params = [
        m,
        n,
        k,
        a.col if transposed else a.row,
        b.row,
        c.row,
        int(transposed),
        0,
        a.batch * size,
        b.batch * size,
        c.batch * size,
        *bits,
        d.row,
        d.batch * size,
    ]
    kernel = tiled_products.product_kernel(code, transposed, whole).address
    return Step(kernel, [a.slot, b.slot, c.slot, d.slot], params, batch, max(1, CHUNK // (m * n * k)), -1)


def packed_steps(
    code: str,
    device: Any,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    m: int,
    n: int,
    k: int,
    scratch: int,
    addend: Matrix | None = None,
    wishes: Wishes = NONE,
) -> tuple[list[Step], int] | None:
    """c = a @ b (+ addend) where columns of `b` are consecutive, as in `linear`: steps, and elements of slot `scratch`.

    None where a BLAS or another kernel is better."""
    if device.type not in ("cpu", "meta"):
        kernel = own_kernel(device, code) if addend is None else None
        return None if kernel is None else padded_steps(kernel, code, device, a, b, c, (m, n, k), scratch)
    out = tiled_steps(code, device, a, b, c, m, n, k, scratch, 1, addend, wishes)
    if out is not None:
        return out
    if (
        device.type != "cpu"
        or code not in ("f32", "f64")
        or b.row != 1
        or (n > 1 and b.col < k)
        or m < PACKED_ROWS
        or not 0 < m * n * k <= PACKED
    ):
        return None
    if a.col != 1 or c.col != 1:
        return None
    explain(code, m, n, k, 1, "a panel kernel over packed strips, since rows are not worth packing")
    return pack_strips(code, b, n, k, scratch) + strip_products(code, a, scratch, c, m, n, k, addend), n * k


def tiled_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int,
    scratch: int | tuple[int, int], batch: int = 1, addend: Matrix | None = None, wishes: Wishes = NONE,
) -> tuple[list[Step], int] | None:
    """c = a @ b (+ addend) in packed strips and register tiles: steps, and elements of slot `scratch`.

    None for types without tiles, for layouts that are no lines, and for sizes where packing does not pay."""
    few = few_rows_step(code, device, a, b, c, m, n, k, batch, addend, wishes=wishes)
    if few is not None:
        return [few], 0
    if device.type != "cpu" or (a.row != 1 and a.col != 1) or (b.row != 1 and b.col != 1) or c.col != 1:
        return None
    lowered = lowered_product(code, a, b, c, m, n, k, batch, addend)
    result = schedule_contraction(lowered, wishes)
    if result is None:
        return None
    if is_shown("lowered"):
        show("lowered", lowered.name, show_lowered(lowered))
    if is_shown("schedule"):
        show("schedule", lowered.name, str(result))
    slots = [a.slot, b.slot, *([] if addend is None else [addend.slot]), c.slot, scratch]
    places = [slot if isinstance(slot, tuple) else (slot, 0) for slot in slots]
    elements = result.temps[0].sizes[0] if result.temps else 0
    return packed(result, device, _product_kernels, [], places), elements


def lowered_product(
    code: str, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, addend: Matrix | None
) -> Lowered:
    """c = a @ b (+ addend) as a contraction over (batch, m, n, k)."""
    left = Memory("a", code, (batch, m, k), (a.batch, a.row, a.col), (0, 1, None, 2))
    right = Memory("b", code, (batch, k, n), (b.batch, b.row, b.col), (0, None, 2, 1))
    lowered = contraction("product", left, right, (batch, m, n, k), frozenset((3,)), (c.batch, c.row, 1))
    if addend is None:
        return lowered
    strides = (addend.batch, addend.row, addend.col)
    return with_addend(lowered, Memory("addend", code, (batch, m, n), strides, (0, 1, 2, None)))


def few_rows_step(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, addend: Matrix | None,
    right: str = "", least: int = 2, wishes: Wishes = NONE,
) -> Step | None:
    """A step of few rows times matrices that are read once, where they lie (codegen/library/products/few_rows.py);
    `right` is the type they have there, where it is another.

    None where there are more rows, or fewer than `least` of the same type, for small matrices and other layouts, and
    where the matrices are wished to be packed."""
    if device.type != "cpu" or code not in SIZES or wishes.packs_apart:
        return None
    along = b.col != 1
    least, most = 1 if right else least, few_rows.MOST
    if along and vector_bits() == 512 and not right:
        least, most = 1, larger(most, smaller(few_rows.MOST_ALONG, k // few_rows.DEEP_ALONG))
    if not least <= m <= most or n * k < FEW_ROWS_FROM[1 if along else 0]:
        return None
    if a.col != 1 or c.col != 1:
        return None
    if along and b.row != 1:
        return None
    crowded = not along and int(b.row) * (2 if right else SIZES[code]) % few_rows.SAME_SETS == 0
    chunk = ALONE_CHUNK if m == 1 and vector_bits() == 512 else CHUNK
    part = max(1, chunk // (m * k)) if along else few_rows_part(SIZES[code], n, k, crowded)
    if m == 1 and not along and not right:
        part = alone_part(SIZES[code], n)
    parts = -(-n // part)
    d = c if addend is None else addend
    params = [n, k, a.row, b.col if along else b.row, c.row, d.row, d.col, int(addend is not None)]
    params += [part, parts, a.batch, b.batch, c.batch, d.batch, m]
    step = few_rows.NARROW_BYTES if crowded else few_rows.STEP_BYTES
    explain(right or code, m, n, k, batch, "a kernel for few rows, which reads the right operand once, where it lies")
    kernel = few_rows.few_rows_kernel(code, int(m), along, step, right).address
    return Step(kernel, [a.slot, b.slot, c.slot, d.slot], params, batch * parts, max(1, chunk // (m * k * part)), -1)


def few_rows_part(size: int, n: int, k: int, crowded: bool) -> int:
    """Columns of a part, of which there are enough for all threads. Changes no result."""
    if not crowded and k < few_rows.LONG_ROWS:
        return few_rows.PART_BYTES // size
    threads = _C.get_num_threads()
    share = few_rows.LONG_PART_BYTES if threads == 1 else n * size // (2 * threads)
    return larger(few_rows.PART_BYTES, smaller(few_rows.LONG_PART_BYTES, share)) // size


_vector_kernels: dict[tuple, Any] = {}


def vector_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, slots: list,
    wishes: Wishes = NONE,
) -> list[Step] | None:
    """Steps of a product with a vector, appending temporaries to `slots`: no tile to fill,
    so it is a sum like any other.

    None where neither side is one. Operands are slots 0, 1 and 2."""
    if device.type != "cpu" or code not in SIZES or (m != 1 and n != 1):
        return None
    if m * n * k <= SMALL and (in_rows(b, n) or batch * m * n * k < MANY_VECTORS):
        return None
    if m <= TINY and n <= TINY and k <= TINY:
        return None
    alone = row_step(code, device, a, b, c, m, n, k, batch, wishes)
    if alone is not None:
        return [alone]
    count = m * n
    left, right = ((None, 0), (1, 0)) if m == 1 else ((0, 1), (None, 0))
    vector, matrix = (a, b) if m == 1 else (b, a)
    sizes = ((k,), (k, n)) if m == 1 else ((m, k), (k,))
    strides = ((vector.col,), (matrix.row, matrix.col)) if m == 1 else ((matrix.row, matrix.col), (vector.row,))
    reads: list[Memory] = []
    ranges: tuple[int, ...] = (count, k)
    own: tuple[int, ...]
    steps_: tuple[int, ...]
    dims: tuple[int | None, ...]
    for slot, (name, own, steps_, dims) in enumerate(zip("ab", sizes, strides, (left, right), strict=True)):
        step = (a, b)[slot].batch
        if batch != 1:     # a range in front
            own, steps_, dims = (batch, *own), (step, *steps_), (0, *(None if d is None else d + 1 for d in dims))
        reads.append(Memory(name, code, own, steps_, dims))
    if batch != 1:
        ranges = (batch, *ranges)
    folding = Folding(ADDING, code, frozenset((len(ranges) - 1,)))
    lowered = Lowered(
        "vector_product", ("vector_product", code), ranges, ranges[:-1], (code,), tuple(reads),
        lambda at, sources: (sources[0].read(at) * sources[1].read(at),), folding=folding,
    )
    return lowered_steps(lowered, device, _vector_kernels, slots)


def turned_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, scratch: int, batch: int
) -> tuple[list[Step], int] | None:
    """Products of many small matrices whose right ones have columns that are consecutive: these are turned first, to
    be rows. Steps, and elements of slot `scratch`; None for other products."""
    if device.type != "cpu" or code not in SIZES or b.row != 1 or b.col == 1 or not 0 < m * n * k <= IN_CACHE:
        return None
    if m == 1 or m * n * k * batch < MASKED_FROM:
        return None
    many = 1 if b.batch == 0 else batch
    turned = Matrix(scratch, n, 1, 0 if b.batch == 0 else k * n)
    product = panel_step(code, a, turned, c, m, n, k, batch, 1.0, 0.0)
    if product is None:
        return None
    strips = -(-n // transpose.ROWS)
    params = [n, k, b.col, n, strips, b.batch, k * n]
    turn = Step(packer(transpose.transpose_kernel(SIZES[code]).address), [b.slot, scratch], params, many * strips,
                max(1, 2048 // k), -1)
    explain(code, m, n, k, batch, "a panel kernel over right operands that are turned first")
    return [turn, product], many * k * n


def in_rows(b: Matrix, n: int) -> bool:
    """Whether rows of a right operand fill vectors, so that the kernels for small products run along them."""
    return b.col == 1 and n >= 8


def row_step(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, wishes: Wishes
) -> Step | None:
    """The same where a matrix of long runs comes from memory, which wide vectors wait for: as of few rows, some of its
    lines are read side by side and asked for ahead of time. None elsewhere."""
    bits, size = vector_bits(), SIZES[code]
    if bits not in few_rows.ALONE_ROWS or m * n * k * size < FROM_MEMORY:
        return None
    if m != 1:      # a matrix times a vector: the vector times the matrix whose columns were rows
        left, right = Matrix(b.slot, 0, b.row, b.batch), Matrix(a.slot, a.col, a.row, a.batch)
        a, b, c, n = left, right, Matrix(c.slot, 0, 1, c.batch), m
    in_columns, in_rows = b.row == 1 and bits == 512, b.col == 1 and bool(n * size >= ROWS_FROM_MEMORY[bits])
    if a.col != 1 or not (in_columns or in_rows):
        return None
    return few_rows_step(code, device, a, b, c, 1, n, k, batch, None, least=1, wishes=wishes)


def alone_part(size: int, n: int) -> int:
    """Columns of a matrix that one row meets at a time: no more than sums stay in the first-level cache, and each
    thread has some, in whole lines of the cache."""
    line = few_rows.LINE // size
    shares = -(-n // (line * _C.get_num_threads())) * line
    return smaller(few_rows.ALONE_PART[vector_bits()] // size, shares)


def strips_of(code: str, n: int) -> list[tuple[int, int, int]]:
    """How n columns are cut into strips as wide as a register tile: (first column, width, number of strips)."""
    width = max(transpose.ROWS, 2 * vector_bits() // 8 // SIZES[code])
    return [cut for cut in ((0, width, n // width), (n - n % width, n % width, 1)) if cut[1] and cut[2]]


def pack_strips(code: str, b: Matrix, n: int, k: int, scratch: int) -> list[Step]:
    """Steps copying [k, n] matrix `b`, rows or columns of which are consecutive, into strips of columns,
    one after another."""
    size, out = SIZES[code], []
    for first, wide, count in strips_of(code, n):
        if b.row == 1:
            runs = -(-wide // transpose.ROWS)
            places = [(b.slot, first * b.col * size), (scratch, first * k * size)]
            params = [wide, k, b.col, wide, runs, wide * b.col, wide * k]
            turn = packer(transpose.transpose_kernel(size).address)
            out.append(Step(turn, places, params, count * runs, max(1, 2048 // k), -1))
            continue
        copy = packer(compile_for(_C.device("cpu"), pointwise_nest("copy", [code], [code], [expr.arg(0, code)])))
        for at in range(first, first + count * wide, wide):
            places = [(b.slot, at * size), (scratch, at * k * size)]
            out.append(Step(copy, places, [wide, size, size, b.row * size, wide * size], k, max(1, 32768 // wide), -1))
    return out


def strip_products(
    code: str,
    a: Matrix,
    scratch: int,
    c: Matrix,
    m: int,
    n: int,
    k: int,
    addend: Matrix | None = None,
    at: tuple[int, int, int] = (0, 0, 0),
) -> list[Step]:
    """Steps of c = a @ strips (+ addend): register tiles meet strips packed before. A tall `a` goes block by block.

    `at`: elements before the first of a, c and the addend in their slots."""
    size, found = SIZES[code], []
    block, blocks = (m, 1) if m <= 2 * ROW_BLOCK else (ROW_BLOCK, int(-(-m // ROW_BLOCK)))
    for first, wide, count in strips_of(code, n):
        left, strips = Matrix(a.slot, a.row, a.col), Matrix(scratch, wide, 1, wide * k)
        out = Matrix(c.slot, c.row, c.col, wide)
        added = None if addend is None else Matrix(addend.slot, addend.row, addend.col, wide)
        for row in (k * block for k in range(blocks)):
            high = min(block, m - row)
            beta, whole = 0.0 if addend is None else 1.0, tiled_products.are_whole(code, high, wide)
            step = panel_step(code, left, strips, out, high, wide, k, count, 1.0, beta, added, whole)
            assert step is not None, "strips lie as the kernel reads them"
            starts = [at[0] + row * a.row, first * k, at[1] + row * c.row + first]
            starts.append(starts[2] if addend is None else at[2] + row * addend.row + first)
            places = [(slot, start * size) for slot, start in zip(step.operands, starts, strict=True)]
            found.append(Step(step.kernel, places, step.params, count, max(1, PACKED_PART // (high * wide * k)), -1))
    return found


class Product(Record):
    """Matrix products over a BLAS that runs on one thread: steps differ in what the pool's threads share."""

    code: str
    a: Matrix
    b: Matrix
    c: Matrix
    m: int
    n: int
    k: int
    left: tuple[int, bool]
    right: tuple[int, bool]
    out: tuple[int, bool]
    bits: tuple[int, int]
    size: int

    def step(
        self,
        m: int,
        n: int,
        strides: tuple[int, int, int],
        totals: tuple[int, int],
        which: int,
        extent: int,
        grain: int,
    ) -> Step:
        """One step: sizes of a part, how far parts are apart in elements,
        the whole's sizes where parts are cut from one."""
        (lda, trans_a), (ldb, trans_b), (ldc, _) = self.left, self.right, self.out
        params = [m, n, self.k, lda, ldb, ldc, trans_a, trans_b, *(s * self.size for s in strides), *self.bits, *totals]
        places = [(x.slot, which * x.batch * self.size) for x in (self.a, self.b, self.c)]
        return Step(blas.kernels()[self.code], places, params, extent, grain, -1)

    def batched(self, batch: int, grain: int) -> Step:
        """Whole matrices are the parts."""
        return self.step(self.m, self.n, (self.a.batch, self.b.batch, self.c.batch), (0, 0), 0, batch, grain)

    def shared(self, which: int) -> Step:
        """Strips of one matrix are the parts, of its longer side: each packs the other operand, so they are few.
        Their number depends on size alone."""
        by_rows = self.n < 2 * self.m
        parts = max(1, min(8, self.m * self.n * self.k // CHUNK, max(4, max(self.m, self.n) // 256)))
        if by_rows:
            strip = max(32, -(-self.m // parts))
            return self.step(
                strip, self.n, (strip * self.a.row, 0, strip * self.c.row), (self.m, 0), which, -(-self.m // strip), 1
            )
        strip = max(64, -(-self.n // parts))
        return self.step(
            self.m, strip, (0, strip * self.b.col, strip * self.c.col), (0, self.n), which, -(-self.n // strip), 1
        )


def generated(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, beta: float
) -> Step:
    """One step of the generated kernel: rows of every matrix of the batch are the parallel range."""
    if device.type == "cpu" and code in SIZES and beta == 0.0 and is_tiny(m, n, k, batch):
        if batch != 1:
            return tiny_step(code, a, b, c, m, n, k, batch)
        left, right = Matrix(a.slot, 0, a.col, a.row), Matrix(b.slot, b.row, b.col, 0)
        return tiny_step(code, left, right, Matrix(c.slot, 0, c.col, c.row), 1, n, k, m)
    key = (code, device.type, beta == 1.0, batch > 1)
    kernel = _small_kernels.get(key)
    if kernel is None and device.type != "meta":
        kernel = _small_kernels[key] = as_step(compile_for(device, small_nest(code, beta == 1.0, batch > 1)))
    params = [m, n, k, a.row, a.col, b.row, b.col, c.row, c.col, a.batch, b.batch, c.batch]
    grain = max(1, CHUNK // max(1, n * k))
    return Step(kernel, [a.slot, b.slot, c.slot], params, batch * m, grain, -1)


def is_tiny(m: int, n: int, k: int, batch: int) -> bool:
    """Whether a product is one of many that a kernel has written out, or its rows are."""
    if not (n <= TINY and 0 < k <= TINY):
        return False
    return bool(m >= MANY_TINY if batch == 1 else batch >= MANY_TINY and m <= TINY)


def tiny_step(code: str, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int) -> Step:
    """A step of many products of matrices so small that a kernel has all of one written out."""
    sizes = tuple([next(s for s in range(1, TINY + 1) if d == s) for d in (m, n, k)])   # numbers, for these alone
    key = ("tiny", code, *sizes)
    if key not in _small_kernels:
        _small_kernels[key] = as_step(compile_for(_C.device("cpu"), tiny_nest(code, *sizes)))
    params = [a.row, a.col, b.row, b.col, c.row, c.col, a.batch, b.batch, c.batch]
    grain = max(1, CHUNK // (m * n * k))
    return Step(_small_kernels[key], [a.slot, b.slot, c.slot], params, batch, grain, -1)


def tiny_nest(code: str, m: int, n: int, k: int) -> Nest:
    """c = a @ b for each i, element by element."""
    p = {name: expr.var(name) for name in ("ar", "ac", "br", "bc", "cr", "cc", "ab", "bb", "cb")}
    i = expr.var("i")
    body: list[Statement] = []
    for name, slot, sizes in (("a", 0, (m, k)), ("b", 1, (k, n))):
        for r, q in itertools.product(*map(range, sizes)):
            at = i * p[name + "b"] + p[name + "r"] * r + p[name + "c"] * q
            body.append(Local(f"{name}{r}{q}", expr.load(slot, at, code)))
    for r, q in itertools.product(range(m), range(n)):
        total = expr.var(f"a{r}0", code) * expr.var(f"b0{q}", code)
        for l in range(1, k):
            total = multiply_add(expr.var(f"a{r}{l}", code), expr.var(f"b{l}{q}", code), total, code)
        body.append(Store(2, i * p["cb"] + p["cr"] * r + p["cc"] * q, total))
    return Nest("matmul_tiny", operands([code, code], [code]), tuple(p), rows(*body))


def small_nest(code: str, accumulate: bool, batched: bool) -> Nest:
    """c[i, :] = sum over l of a[i, l] * b[l, :], vectorised along the row."""
    compute = {"f16": "f32", "bf16": "f32", "b1": "i32"}.get(code, code)
    index, j, l = expr.var("i"), expr.var("j"), expr.var("l")
    p = {name: expr.var(name) for name in ("m", "n", "k", "ar", "ac", "br", "bc", "cr", "cc", "ab", "bb", "cb")}
    zero = expr.const(0, "i64")
    if batched:
        which, row = expr.idiv(index, p["m"]), expr.irem(index, p["m"])
    else:
        which, row = zero, index
    x = expr.cast(expr.load(0, which * p["ab"] + row * p["ar"] + l * p["ac"], code), compute)
    y = expr.cast(expr.load(1, which * p["bb"] + l * p["br"] + j * p["bc"], code), compute)
    at = which * p["cb"] + row * p["cr"] + j * p["cc"]
    dot = reduction(
        "l",
        zero,
        p["k"],
        ["acc"],
        [expr.const(0, compute)],
        step=lambda acc: [multiply_add(x, y, acc[0], compute)],
        merge=lambda u, v: [u[0] + v[0]],
    )
    total = expr.var("acc", compute)
    if accumulate:
        total = total + expr.cast(expr.load(2, at, code), compute)
    store = Store(2, at, expr.cast(total, code))
    return Nest(
        "matmul_small",
        operands([code, code], [code]),
        tuple(p),
        rows(For("j", zero, p["n"], (dot, store), vector=True)),
    )


def multiply_add(x: Any, y: Any, acc: Any, compute: str) -> Any:
    """acc + x * y, fused where the type allows."""
    return expr.fma(x, y, acc) if compute in ("f32", "f64") else acc + x * y


def copy_step(
    device: Any, source: int, target: int, code: str, sizes: tuple[int, int], strides: tuple[int, int], row: int
) -> Step:
    """A step that copies a 2-d block with `strides`, in elements, to rows of the target that lie `row` apart."""
    key = (code, device.type)
    if key not in _copy_kernels:
        nest = pointwise_nest("copy", [code], [code], [expr.arg(0, code)])
        _copy_kernels[key] = as_step(compile_for(device, nest))
    (rows_, cols), size = sizes, BY_CODE[code].itemsize
    params = [cols, strides[1] * size, size, strides[0] * size, row * size]
    return Step(_copy_kernels[key], [source, target], params, rows_, grain_of(cols), -1)
