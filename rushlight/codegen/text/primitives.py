"""Primitive scalar operations as LLVM instructions, on scalars and on vectors alike.

Enters: an `Output` that collects lines, primitive names, dtype codes and operand texts (registers or literals).
Leaves: lines of LLVM IR, and the name of the register that holds the result.
Refuses: complex dtypes (lower.py works on their parts) and operations outside `expr.PRIMITIVES`.

How dtypes live in registers: b1 is i1 (a byte 0/1 in memory), bf16 and the byte floats are their bits (i16, i8)
and widen to float around arithmetic, f16 is half, the rest is what LLVM calls it. `lanes` 0 means scalar.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable

BYTE_FLOATS = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu")
REGISTER = {"b1": "i1", "bf16": "i16", "f16": "half", "f32": "float", "f64": "double"}
REGISTER.update(dict.fromkeys(BYTE_FLOATS, "i8"))
REGISTER.update({f"{kind}{bits}": f"i{bits}" for kind in "iu" for bits in (8, 16, 32, 64)})
MEMORY = {**REGISTER, "b1": "i8"}
SIZE = {"b1": 1, "bf16": 2, **dict.fromkeys(BYTE_FLOATS, 1), "c32": 4, "c64": 8, "c128": 16}
SIZE.update({f"{kind}{bits}": bits // 8 for kind in "iuf" for bits in (8, 16, 32, 64) if kind != "f" or bits > 8})
NARROW = frozenset(("f16", "bf16", *BYTE_FLOATS))
PARTS = {"c32": "f16", "c64": "f32", "c128": "f64"}
FLOATS = frozenset(("f32", "f64")) | NARROW
_SUFFIX = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "half": "f16", "float": "f32",
           "double": "f64"}


class Output:
    """Lines of one function: fresh register names, and the intrinsics and tables it needs declared."""

    def __init__(
        self, saturate: bool, rounds_to_bf16: bool = False, has_half: bool = True, truncates: bool = True
    ) -> None:
        self.count = 0
        self.declared: dict[str, str] = {}
        self.tables: dict[tuple, str] = {}
        # x86 has no saturating conversion; there the plain one, frozen, gives what the hardware gives.
        self.saturate = saturate
        self.rounds_to_bf16 = rounds_to_bf16     # there is an instruction for that
        self.has_half = has_half     # and for half precision; elsewhere `as_bits` goes over the finished text
        self.truncates = truncates   # and for vectors of floats to integers towards zero

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"L{self.count}"

    def emit(self, lines: list[str], text: str) -> str:
        """Append `%new = text`."""
        self.count += 1
        name = f"%v{self.count}"
        lines.append(f"  {name} = {text}")
        return name

    def named(self, lines: list[str], name: str, ty: str, args: list[str]) -> str:
        """Call an intrinsic that is for one type."""
        self.declared[name] = f"declare {ty} {name}({', '.join([ty] * len(args))})"
        return self.emit(lines, f"call {ty} {name}({', '.join([f'{ty} {a}' for a in args])})")

    def intrinsic(self, lines: list[str], name: str, ty: str, args: list[str], result: str | None = None) -> str:
        """Call `llvm.<name>` overloaded on `ty`, all arguments of that type."""
        mangled = f"@llvm.{name}.{mangle(ty)}" if result is None else f"@llvm.{name}.{mangle(result)}.{mangle(ty)}"
        result = result or ty
        extra = ", i1" if name == "abs" else ""
        if mangled not in self.declared:
            self.declared[mangled] = f"declare {result} {mangled}({', '.join([ty] * len(args))}{extra})"
        given = ", ".join(f"{ty} {a}" for a in args) + (", i1 false" if extra else "")
        return self.emit(lines, f"call {result} {mangled}({given})")


def type_of(code: str, lanes: int) -> str:
    """Register type of a dtype: `<4 x float>`, or `float` for lanes 0."""
    return f"<{lanes} x {REGISTER[code]}>" if lanes else REGISTER[code]


def memory_type(code: str, lanes: int) -> str:
    return f"<{lanes} x {MEMORY[code]}>" if lanes else MEMORY[code]


def mangle(ty: str) -> str:
    """LLVM's overload suffix of a type."""
    if ty[0] == "<":
        count, _, element = ty[1:-1].partition(" x ")
        return f"v{count}{_SUFFIX[element]}"
    return _SUFFIX[ty]


