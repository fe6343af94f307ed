"""A small writer of LLVM IR text, for kernels that no loop nest describes: register tiles, packing into scratch memory.

Enters: calls in program order. Leaves: the text of one function. Refuses nothing: LLVM's parser judges the text.

Loops carry values as phis, so that the text needs no optimiser between here and machine code:

    with w.loop(0, n, carry=[zero]) as l:      # l.i counts, l.carry holds this iteration's values
        l.next = [w.fma(x, y, l.carry[0])]     # what the next iteration gets; after the loop, l.carry is the last
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Reg:
    """A value: its text (a register or a constant) and its LLVM type."""

    __slots__ = ("text", "type")

    def __init__(self, text: str, type: str) -> None:
        self.text, self.type = text, type

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Number = Reg | int
ABI = (("ptr", "ptrs"), ("ptr", "params"), ("i64", "begin"), ("i64", "end"))   # of every kernel: see loops/nest.py


class Loop:
    """A loop being written."""

    def __init__(self, i: Reg, carry: list[Reg]) -> None:
        self.i, self.carry = i, carry
        self.next: list[Reg] = list(carry)


def as_reg(value: Number) -> Reg:
    """Python integers are i64 constants."""
    return Reg(str(value), "i64") if isinstance(value, int) else value


class Writer:
    """One function: parameters are (type, name) pairs, and are read as `w[name]`."""

    def __init__(self, name: str, params: Sequence[tuple[str, str]], linkage: str = "") -> None:
        self.head = f"define {linkage}void @{name}({', '.join(f'{t} %{n}' for t, n in params)}) {{"
        self.names = {n: Reg(f"%{n}", t) for t, n in params}
        self.lines: list[str] = ["entry:"]
        self.block = "entry"
        self.count = 0

    def __getitem__(self, name: str) -> Reg:
        return self.names[name]

    def __setitem__(self, name: str, value: Reg) -> None:
        self.names[name] = value

    def text(self) -> str:
        """The finished function."""
        return "\n".join([self.head, *self.lines, "  ret void", "}"])

    # Instructions ---------------------------------------------------------------------------------------------------

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def new(self, type: str, text: str) -> Reg:
        """A register holding the result of an instruction."""
        name = f"%v{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return Reg(name, type)

    def binary(self, op: str, a: Number, b: Number) -> Reg:
        a, b = as_reg(a), as_reg(b)
        return self.new(a.type, f"{op} {a}, {b.text}")

    def add(self, a: Number, b: Number) -> Reg:
        return self.binary("add", a, b)

    def sub(self, a: Number, b: Number) -> Reg:
        return self.binary("sub", a, b)

    def mul(self, a: Number, b: Number) -> Reg:
        return self.binary("mul", a, b)

    def div(self, a: Number, b: Number) -> Reg:
        return self.binary("udiv", a, b)

    def rem(self, a: Number, b: Number) -> Reg:
        return self.binary("urem", a, b)

    def total(self, *terms: Number) -> Reg:
        """The sum of terms; pairs are products."""
        result = as_reg(terms[0])
        for term in terms[1:]:
            result = self.add(result, term)
        return result

    def compare(self, how: str, a: Number, b: Number) -> Reg:
        a, b = as_reg(a), as_reg(b)
        lanes = a.type.startswith("<") and a.type.strip("<").split()[0]
        return self.new(f"<{lanes} x i1>" if lanes else "i1", f"icmp {how} {a}, {b.text}")

    def select(self, condition: Reg, a: Number, b: Number) -> Reg:
        a, b = as_reg(a), as_reg(b)
        return self.new(a.type, f"select {condition}, {a}, {b}")

    def min(self, a: Number, b: Number) -> Reg:
        return self.select(self.compare("slt", a, b), a, b)

    def max(self, a: Number, b: Number) -> Reg:
        return self.select(self.compare("sgt", a, b), a, b)

    def both(self, a: Reg, b: Reg) -> Reg:
        return self.binary("and", a, b)

    # Memory ---------------------------------------------------------------------------------------------------------

    def at(self, pointer: Reg, index: Number, type: str) -> Reg:
        """Address of element `index` of an array of `type`."""
        return self.new("ptr", f"getelementptr {type}, {pointer}, {as_reg(index)}")

    def load(self, type: str, pointer: Reg, align: int) -> Reg:
        return self.new(type, f"load {type}, {pointer}, align {align}")

    def store(self, value: Reg, pointer: Reg, align: int) -> None:
        self.lines.append(f"  store {value}, {pointer}, align {align}")

    def prefetch(self, pointer: Reg, level: int = 2) -> None:
        """Ask for the cache line at an address, which may be any, in the cache of a level."""
        self.lines.append(f"  call void @llvm.prefetch.p0({pointer}, i32 0, i32 {4 - level}, i32 1)")

    def scratch(self, type: str, count: int) -> Reg:
        """Stack memory; only in the entry block."""
        return self.new("ptr", f"alloca [{count} x {type}], align 64")

    def call(self, name: str, *args: Number) -> None:
        self.lines.append(f"  call void @{name}({', '.join(str(as_reg(a)) for a in args)})")

    # Vectors --------------------------------------------------------------------------------------------------------

    def splat(self, value: Reg, lanes: int) -> Reg:
        """A vector of copies of a scalar."""
        one = self.new(f"<{lanes} x {value.type}>", f"insertelement <{lanes} x {value.type}> poison, {value}, i64 0")
        return self.new(one.type, f"shufflevector {one}, {one.type} poison, <{lanes} x i32> zeroinitializer")

    def lane(self, vector: Reg, lane: int, lanes: int) -> Reg:
        """A vector of copies of one lane: the form that multiply-add instructions of AArch64 take as an operand."""
        return self.new(
            vector.type,
            f"shufflevector {vector}, {vector.type} poison, <{lanes} x i32> <{', '.join([f'i32 {lane}'] * lanes)}>",
        )

    def every(self, vector: Reg, step: int, lanes: int, first: int = 0) -> Reg:
        """Lanes first, first + step, first + 2 * step, ... of a vector."""
        element = vector.type.split()[-1].rstrip(">")
        order = ", ".join(f"i32 {first + k * step}" for k in range(lanes))
        return self.new(
            f"<{lanes} x {element}>", f"shufflevector {vector}, {vector.type} poison, <{lanes} x i32> <{order}>"
        )

    def lanes_in(self, first: Number, past: Number, lanes: int) -> Reg:
        """The mask of lanes [first, past), whatever the bounds."""
        order = Reg(f"<{', '.join(f'i64 {k}' for k in range(lanes))}>", f"<{lanes} x i64>")
        low, high = self.splat(as_reg(first), lanes), self.splat(as_reg(past), lanes)
        return self.both(self.compare("sge", order, low), self.compare("slt", order, high))

    def bits(self, mask: Reg) -> Reg:
        """A mask as an i64."""
        lanes = int(mask.type.strip("<").split()[0])
        return self.new("i64", f"zext i{lanes} {self.new(f'i{lanes}', f'bitcast {mask} to i{lanes}').text} to i64")

    def mask(self, bits: Reg, lanes: int) -> Reg:
        """The mask of the lowest bits of an i64."""
        low = self.new(f"i{lanes}", f"trunc {bits} to i{lanes}")
        return self.new(f"<{lanes} x i1>", f"bitcast {low} to <{lanes} x i1>")

    def load_some(self, type: str, pointer: Reg, mask: Reg, align: int) -> Reg:
        """A vector whose lanes outside the mask are zero, and are not read."""
        name = f"llvm.masked.load.{suffix(type)}.p0"
        return self.new(type, f"call {type} @{name}({pointer}, i32 {align}, {mask}, {type} zeroinitializer)")

    def store_some(self, value: Reg, pointer: Reg, mask: Reg, align: int) -> None:
        """Store the lanes of the mask."""
        self.lines.append(
            f"  call void @llvm.masked.store.{suffix(value.type)}.p0({value}, {pointer}, i32 {align}, {mask})"
        )

    def gather(self, type: str, pointers: Reg, mask: Reg, align: int) -> Reg:
        """One element from each pointer of the mask; zero for the others."""
        lanes = int(type.strip("<").split()[0])
        name = f"llvm.masked.gather.{suffix(type)}.v{lanes}p0"
        return self.new(type, f"call {type} @{name}({pointers}, i32 {align}, {mask}, {type} zeroinitializer)")

    def shuffle(self, a: Reg, b: Reg, order: Sequence[int]) -> Reg:
        """Lanes of two vectors side by side, by number."""
        element = a.type.split()[-1].rstrip(">")
        picked = ", ".join(f"i32 {k}" for k in order)
        return self.new(f"<{len(order)} x {element}>", f"shufflevector {a}, {b}, <{len(order)} x i32> <{picked}>")

    def fma(self, a: Reg, b: Reg, c: Reg) -> Reg:
        return self.new(a.type, f"call {a.type} @llvm.fma.{suffix(a.type)}({a}, {b}, {c})")

    def fadd(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fadd", a, b)

    def fsub(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fsub", a, b)

    def fmul(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fmul", a, b)

    def constant(self, vector: str, value: float) -> Reg:
        """A vector of copies of a number, rounded to the vector's type."""
        element = vector.split()[-1].rstrip(">")
        rounded = struct.unpack("f", struct.pack("f", value))[0] if element == "float" else value
        bits = struct.unpack(">Q", struct.pack(">d", rounded))[0]
        return Reg(f"splat ({element} 0x{bits:016X})", vector)

    def horizontal(self, vector: Reg) -> Reg:
        """The sum of a vector's lanes."""
        scalar = vector.type.split()[-1].rstrip(">")
        return self.new(
            scalar, f"call reassoc {scalar} @llvm.vector.reduce.fadd.{suffix(vector.type)}({scalar} -0.0, {vector})"
        )

    def horizontals(self, vectors: Sequence[Reg]) -> Reg:
        """The sums of as many vectors as they have lanes, as one vector: neighbouring lanes are added,
        level by level."""
        level = list(vectors)
        lanes = len(level)
        even, odd = (", ".join(f"i32 {k + first}" for k in range(0, 2 * lanes, 2)) for first in (0, 1))
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=True))
            level = [
                self.fadd(
                    *(self.new(a.type, f"shufflevector {a}, {b}, <{lanes} x i32> <{mask}>") for mask in (even, odd))
                )
                for a, b in pairs
            ]
        return level[0]

    # Control --------------------------------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def cut(self) -> None:
        """A new block: LLVM selects instructions block by block, and takes long over many shuffles in one."""
        name = f"next{self.fresh()}"
        self.lines.append(f"  br label %{name}")
        self.label(name)

    @contextmanager
    def loop(self, start: Number, stop: Number, step: Number = 1, carry: Sequence[Reg] = ()) -> Iterator[Loop]:
        """Code for i = start; i < stop; i += step. `carry` are the values the first iteration gets."""
        number = self.fresh()
        head, body, done, before = f"head{number}", f"body{number}", f"done{number}", self.block
        self.lines.append(f"  br label %{head}")
        self.label(head)
        where = len(self.lines)
        first = [as_reg(start), *carry]
        phis = [Reg(f"%p{number}.{k}", value.type) for k, value in enumerate(first)]
        self.lines.extend([""] * len(phis))
        more = self.compare("slt", phis[0], stop)
        self.lines.append(f"  br {more}, label %{body}, label %{done}")
        self.label(body)
        result = Loop(phis[0], phis[1:])
        yield result
        following = [self.add(phis[0], step), *result.next]
        self.lines.append(f"  br label %{head}")
        for k, (phi, value, later) in enumerate(zip(phis, first, following, strict=True)):
            self.lines[where + k] = (
                f"  {phi.text} = phi {phi.type} [ {value.text}, %{before} ], [ {later.text}, %{self.block} ]"
            )
        self.label(done)

    @contextmanager
    def when(self, condition: Reg) -> Iterator[None]:
        """Code that runs where `condition` holds."""
        number = self.fresh()
        self.lines.append(f"  br {condition}, label %then{number}, label %join{number}")
        self.label(f"then{number}")
        yield
        self.lines.append(f"  br label %join{number}")
        self.label(f"join{number}")

    def negate(self, condition: Reg) -> Reg:
        return self.new("i1", f"xor {condition}, true")


