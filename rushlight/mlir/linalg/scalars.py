"""Scalar expressions as ops of `arith`, `math` and `complex`.

Enters: Values of the loop language (loops/expr.py) and something that knows what their leaves are. Leaves: operations
in the block that is being built, and the value of each result. Named functions that `math` has are one op; the others
are expanded as they are for kernels. Narrow floats are storage: they are computed with in f32 and rounded once.
Refuses: nothing; what has no expansion raises NotImplementedError with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...loops.expr import BYTE_FLOATS, FLOATS, INTS, PART, SIGNED, Value, walk
from ...loops.math.expand import expand
from .. import types
from ..building import Builder
from ..errors import UnsupportedOp
from ..printing import Value as Built

WIDER = {"f16": "f32", "bf16": "f32", **dict.fromkeys(BYTE_FLOATS, "f32")}
BITS = {code: int(code[1:]) for code in INTS} | {"b1": 1}


def element_of(code: str) -> str:
    """The type of numbers. Integers have no sign here: the ops have."""
    if code not in types.ELEMENTS:
        raise UnsupportedOp(f"mlir: numbers of type {code} have no element type in MLIR")
    element = types.ELEMENTS[code]
    return element[1:] if element[0] == "u" else element


def scalar(code: str) -> Built:
    """A number that is yet to be named."""
    return Built(element_of(code))


class Scalars:
    """Expressions in one block. `leaf(value, self)` builds a variable or a load: what only the surroundings know."""

    def __init__(self, b: Builder, leaf: Callable[[Value, Scalars], Built],
                 known: dict[Value, Built] | None = None) -> None:
        self.b, self.leaf, self.known = b, leaf, dict(known or {})

    def inside(self) -> Scalars:
        """The same for a block within this one: what it finds out is not known outside."""
        return Scalars(self.b, self.leaf, self.known)

    def put(self, name: str, args: list[Built], code: str, **attributes: str) -> Built:
        """One operation that gives a number."""
        return self.b.op(name, args, scalar(code), attributes)

    def all(self, values: Sequence[Value]) -> list[Built]:
        return [self.of(v) for v in values]

    def of(self, root: Value) -> Built:
        """What a value became."""
        for node in walk((root,)):
            if node not in self.known:
                self.known[node] = self.one(node)
        return self.known[root]

    def one(self, e: Value) -> Built:
        if e.op == "const":
            return self.constant(e.attr, e.dtype)
        if e.op in LEAVES or is_read(e):
            return self.leaf(e, self)
        if e.op == "call":
            return self.function(e)
        if e.op == "cast":
            return self.cast(self.known[e.args[0]], e.args[0].dtype, e.dtype)
        return self.primitive(e.op, [self.known[a] for a in e.args], e.args[-1].dtype, e.dtype)

    def constant(self, value: Any, code: str) -> Built:
        element = element_of(code)
        text = types.number(value, element)
        return self.put("arith.constant", [], code, value=text if code == "b1" else f"{text} : {element}")

    # --- functions --------------------------------------------------------------------------------------------------

    def function(self, e: Value) -> Built:
        name, code = str(e.attr), e.args[0].dtype
        if name not in FUNCTIONS or code in PART:
            return self.of(expand(name, e.args, e.dtype))
        args = [self.known[a] for a in e.args]
        if code not in WIDER:
            return self.put(FUNCTIONS[name], args, code)
        return self.cast(self.put(FUNCTIONS[name], [self.cast(a, code, "f32") for a in args], "f32"), "f32", code)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def primitive(self, op: str, args: list[Built], source: str, code: str) -> Built:
        """One op on operands of type `source`, giving `code`."""
        if op == "select":
            return self.put("arith.select", args, code)
        if op in ON_COMPLEX:
            return self.put(ON_COMPLEX[op], args, code)
        if op == "bitcast":
            return self.bitcast(args[0], source, code)
        if source in WIDER:
            wide = [self.cast(a, source, "f32") for a in args]
            done = self.primitive(op, wide, "f32", "f32" if code in WIDER else code)
            return self.cast(done, "f32", code) if code in WIDER else done
        if op in COMPARE:
            return self.compare(op, args, source)
        if source in FLOATS:
            return self.on_floats(op, args, source)
        return self.on_integers(op, args, source)

    def compare(self, op: str, args: list[Built], source: str) -> Built:
        signed, unsigned, floating = COMPARE[op]
        if source in FLOATS:
            return self.put("arith.cmpf", args, "b1", predicate=f"{floating} : i64")
        return self.put("arith.cmpi", args, "b1", predicate=f"{signed if source in SIGNED else unsigned} : i64")

    def choose(self, condition: Built, a: Built, b: Built, code: str) -> Built:
        return self.put("arith.select", [condition, a, b], code)

    def on_floats(self, op: str, args: list[Built], source: str) -> Built:
        if op in ("min", "max"):
            return self.choose(self.compare("lt" if op == "min" else "gt", args, source), args[0], args[1], source)
        return self.put(ON_FLOATS[op], args, source)

    def on_integers(self, op: str, args: list[Built], source: str) -> Built:
        sign = "s" if source in SIGNED else "u"
        if op == "neg":
            return self.put("arith.subi", [self.constant(0, source), args[0]], source)
        if op == "not":
            return self.put("arith.xori", [args[0], self.constant(True if source == "b1" else -1, source)], source)
        if op == "abs":
            return self.put("math.absi", args, source) if sign == "s" else args[0]
        if op in ("idiv", "irem"):
            return self.divide(op, args, source)
        if op in ("min", "max", "shr"):
            return self.put(f"arith.shr{sign}i" if op == "shr" else f"arith.{op}{sign}i", args, source)
        return self.put(ON_INTEGERS[op], args, source)

    def divide(self, op: str, args: list[Built], source: str) -> Built:
        """Division that cannot trap: by zero it gives 0, and the lowest integer by -1 wraps."""
        a, b = args
        zero, one = self.constant(0, source), self.constant(1, source)
        is_zero = unsafe = self.compare("eq", [b, zero], source)
        if source in SIGNED:
            is_minus = self.compare("eq", [b, self.constant(-1, source)], source)
            unsafe = self.put("arith.ori", [is_zero, is_minus], "b1")
        name = ("div" if op == "idiv" else "rem") + ("s" if source in SIGNED else "u") + "i"
        found = self.put(f"arith.{name}", [a, self.choose(unsafe, one, b, source)], source)
        if op == "irem":
            return found      # the remainder by 1 is the 0 wanted in both cases
        if source in SIGNED:
            found = self.choose(is_minus, self.put("arith.subi", [zero, a], source), found, source)
        return self.choose(is_zero, zero, found, source)

    # --- conversions ------------------------------------------------------------------------------------------------

    def bitcast(self, a: Built, source: str, code: str) -> Built:
        if element_of(source) == element_of(code):
            return a
        if code == "b1":
            return self.compare("ne", [a, self.constant(0, source)], source)
        return self.put("arith.extui" if source == "b1" else "arith.bitcast", [a], code)

    def cast(self, a: Built, source: str, code: str) -> Built:
        """By value: towards zero into integers, `!= 0` into booleans."""
        if source == code:
            return a
        if source in PART:
            parts = [self.put(ON_COMPLEX[p], [a], PART[source]) for p in ("real", "imag")]
            return self.put("complex.create", [self.cast(p, PART[source], PART[code]) for p in parts], code)
        if source in WIDER:
            return self.cast(self.put("arith.extf", [a], "f32"), "f32", code)
        if code in WIDER:
            return self.put("arith.truncf", [self.cast(a, source, "f32")], code)
        if code == "b1":
            return self.compare("ne", [a, self.constant(0, source)], source)
        if source in FLOATS and code in FLOATS:
            return self.put("arith.extf" if code == "f64" else "arith.truncf", [a], code)
        if source in FLOATS:
            return self.to_integer(a, source, code)
        if code in FLOATS:
            return self.put("arith.sitofp" if source in SIGNED else "arith.uitofp", [a], code)
        if element_of(source) == element_of(code):
            return a
        narrows = BITS[code] < BITS[source]
        return self.put("arith.trunci" if narrows else "arith.extsi" if source in SIGNED else "arith.extui", [a], code)

    def to_integer(self, a: Built, source: str, code: str) -> Built:
        # Small integers come from the 32-bit conversion and u32 from the 64-bit one: negative values then wrap.
        middle = code if code in ("i32", "i64", "u64") else "i64" if code == "u32" else "i32"
        if middle != "u64":
            return self.cast(self.put("arith.fptosi", [a], middle), middle, code)
        border = self.constant(2.0**63, source)
        above = self.compare("ge", [a, border], source)
        rest = self.choose(above, self.put("arith.subf", [a, border], source), a, source)
        whole = self.put("arith.fptosi", [rest], "i64")
        flipped = self.put("arith.xori", [whole, self.constant(-(1 << 63), "i64")], "i64")
        return self.choose(above, flipped, whole, "i64")


LEAVES = ("var", "load", "arg", "table")
READ = "read:"      # the name of calls that stand for elements of tensors, before the tensor's number


def is_read(e: Value) -> bool:
    """Whether a value is an element of a tensor at indices."""
    return e.op == "call" and str(e.attr).startswith(READ)


# predicates by their numbers: of signed, of unsigned integers, and of floats
COMPARE = {"lt": (2, 6, 4), "le": (3, 7, 5), "gt": (4, 8, 2), "ge": (5, 9, 3), "eq": (0, 0, 1), "ne": (1, 1, 13)}
ON_COMPLEX = {"complex": "complex.create", "real": "complex.re", "imag": "complex.im"}
ON_FLOATS = {
    "add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "div": "arith.divf", "neg": "arith.negf",
    "abs": "math.absf", "sqrt": "math.sqrt", "floor": "math.floor", "ceil": "math.ceil", "trunc": "math.trunc",
    "rint": "math.roundeven", "copysign": "math.copysign", "fma": "math.fma",
}
ON_INTEGERS = {
    "add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "and": "arith.andi", "or": "arith.ori",
    "xor": "arith.xori", "shl": "arith.shli",
}
FUNCTIONS = {
    **{name: f"math.{name}" for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "rsqrt", "atan2")},
    "exp_of_negative": "math.exp", "pow": "math.powf", "maximum": "arith.maximumf", "minimum": "arith.minimumf",
    "fmod": "arith.remf",
}
