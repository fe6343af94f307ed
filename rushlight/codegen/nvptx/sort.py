"""Kernels that sort by digits, written as PTX: counting, sums of counts, and dealing out.

Enters: the bits of a key and how many records a thread takes. Leaves: `Written` kernels of 256 threads. Records are a
key and a position of 32 bits. A block has a tile of a row: `items` times 256 records. Dealing out keeps the order of
equal digits: a warp takes its records in the order they lie, threads with the same digit find each other by votes on
its bits (which on an H200 takes less than `match.any`), and each warp counts for itself; then the tile is put in order
in shared memory, so that records of one digit are written side by side.

    count    keys -> counts[row, digit, tile]
    sums     a sum for each chunk of counts
    spine    numbers become the sum of those before them, by one block
    before   the same for each chunk of counts, from where the spine says it starts
    deal     records to where the counts say
    row      whole rows of one tile: all digits, in shared memory
"""

from __future__ import annotations

from collections.abc import Callable

from .written import ALL, THREADS, WARP, WARPS, BlockText, Written

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
CHUNK_ITEMS = 16
CHUNK = THREADS * CHUNK_ITEMS      # counts that a block sums up


class SortText(BlockText):
    """The text of such a kernel, and what its parts share."""

    def __init__(self, name: str, pointers: int, params: tuple[str, ...], bits: int = 32, items: int = 1) -> None:
        super().__init__(name, pointers, params)
        self.bits, self.items, self.tile = bits, items, items * THREADS
        self.size = bits // 8

    # Keys: registers of 32 bits, or of 64

    def key_register(self) -> str:
        return self.register("d" if self.bits == 64 else "r")

    def key_type(self) -> str:
        return f"u{self.bits}"

    def digit(self, key: str, shift: str) -> str:
        if self.bits == 64:
            return self.r("and.b32", self.r("cvt.u32.u64", self.d("shr.u64", key, shift)), str(DIGITS - 1))
        return self.r("and.b32", self.r("shr.u32", key, shift), str(DIGITS - 1))

    # What blocks do together

    def place(self, length: str, tiles: str) -> None:
        """Which row and tile the block has, where its records start, and how many there are."""
        self.row = self.r("div.u32", self.block, tiles)
        self.tile_number = self.r("sub.u32", self.block, self.r("mul.lo.u32", self.row, tiles))
        self.gone = self.r("mul.lo.u32", self.tile_number, str(self.tile))
        self.start = self.r("mad.lo.u32", self.row, length, self.gone)
        self.count = self.r("min.u32", self.r("sub.u32", length, self.gone), str(self.tile))

    def count_place(self, digit: str, tiles: str) -> str:
        """Where the count of a digit in this tile is."""
        return self.r("mad.lo.u32", self.r("mad.lo.u32", self.row, str(DIGITS), digit), tiles, self.tile_number)

    def warp_order(self) -> str:
        """The first of this thread's records, which are a warp's width apart."""
        return self.r("mad.lo.u32", self.warp, str(WARP * self.items), self.lane)

    def rank(self, keys: list[str], shift: str) -> list[str]:
        """Of each record, how many of its warp's records with its digit come before it; the warp's counts are in
        `counted` then."""
        self.shared("counted", 4 * WARPS * DIGITS)
        mine = self.spot("counted", self.thread, 4)
        for w in range(WARPS):
            self.line(f"st.shared.u32 [{mine}+{4 * DIGITS * w}], 0")
        self.line("bar.sync 0")
        base = self.r("mad.lo.u32", self.warp, str(4 * DIGITS), self.r("mov.u32", "counted"))
        lower, ranks = self.r("mov.u32", "%lanemask_lt"), []
        for key in keys:
            digit = self.digit(key, shift)
            at, peers = self.r("mad.lo.u32", digit, "4", base), self.alike(digit)
            earlier = self.r("and.b32", peers, lower)
            now = self.r("ld.shared.u32", f"[{at}]")
            self.line(f"bar.warp.sync {ALL}")
            first = self.p("setp.eq.u32", earlier, "0")
            more = self.r("add.u32", now, self.r("popc.b32", peers))
            self.line(f"@{first} st.shared.u32 [{at}], {more}")
            self.line(f"bar.warp.sync {ALL}")
            ranks.append(self.r("add.u32", now, self.r("popc.b32", earlier)))
        self.line("bar.sync 0")
        return ranks

    def alike(self, digit: str) -> str:
        """The threads of the warp that have this thread's digit."""
        peers = self.r("mov.u32", ALL)
        for k in range(DIGIT_BITS):
            is_set = self.p("setp.ne.u32", self.r("and.b32", digit, str(1 << k)), "0")
            threads = self.r("vote.sync.ballot.b32", is_set, ALL)
            self.line(f"@!{is_set} not.b32 {threads}, {threads}")
            self.line(f"and.b32 {peers}, {peers}, {threads}")
        return peers

    def digit_starts(self) -> str:
        """`counted` becomes where each warp's records of each digit start in the tile; where this thread's digit
        does."""
        mine = self.spot("counted", self.thread, 4)
        found = [self.r("ld.shared.u32", f"[{mine}+{4 * DIGITS * w}]") for w in range(WARPS)]
        total = self.r("mov.u32", "0")
        for one in found:
            self.line(f"add.u32 {total}, {total}, {one}")
        start, _ = self.scan_block(total)
        now = self.r("mov.u32", start)
        for w, one in enumerate(found):
            self.line(f"st.shared.u32 [{mine}+{4 * DIGITS * w}], {now}")
            self.line(f"add.u32 {now}, {now}, {one}")
        return start

    def places(self, keys: list[str], ranks: list[str], shift: str) -> list[str]:
        """Where each record goes in the tile."""
        base = self.r("mad.lo.u32", self.warp, str(4 * DIGITS), self.r("mov.u32", "counted"))
        result = []
        for key, rank in zip(keys, ranks, strict=True):
            at = self.r("mad.lo.u32", self.digit(key, shift), "4", base)
            result.append(self.r("add.u32", self.r("ld.shared.u32", f"[{at}]"), rank))
        return result

    def load_records(self, keys_at: str, values_at: str | None) -> tuple[list[str], list[str]]:
        """This thread's records, in the order of warps; those beyond the end have the greatest key."""
        first = self.warp_order()
        at = self.r("add.u32", self.start, first)
        key_at = self.address(keys_at, at, self.size)
        value_at = self.address(values_at, at, 4) if values_at else ""
        keys, values = [], []
        for k in range(self.items):
            inside = self.p("setp.lt.u32", self.r("add.u32", first, str(k * WARP)), self.count)
            key = self.key_register()
            self.line(f"mov.b{64 if self.bits == 64 else 32} {key}, {(1 << self.bits) - 1 if self.bits < 64 else -1}")
            self.line(f"@{inside} ld.global.{self.key_type()} {key}, [{key_at}+{k * WARP * self.size}]")
            keys.append(key)
            if values_at:
                value = self.r("mov.u32", "0")
                self.line(f"@{inside} ld.global.u32 {value}, [{value_at}+{k * WARP * 4}]")
                values.append(value)
        return keys, values


