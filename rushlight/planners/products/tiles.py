"""Planning matrix products on tile registers: how they are shared out, and what is packed where.

Enters: matrices of bfloat16 or int8, by their strides. Leaves: plan steps over codegen/library/products/tile_packs.py
and codegen/library/products/tile_products.py. Refuses: matrices of which neither rows nor columns are consecutive;
callers copy those first.
"""

from __future__ import annotations

from ... import _C
from ...codegen.library.products import tile_packs, tile_products
from ...codegen.schedule.cpu.contraction import items_for_threads
from ...codegen.text.targets import cpu_words, machine
from ...codegen.tiles import tiles
from ...loops.record import Record
from ...op.step import Step
from .gemm import explain
from .padded import Matrix

# blocks of the right operand that stay in the second-level cache (1.2 MiB) while rows pass, columns of blocks of a part
# at least and at most, its rows where they stay and where they do not, and how many parts there should be at least
TILE_STAY, TILE_ACROSS, TILE_DOWN, TILE_PARTS = 600, (8, 32), (2, 8), 16
# blocks of k in a slice, and how many of a row of blocks the first-level cache holds
TILE_SLICE, TILE_NEAR = 32, 15
# columns of blocks that are worth packing for one thread, rows of blocks that are transposed together, and how often
# rows are packed, rather than once and for all
TILE_ALONE, TILE_TURNED, TILE_AGAIN = 4, 4, 2
# bytes between rows, and multiples of them, with which the left operand is packed: its lines would fall into one set of
# that cache
TILE_PITCH = 4096


def has_tiles(code: str = "bf16") -> bool:
    """Whether products of a type can use tile registers."""
    if code not in tiles.KINDS or machine() not in ("x86_64", "AMD64"):
        return False
    return (code == "bf16" or b"amx_int8" in cpu_words()) and _C.request_tiles()


def tile_steps(
    code: str, a: Matrix, b: Matrix, c: Matrix, scratch: int, m: int, n: int, k: int, batch: int = 1,
    bias: int | None = None,
) -> tuple[list[Step], tuple[int, int]] | None:
    """bfloat16, or int8 summed in int32, on tile registers: pack the operands, multiply.
    Returns steps and the bytes of the two scratch slots. `bias`: a slot of n numbers that are added before rounding.

    None if neither rows nor columns of an operand are consecutive."""
    if (a.col != 1 and a.row != 1) or (b.col != 1 and b.row != 1) or c.col != 1:
        return None
    explain(code, m, n, k, batch, "matrix registers (AMX), which want blocks of their own layout")
    return TilePlan(tiles.KINDS[code], a, b, c, m, n, k).steps(scratch, batch, bias)


