"""The chip itself, simulated: registers, scratchpad, device memory, and what each instruction does to them.

Enters: code (isa.py) and the arguments of a launch. Leaves: changed device memory, and in `clock` the cycles it took.
Refuses, with a Fault that names the instruction and its word: memory that is not there, more lanes than a register has.
An instruction over many lanes is one numpy call; vector registers are equal parts of the scratchpad (`vcfg`).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import timing
from .assembler import spell
from .formats import ARRAY, PARTS, PATTERNS, convert, narrow, pairs, part, widen
from .isa import NONE, REGISTERS, SIZE, Fields, decode_all
from .rules import COMPARISONS, MADE, PLAIN, SPECIAL

SCRATCHPAD = 1 << 20
STRIP = 32
COMBINE = {"dputadd": np.add, "dputmul": np.multiply, "dputmin": np.minimum, "dputmax": np.maximum}
_MASK = (1 << 64) - 1


class Fault(RuntimeError):
    """An instruction that the chip cannot do."""


def signed(value: int) -> int:
    """An integer as 64 bits hold it."""
    return ((value + (1 << 63)) & _MASK) - (1 << 63)


def _quotient(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SCALAR: dict[str, Callable[..., int]] = {
    "mov": lambda a: a, "sadd": lambda a, b: signed(a + b), "ssub": lambda a, b: signed(a - b),
    "smul": lambda a, b: signed(a * b), "sdiv": lambda a, b: signed(_quotient(a, b)),
    "srem": lambda a, b: a - _quotient(a, b) * b if b else 0, "smin": min, "smax": max, "sand": lambda a, b: a & b,
    "sor": lambda a, b: a | b, "sxor": lambda a, b: a ^ b, "sshl": lambda a, b: signed(a << (b & 63)),
    "sshr": lambda a, b: a >> (b & 63), "slt": lambda a, b: int(a < b), "sle": lambda a, b: int(a <= b),
    "seq": lambda a, b: int(a == b), "sne": lambda a, b: int(a != b), "ssel": lambda c, a, b: a if c else b,
}


class Program:
    """Decoded code: its instructions in order, with branches to positions in that order."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        decoded = decode_all(code)
        order = {word: k for k, word in enumerate(decoded)}
        order[len(code) // 8] = len(decoded)
        self.fields = list(decoded.values())
        self.words = list(decoded)
        self.steps = [_step(f, order) for f in self.fields]


def _step(fields: Fields, order: dict[int, int]) -> tuple:
    """What the machine's loop needs of an instruction: its method, what that is given, its unit and registers."""
    row, types, values = fields
    name = row.name
    if name in SCALAR:
        return "scalar", SCALAR[name], values
    if row.unit == "scalar":
        return name, None, (values[0], order[values[1]]) if row.operands == "sl" else \
            (order[values[0]],) if row.operands == "l" else values
    vectors = [v for kind, v in zip(row.operands, values, strict=True)
               if (kind in "vm" and v != NONE) or (kind == "x" and v < REGISTERS)]
    writes = row.operands[0] == "v" and not row.unit == "store"
    reads = tuple(vectors[1:] if writes and name != "amul" else vectors)
    target = vectors[0] if writes else -1
    method = _METHODS.get(name) or ("special" if row.unit == "special" and name in SPECIAL else
                                    "made" if name in MADE else "plain")
    unit = "vector" if row.unit == "special" else row.unit
    return "unit", method, (name, *types, *values), unit, reads, target


_METHODS = {
    name: name for name in ("vany", "vuniq", "viota", "vlow", "vhigh", "vrep", "vslide", "vmov", "vcvt", "vbits",
                            "vcplx", "dld", "dst", "dgat", "amul")
} | {"vre": "part", "vim": "part", "dput": "put", **dict.fromkeys(COMBINE, "put")}


class Machine:
    """One chip: 128 scalar and 128 vector registers, 1 MiB of scratchpad, `size` bytes of device memory."""

    def __init__(self, size: int) -> None:
        self.store = mmap.mmap(-1, size)      # pages come into being when they are touched
        self.memory = np.frombuffer(self.store, np.uint8)
        self.scratchpad = np.zeros(SCRATCHPAD, np.uint8)
        self.numbers: dict[tuple[str, int], Any] = {}
        self.typed: dict[tuple[str, int], np.ndarray] = {}
        self.layouts: dict[int, dict] = {}
        self.scalars = [0] * REGISTERS
        self.lanes = 0
        self.configure(REGISTERS)
        self.clock = timing.Clock(REGISTERS)

    # --- registers ----------------------------------------------------------------------------------------------------

    def configure(self, count: int) -> None:
        """Divide the scratchpad into `count` vector registers."""
        self.count = count
        self.width = SCRATCHPAD // count // 64 * 64      # bytes of one
        self.views: dict[tuple[str, int], np.ndarray] = self.layouts.setdefault(count, {})

    def whole(self, code: str, register: int) -> np.ndarray:
        """All of a register, as elements of a type."""
        found = self.views.get((code, register))
        if found is None:
            if register >= self.count:
                raise Fault(f"v{register} does not exist: the scratchpad is divided into {self.count} registers")
            start = register * self.width
            kind = ARRAY[code]
            room = self.scratchpad[start : start + self.width // kind.itemsize * kind.itemsize]
            found = self.views[code, register] = room.view(kind)
        return found

    def vector(self, code: str, register: int) -> np.ndarray:
        """The lanes of a register."""
        found = self.whole(code, register)[: self.lanes]
        if len(found) < self.lanes:
            raise Fault(f"{self.lanes} lanes of {code} do not fit into a register of {self.width} bytes")
        return found

    def operand(self, code: str, field: int) -> Any:
        """A vector, or the number that a scalar register holds in its low bits."""
        if field < REGISTERS:
            return self.vector(code, field)
        key = code, self.scalars[field & 127]
        found = self.numbers.get(key)
        if found is None:
            kind = ARRAY[code]
            raw = (key[1] & _MASK).to_bytes(8, "little").ljust(16, b"\0")[: kind.itemsize]
            found = self.numbers[key] = np.frombuffer(raw, np.uint8).astype(bool)[0] if code == "b1" else \
                np.frombuffer(raw, kind)[0]
            if len(self.numbers) > 4096:
                self.numbers.clear()
        return found

    # --- programs -----------------------------------------------------------------------------------------------------

    def run(self, program: Program, arguments: Sequence[int]) -> timing.Clock:
        """Run a program from its first instruction to `halt`; what it took."""
        clock = self.clock = timing.Clock(REGISTERS)
        scalars = self.scalars = [0] * REGISTERS
        steps, at = program.steps, 0
        with np.errstate(all="ignore"):
            try:
                while True:
                    step = steps[at]
                    at += 1
                    kind = step[0]
                    if kind == "unit":
                        _, method, values, unit, reads, target = step
                        clock.begin(unit, getattr(self, method)(*values), reads, target)
                        if values[0] in _TO_SCALAR:
                            clock.issued = max(clock.issued, clock.last)
                    elif kind == "scalar":
                        clock.scalar()
                        values = step[2]
                        if values[0]:
                            scalars[values[0]] = step[1](*[scalars[v] for v in values[1:]])
                    elif kind == "halt":
                        return clock
                    else:
                        at = self.control(kind, step[2], arguments, at)
            except (Fault, ValueError, IndexError) as error:
                raise Fault(f"word {program.words[at - 1]}, `{spell(program.fields[at - 1])}`: {error}"
                            if at <= len(steps) else "the program ran past its end; it needs a `halt`") from error

    def control(self, name: str, values: tuple, arguments: Sequence[int], at: int) -> int:
        """Immediates, branches and settings; where to go on."""
        if name in ("jmp", "bz", "bnz"):
            taken = name == "jmp" or (self.scalars[values[0]] == 0) == (name == "bz")
            self.clock.scalar(timing.TAKEN * taken)
            return values[-1] if taken else at
        self.clock.scalar()
        if name == "li" or name == "larg":
            if name == "larg" and values[1] >= len(arguments):
                raise Fault(f"the launch has {len(arguments)} arguments")
            if values[0]:
                self.scalars[values[0]] = values[1] if name == "li" else signed(arguments[values[1]])
        elif name == "vcfg":
            self.configure(values[0])
        elif name == "vl":
            self.lanes = self.scalars[values[0]]
            if self.lanes < 0:
                raise Fault(f"a length must not be negative, got {self.lanes}")
        else:
            self.clock.fence()
        return at

    def cycles(self, name: str, code: str, special: bool = False) -> int:
        """Of the vector unit, for all lanes."""
        return timing.vector_cycles(self.lanes, SIZE[code], name, special)

    # --- the vector unit ----------------------------------------------------------------------------------------------

    def plain(self, name: str, code: str, target: int, *fields: int) -> int:
        rule = PLAIN[name]
        out = self.vector("b1" if name in COMPARISONS else code, target)
        if code in PATTERNS:
            result = rule(*[widen(code, self.operand(code, f)) for f in fields])
            out[...] = result if name in COMPARISONS else narrow(code, result)
        else:
            rule(*[self.operand(code, f) for f in fields], out=out)
        return self.cycles(name, code, name in ("vfmod", "vnext"))

    def made(self, name: str, code: str, target: int, *fields: int) -> int:
        given = [self.operand("b1" if name == "vsel" and k == 0 else code, f) for k, f in enumerate(fields)]
        if code in PATTERNS and name != "vsel":
            self.vector(code, target)[...] = narrow(code, MADE[name](*[widen(code, a) for a in given]))
        else:
            self.vector(code, target)[...] = MADE[name](*given)
        return self.cycles(name, code)

    def special(self, name: str, code: str, target: int, *fields: int) -> int:
        given = [convert(np.asarray(self.operand(code, f)), code, "f64") for f in fields]
        self.vector(code, target)[...] = convert(np.asarray(SPECIAL[name](*given)), "f64", code)
        return self.cycles(name, code, True)

    def vmov(self, name: str, code: str, target: int, field: int) -> int:
        self.vector(code, target)[...] = self.operand(code, field)
        return self.cycles(name, code)

    def vcvt(self, name: str, code: str, source: str, target: int, field: int) -> int:
        self.vector(code, target)[...] = convert(np.asarray(self.operand(source, field)), source, code)
        return self.cycles(name, max(code, source, key=SIZE.__getitem__))

    def vbits(self, name: str, code: str, source: str, target: int, field: int) -> int:
        if SIZE[code] != SIZE[source]:
            raise Fault(f"{source} and {code} differ in size")
        self.vector(code, target)[...] = np.atleast_1d(self.operand(source, field)).view(ARRAY[code])
        return self.cycles(name, code)

    def part(self, name: str, code: str, target: int, field: int) -> int:
        a = np.atleast_1d(self.operand(code, field))
        self.vector(PARTS[code], target)[...] = part(a, code, name == "vim")
        return self.cycles(name, code)

    def vcplx(self, name: str, code: str, target: int, re: int, im: int) -> int:
        self.vector(code, target)[...] = pairs(
            self.operand(PARTS[code], re), self.operand(PARTS[code], im), code, self.lanes
        )
        return self.cycles(name, code)

    def viota(self, name: str, target: int, start: int, repeat: int, count: int) -> int:
        first, times, many = self.scalars[start], max(1, self.scalars[repeat]), max(1, self.scalars[count])
        lane = np.arange(self.lanes, dtype=np.int64)
        self.vector("i64", target)[...] = (lane // times % many if times > 1 or many < self.lanes else lane) + first
        return self.cycles(name, "i64")

    def vrep(self, name: str, code: str, target: int, source: int, repeat: int, count: int) -> int:
        times, many = max(1, self.scalars[repeat]), max(1, self.scalars[count])
        out, given = self.vector(code, target), self.whole(code, source)[:many]
        if len(given) < many:
            raise Fault(f"{many} lanes of {code} do not fit into a register of {self.width} bytes")
        if target != source and self.lanes % (times * many) == 0:
            out.reshape(-1, many, times)[...] = given[:, None]
        else:
            out[...] = given[np.arange(self.lanes) // times % many]
        return self.cycles(name, code)

    def vslide(self, name: str, code: str, target: int, source: int, offset: int) -> int:
        first = self.scalars[offset]
        given = self.whole(code, source)[first : first + self.lanes]
        if first < 0 or len(given) < self.lanes:
            raise Fault(f"lanes {first}..{first + self.lanes} of {code} are not in the register")
        self.vector(code, target)[...] = given.copy() if source == target else given
        return self.cycles(name, code)

    def active(self, mask: int) -> np.ndarray | None:
        return None if mask == NONE else self.vector("b1", mask)

    def vany(self, name: str, target: int, source: int) -> int:
        if target:
            self.scalars[target] = int(self.vector("b1", source).any())
        return self.cycles(name, "b1")

    def vlow(self, name: str, code: str, target: int, source: int, mask: int) -> int:
        given, active = self.vector(code, source), self.active(mask)
        given = given if active is None else given[active]
        if target:
            low = name == "vlow"
            self.scalars[target] = int(given.min() if low else given.max()) if len(given) else 0
        return self.cycles(name, code)

    vhigh = vlow

    def vuniq(self, name: str, target: int, source: int, mask: int) -> int:
        given, active, out = self.vector("i64", source), self.active(mask), np.zeros(self.lanes, bool)
        places = np.arange(self.lanes) if active is None else np.flatnonzero(active)
        out[places[np.unique(given[places], return_index=True)[1]]] = True
        self.vector("b1", target)[...] = out
        return self.cycles(name, "i64", True)

    # --- DMA ----------------------------------------------------------------------------------------------------------

    def box(self, code: str, fields: Sequence[int]) -> tuple[np.ndarray, int]:
        """Elements of device memory: `rows` times `columns` at byte strides. And the cycles to move them."""
        address, rows, row_stride, columns, stride = (self.scalars[f] for f in fields)
        kind = ARRAY["u8" if code == "b1" else code]
        if rows * columns != self.lanes:
            raise Fault(f"{rows} x {columns} elements are not {self.lanes} lanes")
        if address <= 0:
            raise Fault(f"address {address} is nobody's")
        there = np.ndarray((rows, columns), kind, self.memory, address, (row_stride, stride))
        return there, timing.dma_cycles(rows, columns, row_stride, stride, kind.itemsize)

    def dld(self, name: str, code: str, target: int, *fields: int) -> int:
        there, cycles = self.box(code, fields)
        out = self.vector(code, target).reshape(there.shape)
        if code == "b1":
            np.not_equal(there, 0, out=out)
        else:
            out[...] = there
        return cycles

    def dst(self, name: str, code: str, source: int, *fields: int) -> int:
        there, cycles = self.box(code, fields)
        there[...] = self.vector(code, source).reshape(there.shape)
        return cycles

    def places(self, code: str, base: int, index: int, mask: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Device memory as elements, the places in it that lanes mean, and which lanes do."""
        kind = ARRAY["u8" if code == "b1" else code]
        first, phase = divmod(self.scalars[base], kind.itemsize)
        memory = self.typed.get((code, phase))
        if memory is None:
            many = (len(self.memory) - phase) // kind.itemsize
            memory = self.typed[code, phase] = np.ndarray((many,), kind, self.memory, phase)
        active = self.active(mask)
        at = self.vector("i64", index)
        at = (at if active is None else at[active]) + first
        if len(at) and (at.min() <= 0 or at.max() >= len(memory)):
            raise Fault(f"element {at.min() if at.min() <= 0 else at.max()} of {code} is not in device memory")
        return memory, at, active

    def dgat(self, name: str, code: str, target: int, base: int, index: int, mask: int) -> int:
        memory, at, active = self.places(code, base, index, mask)
        out, given = self.vector(code, target), memory[at]
        given = given != 0 if code == "b1" else given
        if active is None:
            out[...] = given
        else:
            out[...] = 0
            out[active] = given
        return len(at)

    def put(self, name: str, code: str, source: int, base: int, index: int, mask: int) -> int:
        memory, at, active = self.places(code, base, index, mask)
        given = self.vector(code, source)
        given = given if active is None else given[active]
        if name == "dput":
            memory[at] = given
        else:
            COMBINE[name].at(memory, at, given)
        return len(at)

    # --- the array ----------------------------------------------------------------------------------------------------

    def amul(self, name: str, code: str, target: int, left: int, right: int, *sizes: int) -> int:
        m, n, k = (self.scalars[s] for s in sizes)
        if code not in ("f32", "f16", "bf16"):
            raise Fault(f"the array multiplies f32, f16 and bf16, got {code}")
        a, b, c = self.whole(code, left)[: m * k], self.whole(code, right)[: k * n], self.whole("f32", target)[: m * n]
        if min(m, n, k) < 0 or len(a) < m * k or len(b) < k * n or len(c) < m * n:
            raise Fault(f"a tile of {m} x {k} x {n} does not fit into registers of {self.width} bytes")
        a, b = (convert(t, code, "f32") for t in (a, b))
        a, b, c = a.reshape(m, k), b.reshape(k, n), c.reshape(m, n)
        for row in range(0, m, STRIP):      # below what a BLAS would wake its threads for
            c[row : row + STRIP] += a[row : row + STRIP] @ b
        return timing.array_cycles(m, n, k)


_TO_SCALAR = frozenset(("vany", "vlow", "vhigh"))