def counting(bits: int, items: int) -> Written:
    """How often each digit occurs in each tile."""
    params = ("length", "tiles", "digit")

    def text() -> str:
        t = SortText("sort_count", 2, params, bits, items)
        length, tiles, shift = (t.small(name) for name in params)
        t.shared("counts_of_digits", 4 * DIGITS)
        t.place(length, tiles)
        mine = t.spot("counts_of_digits", t.thread, 4)
        t.line(f"st.shared.u32 [{mine}], 0")
        t.line("bar.sync 0")
        base = t.r("mov.u32", "counts_of_digits")
        at = t.address(t.pointer(0), t.r("add.u32", t.start, t.thread), t.size)
        keys = []
        for k in range(items):
            inside = t.p("setp.lt.u32", t.r("add.u32", t.thread, str(k * THREADS)), t.count)
            key = t.key_register()
            t.line(f"@{inside} ld.global.{t.key_type()} {key}, [{at}+{k * THREADS * t.size}]")
            keys.append((inside, key))
        for inside, key in keys:
            t.line(f"@{inside} red.shared.add.u32 [{t.r('mad.lo.u32', t.digit(key, shift), '4', base)}], 1")
        t.line("bar.sync 0")
        to = t.address(t.pointer(1), t.count_place(t.thread, tiles), 4)
        t.line(f"st.global.u32 [{to}], {t.r('ld.shared.u32', f'[{mine}]')}")
        return t.finished()

    return Written("sort_count", params, 2, THREADS, text)


