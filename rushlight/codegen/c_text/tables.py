"""What C-like languages differ in: their types, qualifiers, builtins, work items and atomics, and the functions that
kernels bring with them.

Enters: nothing. Leaves: `Table`s, of which OPENCL and PLAIN_C are two; a language that is much like C needs one more,
made by `OPENCL.but(...)`. In all of them the text of a kernel speaks of types by the codes of loops/expr.py (`f32`,
`i64`, ...), which its head defines. Floats of 16 and of 8 bits are their bits, and so is `b1` in memory a byte.
"""

from __future__ import annotations

from ...loops.expr import BYTE_FLOATS
from ...loops.record import Record
from ..text.targets import machine

NARROW = ("f16", "bf16", *BYTE_FLOATS)
UNSIGNED = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64"}
WHOLE_TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


class Table(Record):
    """One language.

    `kernel` begins a kernel's definition, `function` that of a function of its own. `memory`, `own_memory`,
    `group_memory` and `constant` are said of pointers to operands and to a work item's arrays, of arrays that the items
    of a group share, and of tables of numbers. `items` and `members` are texts for the number of this work item and how
    many there are, along two axes, and for its number in its group and the group's; a language without them runs whole
    nests, whose operands and parameters are then handed over in arrays (the kernel ABI of loops/nest.py). `exchange`
    names, by width, functions that compare and exchange a word of memory, and `adders` those that add to one; where
    there are none, kernels that combine are one work item's.
    """

    name: str
    types: dict[str, str]
    builtins: dict[str, str]         # primitives to functions; "%s" is a suffix for f32 where that has its own
    suffix: str = ""
    head: str = ""
    options: tuple[str, ...] = ()    # what the compiler is told
    kernel: str = "void"
    function: str = "static inline"
    memory: str = ""
    own_memory: str = ""
    group_memory: str = ""
    constant: str = "static const"
    bits: tuple[str, str] = ("", "")     # templates: the bits of a float, and the float with these bits
    independent: str = ""            # a line before loops whose iterations are independent
    items: tuple[tuple[str, str], ...] = ()
    members: tuple[str, str] = ("", "")
    barrier: str = ""
    exchange: dict[int, str] = {}
    adders: dict[int, str] = {}
    vectors: bool = False            # whether it has vectors of numbers: `float4` and the like
    contract: str = ""               # a line in a function whose products may be added without rounding
    long_suffix: str = "LL"
    saturates: bool = machine() not in ("x86_64", "AMD64")   # floats too large for integers, as this processor does


_BUILTINS = {"sqrt": "sqrt%s", "floor": "floor%s", "ceil": "ceil%s", "trunc": "trunc%s", "rint": "rint%s",
             "copysign": "copysign%s", "fma": "fma%s", "abs": "fabs%s"}

PLAIN_C = Table(
    "c",
    {"i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "i32": "int",
     "u32": "unsigned int", "i64": "long long", "u64": "unsigned long long", "f32": "float", "f64": "double"},
    _BUILTINS,
    suffix="f",
    head="#include <math.h>",
    options=("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv"),
    bits=("union {{ {float} f; {word} u; }} both; both.f = x; return both.u;",
          "union {{ {float} f; {word} u; }} both; both.u = x; return both.f;"),
    independent="#pragma GCC ivdep",
)

OPENCL = Table(
    "opencl",
    {"i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int", "u32": "uint", "i64": "long",
     "u64": "ulong", "f32": "float", "f64": "double"},
    _BUILTINS,
    head="#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n#pragma OPENCL FP_CONTRACT OFF",
    options=("-cl-std=CL2.0", "-cl-fp32-correctly-rounded-divide-sqrt", "-w"),
    kernel="__kernel void",
    function="inline __attribute__((always_inline))",
    memory="__global ",
    own_memory="__private ",
    group_memory="__local ",
    constant="__constant",
    bits=("return as_{name}(x);", "return as_{name}(x);"),
    independent="#pragma clang loop vectorize(assume_safety)",
    items=(("get_global_id(0)", "get_global_size(0)"), ("get_global_id(1)", "get_global_size(1)")),
    members=("get_local_id(0)", "get_group_id(0)"),
    barrier="barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);",
    exchange={32: "atomic_cmpxchg", 64: "atom_cmpxchg"},
    adders={32: "atomic_add", 64: "atom_add"},
    vectors=True,
    contract="#pragma OPENCL FP_CONTRACT ON",
    long_suffix="L",
)


