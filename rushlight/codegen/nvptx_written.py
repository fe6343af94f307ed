"""Kernels written as PTX by hand, for what nests cannot say: threads of a warp that look at each other, blocks that put
things in order in shared memory.

Enters: names, and lines appended one by one. Leaves: `Written`, which a CUDA device loads as it loads a nest. Arguments
are those of nests: addresses, then parameters of 64 bits, then begin and end (nvptx.py); a block for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable

from ..loops.record import Record

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
TYPES = {"r": ".b32", "d": ".b64", "p": ".pred"}


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
        """The whole text."""
        names = [*[f"p{k}" for k in range(self.pointers)], *[f"a_{n}" for n in self.params], "a_begin", "a_end"]
        given = ",\n".join(f"\t.param .u64 {name}" for name in names)
        arrays = [f"\t.shared .align 16 .b8 {name}[{size}];" for name, size in self.arrays.items()]
        registers = [f"\t.reg {TYPES[k]} %{k}<{n + 1}>;" for k, n in self.counts.items() if n]
        body = "\n".join([*registers, *arrays, *self.lines, "\tret;"])
        return f"{HEADER}\n.visible .entry {self.name}(\n{given}\n)\n{{\n{body}\n}}\n"


__all__ = ["Text", "Written"]
