"""One launch over many tensors: a table of addresses comes with it, and each block finds the tensor it works on.

Enters: a nest with one loop over elements `j` from `first` to `last`, both parameters, that stores to its operands, as
op/multi_tensor.py writes them for optimizer steps. Leaves: LLVM IR text of a kernel for NVPTX:

    kernel(table, numbers...)

The table is an array of i64, by value: how many rows it has, then for each row the addresses of the operands, the
number of elements, and the number of the block behind its last. A block takes `CHUNK` elements of one row.
"""

from __future__ import annotations

from ...loops.expr import const
from ...loops.nest import For, Nest, Reduce
from ...loops.record import Record
from ..llvm.lower import expand_calls
from ..text.registers import Reg
from ..text.targets import Target
from .lower import GpuLowering

CHUNK = 8192         # elements of a block
MOST_WORDS = 480     # of a table: what fits the 4096 bytes of a kernel's arguments, with numbers


class Many(Record):
    """A nest that is to be loaded for a table: its steps have the operands of one tensor after another, and their
    numbers of elements behind its parameters."""

    nest: Nest


def most_rows(operands: int) -> int:
    """Tensors of one launch."""
    return (MOST_WORDS - 1) // (operands + 2)


def lower_many(nest: Nest, target: Target, in_vectors: bool) -> str:
    """LLVM IR text of the kernel; named calls are expanded first."""
    return ManyLowering(expand_calls(nest, target), target, in_vectors).text()


class ManyLowering(GpuLowering):
    """The lowering of one such nest."""

    def signature(self) -> str:
        words = 1 + most_rows(len(self.nest.operands)) * (len(self.nest.operands) + 2)
        numbers = [f"i64 %a{k}" for k in range(len(self.nest.params) - 2)]
        return ", ".join([f"ptr byval([{words} x i64]) align 8 %table", *numbers])

    def entry_values(self) -> None:
        for k, name in enumerate(self.nest.params[:-2]):
            self.env[name] = Reg("i64", 0, [f"%a{k}"], 0)
        entry = self.scopes[0].lines
        for name, register in (("thread", "tid.x"), ("threads", "ntid.x")):
            self.env[name] = Reg("i64", 0, [self.special(entry, register)], 0)
        self.env["begin"], self.env["end"] = (self.evaluate(const(n, "i64")) for n in (0, 1))
        self.find_row(self.special(entry, "ctaid.x"))

    def word(self, lines: list[str], number: str) -> str:
        at = self.out.emit(lines, f"getelementptr i64, ptr %table, i64 {number}")
        return self.out.emit(lines, f"load i64, ptr {at}, align 8")

    def find_row(self, block: str) -> None:
        """By halves: the first row whose blocks end behind this one. Its addresses become the operands'."""
        out, lines, count = self.out, self.scopes[0].lines, len(self.nest.operands)
        top, inside, found = out.label(), out.label(), out.label()
        low, high, less, more = (out.fresh() for _ in range(4))
        last = out.emit(lines, f"sub i64 {self.word(lines, '0')}, 1")
        lines += [f"  br label %{top}", f"{top}:"]
        lines += [f"  {low} = phi i64 [ 0, %entry ], [ {more}, %{inside} ]"]
        lines += [f"  {high} = phi i64 [ {last}, %entry ], [ {less}, %{inside} ]"]
        going = out.emit(lines, f"icmp slt i64 {low}, {high}")
        lines += [f"  br i1 {going}, label %{inside}, label %{found}", f"{inside}:"]
        middle = out.emit(lines, f"lshr i64 {out.emit(lines, f'add i64 {low}, {high}')}, 1")
        end = self.end_of(lines, middle)
        is_before = out.emit(lines, f"icmp slt i64 {block}, {end}")
        after = out.emit(lines, f"add i64 {middle}, 1")
        lines.append(f"  {less} = select i1 {is_before}, i64 {middle}, i64 {high}")
        lines.append(f"  {more} = select i1 {is_before}, i64 {low}, i64 {after}")
        lines += [f"  br label %{top}", f"{found}:"]
        self.scopes[0].label = found
        row = out.emit(lines, f"mul i64 {low}, {count + 2}")
        for k in range(count):
            address = self.word(lines, out.emit(lines, f"add i64 {row}, {1 + k}"))
            generic = out.emit(lines, f"inttoptr i64 {address} to ptr addrspace(1)")
            lines.append(f"  %p{k} = addrspacecast ptr addrspace(1) {generic} to ptr")
        size = self.word(lines, out.emit(lines, f"add i64 {row}, {1 + count}"))
        is_first = out.emit(lines, f"icmp eq i64 {low}, 0")
        before = out.emit(lines, f"select i1 {is_first}, i64 0, i64 {out.emit(lines, f'sub i64 {low}, 1')}")
        start = out.emit(lines, f"select i1 {is_first}, i64 0, i64 {self.end_of(lines, before)}")
        first = out.emit(lines, f"mul i64 {out.emit(lines, f'sub i64 {block}, {start}')}, {CHUNK}")
        limit = out.emit(lines, f"add i64 {first}, {CHUNK}")
        is_whole = out.emit(lines, f"icmp slt i64 {limit}, {size}")
        stop = out.emit(lines, f"select i1 {is_whole}, i64 {limit}, i64 {size}")
        self.env["first"], self.env["last"] = (Reg("i64", 0, [name], 0) for name in (first, stop))

    def end_of(self, lines: list[str], row: str) -> str:
        """The number of the block behind a row's last."""
        count = len(self.nest.operands)
        at = self.out.emit(lines, f"add i64 {self.out.emit(lines, f'mul i64 {row}, {count + 2}')}, {count + 2}")
        return self.word(lines, at)

    def loop(self, s: For | Reduce, outer: bool = False) -> None:
        if not outer:
            super().loop(s)
            return
        self.env[s.var] = self.evaluate(const(0, "i64"))
        self.block(s.body)


__all__ = ["CHUNK", "Many", "lower_many", "most_rows"]
