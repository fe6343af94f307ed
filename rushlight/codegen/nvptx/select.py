"""Kernels that find the first few of long rows in order, written as PTX: digit by digit, then collecting.

Enters: the bits of a key. Leaves: `Written` kernels of 256 threads. A row is shared by `tiles` blocks, each with
`portion` keys of it. Of every row there is a record of 32-bit words: how often each digit occurs, then the digits found
so far (two words) and how many records are wanted among those that start with them. All of it is zero at first.

    count     digits of the keys that start with what was found
    choose    the digit that the last of the wanted records has; counts are zero again
    tally     how many keys come before the last one wanted, and how many are like it: of each block, and of its warps
    collect   those that come first, in the order they lie, then those like the last, in the order they lie

Few records of short rows are found one after the other, by a warp for each row (`few`).

What is written depends on keys alone: sums of whole numbers are the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable

from .sort import SortText
from .written import ALL, THREADS, WARP, WARPS, Written

WIDTH = 11                         # bits of a digit
BINS = 1 << WIDTH
RECORD = BINS + 4                  # words of a row's record
FOUND, WANTED = BINS, BINS + 2     # where in it the digits and the number are
TALLIES = WARPS + 1                # of a block: what its warps start from, and its own
ITEMS = 8                          # keys that a thread reads at once
STEP = THREADS * ITEMS             # what portions are multiples of
PLACE = ("length", "tiles", "portion")


def passes(bits: int) -> list[tuple[int, int]]:
    """(lowest bit, width) of each digit, the highest first."""
    found, top = [], bits
    while top:
        width = min(WIDTH, top)
        top -= width
        found.append((top, width))
    return found


class SelectText(SortText):
    """The text of such a kernel."""

    def __init__(self, name: str, pointers: int, params: tuple[str, ...], bits: int) -> None:
        super().__init__(name, pointers, params, bits, ITEMS)

    def place_portion(self) -> None:
        """Which row and tile the block has, and from where to where in the row its keys are."""
        length, tiles, portion = (self.small(name) for name in PLACE)
        self.row = self.r("div.u32", self.block, tiles)
        self.tile_number = self.r("sub.u32", self.block, self.r("mul.lo.u32", self.row, tiles))
        self.first = self.r("mul.lo.u32", self.tile_number, portion)
        self.portion = portion
        self.end = self.r("min.u32", self.r("add.u32", self.first, portion), length)
        self.row_start = self.r("mul.lo.u32", self.row, length)

    def record(self, pointer: str, word: int) -> str:
        """The address of a word of the row's record."""
        return self.d("add.u64", self.address(pointer, self.row, 4 * RECORD), str(4 * word))

    def found(self, at: str) -> str:
        """The digits found so far."""
        if self.bits == 64:
            return self.d("ld.global.u64", f"[{at}]")
        return self.r("ld.global.u32", f"[{at}]")

    def compared(self, how: str, key: str, other: str) -> str:
        return self.p(f"setp.{how}.u{max(self.bits, 32)}", key, other)

    def shifted(self, key: str, by: str) -> str:
        """A key without its lowest bits; by all of them, zero."""
        return self.d("shr.u64", key, by) if self.bits == 64 else self.r("shr.u32", key, by)

    def read(self, keys_at: str, first: str, apart: int, end: str) -> list[tuple[str, str, str]]:
        """(whether it is there, its number in the row, the key) of `ITEMS` keys, so many apart."""
        at, found = self.address(keys_at, self.r("add.u32", self.row_start, first), self.size), []
        for k in range(ITEMS):
            number = self.r("add.u32", first, str(k * apart))
            inside, key = self.p("setp.lt.u32", number, end), self.key_register()
            self.line(f"@{inside} ld.global.{self.key_type()} {key}, [{at}+{k * apart * self.size}]")
            found.append((inside, number, key))
        return found

    def turns(self, keys_at: str, each: Callable[[str, str, str], None]) -> None:
        """`each` of the keys of a warp's share of the portion, which lie in a row, in their order."""
        share = self.r("shr.u32", self.portion, str(WARPS.bit_length() - 1))
        gone = self.r("mad.lo.u32", self.warp, share, self.first)
        end = self.r("min.u32", self.r("add.u32", gone, share), self.end)
        now, turn = self.r("add.u32", gone, self.lane), self.r("mov.u32", "0")
        self.label("next_turn")
        for inside, number, key in self.read(keys_at, now, WARP, end):
            each(inside, number, key)
        for one in (now, turn):
            self.line(f"add.u32 {one}, {one}, {WARP * ITEMS}")
        self.line(f"@{self.p('setp.lt.u32', turn, share)} bra next_turn")


