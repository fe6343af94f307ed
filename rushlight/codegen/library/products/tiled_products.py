"""Matrix products of moderate size: register tiles over operands as they lie in memory, nothing packed.

Enters: the dtype, and whether the left operand is transposed. Leaves: a `Kernel` with the parameters of the BLAS
kernels (csrc/extras/blas.cpp): m n k, row strides of the operands, two flags, batch strides in bytes, alpha and beta as
doubles; and a fourth operand, what beta multiplies, with its row stride (0 for a bias) and batch stride. Refuses
nothing, but expects: rows of the right operand and of the result consecutive in memory, and no strips.

A BLAS packs its operands first, which costs more than it gains while they fit the caches. Here a tile of results stays
in registers while k runs; rows of the right operand are loaded as vectors, elements of the left one multiply them,
taken from lanes of a vector where the processor's multiply-add can (AArch64),
and broadcast from memory where that is free (x86). Columns that fill no tile have narrower ones, or, where masks cost
nothing (AVX-512), one whose last vector has them.
"""

from __future__ import annotations

import functools
from typing import Any

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.targets import vector_bits
from ...text.writer import ABI, Reg, Writer, declarations, mask_declarations

PARAMS = (
    "m",
    "n",
    "k",
    "lda",
    "ldb",
    "ldc",
    "turned_a",
    "turned_b",
    "batch_a",
    "batch_b",
    "batch_c",
    "alpha",
    "beta",
    "ldd",
    "batch_d",
)
ELEMENTS, SIZES = {"f32": "float", "f64": "double"}, {"f32": 4, "f64": 8}
ROWS = {128: (8, 4, 1), 256: (4, 1), 512: (8, 4, 2, 1)}  # rows of a register tile, for each width of vectors
TILE = [
    ("ptr", "a"),
    ("ptr", "b"),
    ("ptr", "c"),
    ("ptr", "d"),
    ("i64", "k"),
    ("i64", "lda"),
    ("i64", "ldb"),
    ("i64", "ldc"),
    ("i64", "ldd"),
]


class Width(Record):
    """Columns of a register tile: so many vectors of so many lanes; one lane is a tile of scalars. `partly`: a run-time
    number of columns, of which the last vector has the rest."""

    lanes: int
    vectors: int
    partly: bool = False