def type_lines(table: Table) -> list[str]:
    """The codes as names of types."""
    lines = [f"typedef {text} {code};" for code, text in table.types.items()]
    lines += [f"typedef {'u16' if code in ('f16', 'bf16') else 'u8'} {code};" for code in NARROW]
    return [*lines, "typedef u8 b1;"]


# --- functions that kernels bring with them ---------------------------------------------------------------------------


def function_text(name: str, table: Table) -> tuple[str, tuple[str, ...]]:
    """The function called `name`, and those it calls itself."""
    kind, _, rest = name.partition("_")
    if kind in ("idiv", "irem"):
        return _division(kind, rest), ()
    if kind in ("bits", "float"):
        return _bits(kind, rest, table), ()
    source, _, code = name.partition("_to_")
    if source in NARROW:
        return _widened(source), ("float_f32",)
    if code in NARROW:
        return _narrowed(code), ("bits_f32", "float_f32")
    return _whole(source, code, table), ()


def _division(kind: str, code: str) -> str:
    """Towards zero; by zero gives 0, and the lowest number by -1 wraps."""
    sign = "/" if kind == "idiv" else "%"
    safe = f"b == 0 ? 0 : a {sign} b"
    if code in UNSIGNED:
        minus = f"({code})(0 - ({UNSIGNED[code]})a)" if kind == "idiv" else "0"
        safe = f"b == 0 ? 0 : b == -1 ? {minus} : a {sign} b"
    return f"{code} {kind}_{code}({code} a, {code} b) {{ return {safe}; }}"


def _bits(kind: str, code: str, table: Table) -> str:
    word = "u" + code[1:]
    names = {"float": table.types[code], "word": table.types[word]}
    if kind == "bits":
        return f"{word} bits_{code}({code} x) {{ {table.bits[0].format(name=table.types[word], **names)} }}"
    return f"{code} float_{code}({word} x) {{ {table.bits[1].format(name=table.types[code], **names)} }}"


def _whole(source: str, code: str, table: Table) -> str:
    """A float towards zero. Too large a one gives the nearest integer, NaN 0, or all of them the lowest."""
    head, mark = f"{code} {source}_to_{code}({source} x)", "f" if source == "f32" else ""
    bits, signed = int(code[1:]), code[0] == "i"
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    lowest = f"({code})((u{bits})1 << {bits - 1})"
    inside = f"x >= {low.hex()}{mark} && x < {high.hex()}{mark}"
    if table.saturates:
        most = f"({code})(~(u{bits})0{' >> 1' if signed else ''})"
        return f"{head} {{ return {inside} ? ({code})x : x > 0 ? {most} : x < 0 ? {lowest if signed else '0'} : 0; }}"
    if signed:
        return f"{head} {{ return {inside} ? ({code})x : {lowest}; }}"
    # Numbers from 2 ** 63 on by what is above it, and negative ones as those with a sign.
    half = f"{(2.0**63).hex()}{mark}"
    part = f"(y >= -{half} && y < {half} ? (u64)(i64)y : (u64)1 << 63)"
    return (f"{head} {{ const int above = x >= {half}; const {source} y = above ? x - {half} : x; "
            f"return above ? {part} ^ ((u64)1 << 63) : {part}; }}")


_BYTES = {"f8e4m3fn": (3, 7, 0x7F), "f8e4m3fnuz": (3, 8, 0x80), "f8e5m2fnuz": (2, 16, 0x80), "f8e5m2": (2, 15, 0x7F)}