def suffix(type: str) -> str:
    """How intrinsics' names spell a type."""
    names = {"float": "f32", "double": "f64"}
    if type in names:
        return names[type]
    lanes, _, element = type.strip("<>").partition(" x ")
    return f"v{lanes}{names[element]}"


def mask_declarations(lanes: int, element: str) -> str:
    """What masked loads, stores and gathers of `Writer` need declared, for a vector and one twice as long."""
    result = []
    for count in (lanes, 2 * lanes):
        vector, name = f"<{count} x {element}>", suffix(f"<{count} x {element}>")
        result.append(f"declare {vector} @llvm.masked.load.{name}.p0(ptr, i32, <{count} x i1>, {vector})")
        result.append(f"declare void @llvm.masked.store.{name}.p0({vector}, ptr, i32, <{count} x i1>)")
        result.append(
            f"declare {vector} @llvm.masked.gather.{name}.v{count}p0(<{count} x ptr>, i32, <{count} x i1>, {vector})"
        )
    return "\n".join(result) + "\n"


def declarations(lanes: int, element: str) -> str:
    """What the vector instructions of `Writer` need declared."""
    vector = f"<{lanes} x {element}>"
    return (
        f"declare {vector} @llvm.fma.{suffix(vector)}({vector}, {vector}, {vector})\n"
        f"declare {element} @llvm.vector.reduce.fadd.{suffix(vector)}({element}, {vector})\n"
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"declare {element} @llvm.fma.{suffix(element)}({element}, {element}, {element})\n"
    )
