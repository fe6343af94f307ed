"""Machine code of CUDA kernels kept on disk, so that a second process neither generates nor compiles them.

Enters: what names a variant of a kernel (its nest's digest and its class of geometry), the architecture and what the
driver says of itself. Leaves: the numbers and the cubin that an earlier process stored under them. Entries are files of
`disk_cache`, written whole; one without the right magic, key and checksum is made again. RUSHLIGHT_SHOW=loops, llvm or
asm makes kernels anew, so that there is something to show.
"""

from __future__ import annotations

import struct

from ...base import disk_cache
from ...base.digest import digest
from ...base.show import shown_words
from ...codegen.stored.cache import pack, source_identity, unpack

MAGIC = b"RLCUBIN1\n"
NUMBERS = struct.Struct("<ii")
SHOWN = {"loops", "llvm", "asm"}


def key_of(name: bytes, variant: int, architecture: str, driver: bytes) -> bytes:
    """16 bytes that name a variant's cubin."""
    return digest(b"%s %d %s %s " % (name, variant, architecture.encode(), driver) + source_identity())


def read(key: bytes) -> tuple[bytes, int, int] | None:
    """(cubin, elements, times), or None where there is no sound entry."""
    data = None if shown_words() & SHOWN else disk_cache.read(key.hex())
    found = None if data is None else unpack(key, data, MAGIC)
    if found is None or len(found) <= NUMBERS.size:
        return None
    return found[NUMBERS.size :], *NUMBERS.unpack_from(found)


def write(key: bytes, cubin: bytes, elements: int, times: int) -> None:
    """Keep an entry; failing to costs speed in the next process only."""
    disk_cache.write(key.hex(), pack(key, NUMBERS.pack(elements, times) + cubin, MAGIC))