def counting(bits: int) -> Written:
    """How often each digit occurs, added to the row's record."""
    params = (*PLACE, "digit", "above", "mask")

    def text() -> str:
        t = SelectText("select_count", 2, params, bits)
        t.place_portion()
        shift, above, mask = (t.small(name) for name in params[3:])
        t.shared("counted", 4 * BINS)
        mine = t.spot("counted", t.thread, 4)
        for k in range(0, BINS, THREADS):
            t.line(f"st.shared.u32 [{mine}+{4 * k}], 0")
        t.line("bar.sync 0")
        base, wanted = t.r("mov.u32", "counted"), t.found(t.record(t.pointer(1), FOUND))
        now, turn = t.r("add.u32", t.first, t.thread), t.r("mov.u32", t.first)
        t.label("next_turn")
        for inside, _, key in t.read(t.pointer(0), now, THREADS, t.end):
            same = t.p("and.pred", inside, t.compared("eq", t.shifted(key, above), wanted))
            low = t.shifted(key, shift)
            digit = t.r("and.b32", t.r("cvt.u32.u64", low) if bits == 64 else low, mask)
            t.line(f"@{same} red.shared.add.u32 [{t.r('mad.lo.u32', digit, '4', base)}], 1")
        for one in (now, turn):
            t.line(f"add.u32 {one}, {one}, {STEP}")
        t.line(f"@{t.p('setp.lt.u32', turn, t.end)} bra next_turn")
        t.line("bar.sync 0")
        to = t.d("add.u64", t.record(t.pointer(1), 0), t.d("mul.wide.u32", t.thread, "4"))
        for k in range(0, BINS, THREADS):
            count = t.r("ld.shared.u32", f"[{mine}+{4 * k}]")
            t.line(f"@{t.p('setp.gt.u32', count, '0')} red.global.add.u32 [{to}+{4 * k}], {count}")
        return t.finished()

    return Written("select_count", params, 2, THREADS, text)


def choosing(bits: int) -> Written:
    """The digit of the last record wanted, behind those found; a block for each row. `given`: how many are wanted, for
    the first digit."""
    params, each = ("width", "given"), BINS // THREADS

    def text() -> str:
        t = SelectText("select_choose", 1, params, bits)
        width, given, t.row = t.small("width"), t.small("given"), t.block
        at, left = t.record(t.pointer(0), FOUND), t.record(t.pointer(0), WANTED)
        found = t.found(at)
        wanted = t.r("add.u32", t.r("ld.global.u32", f"[{left}]"), given)
        first = t.r("mul.lo.u32", t.thread, str(each))
        mine = t.d("add.u64", t.record(t.pointer(0), 0), t.d("mul.wide.u32", first, "4"))
        counts = [t.r("ld.global.u32", f"[{mine}+{4 * k}]") for k in range(each)]
        total = t.r("mov.u32", "0")
        for k, count in enumerate(counts):
            t.line(f"add.u32 {total}, {total}, {count}")
            t.line(f"st.global.u32 [{mine}+{4 * k}], 0")
        before, _ = t.scan_block(total)
        word = t.d("shl.b64", found, width) if bits == 64 else t.r("shl.b32", found, width)
        for k, count in enumerate(counts):
            after = t.r("add.u32", before, count)
            here = t.p("and.pred", t.p("setp.lt.u32", before, wanted), t.p("setp.ge.u32", after, wanted))
            digit = t.r("add.u32", first, str(k))
            longer = t.d("add.u64", word, t.d("cvt.u64.u32", digit)) if bits == 64 else t.r("add.u32", word, digit)
            t.line(f"@{here} st.global.u{max(bits, 32)} [{at}], {longer}")
            t.line(f"@{here} st.global.u32 [{left}], {t.r('sub.u32', wanted, before)}")
            before = after
        return t.finished()

    return Written("select_choose", params, 1, THREADS, text)