def float_bits(value: float, code: str) -> int:
    """Bits of the byte float or bf16 nearest to `value` (ties to even), overflowing as PyTorch's casts do."""
    mantissa, bias, top = {
        "bf16": (7, 127, 0x7F80), "f8e5m2": (2, 15, 0x7C), "f8e4m3fn": (3, 7, 0x7E), "f8e4m3fnuz": (3, 8, 0x80),
        "f8e5m2fnuz": (2, 16, 0x80), "f8e8m0fnu": (0, 127, 0xFF),
    }[code]
    size = abs(value)
    if code == "f8e8m0fnu":     # a power of 2: halves go up, and so does all between the two smallest
        if math.isnan(size) or size >= 1.5 * 2.0**127:
            return top
        if size < 2.0**-126:
            return int(size > 2.0**-127)
        fraction, exponent = math.frexp(size)
        return exponent + 126 + (fraction >= 0.75)
    sign = (math.copysign(1.0, value) < 0) << (15 if code == "bf16" else 7)
    if math.isnan(size):
        return {"bf16": sign | 0x7FC0}.get(code, 0x80 if top == 0x80 else sign | 0x7F)
    if size == 0.0:
        return 0 if top == 0x80 else sign
    exponent = max(math.frexp(size)[1] - 1 if math.isfinite(size) else 2000, 1 - bias)
    if exponent > 1500:
        return sign | top
    steps = round(math.ldexp(size, mantissa - exponent))
    bits = min(steps + ((exponent + bias - 1) << mantissa), top)
    return sign | bits if bits or top != 0x80 else 0


def literal(value: float, code: str) -> str:
    """A scalar constant as LLVM text."""
    if code == "b1":
        return "true" if value else "false"
    if code == "f32" or code == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if code == "f16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if code in NARROW:
        return str(float_bits(float(value), code))
    return str(int(value))


def splat_literal(text: str, code: str, lanes: int) -> str:
    return f"splat ({REGISTER[code]} {text})" if lanes else text


# Arithmetic: (integer instruction, float instruction), or a builder.

_PLAIN = {
    "add": ("add", "fadd"), "sub": ("sub", "fsub"), "mul": ("mul", "fmul"), "div": (None, "fdiv"),
    "and": ("and", None), "or": ("or", None), "xor": ("xor", None), "shl": ("shl", None),
}
_COMPARE = {
    "lt": ("slt", "ult", "olt"), "le": ("sle", "ule", "ole"), "gt": ("sgt", "ugt", "ogt"), "ge": ("sge", "uge", "oge"),
    "eq": ("eq", "eq", "oeq"), "ne": ("ne", "ne", "une"),
}
_FLOAT_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
                     "copysign": "copysign", "fma": "fma", "abs": "fabs", "maximum": "maximum",
                     "minimum": "minimum", "exp2": "exp2"}