def dealing(bits: int, items: int, first: bool = False) -> Written:
    """Records to where the sums of counts say; the `first` time, positions are as the keys lie, and are not read."""
    params = ("length", "tiles", "digit")

    def text() -> str:
        t = SortText("sort_deal", 5, params, bits, items)
        length, tiles, shift = (t.small(name) for name in params)
        t.shared("digit_shift", 4 * DIGITS)
        t.shared("records", t.tile * max(4, t.size))
        t.place(length, tiles)
        keys, values = t.load_records(t.pointer(0), None if first else t.pointer(1))
        if first:
            own = t.r("add.u32", t.gone, t.warp_order())
            values = [t.r("add.u32", own, str(k * WARP)) for k in range(items)]
        ranks = t.rank(keys, shift)
        counted = t.r("ld.global.u32", f"[{t.address(t.pointer(2), t.count_place(t.thread, tiles), 4)}]")
        moved = t.r("sub.u32", counted, t.digit_starts())
        t.line(f"st.shared.u32 [{t.spot('digit_shift', t.thread, 4)}], {moved}")
        t.line("bar.sync 0")
        places = t.places(keys, ranks, shift)
        for key, place in zip(keys, places, strict=True):
            t.line(f"st.shared.{t.key_type()} [{t.spot('records', place, t.size)}], {key}")
        t.line("bar.sync 0")
        base, key_at = t.r("mov.u32", "digit_shift"), t.spot("records", t.thread, t.size)
        targets = []
        for k in range(items):
            inside = t.p("setp.lt.u32", t.r("add.u32", t.thread, str(k * THREADS)), t.count)
            key = t.key_register()
            t.line(f"ld.shared.{t.key_type()} {key}, [{key_at}+{k * THREADS * t.size}]")
            shifted = t.r("ld.shared.u32", f"[{t.r('mad.lo.u32', t.digit(key, shift), '4', base)}]")
            target = t.r("add.u32", shifted, t.r("add.u32", t.thread, str(k * THREADS)))
            t.line(f"@{inside} st.global.{t.key_type()} [{t.address(t.pointer(3), target, t.size)}], {key}")
            targets.append((inside, target))
        t.line("bar.sync 0")
        for value, place in zip(values, places, strict=True):
            t.line(f"st.shared.u32 [{t.spot('records', place, 4)}], {value}")
        t.line("bar.sync 0")
        value_at = t.spot("records", t.thread, 4)
        for k, (inside, target) in enumerate(targets):
            value = t.r("ld.shared.u32", f"[{value_at}+{k * THREADS * 4}]")
            t.line(f"@{inside} st.global.u32 [{t.address(t.pointer(4), target, 4)}], {value}")
        return t.finished()

    return Written("sort_deal", params, 5, THREADS, text)


def sorting_rows(bits: int, items: int) -> Written:
    """Rows of at most one tile: keys are read, keys and positions written in order."""
    params = ("length", "digits")

    def text() -> str:
        t = SortText("sort_row", 2, params, bits, items)
        length, end = t.small("length"), t.small("digits")
        t.shared("records", t.tile * max(4, t.size))
        t.start, t.count = t.r("mul.lo.u32", t.block, length), length
        keys, _ = t.load_records(t.pointer(0), None)
        first = t.warp_order()
        values = [t.r("add.u32", first, str(k * WARP)) for k in range(items)]
        shift = t.r("mov.u32", "0")
        t.label("next_digit")
        ranks = t.rank(keys, shift)
        t.digit_starts()
        t.line("bar.sync 0")
        places = t.places(keys, ranks, shift)
        for registers, kind, size in ((keys, t.key_type(), t.size), (values, "u32", 4)):
            t.line("bar.sync 0")
            for one, place in zip(registers, places, strict=True):
                t.line(f"st.shared.{kind} [{t.spot('records', place, size)}], {one}")
            t.line("bar.sync 0")
            at = t.spot("records", first, size)
            for k, one in enumerate(registers):
                t.line(f"ld.shared.{kind} {one}, [{at}+{k * WARP * size}]")
        t.line(f"add.u32 {shift}, {shift}, {DIGIT_BITS}")
        t.line("bar.sync 0")
        t.line(f"@{t.p('setp.lt.u32', shift, end)} bra next_digit")
        at = t.r("add.u32", t.start, first)
        value_at = t.address(t.pointer(1), at, 4)
        for k, value in enumerate(values):
            inside = t.p("setp.lt.u32", t.r("add.u32", first, str(k * WARP)), t.count)
            t.line(f"@{inside} st.global.u32 [{value_at}+{k * WARP * 4}], {value}")
        return t.finished()

    return Written("sort_row", params, 2, THREADS, text)