class TilePlan:
    """One product: its blocks, how it is cut, and for each operand whether it is read where it lies, packed by the
    thread that multiplies, or packed before."""

    def __init__(self, kind: tiles.TileKind, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int) -> None:
        self.kind, self.a, self.b, self.c, self.m, self.n, self.k = kind, a, b, c, m, n, k
        self.blocks = (-(-m // 32), -(-n // 32), -(-k // kind.deep))
        self.turned = a.col != 1, b.col != 1
        self.cut = cut = tile_parts(*self.blocks, self.turned[0], items_for_threads())
        self.parts = -(-self.blocks[0] // cut.part_m), -(-self.blocks[1] // cut.part_n)
        self.in_place = not self.turned[0] and self.rows_suit()
        self.packs = not self.in_place and cut.packs and self.parts[1] <= TILE_AGAIN, cut.packs
        orders = (self.turned[0], not self.turned[1])       # whether a line of the operand is one value of k
        lines = ((k, m, a.col) if self.turned[0] else (m, k, a.row), (n, k, b.col) if self.turned[1] else (k, n, b.row))
        each = list(zip(lines, orders, strict=True))
        self.lines = [tile_packs.params_of(kind, *of, is_k, self.blocks[2]) for of, is_k in each]
        packed_before = (not (self.in_place or self.packs[0]), not self.packs[1])
        self.strips = [
            -(-of[0] // tile_packs.block_of(kind, is_k)[0]) if before else 0
            for of, is_k, before in zip(self.lines, orders, packed_before, strict=True)
        ]

    def rows_suit(self) -> bool:
        """Whether tiles can be loaded from rows as they lie: whole blocks of k that spread over the nearest cache."""
        pitch = self.a.row * self.kind.size
        return bool(pitch % TILE_PITCH) and self.m >= 32 and not (self.k % self.kind.deep or pitch % 64)

    def steps(self, scratch: int, batch: int, bias: int | None) -> tuple[list[Step], tuple[int, int]]:
        """Steps, and the bytes of the scratch slots."""
        pack = tile_packs.pack_kernel(self.kind, *self.turned).address if any(self.strips) else 0
        multiply, shape = tile_products.product_kernel(self.kind, *self.turned).address, self.shape(bias is not None)
        sizes, count = (self.kind.size, self.kind.size, result_size(self.kind.code)), sum(self.strips)
        outs: list[Step] = []
        for i in range(batch):
            x, y, z = ((o.slot, i * o.batch * size) for o, size in zip((self.a, self.b, self.c), sizes, strict=True))
            if pack:
                params = [*self.lines[0], *self.lines[1], self.strips[0]]
                outs.append(Step(pack, [x, scratch, y, scratch + 1], params, count, max(1, count // 16), -1))
            given = [scratch if self.strips[0] else x, scratch + 1 if self.strips[1] else y, z]
            given += [scratch if bias is None else bias, scratch, scratch + 1]
            outs.append(Step(multiply, given, shape, self.parts[0] * self.parts[1], self.cut.chunk, -1))
        return outs, self.rooms()

    def shape(self, biased: bool) -> list[int]:
        """Parameters of the product: see tile_products.py."""
        cut, pitch, deep = self.cut, self.a.row * self.kind.size, self.blocks[2]
        walk = [32 * pitch, 64, 16 * pitch, pitch] if self.in_place else [deep * 2048, 2048, 1024, 64]
        sizes = [self.m, self.n, deep, self.blocks[1], self.c.row, tile_slice(deep), TILE_NEAR]
        lines = [number for of in self.lines for number in (*of[:2], of[3])]
        return [
            *sizes, cut.part_m, cut.part_n, self.parts[0], *walk, int(biased), cut.chunk, *map(int, self.packs), *lines,
            self.m - 32 if self.in_place else 32 * self.blocks[0],
        ]

    def rooms(self) -> tuple[int, int]:
        """Bytes for packed rows and columns: of whole operands, or of what threads pack at a time."""
        chunks = -(-self.parts[0] * self.parts[1] // self.cut.chunk)
        rows = 0 if self.in_place else self.cut.part_m * chunks if self.packs[0] else self.blocks[0]
        columns = self.cut.part_n * chunks if self.packs[1] else self.blocks[1]
        return rows * self.blocks[2] * 2048, columns * self.blocks[2] * 2048


def result_size(code: str) -> int:
    """Bytes of an element of a product: int8 are summed in int32."""
    return {"i8": 4, "bf16": 2}[code]


class TileCut(Record):
    """How a product on tiles is shared out: blocks of a part, parts that a thread takes at a time, and whether it packs
    what they need itself."""

    part_m: int
    part_n: int
    chunk: int
    packs: bool


def tile_parts(blocks_m: int, blocks_n: int, blocks_k: int, left_turned: bool, items: int) -> TileCut:
    """Parts whose columns stay in the second-level cache while rows pass; `items` are enough to share out. Columns that
    few threads would share are packed by the one that multiplies them."""
    least, most = TILE_ACROSS
    stays = TILE_STAY // blocks_k
    across, down = min(max(least, min(most, stays)), blocks_n), min(TILE_DOWN[stays < least], blocks_m)
    panels = max(-(-blocks_n // across), min(items, blocks_n))
    alone = -(-blocks_n // panels)
    if items == 1 or alone >= TILE_ALONE:
        down = min(max(down, TILE_TURNED), blocks_m, tile_products.PART // alone) if left_turned else down
        panels = -(-blocks_n // alone)
        return TileCut(down, alone, -(-panels // items) * -(-blocks_m // down), True)
    while max(down, across) > 2 and -(-blocks_m // down) * -(-blocks_n // across) < TILE_PARTS:
        down, across = (down // 2, across) if down > 1 else (down, across // 2)
    return TileCut(down, across, 1, False)


def tile_slice(blocks_k: int) -> int:
    """Blocks of k between which sums stay in registers: slices of about equal size."""
    slices = -(-blocks_k // TILE_SLICE)
    return -(-blocks_k // slices)