def primitive(out: Output, lines: list[str], op: str, code: str, source: str, lanes: int, args: list[str]) -> str:
    """Emit `op` giving dtype `code` from arguments of dtype `source`; all on `lanes` lanes."""
    if op == "select":
        return _select(out, lines, type_of(code, lanes), lanes, args)
    if op == "cast":
        return cast(out, lines, args[0], source, code, lanes)
    if op == "bitcast":
        return _bitcast(out, lines, args[0], source, code, lanes)
    if source in NARROW:
        # Narrow floats are storage: compute in float, round once.
        wide = [cast(out, lines, a, source, "f32", lanes) for a in args]
        done = primitive(out, lines, op, "f32" if code in NARROW else code, "f32", lanes, wide)
        return cast(out, lines, done, "f32", code, lanes) if code in NARROW else done
    ty = type_of(source, lanes)
    is_float = source in FLOATS
    if op in _PLAIN:
        return out.emit(lines, f"{_PLAIN[op][is_float]} {ty} {args[0]}, {args[1]}")
    if op in _COMPARE:
        return compare(out, lines, op, source, ty, args)
    if op.startswith("nvvm."):
        return out.named(lines, f"@llvm.{op}", ty, args)
    if op == "trunc" and lanes and not out.truncates:
        return _truncated(out, lines, ty, args[0])
    if is_float and op in _FLOAT_INTRINSICS:
        return out.intrinsic(lines, _FLOAT_INTRINSICS[op], ty, args)
    if op == "min" or op == "max":
        test = compare(out, lines, "lt" if op == "min" else "gt", source, ty, args)
        return _select(out, lines, ty, lanes, [test, *args])
    if op == "neg":
        return out.emit(lines, f"fneg {ty} {args[0]}" if is_float else f"sub {ty} zeroinitializer, {args[0]}"
                        if lanes else f"sub {ty} 0, {args[0]}")
    if op == "abs":
        return out.intrinsic(lines, "abs", ty, args)
    if op == "not":
        return out.emit(
            lines, f"xor {ty} {args[0]}, {splat_literal('true' if source == 'b1' else '-1', source, lanes)}"
        )
    if op == "shr":
        return out.emit(lines, f"{'ashr' if source[0] == 'i' else 'lshr'} {ty} {args[0]}, {args[1]}")
    if op == "idiv" or op == "irem":
        return _divide(out, lines, op, source, lanes, args)
    raise NotImplementedError(f"codegen: no instruction for {op} on {source}")


def compare(out: Output, lines: list[str], op: str, source: str, ty: str, args: list[str]) -> str:
    signed, unsigned, floating = _COMPARE[op]
    if source in FLOATS:
        return out.emit(lines, f"fcmp {floating} {ty} {args[0]}, {args[1]}")
    return out.emit(lines, f"icmp {signed if source[0] == 'i' else unsigned} {ty} {args[0]}, {args[1]}")


def _select(out: Output, lines: list[str], ty: str, lanes: int, args: list[str]) -> str:
    flag = f"<{lanes} x i1>" if lanes else "i1"
    return out.emit(lines, f"select {flag} {args[0]}, {ty} {args[1]}, {ty} {args[2]}")


def _divide(out: Output, lines: list[str], op: str, source: str, lanes: int, args: list[str]) -> str:
    """Truncating division that cannot trap: by zero gives 0, the lowest integer by -1 wraps."""
    ty, (a, b), signed = type_of(source, lanes), args, source[0] == "i"
    one, zero = (splat_literal(text, source, lanes) for text in ("1", "0"))
    name = ("s" if signed else "u") + ("div" if op == "idiv" else "rem")
    plain = b.removeprefix(f"splat ({REGISTER[source]} ").rstrip(")")
    if plain.lstrip("-").isdigit() and plain not in ("0", "-1"):
        return out.emit(lines, f"{name} {ty} {a}, {b}")
    is_zero = out.emit(lines, f"icmp eq {ty} {b}, {zero}")
    unsafe = is_zero
    if signed:
        is_minus = out.emit(lines, f"icmp eq {ty} {b}, {splat_literal('-1', source, lanes)}")
        flag = f"<{lanes} x i1>" if lanes else "i1"
        unsafe = out.emit(lines, f"or {flag} {is_zero}, {is_minus}")
    divisor = _select(out, lines, ty, lanes, [unsafe, one, b])
    result = out.emit(lines, f"{name} {ty} {a}, {divisor}")
    if op == "irem":
        return result  # the remainder by 1 is the 0 wanted in both cases
    if signed:
        negated = out.emit(lines, f"sub {ty} {zero}, {a}")
        result = _select(out, lines, ty, lanes, [is_minus, negated, result])
    return _select(out, lines, ty, lanes, [is_zero, zero, result])


# Conversions


