"""A WebAssembly object as a module that engines load: its functions get exports, what linkers read goes away.

Enters: the bytes of a relocatable object of one translation unit. Leaves: a module that imports `env.__linear_memory`
and `env.__stack_pointer`, and the first address behind its data. An object's indexes and addresses are right as they
stand as long as nothing else is linked to it, its data beginning at address 0. Refuses: objects that import functions.
"""

from __future__ import annotations

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, GLOBAL, EXPORT, DATA = 0, 2, 6, 7, 11
_ORDER = [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11]


class _Bytes:
    """Reads the encoding."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        result = shift = 0
        while True:
            b = self.byte()
            result |= (b & 0x7F) << shift
            shift += 7
            if not b & 0x80:
                return result

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        return self.take(self.number()).decode()


def encoded(n: int) -> bytes:
    """A number as the format has it."""
    result = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        result.append(low | (0x80 if n else 0))
        if not n:
            return bytes(result)


def _sections(data: bytes) -> list[tuple[int, bytes]]:
    if data[:8] != MAGIC:
        raise ValueError("aot_compile: LLVM made no WebAssembly object")
    reader, found = _Bytes(data), []
    reader.at = 8
    while reader.at < len(data):
        kind = reader.byte()
        found.append((kind, reader.take(reader.number())))
    return found


def exporting(data: bytes, names: list[str]) -> tuple[bytes, int]:
    """The object as a module that exports these functions; and where its data ends."""
    sections = _sections(data)
    functions = _symbols(next(body for kind, body in sections if kind == CUSTOM and _Bytes(body).text() == "linking"))
    _check_imports([body for kind, body in sections if kind == IMPORT])
    exports = b"".join(encoded(len(n)) + n.encode() + b"\0" + encoded(functions[n]) for n in names)
    kept = [(kind, body) for kind, body in sections if kind not in (CUSTOM, EXPORT)]
    kept.append((EXPORT, encoded(len(names)) + exports))
    kept.sort(key=lambda s: _ORDER.index(s[0]))
    end = max([_data_end(body) for kind, body in kept if kind == DATA], default=0)
    return MAGIC + b"".join(bytes([kind]) + encoded(len(body)) + body for kind, body in kept), end


def _symbols(linking: bytes) -> dict[str, int]:
    """Indexes of functions by name."""
    reader, found = _Bytes(linking), {}
    reader.text()
    reader.number()
    while reader.at < len(linking):
        kind, size = reader.byte(), reader.number()
        end = reader.at + size
        for _ in range(reader.number() if kind == 8 else 0):
            symbol, flags = reader.byte(), reader.number()
            if symbol == 1:
                reader.text()
                if not flags & 0x10:
                    reader.number(), reader.number(), reader.number()
            elif symbol == 3:
                reader.number()
            else:
                index = reader.number()
                if not flags & 0x10 or flags & 0x40:
                    name = reader.text()
                    if symbol == 0:
                        found[name] = index
        reader.at = end
    return found


def _check_imports(bodies: list[bytes]) -> None:
    for body in bodies:
        reader = _Bytes(body)
        for _ in range(reader.number()):
            reader.text()
            name, kind = reader.text(), reader.byte()
            if kind == 0:
                raise ValueError(f"aot_compile: the code calls {name}, which no WebAssembly engine has")
            if kind == 3:
                reader.take(2)
            else:
                if kind == 1:
                    reader.byte()
                if reader.number() & 1:
                    reader.number()
                reader.number()


def _data_end(body: bytes) -> int:
    reader, end = _Bytes(body), 0
    for _ in range(reader.number()):
        flags = reader.number()
        at = 0
        if flags != 1:
            reader.byte()                # i32.const
            at = _signed(reader)
            reader.byte()                # end
        end = max(end, at + len(reader.take(reader.number())))
    return end


def _signed(reader: _Bytes) -> int:
    result = shift = 0
    while True:
        b = reader.byte()
        result |= (b & 0x7F) << shift
        shift += 7
        if not b & 0x80:
            return result - (1 << shift) if b & 0x40 else result
