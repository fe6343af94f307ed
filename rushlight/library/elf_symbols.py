"""What a shared library asks of others, read from its file.

Enters: the path of an ELF library for this kind of machine. Leaves: the libraries it names, the folders it looks in,
and the symbols it needs and has. Nothing is loaded or run. Refuses, with OSError: files that are no such library, or
are cut off.
"""

from __future__ import annotations

import mmap
import struct
from typing import NamedTuple

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PAIR = struct.Struct("<QQ")
SHT_DYNAMIC, SHT_DYNSYM = 6, 11
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
STB_WEAK = 2


class Symbols(NamedTuple):
    """What was read."""

    needed: tuple[str, ...]           # libraries, by the names they are looked for
    folders: tuple[str, ...]          # where it looks for them, besides the usual places
    undefined: tuple[str, ...]        # what others must have
    defined: tuple[str, ...]


def read(path: str) -> Symbols:
    """The dynamic symbols of a library, and which libraries it names."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:4] != b"\x7fELF":
            raise OSError(f"{path}: expected a shared library (ELF), and it is none")
        if head[4:6] != b"\x02\x01":
            raise OSError(f"{path}: expected a little-endian library of 64 bits, and it is another kind")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _read(data)
            except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
                raise OSError(f"{path}: the file is damaged or cut off ({error})") from None


def _read(data: mmap.mmap) -> Symbols:
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    if size != SECTION.size:
        raise ValueError(f"headers of sections have {size} bytes")
    sections = [SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    needed, folders, undefined, defined = [], [], [], []
    for _, kind, _, _, begin, length, link, *_ in sections:
        if kind not in (SHT_DYNAMIC, SHT_DYNSYM):
            continue
        names = sections[link][4]
        if kind == SHT_DYNAMIC:
            for tag, value in PAIR.iter_unpack(data[begin : begin + length]):
                if tag == DT_NEEDED:
                    needed.append(_text(data, names + value))
                elif tag in (DT_RPATH, DT_RUNPATH):
                    folders += _text(data, names + value).split(":")
                elif tag == 0:
                    break
        else:
            for name, info, _, section, _, _ in SYMBOL.iter_unpack(data[begin : begin + length]):
                if section:
                    defined.append(_text(data, names + name))
                elif name and info >> 4 != STB_WEAK:
                    undefined.append(_text(data, names + name))
    return Symbols(tuple(needed), tuple(folders), tuple(undefined), tuple(defined))


def _text(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at) if 0 <= at < len(data) else -1
    if end < 0:
        raise ValueError("a name lies outside of the file")
    return data[at:end].decode()