def _bitcast(out: Output, lines: list[str], a: str, source: str, code: str, lanes: int) -> str:
    old, new = type_of(source, lanes), type_of(code, lanes)
    if code == "b1":
        return out.emit(lines, f"icmp ne {old} {a}, {splat_literal('0', source, lanes)}")
    if source == "b1":
        return out.emit(lines, f"zext {old} {a} to {new}")
    return a if old == new else out.emit(lines, f"bitcast {old} {a} to {new}")


def cast(out: Output, lines: list[str], a: str, source: str, code: str, lanes: int) -> str:
    """Convert by value: towards zero into integers, to nearest even into floats, `!= 0` into b1."""
    if source == code:
        return a
    if source in NARROW:
        wide = _WIDEN[source](out, lines, a, lanes)
        return cast(out, lines, wide, "f32", code, lanes)
    if code in NARROW:
        single = cast(out, lines, a, source, "f32", lanes)
        return _NARROWED[code](out, lines, single, lanes)
    old, new = type_of(source, lanes), type_of(code, lanes)
    if code == "b1":
        zero = splat_literal(literal(0, source), source, lanes)
        return compare(out, lines, "ne", source, old, [a, zero])
    if source in FLOATS:
        if code in FLOATS:
            return out.emit(lines, f"{'fpext' if code == 'f64' else 'fptrunc'} {old} {a} to {new}")
        return _float_to_int(out, lines, a, source, code, lanes)
    if code in FLOATS:
        return out.emit(lines, f"{'sitofp' if source[0] == 'i' else 'uitofp'} {old} {a} to {new}")
    if old == new:
        return a
    if SIZE[code] < SIZE[source] and source != "b1":
        return out.emit(lines, f"trunc {old} {a} to {new}")
    return out.emit(lines, f"{'sext' if source[0] == 'i' else 'zext'} {old} {a} to {new}")


def _float_to_int(out: Output, lines: list[str], a: str, source: str, code: str, lanes: int) -> str:
    # Small integers come from the 32-bit conversion and u32 from the 64-bit one: negative values then wrap.
    middle = code if code in ("i32", "i64", "u64") else "i64" if code == "u32" else "i32"
    old, new = type_of(source, lanes), type_of(middle, lanes)
    signed = middle != "u64"
    if lanes and not out.truncates:
        done = _nearest_of_whole(out, lines, a, source, middle, lanes)
    elif out.saturate:
        done = out.intrinsic(lines, "fptosi.sat" if signed else "fptoui.sat", old, [a], new)
    elif signed:
        done = out.emit(lines, f"freeze {new} {out.emit(lines, f'fptosi {old} {a} to {new}')}")
    else:
        # As compilers do it, so that negative numbers wrap: from 2**63 on, what is above it, and the top bit.
        border = splat_literal(literal(2.0**63, source), source, lanes)
        above = out.emit(lines, f"fcmp oge {old} {a}, {border}")
        rest = _select(out, lines, old, lanes, [above, out.emit(lines, f"fsub {old} {a}, {border}"), a])
        whole = out.emit(lines, f"freeze {new} {out.emit(lines, f'fptosi {old} {rest} to {new}')}")
        flipped = _binary(out, lines, "xor", new, whole, -(1 << 63), lanes)
        done = _select(out, lines, new, lanes, [above, flipped, whole])
    return cast(out, lines, done, middle, code, lanes)


def _truncated(out: Output, lines: list[str], ty: str, a: str) -> str:
    """Floats towards zero, by those that round down."""
    below = out.intrinsic(lines, "floor", ty, [out.intrinsic(lines, "fabs", ty, [a])])
    return out.intrinsic(lines, "copysign", ty, [below, a])


