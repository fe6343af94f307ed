"""RISC-V objects made ready to run, without a linker.

Enters: an object file as LLVM writes it (64 bits, not relaxed), and the address where it will lie. Leaves: its bytes
with relocations applied, and the addresses of its functions; `executable` makes a static program of it. Refuses: names
that nobody defines (there is no C library here), and relocations it does not know.
"""

from __future__ import annotations

import struct

SECTION, SYMBOL, RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
ALLOCATED, SYMBOLS, ADDENDS, NO_BITS = 2, 2, 4, 8
CALL, HIGH, LOW, LOW_OF_STORE, DISTANCE = 19, 23, 24, 25, 57    # numbers of the psABI; all are relative to their place
HEADERS = 120    # bytes of an executable before its code


class Object:
    """An object at address `base`: its `image` and its `functions`."""

    def __init__(self, data: bytes, base: int) -> None:
        self.data, self.base, self.image = data, base, bytearray()
        places: dict[int, int] = {}
        start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        sections = [SECTION.unpack_from(data, start + SECTION.size * k) for k in range(count)]
        for k, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(sections):
            if flags & ALLOCATED:
                self.image += bytes(-len(self.image) % max(align, 1))
                places[k] = base + len(self.image)
                self.image += bytes(size) if kind == NO_BITS else data[offset : offset + size]
        table = next(s for s in sections if s[1] == SYMBOLS)
        self.symbols: list[tuple[str, int]] = []     # name, and address or 0
        for at in range(table[4], table[4] + table[5], SYMBOL.size):
            name, _, _, section, value, _ = SYMBOL.unpack_from(data, at)
            text = data[sections[table[6]][4] + name :]
            self.symbols.append((text[: text.index(0)].decode(), places.get(section, -value) + value))
        self.functions = dict(self.symbols)
        for section in sections:
            if section[1] == ADDENDS and section[7] in places:
                self.relocate(section[4], section[5], places[section[7]])

    def relocate(self, start: int, size: int, place: int) -> None:
        """Apply relocations of the section that lies at `place`."""
        highs: dict[int, int] = {}     # distances by the address of their upper half: the lower one names that address
        for at in range(start, start + size, RELOCATION.size):
            offset, info, addend = RELOCATION.unpack_from(self.data, at)
            name, symbol = self.symbols[info >> 32]
            if not symbol:
                raise RuntimeError(f"link: nobody defines {name!r}: kernels have no library to call")
            kind, here = info & 0xFFFFFFFF, place + offset
            distance = highs.get(symbol, 0) if kind in (LOW, LOW_OF_STORE) else symbol + addend - here
            if kind in (HIGH, CALL):
                highs[here] = distance
                self.patch(here, 0xFFF, distance + 0x800)
            if kind == CALL:
                self.patch(here + 4, 0xFFFFF, distance << 20)
            elif kind == LOW:
                self.patch(here, 0xFFFFF, distance << 20)
            elif kind == LOW_OF_STORE:
                self.patch(here, 0x01FFF07F, (distance & 0xFE0) << 20 | (distance & 0x1F) << 7)
            elif kind == DISTANCE:
                self.patch(here, 0, distance)
            elif kind != HIGH:
                raise RuntimeError(f"link: relocation {kind} of the RISC-V psABI is not known here")

    def patch(self, here: int, kept: int, bits: int) -> None:
        """Change the bits of a word that are not `kept`."""
        word = struct.unpack_from("<I", self.image, here - self.base)[0]
        struct.pack_into("<I", self.image, here - self.base, word & kept | bits & ~kept & 0xFFFFFFFF)


def executable(data: bytes, base: int) -> tuple[bytes, dict[str, int]]:
    """A static program of one object, which begins at `_start`, and the addresses of its functions."""
    program, flags = Object(data, base + HEADERS), struct.unpack_from("<I", data, 48)[0]
    size, start = HEADERS + len(program.image), program.functions["_start"]
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 243, 1, start, 64, 0, flags, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, size, size, 4096)     # one, to be read, written and run
    return header + segment + program.image, program.functions
