"""Copies that make rows of columns, written as PTX.

Enters: the size of an element. Leaves: a `Written` kernel of 256 threads. A block has a tile of 64 by 64 elements,
which it reads along the source's rows and writes along the result's, by way of shared memory whose rows lie so that
neither way meets itself. Parameters count in elements:

    result[b * out_batch + c * out_row + r] = source[b * batch + r * row + c]      r < rows, c < cols
"""

from __future__ import annotations

from .written import THREADS, WARP, WARPS, BlockText, Written

TILE = 64
PITCH = TILE + 1                   # elements between the rows of a tile
REGISTERS = {1: "r", 2: "h", 4: "r", 8: "d"}
PARAMS = ("rows", "cols", "row", "out_row", "batch", "out_batch", "row_tiles", "col_tiles")


def tiles(n: int) -> int:
    return -(-n // TILE)


class TransposeText(BlockText):
    """The text of such a kernel."""

    def __init__(self, size: int) -> None:
        super().__init__(f"transpose_{size}", 2, PARAMS)
        self.size = size
        self.shared("tile", TILE * PITCH * size)
        row_tiles, col_tiles = self.small("row_tiles"), self.small("col_tiles")
        rest = self.r("div.u32", self.block, col_tiles)
        col_tile = self.r("sub.u32", self.block, self.r("mul.lo.u32", rest, col_tiles))
        self.number = self.r("div.u32", rest, row_tiles)
        row_tile = self.r("sub.u32", rest, self.r("mul.lo.u32", self.number, row_tiles))
        self.first_row, self.first_col = (self.r("mul.lo.u32", one, str(TILE)) for one in (row_tile, col_tile))

    def start(self, pointer: int, batch: str, line: str, stride: str, element: str) -> tuple[str, str]:
        """The address of this thread's first element of the tile, and the bytes between the lines that it takes."""
        wide = [self.d("cvt.u64.u32", one) for one in (self.number, line, element)]
        at = self.d("mul.lo.u64", wide[0], self.argument(f"a_{batch}"))
        at = self.d("add.u64", at, self.d("mul.lo.u64", wide[1], self.argument(f"a_{stride}")))
        at = self.d("mul.lo.u64", self.d("add.u64", at, wide[2]), str(self.size))
        step = self.d("mul.lo.u64", self.argument(f"a_{stride}"), str(self.size * WARPS))
        return self.d("add.u64", self.pointer(pointer), at), step

    def inside(self, line: str, element: str, lines: str, elements: str) -> list[tuple[int, int, str]]:
        """(lines of eight and warps' widths from the thread's first element, whether it is there) of each."""
        found = []
        for half in range(0, TILE, WARP):
            across = self.p("setp.lt.u32", self.r("add.u32", element, str(half)), elements)
            for k in range(0, TILE, WARPS):
                along = self.p("setp.lt.u32", self.r("add.u32", line, str(k)), lines)
                found.append((k, half, self.p("and.pred", across, along)))
        return found


def transposing(size: int) -> Written:
    """The kernel for elements of `size` bytes."""

    def text() -> str:
        t = TransposeText(size)
        bits, kind = 8 * size, REGISTERS[size]
        rows, cols = t.small("rows"), t.small("cols")
        line, element = t.r("add.u32", t.first_row, t.warp), t.r("add.u32", t.first_col, t.lane)
        at, step = t.start(0, "batch", line, "row", element)
        lines = [at]
        for _ in range(WARPS, TILE, WARPS):
            lines.append(t.d("add.u64", lines[-1], step))
        values = []
        for k, half, there in t.inside(line, element, rows, cols):
            value = t.register(kind)
            t.line(f"@{there} ld.global.b{bits} {value}, [{lines[k // WARPS]}+{half * size}]")
            values.append((k, half, value))
        spot = t.spot("tile", t.r("mad.lo.u32", t.warp, str(PITCH), t.lane), size)
        for k, half, value in values:
            t.line(f"st.shared.b{bits} [{spot}+{(k * PITCH + half) * size}], {value}")
        t.line("bar.sync 0")
        line, element = t.r("add.u32", t.first_col, t.warp), t.r("add.u32", t.first_row, t.lane)
        at, step = t.start(1, "out_batch", line, "out_row", element)
        lines = [at]
        for _ in range(WARPS, TILE, WARPS):
            lines.append(t.d("add.u64", lines[-1], step))
        spot = t.spot("tile", t.r("mad.lo.u32", t.lane, str(PITCH), t.warp), size)
        for k, half, there in t.inside(line, element, cols, rows):
            value = t.value(kind, f"ld.shared.b{bits}", f"[{spot}+{(half * PITCH + k) * size}]")
            t.line(f"@{there} st.global.b{bits} [{lines[k // WARPS]}+{half * size}], {value}")
        return t.finished()

    return Written(f"transpose_{size}", PARAMS, 2, THREADS, text)


__all__ = ["PARAMS", "TILE", "tiles", "transposing"]