def _widened(code: str) -> str:
    """A float of 16 or 8 bits as one of 32."""
    if code == "bf16":
        body = "return float_f32((u32)x << 16);"
    elif code == "f16":
        body = ("const u32 size = x & 0x7fff; const u32 sign = (u32)(x & 0x8000) << 16;\n"
                "  const f32 tiny = (f32)size * 0x1p-24f;\n"
                "  u32 bits = (size << 13) + (112u << 23);\n"
                "  bits = size >= 0x7c00 ? bits + (112u << 23) : bits;\n"
                "  bits = size > 0x7c00 ? bits | 0x400000u : bits;\n"
                "  return size < 0x400 ? (sign ? -tiny : tiny) : float_f32(bits | sign);")
    elif code == "f8e8m0fnu":
        body = "return float_f32(x == 0 ? 0x400000u : x == 255 ? 0x7fc00000u : (u32)x << 23);"
    else:
        mantissa, bias, nan = _BYTES[code]
        test = f"x == {nan}" if nan > 0x7F else "size > 0x7c" if code == "f8e5m2" else f"size == {nan}"
        quiet = "0x7fc00000u" if nan > 0x7F else "0x7fc00000u | sign"
        infinite = "size == 0x7c ? 0x7f800000u | sign : " if code == "f8e5m2" else ""
        body = (f"const u32 size = x & 0x7f; const u32 sign = (u32)(x & 0x80) << 24;\n"
                f"  const f32 tiny = (f32)size * {(2.0 ** (1 - bias - mantissa)).hex()}f;\n"
                f"  const u32 bits = ((size << {23 - mantissa}) + ({127 - bias}u << 23)) | sign;\n"
                f"  if ({test}) return float_f32({quiet});\n"
                f"  return size < {1 << mantissa} ? (sign ? -tiny : tiny) : float_f32({infinite}bits);")
    return f"f32 {code}_to_f32({code} x) {{ {body} }}"


def _narrowed(code: str) -> str:
    """A float of 32 bits rounded to one of 16 or 8, ties to even, with subnormals."""
    head = f"{code} f32_to_{code}(f32 x) {{ const u32 bits = bits_f32(x), size = bits & 0x7fffffffu;\n  "
    if code == "bf16":
        return f"{head}return size > 0x7f800000u ? 0x7fc0 : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); }}"
    if code == "f8e8m0fnu":
        rounded = "(size + (size >= (1u << 23) ? 0x400000u : 0x3fffffu)) >> 23"
        return f"{head}return size >= (255u << 23) ? 255 : (u8)({rounded}); }}"
    mantissa, bias, sign = (10, 15, "(bits >> 16) & 0x8000") if code == "f16" else (*_BYTES[code][:2],
                                                                                     "(bits >> 24) & 0x80")
    drop, anchor = 23 - mantissa, (127 + 23 - (bias + mantissa - 1)) << 23
    head += (f"const u32 sign = {sign};\n"
             f"  const u32 normal = (size + {((bias - 127) << 23) + (1 << (drop - 1)) - 1 & 0xFFFFFFFF}u + "
             f"((size >> {drop}) & 1)) >> {drop};\n"
             f"  const u32 tiny = bits_f32(float_f32(size) + float_f32({anchor}u)) - {anchor}u;\n"
             f"  u32 result = size < {(128 - bias) << 23}u ? tiny : normal;\n  ")
    if code == "f16":
        special = "0x7e00u | ((size >> 13) & 0x3ffu)"
        return f"{head}result = size > 0x7f800000u ? {special} : size >= 0x477ff000u ? 0x7c00u : result;\n" \
               "  return (u16)(result | sign); }"
    if bias % 8:
        bound, top = (0x43E80000, 0x7E) if mantissa == 3 else (143 << 23, 0x7C)
        return f"{head}result = size >= {bound}u ? (size > 0x7f800000u ? 0x7f : {top}) : result;\n" \
               "  return (u8)(result | sign); }"
    return f"{head}result = result > 0x7f ? 0x80 : result;\n  return (u8)(result ? result | sign : 0); }}"
