"""RISC-V objects made ready to run, without a linker.

Enters: an object file as LLVM writes it (64 bits, little-endian, not relaxed), and the address where it will lie.
Leaves: its bytes with every relocation applied, and the addresses of its functions; `executable` wraps such bytes as a
static program. Refuses: names that nobody defines (there is no C library here), and relocations it does not know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

SECTION, SYMBOL, RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
ALLOCATED, SYMBOLS, ADDENDS, NO_BITS = 2, 2, 4, 8


def upper(word: int, value: int) -> int:
    """An instruction with the upper 20 bits of a value whose lower 12 are signed."""
    return word & 0xFFF | (value + 0x800) & 0xFFFFF000


def lower(word: int, value: int) -> int:
    return word & 0xFFFFF | (value & 0xFFF) << 20


def lower_of_store(word: int, value: int) -> int:
    return word & 0x01FFF07F | (value >> 5 & 0x7F) << 25 | (value & 0x1F) << 7


def jump(word: int, value: int) -> int:
    bits = (value >> 20 & 1) << 31 | (value >> 1 & 0x3FF) << 21 | (value >> 11 & 1) << 20 | (value >> 12 & 0xFF) << 12
    return word & 0xFFF | bits


def branch(word: int, value: int) -> int:
    bits = (value >> 12 & 1) << 31 | (value >> 5 & 0x3F) << 25 | (value >> 1 & 0xF) << 8 | (value >> 11 & 1) << 7
    return word & 0x01FFF07F | bits


# By the numbers of the psABI: how an instruction takes the distance to a symbol, or its address.
RELATIVE: dict[int, Callable[[int, int], int]] = {16: branch, 17: jump, 23: upper}
ABSOLUTE: dict[int, Callable[[int, int], int]] = {26: upper, 27: lower, 28: lower_of_store}
PAIRED: dict[int, Callable[[int, int], int]] = {24: lower, 25: lower_of_store}   # their symbol is the place of the 23
CALLS, WORD, NOTHING = (18, 19), 2, 51


class Object:
    """An object laid out from address `base` on."""

    def __init__(self, data: bytes, base: int) -> None:
        self.data, self.base, self.image, self.places = data, base, bytearray(), {}
        start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        self.sections = [SECTION.unpack_from(data, start + SECTION.size * k) for k in range(count)]
        for k, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(self.sections):
            if flags & ALLOCATED:
                self.image += bytes(-len(self.image) % max(align, 1))
                self.places[k] = base + len(self.image)
                self.image += bytes(size) if kind == NO_BITS else data[offset : offset + size]
        self.table = next(s for s in self.sections if s[1] == SYMBOLS)
        self.symbols = [self.symbol(k) for k in range(self.table[5] // SYMBOL.size)]
        self.functions = {name: at for name, at in self.symbols if name and at}
        for section in self.sections:
            if section[1] == ADDENDS and section[7] in self.places:
                self.relocate(section, self.places[section[7]])

    def symbol(self, k: int) -> tuple[str, int]:
        """(name, address) of a symbol; address 0: it is defined elsewhere."""
        name, _, _, section, value, _ = SYMBOL.unpack_from(self.data, self.table[4] + SYMBOL.size * k)
        names = self.sections[self.table[6]][4] + name
        return self.data[names : self.data.index(0, names)].decode(), self.places.get(section, -value) + value

    def entries(self, section: tuple) -> Iterator[tuple[int, int, int]]:
        """(offset, kind, address it speaks of) of every relocation."""
        for at in range(section[4], section[4] + section[5], RELOCATION.size):
            offset, info, addend = RELOCATION.unpack_from(self.data, at)
            name, address = self.symbols[info >> 32]
            if info & 0xFFFFFFFF != NOTHING:
                if not address:
                    raise RuntimeError(f"link: nobody defines {name!r}: kernels have no library to call")
                yield offset, info & 0xFFFFFFFF, address + addend

    def relocate(self, section: tuple, place: int) -> None:
        found = list(self.entries(section))
        distances = {place + offset: address - place - offset for offset, kind, address in found if kind == 23}
        for offset, kind, address in found:
            at, here = place + offset - self.base, place + offset
            if kind == WORD:
                struct.pack_into("<Q", self.image, at, address)
            elif kind in CALLS:     # auipc and jalr
                self.patch(at, upper, address - here)
                self.patch(at + 4, lower, address - here)
            elif kind in RELATIVE:
                self.patch(at, RELATIVE[kind], address - here)
            elif kind in ABSOLUTE:
                self.patch(at, ABSOLUTE[kind], address)
            elif kind in PAIRED:
                self.patch(at, PAIRED[kind], distances[address])
            else:
                raise RuntimeError(f"link: relocation {kind} of the RISC-V psABI is not known here")

    def patch(self, at: int, change: Callable[[int, int], int], value: int) -> None:
        word = struct.unpack_from("<I", self.image, at)[0]
        struct.pack_into("<I", self.image, at, change(word, value) & 0xFFFFFFFF)


def executable(data: bytes, base: int) -> tuple[bytes, dict[str, int]]:
    """A static program of one object, which begins at its function `_start`: one segment, to be read, written and run;
    and the addresses of its functions."""
    head = 120
    program, flags = Object(data, base + head), struct.unpack_from("<I", data, 48)[0]
    size, start = head + len(program.image), program.functions["_start"]
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 243, 1, start, 64, 0, flags, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, size, size, 4096)
    return header + segment + program.image, program.functions
