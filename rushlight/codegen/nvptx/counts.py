"""How often each of a few numbers occurs, written as PTX.

Enters: the type of the numbers and how many different ones there may be at most. Leaves: a `Written` kernel of 256
threads. A block counts its portion in shared memory and adds what it has to the result, which is zero at first. Numbers
outside are not counted. Where all threads of a warp have the same number, one of them adds for all: sums at one place
take turns.
"""

from __future__ import annotations

from .written import ALL, THREADS, BlockText, Written

ITEMS = 8                          # numbers that a thread reads at once
STEP = THREADS * ITEMS             # what portions are multiples of
ROOMS = (256, 1024, 4096, 8192)    # different numbers that shared memory holds counts of
PARAMS = ("length", "portion", "bins")


def counting(code: str, room: int) -> Written:
    """The kernel for numbers of type `code` ("i32" or "i64"), less than `room`."""
    wide = code == "i64"

    def text() -> str:
        t = BlockText("count_numbers", 2, PARAMS)
        length, portion, bins = (t.small(name) for name in PARAMS)
        t.shared("counted", 4 * room)
        mine = t.spot("counted", t.thread, 4)
        for k in range(0, room, THREADS):
            t.line(f"st.shared.u32 [{mine}+{4 * k}], 0")
        t.line("bar.sync 0")
        first = t.r("mul.lo.u32", t.block, portion)
        end = t.r("min.u32", t.r("add.u32", first, portion), length)
        base, now, turn = t.r("mov.u32", "counted"), t.r("add.u32", first, t.thread), t.r("mov.u32", first)
        t.label("next_turn")
        at, numbers = t.address(t.pointer(0), now, 8 if wide else 4), []
        for k in range(ITEMS):
            there = t.p("setp.lt.u32", t.r("add.u32", now, str(k * THREADS)), end)
            number = t.d("mov.b64", "-1") if wide else t.r("mov.b32", "-1")
            size = 8 if wide else 4
            t.line(f"@{there} ld.global.b{8 * size} {number}, [{at}+{k * THREADS * size}]")
            if wide:
                number = t.r("cvt.u32.u64", t.d("min.u64", number, t.d("cvt.u64.u32", bins)))
            numbers.append(t.r("min.u32", number, bins))
        for number in numbers:
            count_one(t, base, number, t.p("setp.lt.u32", number, bins))
        for one in (now, turn):
            t.line(f"add.u32 {one}, {one}, {STEP}")
        t.line(f"@{t.p('setp.lt.u32', turn, end)} bra next_turn")
        t.line("bar.sync 0")
        to = t.address(t.pointer(1), t.thread, 8)
        for k in range(0, room, THREADS):
            count = t.r("ld.shared.u32", f"[{mine}+{4 * k}]")
            some = t.p("setp.gt.u32", count, "0")
            t.line(f"@{some} red.global.add.u64 [{to}+{8 * k}], {t.d('cvt.u64.u32', count)}")
        return t.finished()

    return Written("count_numbers", PARAMS, 2, THREADS, text)


def count_one(t: BlockText, base: str, number: str, inside: str) -> None:
    """One more of each thread's number, where it has one."""
    shared, exists = t.register("r"), t.register("p")
    t.line(f"shfl.sync.idx.b32 {shared}|{exists}, {number}, 0, 31, {ALL}")
    differ = t.r("vote.sync.ballot.b32", t.p("setp.ne.u32", number, shared), ALL)
    at = t.r("mad.lo.u32", number, "4", base)
    each = t.p("and.pred", inside, t.p("setp.gt.u32", differ, "0"))
    whole = t.p("and.pred", inside, t.p("setp.eq.u32", t.r("or.b32", differ, t.lane), "0"))
    t.line(f"@{each} red.shared.add.u32 [{at}], 1")
    t.line(f"@{whole} red.shared.add.u32 [{at}], 32")


__all__ = ["ROOMS", "STEP", "counting"]
