"""Scalar expressions as instructions: what one element computes, on all lanes at once.

Enters: `Value`s (rushlight/loops/expr.py) and an environment of names. Leaves: lines of assembler, and the registers
that hold the values. What is the same on every lane (sizes, strides, loop bounds: i64 without a loop variable of lanes)
goes to the scalar unit; indices that are sums of uniform multiples of lane variables become strided DMA, others a
gather. Refuses with NotExpressible: more registers than there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rushlight.loops import expr
from rushlight.loops.expr import PART, Value, cast, const, rebuild, var, walk
from rushlight.loops.math.expand import expand

from .formats import BYTES, narrow
from .isa import REGISTERS, SIZE


class NotExpressible(Exception):  # noqa: N818 - an answer, not a failure: the host runs the kernel then
    """Why a nest has no program for this chip."""


class Uniform(NamedTuple):
    """A name that is the same number on every lane: in a scalar register."""

    register: str


class Lanes(NamedTuple):
    """A name with a number for each lane of a space of `depth` axes."""

    register: str
    depth: int


class Axis(NamedTuple):
    """A loop variable that runs over lanes: the scalar registers of its first value, and of how many there are."""

    start: str
    count: str


ZERO, ONE = const(0, "i64"), const(1, "i64")
BINARY = {
    "add": "vadd", "sub": "vsub", "mul": "vmul", "div": "vdiv", "idiv": "vquot", "irem": "vrem", "min": "vmin",
    "max": "vmax", "copysign": "vsgn", "and": "vand", "or": "vor", "xor": "vxor", "shl": "vshl", "shr": "vshr",
    "lt": "vlt", "le": "vle", "gt": "vgt", "ge": "vge", "eq": "veq", "ne": "vne",
}
UNARY = {name: "v" + name for name in ("neg", "abs", "not", "sqrt", "floor", "ceil", "trunc", "rint")}
PLAIN = {**BINARY, **UNARY, "fma": "vfma"}
SPECIAL = {name: "v" + name for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "rsqrt", "sigmoid", "pow", "atan2", "fmod", "hypot",
)} | {"exp_of_negative": "vexp", "maximum": "vmaxn", "minimum": "vminn", "nextafter": "vnext"}
SCALAR = {
    "add": "sadd", "sub": "ssub", "mul": "smul", "idiv": "sdiv", "irem": "srem", "min": "smin", "max": "smax",
    "and": "sand", "or": "sor", "xor": "sxor", "shl": "sshl", "shr": "sshr", "lt": "slt", "le": "sle", "eq": "seq",
    "ne": "sne", "select": "ssel",
}
SWAPPED = {"gt": "slt", "ge": "sle"}
ON_SCALARS = frozenset(("i64", "b1", "u32"))


def bits_of(value: Any, code: str) -> int:
    """A constant as the scalar register holds it."""
    if code in BYTES or code == "bf16":
        return int(narrow(code, [value])[0])
    letter = {"f16": "e", "f32": "f", "f64": "d"}.get(code)
    if letter is None:
        return int(value) - (1 << 64) if int(value) >= 1 << 63 else int(value)
    size = SIZE[code]
    return int.from_bytes(struct.pack("<" + letter, value), "little", signed=size == 8)


def without_calls(values: Iterable[Value]) -> list[Value]:
    """`values` with the named functions that the vector unit has not expanded into what it has."""
    done: dict[Value, Value] = {}

    def settle(roots: Iterable[Value]) -> None:
        for old in walk(roots):
            if old in done:
                continue
            args = tuple([done[a] for a in old.args])
            new = old if args == old.args else rebuild(old, args)
            if new.op == "call" and (new.attr not in SPECIAL or new.args[0].dtype not in ("f32", "f64")):
                whole = expand(new.attr, new.args, new.dtype)
                settle((whole,))
                new = done[whole]
            done[old] = new

    values = list(values)
    settle(values)
    return [done[v] for v in values]


class Registers:
    """Which of one kind of registers are in use; the highest number there was says how many a program needs."""

    def __init__(self, letter: str, first: int) -> None:
        self.letter, self.unused, self.most = letter, list(range(REGISTERS - 1, first - 1, -1)), 0

    def take(self) -> str:
        if not self.unused:
            raise NotExpressible(f"more than {REGISTERS} registers {self.letter} are in use at once")
        number = self.unused.pop()
        self.most = max(self.most, number + 1)
        return f"{self.letter}{number}"

    def give(self, register: str) -> None:
        number = int(register[1:])
        assert number not in self.unused, f"{register} is given back twice"
        self.unused.append(number)
        self.unused.sort(reverse=True)


class Expressions:
    """Emits instructions for values; `run` and what it calls share registers of common parts."""

    def __init__(self, operand_codes: Sequence[str], params: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.vectors, self.scalars = Registers("v", 0), Registers("s", 1)
        self.codes = operand_codes
        names = [*(f"operand {k}" for k in range(len(operand_codes))), *params, "begin", "end"]
        self.arguments = {name: k for k, name in enumerate(names)}
        self.tables: list[tuple[str, tuple]] = []
        self.env: dict[str, Uniform | Lanes | Axis] = {}
        self.space: list[str] = []          # lane variables, the slowest first
        self.mask: Value | None = None      # which lanes are alive: a name of env
        self.fenced: set[int] = set()       # operands that this program writes
        self.widest = 8
        self.memo: dict[Value, str] = {}
        self.uses: dict[Value, int] = {}
        self.held: set[str] = set()         # registers of names, which outlive a run
        self.uniform: dict[Value, bool] = {}
        self.one = self.scalars.take()
        self.labels = 0

    def emit(self, name: str, *operands: str) -> None:
        self.lines.append(f"    {name} {', '.join(operands)}".rstrip())

    def label(self, hint: str) -> str:
        self.labels += 1
        return f"{hint}{self.labels}"

    def typed(self, name: str, code: str) -> str:
        self.widest = max(self.widest, SIZE[code])
        return f"{name}.{code}"

    # --- one run: statements without a branch between them ------------------------------------------------------------

    def begin_run(self, roots: Iterable[Value]) -> None:
        """Count how often each part is going to be read, so that its register can be given back in time."""
        self.memo, self.uses, self.uniform = {}, {}, {}
        seen: set[Value] = set()
        pending = list(roots)
        for root in pending:
            self.uses[root] = self.uses.get(root, 0) + 1
        while pending:
            v = pending.pop()
            if v in seen:
                continue
            seen.add(v)
            for part in self.parts(v):
                self.uses[part] = self.uses.get(part, 0) + 1
                pending.append(part)

    def end_run(self) -> None:
        for register in set(self.memo.values()) - self.held:
            (self.vectors if register[0] == "v" else self.scalars).give(register)
        self.memo, self.uses = {}, {}

    def parts(self, v: Value) -> tuple[Value, ...]:
        """The values whose vectors are read to compute `v`."""
        if self.is_uniform(v):
            return ()
        if v.op == "load" and self.mask is None and self.affine(v.args[0]) is not None:
            return ()
        return v.args

    def drop(self, v: Value) -> None:
        """One reader of `v` less."""
        self.uses[v] = self.uses.get(v, 1) - 1
        register = self.memo.get(v)
        if self.uses[v] <= 0 and register is not None and register[0] == "v":
            del self.memo[v]
            if register not in self.held and register not in self.memo.values():
                self.vectors.give(register)

    # --- what is the same on every lane -------------------------------------------------------------------------------

    def is_uniform(self, v: Value) -> bool:
        """Whether the scalar unit computes a value."""
        if v not in self.uniform:
            self.uniform[v] = self._is_uniform(v)
        return self.uniform[v]

    def _is_uniform(self, v: Value) -> bool:
        if v.op == "const":
            return v.dtype not in PART
        if v.op == "var":
            return v.attr in self.arguments or isinstance(self.env.get(v.attr), Uniform)
        if v.op == "cast":
            source = v.args[0].dtype
            return {v.dtype, source} <= ON_SCALARS and self.is_uniform(v.args[0])
        if v.op not in SCALAR and v.op not in SWAPPED and v.op not in ("neg", "not", "abs"):
            return False
        return all(a.dtype in ("i64", "b1") and self.is_uniform(a) for a in v.args)

    def scalar(self, v: Value) -> str:
        """The scalar register of a uniform value."""
        found = self.memo.get(v)
        if found is not None:
            return found
        if v.op == "var" and v.attr in self.env:
            entry = self.env[v.attr]
            assert isinstance(entry, Uniform)
            return entry.register
        if v is ZERO:
            return "s0"
        if v is ONE:
            return self.one
        args = [self.scalar(a) for a in v.args]
        out = self.memo[v] = self.scalars.take()
        if v.op == "const":
            self.emit("li", out, str(bits_of(v.attr, v.dtype)))
        elif v.op == "var":
            self.emit("larg", out, str(self.arguments[v.attr]))
        elif v.op == "cast":
            self.scalar_cast(v, out, args[0])
        elif v.op in SWAPPED:
            self.emit(SWAPPED[v.op], out, args[1], args[0])
        elif v.op == "neg":
            self.emit("ssub", out, "s0", args[0])
        elif v.op == "abs":
            self.emit("ssub", out, "s0", args[0])
            self.emit("smax", out, out, args[0])
        elif v.op == "not":
            self.emit("sxor", out, args[0], self.scalar(ONE if v.dtype == "b1" else const(-1, "i64")))
        else:
            self.emit(SCALAR[v.op], out, *args)
        return out

    def scalar_cast(self, v: Value, out: str, given: str) -> None:
        if v.dtype == "b1":
            self.emit("sne", out, given, "s0")
        elif v.dtype == "u32":
            self.emit("sand", out, given, self.scalar(const(0xFFFFFFFF, "i64")))
        else:
            self.emit("mov", out, given)

    # --- vectors ------------------------------------------------------------------------------------------------------

    def value(self, v: Value, into: str | None = None) -> str:
        """The register of a value: of all lanes, or a scalar one. `into`: a name's register that is to hold it."""
        found = self.scalar(v) if self.is_uniform(v) else self.memo.get(v)
        if found is None and v.op == "var":
            entry = self.env[v.attr]
            if isinstance(entry, Lanes) and entry.depth == len(self.space):
                found = entry.register
        if found is not None:
            if into is not None and found != into:
                self.emit(self.typed("vmov", v.dtype), into, found)
            return into or found
        parts = self.parts(v)
        given = [self.value(a) for a in parts]
        for a in parts:
            self.drop(a)
        out = into
        if out is None:
            out = self.memo[v] = self.vectors.take()
        self.compute(v, out, given)
        return out

    def vector(self, v: Value) -> str:
        """The same, and never a scalar register."""
        found = self.value(v)
        if found[0] == "v":
            return found
        key = expr.call("as vector", v)
        if key not in self.memo:
            self.memo[key] = self.vectors.take()      # given back with the run
            self.emit(self.typed("vmov", v.dtype), self.memo[key], found)
        return self.memo[key]

    def compute(self, v: Value, out: str, given: list[str]) -> None:
        op, code = v.op, v.dtype
        if op == "var":
            self.spread(v, out)
        elif op == "load":
            self.read(v, out, given)
        elif op in PLAIN:
            self.emit(self.typed(PLAIN[op], v.args[0].dtype), out, *given)
        elif op == "call":
            self.emit(self.typed(SPECIAL[v.attr], code), out, *given)
        elif op == "select":
            self.emit(self.typed("vsel", code), out, *given)
        elif op in ("cast", "bitcast"):
            self.typed("", code)
            self.emit(self.typed("vcvt" if op == "cast" else "vbits", code) + f".{v.args[0].dtype}", out, *given)
        elif op in ("real", "imag"):
            self.emit(self.typed("vre" if op == "real" else "vim", v.args[0].dtype), out, *given)
        elif op == "complex":
            self.emit(self.typed("vcplx", code), out, *given)
        elif op == "table":
            self.look_up(v, out, given[0])
        else:
            raise NotExpressible(f"there is no instruction for {op}")

    def rhythm(self, name: str) -> str:
        """How many lanes in a row have one value of a lane variable: a scalar register."""
        inner = self.space[self.space.index(name) + 1 :]
        assert len(inner) <= 1
        return self.env[inner[0]].count if inner else self.one   # type: ignore[union-attr]

    def spread(self, v: Value, out: str) -> None:
        """A lane variable's values, or a name of the outer space on the lanes of the inner one."""
        entry = self.env[v.attr]
        if isinstance(entry, Axis):
            self.emit("viota", out, entry.start, self.rhythm(v.attr), entry.count)
        else:
            assert isinstance(entry, Lanes) and entry.depth == 1, v
            outer = self.outermost()
            self.emit(self.typed("vrep", v.dtype), out, entry.register, self.rhythm(outer), self.env[outer].count)

    def outermost(self) -> str:
        """The lane variable of the outer loop, whichever place it has."""
        return next(name for name in self.space if name == self.outer)

    outer: str = ""

    def look_up(self, v: Value, out: str, index: str) -> None:
        entry = v.dtype, v.attr
        if entry not in self.tables:
            self.tables.append(entry)
        name = f"table {self.tables.index(entry)}"
        self.arguments.setdefault(name, len(self.arguments))
        base = self.scalar(var(name))
        self.emit(self.typed("dgat", v.dtype), out, base, self.as_index(v.args[0], index), "-")

    def as_index(self, v: Value, register: str) -> str:
        """Indices of another integer type, as i64 on all lanes."""
        if v.dtype == "i64" and register[0] == "v":
            return register
        out = self.vectors.take()
        self.memo[expr.call("as index", v)] = out
        if v.dtype == "i64":
            self.emit("vmov.i64", out, register)
        else:
            self.emit(f"vcvt.i64.{v.dtype}", out, register)
        return out

    # --- memory -------------------------------------------------------------------------------------------------------

    def affine(self, v: Value) -> tuple[dict[str, Value], Value] | None:
        """An index as uniform multiples of lane variables and a uniform rest; None where it is something else."""
        if self.is_uniform(v):
            return {}, v
        if v.op == "var":
            return ({v.attr: ONE}, ZERO) if isinstance(self.env.get(v.attr), Axis) else None
        if v.op in ("add", "sub"):
            first, second = (self.affine(a) for a in v.args)
            if first is None or second is None:
                return None
            join = expr.add if v.op == "add" else expr.sub
            names = dict.fromkeys((*first[0], *second[0]))
            return ({n: join(first[0].get(n, ZERO), second[0].get(n, ZERO)) for n in names}, join(first[1], second[1]))
        if v.op == "mul":
            for x, y in (v.args, v.args[::-1]):
                if self.is_uniform(y) and (found := self.affine(x)) is not None:
                    return {n: expr.mul(c, y) for n, c in found[0].items()}, expr.mul(found[1], y)
        return None

    def box(self, operand: int, index: Value, scale: int) -> tuple[str, ...] | None:
        """Address, counts and byte strides of a strided DMA for an index in units of `scale` bytes, or None."""
        found = self.affine(index)
        if found is None:
            return None
        steps, place = found
        for name, step in steps.items():
            place = expr.add(place, expr.mul(step, var(f"{name} start")))
        place = expr.add(var(f"operand {operand}"), expr.mul(place, const(scale, "i64")))
        rows = [(self.one, "s0")] if len(self.space) == 1 else []
        rows += [(self.env[name].count, self.scalar(expr.mul(steps.get(name, ZERO), const(scale, "i64"))))
                 for name in self.space]
        return (self.scalar(place), *rows[0], *rows[1])

    def read(self, v: Value, out: str, given: list[str]) -> None:
        """A load: `("bytes", k)` in place of the operand's number k says that the index counts bytes."""
        in_bytes, code = isinstance(v.attr, tuple), v.dtype
        operand, index = v.attr[1] if in_bytes else v.attr, v.args[0]
        if operand in self.fenced:
            self.emit("fence")
        if not given:
            place = self.box(operand, index, 1 if in_bytes else SIZE[code])
            assert place is not None, "a load whose index is no part of it has a box"
            self.emit(self.typed("dld", code), out, *place)
            return
        register = self.as_index(index, given[0])
        if in_bytes and SIZE[code] > 1:
            self.emit("vshr.i64", register, register, self.scalar(const(SIZE[code].bit_length() - 1, "i64")))
        base = self.scalar(var(f"operand {operand}"))
        self.emit(self.typed("dgat", code), out, base, register, self.alive())

    def alive(self) -> str:
        """The register of the mask, or `-`."""
        return "-" if self.mask is None else self.vector(self.mask)

    def write(self, operand: int, index: Value, value: Value, scale: int, combine: str = "set") -> None:
        """Store a value on all lanes that are alive; `value` and `index` are roots of the run."""
        code, register = self.codes[operand], self.vector(value)
        place = self.box(operand, index, scale) if self.mask is None and combine == "set" else None
        if place is not None:
            self.emit(self.typed("dst", code), register, *place)
            return
        at = self.as_index(index, self.value(index))
        if scale == 1 and SIZE[code] > 1:
            self.emit("vshr.i64", at, at, self.scalar(const(SIZE[code].bit_length() - 1, "i64")))
        name = "dput" if combine == "set" else f"dput{combine}"
        self.emit(self.typed(name, code), register, self.scalar(var(f"operand {operand}")), at, self.alive())


__all__ = ["ONE", "ZERO", "Axis", "Expressions", "Lanes", "NotExpressible", "Uniform", "cast", "without_calls"]
