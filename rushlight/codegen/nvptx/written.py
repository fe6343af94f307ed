"""Kernels written as PTX by hand, for what nests cannot say: threads of a warp that look at each other, blocks that put
things in order in shared memory.

Enters: names, and lines appended one by one. Leaves: `Written`, which a CUDA device loads as it loads a nest. Arguments
are those of nests: addresses, then parameters of 64 bits, then begin and end (nvptx/lower.py); a block for each
iteration.
"""

from __future__ import annotations

from collections.abc import Callable

from ...loops.record import Record

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
TYPES = {"r": ".b32", "d": ".b64", "h": ".b16", "p": ".pred"}
WARP, WARPS = 32, 8
THREADS = WARP * WARPS
ALL = "0xffffffff"                 # threads of a warp


class Written(Record):
    """A kernel: what its arguments are, how many threads a block has, and what writes its text."""

    name: str
    params: tuple[str, ...]
    pointers: int
    threads: int
    text: Callable[[], str]


class Text:
    """PTX in the making: registers are numbered as they are asked for."""

    def __init__(self, name: str, pointers: int, params: tuple[str, ...]) -> None:
        self.name, self.params, self.pointers = name, params, pointers
        self.lines: list[str] = []
        self.counts = dict.fromkeys(TYPES, 0)
        self.arrays: dict[str, int] = {}
        self.known: dict[str, str] = {}

    def register(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"%{kind}{self.counts[kind]}"

    def line(self, text: str) -> None:
        self.lines.append(f"\t{text};")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def value(self, kind: str, op: str, *args: str) -> str:
        """The result of an instruction, in a new register."""
        result = self.register(kind)
        self.line(f"{op} {result}, {', '.join(args)}")
        return result

    def r(self, op: str, *args: str) -> str:
        return self.value("r", op, *args)

    def d(self, op: str, *args: str) -> str:
        return self.value("d", op, *args)

    def p(self, op: str, *args: str) -> str:
        return self.value("p", op, *args)

    def argument(self, name: str) -> str:
        """An argument of 64 bits, read before anything else."""
        if name not in self.known:
            result = self.known[name] = self.register("d")
            self.lines.insert(0, f"\tld.param.u64 {result}, [{name}];")
        return self.known[name]

    def pointer(self, number: int) -> str:
        return self.argument(f"p{number}")

    def small(self, name: str) -> str:
        """A parameter as 32 bits."""
        return self.r("cvt.u32.u64", self.argument(f"a_{name}"))

    def shared(self, name: str, size: int) -> None:
        """An array in the block's shared memory."""
        self.arrays[name] = size

    def finished(self) -> str:
        """The whole text. Blocks are small enough for registers never to lack."""
        names = [*[f"p{k}" for k in range(self.pointers)], *[f"a_{n}" for n in self.params], "a_begin", "a_end"]
        given = ",\n".join(f"\t.param .u64 {name}" for name in names)
        arrays = [f"\t.shared .align 16 .b8 {name}[{size}];" for name, size in self.arrays.items()]
        registers = [f"\t.reg {TYPES[k]} %{k}<{n + 1}>;" for k, n in self.counts.items() if n]
        body = "\n".join([*registers, *arrays, *self.lines, "\tret;"])
        return f"{HEADER}\n.visible .entry {self.name}(\n{given}\n)\n{{\n{body}\n}}\n"


class BlockText(Text):
    """The text of a kernel of `THREADS` threads, and what they do together."""

    def __init__(self, name: str, pointers: int, params: tuple[str, ...]) -> None:
        super().__init__(name, pointers, params)
        self.thread = self.r("mov.u32", "%tid.x")
        self.block = self.r("mov.u32", "%ctaid.x")
        self.lane = self.r("and.b32", self.thread, str(WARP - 1))
        self.warp = self.r("shr.u32", self.thread, "5")

    def address(self, base: str, index: str, size: int) -> str:
        """Of element `index` in global memory."""
        return self.d("add.u64", base, self.d("mul.wide.u32", index, str(size)))

    def spot(self, name: str, index: str, size: int) -> str:
        """Of element `index` in shared memory."""
        return self.r("mad.lo.u32", index, str(size), self.r("mov.u32", name))

    def zero(self, kind: str) -> str:
        return self.d("mov.b64", "0") if kind.endswith("64") else self.r("mov.b32", "0")

    def before_lane(self, kind: str, value: str, distance: int) -> tuple[str, str]:
        """What the thread `distance` before this one in the warp has, and whether there is one."""
        exists = self.register("p")
        if not kind.endswith("64"):
            other = self.register("r")
            self.line(f"shfl.sync.up.b32 {other}|{exists}, {value}, {distance}, 0, {ALL}")
            return other, exists
        halves, others, result = [], [], self.register("d")
        for _ in range(2):
            halves.append(self.register("r"))
            others.append(self.register("r"))
        self.line(f"mov.b64 {{{', '.join(halves)}}}, {value}")
        for half, other in zip(halves, others, strict=True):
            self.line(f"shfl.sync.up.b32 {other}|{exists}, {half}, {distance}, 0, {ALL}")
        self.line(f"mov.b64 {result}, {{{', '.join(others)}}}")
        return result, exists

    def scanned_in_warp(self, mine: str, kind: str, op: str = "add") -> str:
        """What this thread and those of the warp before it have in all."""
        new, bits = (self.d, "b64") if kind.endswith("64") else (self.r, "b32")
        total = new(f"mov.{bits}", mine)
        for distance in (1, 2, 4, 8, 16):
            other, exists = self.before_lane(kind, total, distance)
            self.line(f"@{exists} {op}.{kind} {total}, {total}, {other}")
        return total

    def scan_block(self, mine: str, kind: str = "u32") -> tuple[str, str]:
        """What the threads before this one have in all, and what all have."""
        size = 8 if kind.endswith("64") else 4
        self.shared("warp_totals", size * WARPS)
        new, bits = (self.d, "b64") if size == 8 else (self.r, "b32")
        total = self.scanned_in_warp(mine, kind)
        last = self.p("setp.eq.u32", self.lane, str(WARP - 1))
        self.line(f"@{last} st.shared.{bits} [{self.spot('warp_totals', self.warp, size)}], {total}")
        self.line("bar.sync 0")
        earlier, exists = self.before_lane(kind, total, 1)
        inside, whole, before = self.zero(kind), self.zero(kind), self.zero(kind)
        self.line(f"@{exists} mov.{bits} {inside}, {earlier}")
        base = self.r("mov.u32", "warp_totals")
        for w in range(WARPS):
            other = new(f"ld.shared.{bits}", f"[{base}+{size * w}]")
            is_before = self.p("setp.gt.u32", self.warp, str(w))
            self.line(f"@{is_before} add.{kind} {before}, {before}, {other}")
            self.line(f"add.{kind} {whole}, {whole}, {other}")
        self.line("bar.sync 0")
        return new(f"add.{kind}", before, inside), whole


__all__ = ["ALL", "THREADS", "WARP", "WARPS", "BlockText", "Text", "Written"]