def _nearest_of_whole(out: Output, lines: list[str], a: str, source: str, code: str, lanes: int) -> str:
    """`_float_to_int` that saturates, by the conversion that rounds to nearest: what it is given is whole already."""
    old, new = type_of(source, lanes), type_of(code, lanes)
    whole = rest = _truncated(out, lines, old, a)
    lost = out.emit(lines, f"fcmp uno {old} {a}, {a}")
    border = splat_literal(literal(2.0**63, source), source, lanes)
    if code == "u64":     # what is above the border, and the top bit; nothing is left of numbers below zero
        above = out.emit(lines, f"fcmp oge {old} {whole}, {border}")
        rest = _select(out, lines, old, lanes, [above, out.emit(lines, f"fsub {old} {whole}, {border}"), whole])
        lost = out.emit(lines, f"fcmp ult {old} {a}, {splat_literal(literal(0.0, source), source, lanes)}")
    done = out.intrinsic(lines, "lrint", old, [rest], new)
    if code == "u64":
        done = _select(out, lines, new, lanes, [above, _binary(out, lines, "xor", new, done, -(1 << 63), lanes), done])
    return _select(out, lines, new, lanes, [lost, splat_literal("0", code, lanes), done])


def _binary(out: Output, lines: list[str], op: str, ty: str, a: str, constant: int, lanes: int) -> str:
    element = ty.split(" x ")[1][:-1] if lanes else ty
    other = f"splat ({element} {constant})" if lanes else str(constant)
    return out.emit(lines, f"{op} {ty} {a}, {other}")


def _widen_f16(out: Output, lines: list[str], a: str, lanes: int) -> str:
    if not out.has_half:
        return _widen_half_bits(out, lines, a, lanes)
    return out.emit(lines, f"fpext {type_of('f16', lanes)} {a} to {type_of('f32', lanes)}")


def _widen_half_bits(out: Output, lines: list[str], a: str, lanes: int) -> str:
    """The same without an instruction for it: the bits, moved up, are the number divided by a power of 2."""
    i32, f32 = type_of("i32", lanes), type_of("f32", lanes)
    raw = out.emit(lines, f"bitcast {type_of('f16', lanes)} {a} to {type_of('i16', lanes)}")
    wide = out.emit(lines, f"zext {type_of('i16', lanes)} {raw} to {i32}")
    size = _binary(out, lines, "shl", i32, _binary(out, lines, "and", i32, wide, 0x7FFF, lanes), 13, lanes)
    small = out.emit(lines, f"bitcast {i32} {size} to {f32}")
    power = splat_literal(literal(2.0**112, "f32"), "f32", lanes)
    number = out.emit(lines, f"bitcast {f32} {out.emit(lines, f'fmul {f32} {small}, {power}')} to {i32}")
    special = _binary(out, lines, "icmp uge", i32, size, 0x7C00 << 13, lanes)
    above = _binary(out, lines, "or", i32, size, 0x7F800000, lanes)
    sign = _binary(out, lines, "shl", i32, _binary(out, lines, "and", i32, wide, 0x8000, lanes), 16, lanes)
    bits = out.emit(lines, f"or {i32} {_select(out, lines, i32, lanes, [special, above, number])}, {sign}")
    return out.emit(lines, f"bitcast {i32} {bits} to {f32}")


_HALF_LITERAL = re.compile(r"\b0xH([0-9A-F]{4})\b")


def as_bits(text: str) -> str:
    """The text for a machine without half precision: nothing computes with it, so that its bits stand for it."""
    return _HALF_LITERAL.sub(lambda found: str(int(found[1], 16)), re.sub(r"\bhalf\b", "i16", text))


def _widen_bf16(out: Output, lines: list[str], a: str, lanes: int) -> str:
    i32 = type_of("i32", lanes)
    wide = out.emit(lines, f"zext {type_of('i16', lanes)} {a} to {i32}")
    moved = _binary(out, lines, "shl", i32, wide, 16, lanes)
    return out.emit(lines, f"bitcast {i32} {moved} to {type_of('f32', lanes)}")


def _widen_e5m2(out: Output, lines: list[str], a: str, lanes: int) -> str:
    i16 = type_of("i16", lanes)
    wide = out.emit(lines, f"zext {type_of('i8', lanes)} {a} to {i16}")
    moved = _binary(out, lines, "shl", i16, wide, 8, lanes)
    half = out.emit(lines, f"bitcast {i16} {moved} to {type_of('f16', lanes)}")
    return _widen_f16(out, lines, half, lanes)