# --- sums of what is before each count --------------------------------------------------------------------------------


def chunk_of(t: SortText, base: str, count: str, first: str) -> tuple[str, list[tuple[str, str]]]:
    """The address of this thread's numbers, which lie side by side, and (whether it is there, the number) of each."""
    at, found = t.address(base, first, 4), []
    for k in range(CHUNK_ITEMS):
        inside = t.p("setp.lt.u32", t.r("add.u32", first, str(k)), count)
        number = t.r("mov.u32", "0")
        t.line(f"@{inside} ld.global.u32 {number}, [{at}+{4 * k}]")
        found.append((inside, number))
    return at, found


def sum_up(t: SortText, found: list[tuple[str, str]]) -> str:
    total = t.r("mov.u32", "0")
    for _, number in found:
        t.line(f"add.u32 {total}, {total}, {number}")
    return total


def write_sums(t: SortText, at: str, found: list[tuple[str, str]], start: str) -> None:
    now = t.r("mov.u32", start)
    for k, (inside, number) in enumerate(found):
        t.line(f"@{inside} st.global.u32 [{at}+{4 * k}], {now}")
        t.line(f"add.u32 {now}, {now}, {number}")


def summing() -> Written:
    """The sum of each chunk."""

    def text() -> str:
        t = SortText("sort_sums", 2, ("count",))
        first = t.r("mad.lo.u32", t.block, str(CHUNK), t.r("mul.lo.u32", t.thread, str(CHUNK_ITEMS)))
        _, found = chunk_of(t, t.pointer(0), t.small("count"), first)
        _, whole = t.scan_block(sum_up(t, found))
        to = t.address(t.pointer(1), t.block, 4)
        t.line(f"@{t.p('setp.eq.u32', t.thread, '0')} st.global.u32 [{to}], {whole}")
        return t.finished()

    return Written("sort_sums", ("count",), 2, THREADS, text)


def spine() -> Written:
    """All numbers, by one block, chunk by chunk."""

    def text() -> str:
        t = SortText("sort_spine", 1, ("count",))
        count, carried = t.small("count"), t.r("mov.u32", "0")
        first = t.r("mul.lo.u32", t.thread, str(CHUNK_ITEMS))
        chunk = t.r("mov.u32", "0")
        t.label("next_chunk")
        at, found = chunk_of(t, t.pointer(0), count, first)
        before, whole = t.scan_block(sum_up(t, found))
        write_sums(t, at, found, t.r("add.u32", before, carried))
        t.line(f"add.u32 {carried}, {carried}, {whole}")
        t.line(f"add.u32 {first}, {first}, {CHUNK}")
        t.line(f"add.u32 {chunk}, {chunk}, {CHUNK}")
        t.line(f"@{t.p('setp.lt.u32', chunk, count)} bra next_chunk")
        return t.finished()

    return Written("sort_spine", ("count",), 1, THREADS, text)


def before_each() -> Written:
    """Each chunk, from where it starts."""

    def text() -> str:
        t = SortText("sort_before", 2, ("count",))
        first = t.r("mad.lo.u32", t.block, str(CHUNK), t.r("mul.lo.u32", t.thread, str(CHUNK_ITEMS)))
        at, found = chunk_of(t, t.pointer(1), t.small("count"), first)
        start = t.r("ld.global.u32", f"[{t.address(t.pointer(0), t.block, 4)}]")
        before, _ = t.scan_block(sum_up(t, found))
        write_sums(t, at, found, t.r("add.u32", before, start))
        return t.finished()

    return Written("sort_before", ("count",), 2, THREADS, text)


KERNELS: dict[str, Callable[..., Written]] = {
    "count": counting, "deal": dealing, "row": sorting_rows, "sums": summing, "spine": spine, "before": before_each,
}

__all__ = ["CHUNK", "DIGITS", "DIGIT_BITS", "KERNELS", "THREADS"]
