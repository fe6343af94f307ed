"""The instruction set as tables: mnemonics, operands, encodings. docs/npu.md is its prose.

Enters: nothing. Leaves: `INSTRUCTIONS` by mnemonic and `BY_OPCODE` by number, `encode` and `decode` between one
instruction's fields and its bytes. Refuses: fields that do not fit, by name (the assembler adds the line).

An instruction is a word of 64 bits, `li` two:

    byte 0        1       2    3    4    5    6    7
         opcode   type    first to sixth operand, a byte each; a second type, if there is one, in byte 7
         opcode   type    two operands at most, then an immediate of 32 bits in bytes 4 to 7
    `li`: the next word is an immediate of 64 bits

Kinds of operands: `s` a scalar register s0..s127 (s0 is 0), `v` a vector register v0..v127, `x` either (a scalar is
the same number on every lane; bit 7 tells), `m` a vector register of booleans or `-` (all lanes), `n` an immediate of
32 bits, `l` the word a branch goes to, `i` an immediate of 64 bits.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

REGISTERS = 128
NONE = 255                   # a mask field that says "all lanes"
ARGUMENTS = 1024             # what `larg` can reach
TYPES = (
    "b1", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c32", "c64", "c128",
    "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu",
)
SIZE = {t: 1 if t == "b1" or t.startswith("f8") else 2 if t == "bf16" else int(t[1:]) // 8 for t in TYPES}


class Instruction(NamedTuple):
    """One row: its mnemonic and number, the kinds of its operands, how many types follow the mnemonic, and its unit."""

    name: str
    opcode: int
    operands: str
    types: int
    unit: str


# first opcode, unit, types, then mnemonic:operands
_GROUPS = (
    (0x01, "scalar", 0,
     "li:si larg:sn mov:ss sadd:sss ssub:sss smul:sss sdiv:sss srem:sss smin:sss smax:sss sand:sss sor:sss sxor:sss"
     " sshl:sss sshr:sss slt:sss sle:sss seq:sss sne:sss ssel:ssss jmp:l bz:sl bnz:sl halt: vcfg:n vl:s fence:"),
    (0x30, "vector", 0, "vany:sv vuniq:vvm viota:vsss"),
    (0x38, "vector", 1, "vlow:svm vhigh:svm vrep:vvss vslide:vvs"),
    (0x40, "vector", 1,
     "vmov:vx vneg:vx vabs:vx vnot:vx vsqrt:vx vfloor:vx vceil:vx vtrunc:vx vrint:vx vre:vx vim:vx"
     " vadd:vxx vsub:vxx vmul:vxx vdiv:vxx vquot:vxx vrem:vxx vmin:vxx vmax:vxx vminn:vxx vmaxn:vxx vsgn:vxx"
     " vand:vxx vor:vxx vxor:vxx vshl:vxx vshr:vxx vlt:vxx vle:vxx vgt:vxx vge:vxx veq:vxx vne:vxx vcplx:vxx"
     " vfma:vxxx vsel:vxxx"),
    (0x70, "vector", 2, "vcvt:vx vbits:vx"),
    (0x80, "special", 1,
     "vexp:vx vexp2:vx vexpm1:vx vlog:vx vlog2:vx vlog10:vx vlog1p:vx vsin:vx vcos:vx vtan:vx vasin:vx vacos:vx"
     " vatan:vx vsinh:vx vcosh:vx vtanh:vx vasinh:vx vacosh:vx vatanh:vx vrsqrt:vx vsigmoid:vx vpow:vxx vatan2:vxx"
     " vfmod:vxx vhypot:vxx vnext:vxx"),
    (0xC0, "load", 1, "dld:vsssss dgat:vsvm"),
    (0xC8, "store", 1, "dst:vsssss dput:vsvm dputadd:vsvm dputmul:vsvm dputmin:vsvm dputmax:vsvm"),
    (0xE0, "array", 1, "amul:vvvsss"),
)


def _rows() -> list[Instruction]:
    rows = []
    for first, unit, types, text in _GROUPS:
        for k, entry in enumerate(text.split()):
            name, _, operands = entry.partition(":")
            rows.append(Instruction(name, first + k, operands, types, unit))
    return rows


INSTRUCTIONS = {row.name: row for row in _rows()}
BY_OPCODE = {row.opcode: row for row in INSTRUCTIONS.values()}
assert len(BY_OPCODE) == len(INSTRUCTIONS), "two instructions have one opcode"

LIMITS = {"larg": (0, ARGUMENTS - 1), "vcfg": (1, REGISTERS)}
WIDE = (-(1 << 63), (1 << 63) - 1)


class Fields(NamedTuple):
    """One instruction of a program: its row, its types, and an int for each operand (`x`: scalars have bit 7)."""

    row: Instruction
    types: tuple[str, ...]
    values: tuple[int, ...]

    @property
    def words(self) -> int:
        """How many words of 64 bits it takes."""
        return 2 if "i" in self.row.operands else 1


def encode(fields: Fields) -> bytes:
    """The bytes of one instruction; ValueError names an immediate that is out of range."""
    row, types, values = fields
    low, high = WIDE if "i" in row.operands else LIMITS.get(row.name, (0, (1 << 32) - 1))
    registers = [v for kind, v in zip(row.operands, values, strict=True) if kind not in "nli"]
    immediate = next((v for kind, v in zip(row.operands, values, strict=True) if kind in "nli"), None)
    if immediate is not None and not low <= immediate <= high:
        raise ValueError(f"{row.name}: the immediate must be in {low}..{high}, got {immediate}")
    head = bytes([row.opcode, TYPES.index(types[0]) + 1 if types else 0])
    if immediate is None or "i" in row.operands:
        body = bytearray(registers).ljust(6, b"\0")
        if len(types) == 2:
            body[5] = TYPES.index(types[1]) + 1
        return head + bytes(body) + (b"" if immediate is None else struct.pack("<q", immediate))
    return head + bytes(registers).ljust(2, b"\0") + struct.pack("<I", immediate)


def decode(code: bytes, word: int) -> Fields:
    """The instruction at a word of a program; ValueError says which word is none."""
    raw = code[8 * word : 8 * word + 8]
    row = BY_OPCODE.get(raw[0])
    if row is None:
        raise ValueError(f"word {word}: no instruction has opcode {raw[0]:#04x}")
    numbers = (raw[1], raw[7])[: row.types]
    if any(not 1 <= n <= len(TYPES) for n in numbers):
        raise ValueError(f"word {word}: {row.name} needs a type, got number {raw[1]}")
    types = tuple(TYPES[n - 1] for n in numbers)
    if "i" in row.operands:
        if len(code) < 8 * word + 16:
            raise ValueError(f"word {word}: the program ends before the immediate of {row.name}")
        return Fields(row, types, (raw[2], struct.unpack_from("<q", code, 8 * word + 8)[0]))
    values = list(raw[2 : 2 + len(row.operands)])
    if row.operands[-1:] in ("n", "l"):
        values[-1] = struct.unpack_from("<I", raw, 4)[0]
    for kind, value in zip(row.operands, values, strict=True):
        if (kind in "sv" and value >= REGISTERS) or (kind == "m" and REGISTERS <= value < NONE):
            raise ValueError(f"word {word}: {row.name} has no register {value}")
    return Fields(row, types, tuple(values))


def decode_all(code: bytes) -> dict[int, Fields]:
    """Every instruction of a program, by its word."""
    if len(code) % 8:
        raise ValueError(f"a program is whole words of 8 bytes, got {len(code)} bytes")
    found, word = {}, 0
    while word < len(code) // 8:
        found[word] = decode(code, word)
        word += found[word].words
    return found