def _widen_byte(out: Output, lines: list[str], a: str, lanes: int, mantissa: int, bias: int, nan: int) -> str:
    """A byte float with `mantissa` bits and no infinity as float; `nan` is its NaN, without a sign or alone."""
    i32, f32 = type_of("i32", lanes), type_of("f32", lanes)

    def op(name: str, x: str, constant: int) -> str:
        return _binary(out, lines, name, i32, x, constant, lanes)

    wide = out.emit(lines, f"zext {type_of('i8', lanes)} {a} to {i32}")
    size = op("and", wide, 0x7F)
    normal = op("add", op("shl", size, 23 - mantissa), (127 - bias) << 23)
    count = out.emit(lines, f"uitofp {i32} {size} to {f32}")
    step = literal(2.0 ** (1 - bias - mantissa), "f32")
    tiny = out.emit(lines, f"fmul {f32} {count}, {splat_literal(step, 'f32', lanes)}")
    tiny = out.emit(lines, f"bitcast {f32} {tiny} to {i32}")
    bits = _select(out, lines, i32, lanes, [op("icmp ult", size, 1 << mantissa), tiny, normal])
    bits = out.emit(lines, f"or {i32} {bits}, {op('shl', op('and', wide, 0x80), 24)}")
    # A NaN that is one code has no sign; one of either sign keeps it.
    quiet = splat_literal(str(0x7FC00000), "i32", lanes) if nan > 0x7F else op("or", bits, 0x7FC00000)
    bits = _select(out, lines, i32, lanes, [op("icmp eq", wide if nan > 0x7F else size, nan), quiet, bits])
    return out.emit(lines, f"bitcast {i32} {bits} to {f32}")


def _widen_e8m0(out: Output, lines: list[str], a: str, lanes: int) -> str:
    """A power of 2 by its exponent: 0 is 2**-127, below the normal numbers of float, and 255 is NaN."""
    i32 = type_of("i32", lanes)
    wide = out.emit(lines, f"zext {type_of('i8', lanes)} {a} to {i32}")
    bits = _binary(out, lines, "shl", i32, wide, 23, lanes)
    for code, instead in ((0, 0x400000), (255, 0x7FC00000)):
        flag = _binary(out, lines, "icmp eq", i32, wide, code, lanes)
        bits = _select(out, lines, i32, lanes, [flag, splat_literal(str(instead), "i32", lanes), bits])
    return out.emit(lines, f"bitcast {i32} {bits} to {type_of('f32', lanes)}")


def _to_f16(out: Output, lines: list[str], a: str, lanes: int) -> str:
    if not out.has_half:
        bits = _to_byte_float(out, lines, a, lanes, 10, 15, 16)
        return out.emit(lines, f"bitcast {type_of('i16', lanes)} {bits} to {type_of('f16', lanes)}")
    return out.emit(lines, f"fptrunc {type_of('f32', lanes)} {a} to {type_of('f16', lanes)}")


def _to_bf16(out: Output, lines: list[str], a: str, lanes: int) -> str:
    i32, f32 = type_of("i32", lanes), type_of("f32", lanes)
    if out.rounds_to_bf16 and not lanes:
        return out.emit(lines, f"bitcast bfloat {out.emit(lines, f'fptrunc float {a} to bfloat')} to i16")
    bits = out.emit(lines, f"bitcast {f32} {a} to {i32}")
    odd = _binary(out, lines, "and", i32, _binary(out, lines, "lshr", i32, bits, 16, lanes), 1, lanes)
    bias = _binary(out, lines, "add", i32, odd, 0x7FFF, lanes)
    rounded = out.emit(lines, f"add {i32} {bits}, {bias}")
    rounded = _binary(out, lines, "lshr", i32, rounded, 16, lanes)
    is_nan = out.emit(lines, f"fcmp uno {f32} {a}, {a}")
    kept = _select(out, lines, i32, lanes, [is_nan, splat_literal(str(0x7FC0), "i32", lanes), rounded])
    return out.emit(lines, f"trunc {i32} {kept} to {type_of('i16', lanes)}")