def tallying(bits: int) -> Written:
    """Keys before the last one wanted (upper half of a word), and keys like it (lower half)."""

    def text() -> str:
        t = SelectText("select_tally", 3, PLACE, bits)
        t.place_portion()
        last = t.found(t.record(t.pointer(1), FOUND))
        less, like = t.r("mov.u32", "0"), t.r("mov.u32", "0")

        def each(inside: str, number: str, key: str) -> None:
            for how, total in (("lt", less), ("eq", like)):
                t.line(f"@{t.p('and.pred', inside, t.compared(how, key, last))} add.u32 {total}, {total}, 1")

        t.turns(t.pointer(0), each)
        both = t.register("d")
        t.line(f"mov.b64 {both}, {{{like}, {less}}}")
        before, whole = t.scan_block(both, "u64")
        mine = t.r("mul.lo.u32", t.block, str(TALLIES))
        to = t.address(t.pointer(2), t.r("add.u32", mine, t.warp), 8)
        t.line(f"@{t.p('setp.eq.u32', t.lane, '0')} st.global.u64 [{to}], {before}")
        to = t.address(t.pointer(2), mine, 8)
        t.line(f"@{t.p('setp.eq.u32', t.thread, '0')} st.global.u64 [{to}+{8 * WARPS}], {whole}")
        return t.finished()

    return Written("select_tally", PLACE, 3, THREADS, text)


def blocks_before(t: SelectText, tallies: str) -> str:
    """What the row's blocks before this one tallied."""
    total, turn = t.zero("u64"), t.r("mov.u32", "0")
    row_first = t.r("sub.u32", t.block, t.tile_number)
    t.label("next_block")
    number = t.r("add.u32", turn, t.thread)
    exists, value = t.p("setp.lt.u32", number, t.tile_number), t.zero("u64")
    at = t.address(tallies, t.r("mul.lo.u32", t.r("add.u32", row_first, number), str(TALLIES)), 8)
    t.line(f"@{exists} ld.global.u64 {value}, [{at}+{8 * WARPS}]")
    t.line(f"add.u64 {total}, {total}, {value}")
    t.line(f"add.u32 {turn}, {turn}, {THREADS}")
    t.line(f"@{t.p('setp.lt.u32', turn, t.tile_number)} bra next_block")
    return t.scan_block(total, "u64")[1]