class PanelProduct(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest.
    The text is written when it is compiled."""

    name: str
    params: tuple[str, ...]
    code: str
    transposed: bool
    whole: tuple[bool, bool]

    def digest(self) -> bytes:
        """What the text depends on; the cache's key holds the generator's sources besides."""
        return digest(repr((self, vector_bits())).encode())


@functools.cache
def product_kernel(code: str, transposed: bool, whole: tuple[bool, bool] = (False, False)) -> Kernel:
    """c = alpha * a @ b + beta * d for every matrix of a batch, a transposed on demand. `whole`: whether rows, and
    columns, are whole tiles in every call; then there are none for edges, and less to compile."""
    return cache.kernel(PanelProduct(kernel_name(transposed, whole), PARAMS, code, transposed, whole), _object)


def kernel_name(transposed: bool, whole: tuple[bool, bool]) -> str:
    return "_".join(["panel_product", str(int(transposed)), *(["rows"] * whole[0]), *(["columns"] * whole[1])])


def are_whole(code: str, rows: Any, columns: Any) -> tuple[bool, bool]:
    """Whether so many rows and columns are whole tiles; sizes that vary are not."""
    bits = vector_bits()
    widest = column_tiles(bits // 8 // SIZES[code])[0]
    units = ((rows, ROWS[bits][0]), (columns, widest.lanes * widest.vectors))
    return tuple([isinstance(size, int) and size % unit == 0 for size, unit in units])


def _object(product: PanelProduct) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    text = module_text(product.code, product.transposed, product.whole)
    return compile_ir(f'target triple = "{host_target().triple}"\n{text}', host_target(), "object", by_hand=True)


def module_text(code: str, transposed: bool, whole: tuple[bool, bool] = (False, False)) -> str:
    """LLVM IR of the kernel and its tiles."""
    element, size = ELEMENTS[code], SIZES[code]
    bits = vector_bits()
    heights, widths = ROWS[bits], column_tiles(bits // 8 // size)
    heights, widths = heights[:1] if whole[0] else heights, widths[:1] if whole[1] else widths
    tiles = [tile_text(element, size, rows, width, transposed, bits == 128) for rows in heights for width in widths]
    declared = "".join(
        dict.fromkeys(
            line + "\n"
            for width in widths
            if width.lanes > 1
            for line in (declarations(width.lanes, element) + "\n" + mask_declarations(width.lanes, element)
                         if width.partly else declarations(width.lanes, element)).splitlines()
        )
    )
    driver = driver_text(kernel_name(transposed, whole), element, size, heights, widths, transposed)
    return declared + "\n".join(tiles) + "\n" + driver + "\n"


def column_tiles(lanes: int) -> list[Width]:
    """Tiles from wide to narrow, in the order a row has them."""
    if vector_bits() == 512:
        return [Width(lanes, 2), Width(lanes, 2, True), Width(lanes, 1, True)]
    result = [Width(lanes, 2), Width(lanes, 1)]
    while lanes > 4:
        lanes //= 2
        result.append(Width(lanes, 1))
    return [*result, Width(1, 1)]


def tile_name(rows: int, width: Width) -> str:
    return f"tile{rows}x{width.vectors}x{width.lanes}{'_partly' if width.partly else ''}"


def tile_text(element: str, size: int, rows: int, width: Width, transposed: bool, by_lane: bool) -> str:
    """One tile of results; strides in bytes."""
    lanes, vectors = width.lanes, width.vectors
    more = [("i64", "columns")] if width.partly else []
    w = Writer(tile_name(rows, width), [*TILE, (element, "alpha"), (element, "beta"), *more], "internal ")
    vector = f"<{lanes} x {element}>" if lanes > 1 else element
    mask = w.lanes_in(0, w.sub(w["columns"], (vectors - 1) * lanes), lanes) if width.partly else None
    zero = Reg("zeroinitializer" if lanes > 1 else "0.0", vector)
    lines = [w["a"] if r == 0 or transposed else w.at(w["a"], w.mul(w["lda"], r), "i8") for r in range(rows)]
    group = 16 // size    # elements of a 16-byte vector, whose lanes multiply-add can take

    def multiply(sums: list[Reg], row: Reg, factors: list[Reg]) -> list[Reg]:
        right = [w.load(vector, w.at(row, v * lanes, element), size) for v in range(vectors - (mask is not None))]
        if mask is not None:
            right.append(w.load_some(vector, w.at(row, (vectors - 1) * lanes, element), mask, size))
        return [w.fma(right[v], factors[r], sums[r * vectors + v]) for r in range(rows) for v in range(vectors)]

    def broadcast(address: Reg) -> Reg:
        one = w.load(element, address, size)
        return w.splat(one, lanes) if lanes > 1 else one

    def steps(start: Reg | int, stop: Reg, sums: list[Reg], row: Reg, length: int) -> tuple[list[Reg], Reg]:
        """k from start to stop, `length` values at a time."""
        with w.loop(start, stop, length, carry=[*sums, row]) as l:
            now, here = l.carry[:-1], l.carry[-1]
            held = (
                left_vectors(w, lines, element, l.i, length, rows, transposed, group)
                if length > 1 or (transposed and by_lane and lanes == group and rows % group == 0)
                else None
            )
            for u in range(length):
                if held is None:
                    place = w.mul(l.i, w["lda"]) if transposed else w.mul(l.i, size)
                    factors = [
                        broadcast(w.at(w.at(lines[r], place, "i8"), r if transposed else 0, element))
                        for r in range(rows)
                    ]
                elif transposed:
                    factors = [w.lane(held[r // group], r % group, group) for r in range(rows)]
                else:
                    factors = [w.lane(held[r], u, group) for r in range(rows)]
                now = multiply(now, here, factors)
                here = w.at(here, w["ldb"], "i8")
            l.next = [*now, here]
        return l.carry[:-1], l.carry[-1]

    sums, row = [zero] * (rows * vectors), w["b"]
    done: Reg | int = 0
    if by_lane and lanes == group and not transposed:
        done = w.sub(w["k"], w.rem(w["k"], group))
        sums, row = steps(0, done, sums, row, group)
    sums, row = steps(done, w["k"], sums, row, 1)
    write_tile(w, sums, element, size, width, mask)
    return w.text()


def left_vectors(
    w: Writer, lines: list[Reg], element: str, k: Reg, length: int, rows: int, transposed: bool, group: int
) -> list[Reg]:
    """Elements of the left operand as 16-byte vectors: along k of every row, or along the rows of one k."""
    kind = f"<{group} x {element}>"
    align = 16 // group
    if transposed:
        base = w.at(lines[0], w.mul(k, w["lda"]), "i8")
        return [w.load(kind, w.at(base, first, element), align) for first in range(0, rows, group)]
    return [w.load(kind, w.at(line, k, element), align) for line in lines]


def write_tile(w: Writer, sums: list[Reg], element: str, size: int, width: Width, mask: Reg | None) -> None:
    """alpha * sums, plus beta times the addend unless beta is 0; of the last vectors what the mask has."""
    lanes, vectors = width.lanes, width.vectors
    alpha, beta = (w.splat(w[n], lanes) if lanes > 1 else w[n] for n in ("alpha", "beta"))
    results = [w.binary("fmul", alpha, s) for s in sums]
    adds = w.new("i1", f"fcmp une {w['beta']}, 0.0")
    places, added = (
        [
            w.at(w.at(w[x], w.mul(w["ld" + x], i // vectors), "i8"), i % vectors * lanes, element)
            for i in range(len(sums))
        ]
        for x in "cd"
    )
    some = [mask if i % vectors == vectors - 1 else None for i in range(len(sums))]
    with w.when(adds):
        for place, addend, value, part in zip(places, added, results, some, strict=True):
            if part is None:
                w.store(w.fma(beta, w.load(value.type, addend, size), value), place, size)
            else:
                w.store_some(w.fma(beta, w.load_some(value.type, addend, part, size), value), place, part, size)
    with w.when(w.negate(adds)):
        for place, value, part in zip(places, results, some, strict=True):
            if part is None:
                w.store(value, place, size)
            else:
                w.store_some(value, place, part, size)


def driver_text(
    name: str, element: str, size: int, row_tiles: tuple[int, ...], widths: list[Width], transposed: bool
) -> str:
    """All tiles of all matrices: rows outside, so that a strip of the left operand stays in the first-level cache."""
    w = Writer(name, ABI)
    p = {name: w.load("i64", w.at(w["params"], k, "i64"), 8) for k, name in enumerate(PARAMS)}
    a, b, c, d = (w.load("ptr", w.at(w["ptrs"], k, "ptr"), 8) for k in range(4))
    scales = []
    for name in ("alpha", "beta"):
        wide = w.load("double", w.at(w["params"], PARAMS.index(name), "i64"), 8)
        scales.append(wide if element == "double" else w.new(element, f"fptrunc {wide} to {element}"))
    lda, ldb, ldc, ldd = (w.mul(p[n], size) for n in ("lda", "ldb", "ldc", "ldd"))
    with w.loop(w["begin"], w["end"]) as which:
        bases = [
            w.at(x, w.mul(which.i, p[n]), "i8")
            for x, n in ((a, "batch_a"), (b, "batch_b"), (c, "batch_c"), (d, "batch_d"))
        ]
        first: Reg | int = 0
        for rows in row_tiles:
            past = p["m"] if rows == 1 or len(row_tiles) == 1 else w.sub(p["m"], w.rem(p["m"], rows))
            with w.loop(first, past, rows) as i:
                left = w.at(bases[0], w.mul(i.i, size if transposed else lda), "i8")
                line, addend = w.at(bases[2], w.mul(i.i, ldc), "i8"), w.at(bases[3], w.mul(i.i, ldd), "i8")
                start: Reg | int = 0
                given = (left, (bases[1], line, addend), (p["k"], lda, ldb, ldc, ldd, *scales))
                for width in widths:
                    columns = width.lanes * width.vectors
                    if width.partly:     # once, where so many columns are left, and no fewer
                        rest = w.sub(p["n"], start)
                        fewer = w.compare("sle", rest, columns)
                        with w.when(w.both(w.compare("sgt", rest, columns - width.lanes), fewer)):
                            call_tile(w, rows, width, element, start, *given, rest)
                        continue
                    stop = p["n"] if columns == 1 or len(widths) == 1 else w.sub(p["n"], w.rem(p["n"], columns))
                    with w.loop(start, stop, columns) as j:
                        call_tile(w, rows, width, element, j.i, *given)
                    start = stop
            first = past
    return w.text()


def call_tile(
    w: Writer, rows: int, width: Width, element: str, column: Reg | int, left: Reg, lines: tuple, given: tuple,
    *more: Reg,
) -> None:
    """A tile from a column on, of rows that begin at `lines`."""
    w.call(tile_name(rows, width), left, *[w.at(x, column, element) for x in lines], *given, *more)
