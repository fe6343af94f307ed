"""CPU schedules of contractions: packed strips and register tiles, with what comes before and after computed in them.

Enters: a Lowered that is a product of matrices (forms/contraction.py). Leaves: one launch, or two where the right
factor is packed for all threads first. A factor that lies in memory is packed as it is, any other is computed while it
is packed (factor.py); what follows the sums is computed while a tile of them is in the nearest cache. None for types
without tiles, and for sizes where packing does not pay: those are folds like any other, or a planner knows better
(planners/products/gemm.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....loops.expr import Value, arg, replace, var
from ....loops.lowered import Lowered
from ....loops.sizes import larger, smaller
from ...text.targets import vector_bits
from ...tiles.shapes import ELEMENTS
from ..forms.contraction import Parts, factors_of, leaves, parts_of, result_of
from ..forms.launch import Launch, Schedule, Temp
from ..forms.sources import given_bits, given_names
from ..forms.wishes import NONE, Wishes
from .factor import Factor, stride_class
from .product import (
    OWN_STRIPS,
    ROWS_TOGETHER,
    SIZES,
    Blocking,
    Finish,
    Sizes,
    computed_pack_nest,
    pack_nest,
    product_nest,
)

# multiply-adds from which packing both operands pays; fewer do where one must be packed anyway
TILED_WORK = 1 << 20
TILED_SIDE = 8                   # rows and columns likewise
# Rows up to which the right operand is read where it lies, whatever its width; more of them (`Sizes.direct`) where its
# rows are runs at least so long.
DIRECT_ROWS, DIRECT_COLUMNS = 8, 512
ITEMS = 8                        # parts a product is cut into, if it is large enough
CHUNK = 1 << 21                  # multiply-adds worth a part
PACK_GRAIN = 1 << 16             # elements packed by a thread at a time
ROWS_FROM = 64                   # rows from which it pays to read them where they lie
SAME_SETS = 16384                # bytes apart that are in the same few sets of a cache


def schedule_contraction(lowered: Lowered, wishes: Wishes = NONE) -> Schedule | None:
    """The launches of a contraction in tiles; None where it is better folded."""
    if lowered.folding is None or lowered.folding.factors is None or lowered.folding.compute not in ELEMENTS:
        return None
    parts = parts_of(lowered, splits=True)
    if parts is None or not pays(parts):
        return None
    return Tiled(lowered, parts).schedule(wishes.packs_apart)


def pays(parts: Parts) -> bool:
    """Whether packing both factors costs less than it gains."""
    _, m, n, k = parts.sizes
    right, turned_work = parts.right[0], SIZES[vector_bits()].turned_work
    least = TILED_WORK if len(parts.right) == 1 and parts.columns.strides[right] == 1 else turned_work
    return bool(m * n * k > least and m >= TILED_SIDE and n >= TILED_SIDE and parts.columns.other == 1)


def is_tiled(lowered: Lowered) -> bool:
    """Whether a CPU runs the contraction in tiles: only then is it worth it to compute other ops in it."""
    return schedule_contraction(lowered) is not None


class Tiled:
    """The schedule of one contraction in the making."""

    def __init__(self, lowered: Lowered, parts: Parts) -> None:
        self.lowered, self.parts, self.code = lowered, parts, lowered.folding.compute
        self.placed = leaves(lowered)
        factors = factors_of(lowered, self.placed)
        self.values = factors[::-1] if parts.swapped else factors
        self.left = self.factor("a", parts.left, self.values[0], parts.rows)
        self.right = self.factor("b", parts.right, self.values[1], parts.columns)
        self.given = tuple(given_names(lowered))
        self.numbers = given_bits(lowered)
        self.result = len(lowered.memories)

    def factor(self, side: str, reads: Sequence[int], value: Value, lines: Any) -> Factor | None:
        """How a factor is computed; None where it is in memory as a tile wants it."""
        first = reads[0]
        if value is arg(first, self.code) and (lines.strides[first] == 1 or self.parts.deep.strides[first] == 1):
            return None
        codes = tuple([self.lowered.memories[r].code for r in reads])
        kinds = tuple([tuple([stride_class(axis.strides[r]) for axis in (self.parts.batch, lines, self.parts.deep)])
                       for r in reads])
        leaf = [arg(r, code) for r, code in zip(reads, codes, strict=True)]
        return Factor(side, codes, kinds, lambda loads: replace(value, dict(zip(leaf, loads, strict=True))))

    def strides(self, reads: Sequence[int], lines: Any) -> list[int]:
        """A factor's strides, as `Factor.params` names them."""
        return [axis.strides[r] for r in reads for axis in (self.parts.batch, lines, self.parts.deep)]

    def finish(self) -> Finish | None:
        """What becomes of a sum; None where it is stored as it is."""
        folding, out = self.lowered.folding, self.lowered.outs[0]
        if folding.epilogue is None and out == self.code:
            return None
        late = self.parts.late
        codes = tuple([self.lowered.memories[r].code for r in late])
        total = var("total", self.code)
        value = result_of(self.lowered, self.placed, total)
        leaf = [arg(r, code) for r, code in zip(late, codes, strict=True)]

        def finished(sum_: Value, reads: Sequence[Value]) -> Value:
            return replace(value, {total: sum_, **dict(zip(leaf, reads, strict=True))})

        columns = tuple([stride_class(self.parts.columns.strides[r]) for r in late])
        return Finish(self.lowered.name, codes, finished, columns, None if out == self.code else out)

    def schedule(self, packs_apart: bool) -> Schedule:
        """The launches; `packs_apart`: the right factor is packed by one of its own."""
        p, cut = self.parts, Blocking(self.code)
        batch, m, n, k = p.sizes
        strips, lines = -(-n // cut.width), -(-m // cut.height)
        # One block holds all rows: nobody else wants the strips a part packs.
        right = p.right[0]
        keeps = cut.is_narrow and self.right is None and bool(p.columns.strides[right] == 1)
        # Where rows are neighbours too, their tiles pack them as well: more blocks cost nothing.
        many = keeps and self.left is None and bool(p.rows.strides[p.left[0]] == 1)
        own = (many or bool(lines <= (OWN_STRIPS if keeps else cut.sizes.lines))) and not packs_apart
        reads_rows = bool(m <= DIRECT_ROWS or (m <= cut.sizes.direct and n >= DIRECT_COLUMNS))
        direct = own and self.right is None and p.columns.strides[right] == 1 and reads_rows
        form = "direct" if direct else "own" if own else "packed"
        left = p.left[0]
        plain = self.left is None and self.right is None and not packs_apart
        pitch = p.rows.strides[left] * ELEMENTS[self.code][1]
        if plain and bool(p.deep.strides[left] == 1) and suits_rows(cut, m, n, pitch):
            own, form = True, "rows"
        in_lines = cut.sizes.in_lines and self.left is None and bool(p.deep.strides[left] == 1)
        # Rows that need no packing are no reason to cut them: columns are packed where they are met, by the thread that
        # has them. So are those that are packed a few strips at a time, where there is one thread.
        items = items_for_threads()
        enough = items == 1 or (in_lines and bool(strips * batch >= 2 * items))
        whole = cut.sizes.in_lines and self.left is None and enough and not packs_apart
        if whole and not own:
            own, form = True, "own"
        sizes = cut.sizes.but(lines=OWN_STRIPS) if own else cut.sizes
        block, blocks, part, parts = product_parts(
            sizes, lines, strips, k, m * n * k, batch, own, items
        )
        if form == "rows":
            block, blocks, part, parts = row_blocks(sizes, lines, strips)
        elif whole:
            block, blocks = lines, 1
            part = -(-strips // smaller(strips, -(-items // batch)))
            parts = -(-strips // part)
        shared = 1 if all(p.batch.strides[r] == 0 for r in p.right) else batch
        finish = self.finish()
        row, step = p.rows.other, p.batch.other
        temps, sums = [], []
        if finish is not None and finish.out is not None:
            row, step = n, m * n
            temps, sums = [Temp(self.code, (batch * m * n,))], [self.result + 1]
        packed = self.result + 1 + len(temps)
        batch_b = p.batch.strides[right] if own else 0 if shared == 1 else strips * k
        params = [m, n, k, p.rows.strides[left], p.deep.strides[left], row, p.batch.strides[left], batch_b, step,
                  block * cut.height, blocks, part, parts]
        params += [p.columns.strides[right], p.deep.strides[right]] if own else []
        for r in p.late:
            params += [p.rows.strides[r], p.columns.strides[r], p.batch.strides[r]]
        params += [p.rows.other, p.batch.other] if temps else []
        params += [] if self.left is None else self.strides(p.left, p.rows)
        params += self.strides(p.right, p.columns) if own and self.right is not None else []
        numbers = (*p.left, *(p.right if own else (packed,)), *p.late, self.result, *sums)
        nest = self.nest(finish, form, in_lines)
        grain = larger(1, CHUNK * blocks * parts // (m * n * k))
        product = Launch(
            ("product", form, in_lines, *self.key(finish)), nest, numbers, (*params, *self.numbers),
            batch * blocks * parts, grain,
        )
        if own:
            return Schedule((product,), tuple(temps))
        temps.append(Temp(self.code, (shared * strips * cut.width * k,)))
        return Schedule((self.pack(cut, strips, shared, packed), product), tuple(temps))

    def key(self, finish: Finish | None) -> tuple:
        """What the kernels depend on."""
        kinds = [None if f is None else (f.codes, f.kinds) for f in (self.left, self.right)]
        if finish is None and kinds == [None, None]:
            return ("plain", self.code)
        types = tuple([type(r.value) for r in self.lowered.reads if not hasattr(r, "dims")])
        codes = tuple([m.code for m in self.lowered.memories])
        columns = None if finish is None else finish.columns
        return (self.lowered.key, codes, self.lowered.outs, *kinds, columns, self.parts.swapped, types)

    def nest(self, finish: Finish | None, form: str, in_lines: bool) -> Callable[[], Any]:
        code, left, right, given = self.code, self.left, self.right, self.given
        return lambda: product_nest(code, finish, form, left=left, right=right, given=given, in_lines=in_lines)

    def pack(self, cut: Blocking, strips: int, shared: int, packed: int) -> Launch:
        """The launch that lays the right factor out for all."""
        p, code, right, given = self.parts, self.code, self.right, self.given
        _, _, n, k = p.sizes
        first, together = p.right[0], cut.sizes.together
        groups, grain = -(-strips // together), larger(1, PACK_GRAIN // (k * cut.width * together))
        params = [n, k, p.columns.strides[first], p.deep.strides[first], p.batch.strides[first], strips, groups]
        if right is None:
            return Launch(
                ("pack", code), lambda: pack_nest(code), (first, packed), tuple(params), shared * groups, grain,
                packs=True,
            )
        params += [*self.strides(p.right, p.columns), *self.numbers]
        return Launch(
            ("pack", *self.key(None)), lambda: computed_pack_nest(code, right, given), (*p.right, packed),
            tuple(params), shared * groups, grain,
        )


def items_for_threads() -> int:
    """Parts that are worth their cost: each packs what the others pack too. Plans are made for a number of threads, and
    how a product is cut changes no result."""
    from ...._C import get_num_threads  # noqa: PLC0415 - schedules for other machines need no core

    threads = get_num_threads()
    return 1 if threads == 1 else min(ITEMS, 2 * threads)


def suits_rows(cut: Blocking, m: int, n: int, pitch: int) -> bool:
    """Whether rows `pitch` bytes apart are better read where they lie than packed: few columns meet them."""
    few = cut.is_narrow and bool(n <= ROWS_TOGETHER * cut.width) and bool(m >= ROWS_FROM)
    return few and bool(pitch % SAME_SETS != 0)


def row_blocks(sizes: Sizes, lines: int, strips: int) -> tuple[int, int, int, int]:
    """How such a product is cut: see `product_parts`. Every block packs all columns."""
    blocks = smaller(items_for_threads(), -(-lines // sizes.least_lines))
    block = -(-lines // blocks)
    return block, -(-lines // block), strips, 1


def product_parts(
    sizes: Sizes, lines: int, strips: int, k: int, work: int, batch: int, own: bool, items: int = ITEMS,
) -> tuple[int, int, int, int]:
    """How a product is cut, from strips of rows and of columns: strips of a block, blocks, strips of a part, parts.
    `items` of them are enough."""
    # Rows are packed for every part of the columns, but once for neighbouring ones if they are one slice of k.
    least = sizes.least_strips if not own else 1 if k <= sizes.slice else sizes.least_own
    chunks = larger(1, work // CHUNK)
    # blocks that are there for threads to share
    most = 4 if not own or (items > 1 and strips // least * batch < 2) else 1
    blocks = larger(-(-lines // sizes.lines), smaller(smaller(-(-lines // sizes.least_lines), most), chunks))
    block = -(-lines // blocks)
    blocks = -(-lines // block)
    parts = larger(1, smaller(smaller(strips // least, chunks // blocks), -(-items // (blocks * batch))))
    part = -(-strips // parts)
    return block, blocks, part, -(-strips // part)


__all__ = ["is_tiled", "product_parts", "schedule_contraction"]