def collecting(bits: int) -> Written:
    """Of each record wanted: the key, its number among them, and its place in the row."""
    params = (*PLACE, "count")

    def text() -> str:
        t = SelectText("select_collect", 6, params, bits)
        t.place_portion()
        count, tallies = t.small("count"), t.pointer(2)
        mine = t.r("mul.lo.u32", t.block, str(TALLIES))
        own = t.d("ld.global.u64", f"[{t.address(tallies, mine, 8)}+{8 * WARPS}]")
        some = t.r("add.u32", t.r("cvt.u32.u64", own), t.r("cvt.u32.u64", t.d("shr.u64", own, "32")))
        t.line(f"@{t.p('setp.eq.u32', some, '0')} bra done")
        last = t.found(t.record(t.pointer(1), FOUND))
        left = t.r("ld.global.u32", f"[{t.record(t.pointer(1), WANTED)}]")
        warp_start = t.d("ld.global.u64", f"[{t.address(tallies, t.r('add.u32', mine, t.warp), 8)}]")
        start = t.d("add.u64", blocks_before(t, tallies), warp_start)
        less = t.r("cvt.u32.u64", t.d("shr.u64", start, "32"))
        like = t.r("add.u32", t.r("cvt.u32.u64", start), t.r("sub.u32", count, left))
        lower, row = t.r("mov.u32", "%lanemask_lt"), t.r("mul.lo.u32", t.row, count)

        def each(inside: str, number: str, key: str) -> None:
            for how, now in (("lt", less), ("eq", like)):
                chosen = t.p("and.pred", inside, t.compared(how, key, last))
                threads = t.r("vote.sync.ballot.b32", chosen, ALL)
                slot = t.r("add.u32", now, t.r("popc.b32", t.r("and.b32", threads, lower)))
                kept = t.p("and.pred", chosen, t.p("setp.lt.u32", slot, count))
                to = t.r("add.u32", row, slot)
                t.line(f"@{kept} st.global.{t.key_type()} [{t.address(t.pointer(3), to, t.size)}], {key}")
                t.line(f"@{kept} st.global.u32 [{t.address(t.pointer(4), to, 4)}], {slot}")
                t.line(f"@{kept} st.global.u32 [{t.address(t.pointer(5), to, 4)}], {number}")
                t.line(f"add.u32 {now}, {now}, {t.r('popc.b32', threads)}")

        t.turns(t.pointer(0), each)
        t.label("done")
        return t.finished()

    return Written("select_collect", params, 6, THREADS, text)


def finding_few(bits: int, items: int) -> Written:
    """The places of the first `count` records of each row, as many apart as rows are long: the least of key and place,
    again and again. Rows have at most `items` records for each thread of a warp, and keys at most 32 bits."""
    params = ("length", "number", "count")

    def text() -> str:
        t = SelectText("select_few", 2, params, bits)
        length, number, count = (t.small(name) for name in params)
        row = t.r("mad.lo.u32", t.block, str(WARPS), t.warp)
        exists = t.p("setp.lt.u32", row, number)
        start = t.r("mul.lo.u32", row, length)
        at, records = t.address(t.pointer(0), t.r("add.u32", start, t.lane), t.size), []
        for k in range(items):
            place = t.r("add.u32", t.lane, str(k * WARP))
            there = t.p("and.pred", exists, t.p("setp.lt.u32", place, length))
            key, record = t.r("mov.u32", "0"), t.d("mov.b64", "-1")
            t.line(f"@{there} ld.global.{t.key_type()} {key}, [{at}+{k * WARP * t.size}]")
            t.line(f"@{there} mov.b64 {record}, {{{place}, {key}}}")
            records.append(record)
        writes = t.p("and.pred", exists, t.p("setp.eq.u32", t.lane, "0"))
        to, turn = t.address(t.pointer(1), start, 4), t.r("mov.u32", "0")
        t.label("next_record")
        least = t.d("mov.b64", records[0])
        for one in records[1:]:
            t.line(f"min.u64 {least}, {least}, {one}")
        low, high = t.register("r"), t.register("r")
        t.line(f"mov.b64 {{{low}, {high}}}, {least}")
        key = t.r("redux.sync.min.u32", high, ALL)
        other, place = t.p("setp.ne.u32", key, high), t.r("mov.u32", low)
        t.line(f"@{other} mov.u32 {place}, {ALL}")
        place = t.r("redux.sync.min.u32", place, ALL)
        found = t.register("d")
        t.line(f"mov.b64 {found}, {{{place}, {key}}}")
        t.line(f"@{writes} st.global.u32 [{to}], {place}")
        for one in records:
            t.line(f"@{t.p('setp.eq.u64', one, found)} mov.b64 {one}, -1")
        t.line(f"add.u64 {to}, {to}, 4")
        t.line(f"add.u32 {turn}, {turn}, 1")
        t.line(f"@{t.p('setp.lt.u32', turn, count)} bra next_record")
        return t.finished()

    return Written("select_few", params, 2, THREADS, text)


KERNELS: dict[str, Callable[[int], Written]] = {
    "count": counting, "choose": choosing, "tally": tallying, "collect": collecting,
}

__all__ = ["BINS", "KERNELS", "RECORD", "STEP", "TALLIES", "finding_few", "passes"]