def _to_byte_float(
    out: Output, lines: list[str], a: str, lanes: int, mantissa: int, bias: int, width: int = 8
) -> str:
    """Round float to sign + exponent + `mantissa` bits in a byte (or two), ties to even, with subnormals. The formats
    that have one zero and no infinity ("fnuz") have an exponent bias of their own, 8 or 16."""
    i32, f32 = type_of("i32", lanes), type_of("f32", lanes)

    def op(name: str, x: str, constant: int) -> str:
        return _binary(out, lines, name, i32, x, constant, lanes)

    def pick(flag: str, x: str, y: str) -> str:
        return _select(out, lines, i32, lanes, [flag, x, y])

    def number(n: int) -> str:
        return splat_literal(str(n), "i32", lanes)

    drop = 23 - mantissa
    bits = out.emit(lines, f"bitcast {f32} {a} to {i32}")
    sign = op("and", op("lshr", bits, 32 - width), 1 << (width - 1))
    size = op("and", bits, 0x7FFFFFFF)
    odd = op("and", op("lshr", size, drop), 1)
    near = op("add", size, ((bias - 127) << 23) + (1 << (drop - 1)) - 1)
    normal = op("lshr", out.emit(lines, f"add {i32} {near}, {odd}"), drop)
    # Adding a power of two whose last bit is the format's smallest step rounds subnormals in the FPU.
    anchor = (127 + 23 - (bias + mantissa - 1)) << 23
    anchor_float = struct.unpack("<f", struct.pack("<I", anchor))[0]
    as_float = out.emit(lines, f"bitcast {i32} {size} to {f32}")
    moved = out.emit(lines, f"fadd {f32} {as_float}, {splat_literal(literal(anchor_float, 'f32'), 'f32', lanes)}")
    tiny = op("sub", out.emit(lines, f"bitcast {f32} {moved} to {i32}"), anchor)
    result = pick(op("icmp ult", size, (128 - bias) << 23), tiny, normal)
    if bias % 8:
        # Past the largest number (with rounding): 448 where the format has no infinity, infinity otherwise.
        bound, top = (0x43E80000, 0x7E) if mantissa == 3 else (143 << 23, 0x1F << mantissa)
        huge = pick(op("icmp ugt", size, 255 << 23), number(0x7E00 if width == 16 else 0x7F), number(top))
        result = pick(op("icmp uge", size, bound), huge, result)
        result = out.emit(lines, f"or {i32} {result}, {sign}")
    else:
        # All of that is the one NaN, which has the code of -0; so 0 has no sign.
        result = pick(op("icmp ugt", result, 0x7F), number(0x80), result)
        result = pick(op("icmp eq", result, 0), result, out.emit(lines, f"or {i32} {result}, {sign}"))
    return out.emit(lines, f"trunc {i32} {result} to {type_of(f'i{width}', lanes)}")


def _to_e8m0(out: Output, lines: list[str], a: str, lanes: int) -> str:
    """The exponent of the nearest power of 2, halves up (but down below the normal numbers); no sign."""
    i32 = type_of("i32", lanes)
    bits = out.emit(lines, f"bitcast {type_of('f32', lanes)} {a} to {i32}")
    size = _binary(out, lines, "and", i32, bits, 0x7FFFFFFF, lanes)
    normal = _binary(out, lines, "icmp uge", i32, size, 1 << 23, lanes)
    half = _select(
        out, lines, i32, lanes,
        [normal, splat_literal(str(0x400000), "i32", lanes), splat_literal(str(0x3FFFFF), "i32", lanes)],
    )
    rounded = _binary(out, lines, "lshr", i32, out.emit(lines, f"add {i32} {size}, {half}"), 23, lanes)
    special = _binary(out, lines, "icmp uge", i32, size, 255 << 23, lanes)
    kept = _select(out, lines, i32, lanes, [special, splat_literal("255", "i32", lanes), rounded])
    return out.emit(lines, f"trunc {i32} {kept} to {type_of('i8', lanes)}")


Convert = Callable[[Output, list[str], str, int], str]
_BYTES = {"f8e4m3fn": (3, 7, 0x7F), "f8e4m3fnuz": (3, 8, 0x80), "f8e5m2fnuz": (2, 16, 0x80)}   # mantissa, bias, NaN
_WIDEN: dict[str, Convert] = {
    "f16": _widen_f16, "bf16": _widen_bf16, "f8e5m2": _widen_e5m2, "f8e8m0fnu": _widen_e8m0,
    **{code: functools.partial(_widen_byte, mantissa=m, bias=b, nan=nan) for code, (m, b, nan) in _BYTES.items()},
}
_NARROWED: dict[str, Convert] = {
    "f16": _to_f16, "bf16": _to_bf16, "f8e8m0fnu": _to_e8m0,
    "f8e5m2": functools.partial(_to_byte_float, mantissa=2, bias=15),
    **{code: functools.partial(_to_byte_float, mantissa=m, bias=b) for code, (m, b, _) in _BYTES.items()},
}


# Memory


def load(out: Output, lines: list[str], code: str, pointer: str, lanes: int) -> str:
    """Read `lanes` consecutive elements (or one) at `pointer`."""
    raw = out.emit(lines, f"load {memory_type(code, lanes)}, ptr {pointer}, align {SIZE[code]}")
    if code != "b1":
        return raw
    return out.emit(lines, f"icmp ne {memory_type(code, lanes)} {raw}, {'zeroinitializer' if lanes else '0'}")


def store(out: Output, lines: list[str], code: str, value: str, pointer: str, lanes: int) -> None:
    """Write `lanes` consecutive elements (or one) at `pointer`."""
    if code == "b1":
        value = out.emit(lines, f"zext {type_of(code, lanes)} {value} to {memory_type(code, lanes)}")
    lines.append(f"  store {memory_type(code, lanes)} {value}, ptr {pointer}, align {SIZE[code]}")


def load_pairs(out: Output, lines: list[str], part: str, pointer: str, lanes: int) -> tuple[str, str]:
    """Read interleaved complex numbers as separate real and imaginary parts."""
    if not lanes:
        second = out.emit(lines, f"getelementptr i8, ptr {pointer}, i64 {SIZE[part]}")
        return load(out, lines, part, pointer, 0), load(out, lines, part, second, 0)
    ty = f"<{2 * lanes} x {REGISTER[part]}>"
    raw = out.emit(lines, f"load {ty}, ptr {pointer}, align {SIZE[part]}")
    even, odd = (", ".join(f"i32 {2 * k + first}" for k in range(lanes)) for first in (0, 1))
    first, second = (
        out.emit(lines, f"shufflevector {ty} {raw}, {ty} poison, <{lanes} x i32> <{order}>") for order in (even, odd)
    )
    return first, second


def store_pairs(out: Output, lines: list[str], part: str, pair: tuple[str, str], pointer: str, lanes: int) -> None:
    """Write real and imaginary parts interleaved."""
    if not lanes:
        second = out.emit(lines, f"getelementptr i8, ptr {pointer}, i64 {SIZE[part]}")
        store(out, lines, part, pair[0], pointer, 0)
        store(out, lines, part, pair[1], second, 0)
        return
    ty = f"<{lanes} x {REGISTER[part]}>"
    order = ", ".join(f"i32 {k // 2 + (k % 2) * lanes}" for k in range(2 * lanes))
    mixed = out.emit(lines, f"shufflevector {ty} {pair[0]}, {ty} {pair[1]}, <{2 * lanes} x i32> <{order}>")
    lines.append(f"  store <{2 * lanes} x {REGISTER[part]}> {mixed}, ptr {pointer}, align {SIZE[part]}")
