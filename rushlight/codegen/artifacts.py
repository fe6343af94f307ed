"""Kernels packed to be taken elsewhere, so that a deployed program starts warm: `compiler.save_cache_artifacts`.

Enters: the kernels that this process uses, as their object files on disk. Leaves: bytes; and the other way round,
entries of the kernel cache. The bytes are a header in JSON and the object files; nothing in them is run when they are
read. They are machine code, though: a kernel is run when a program needs the nest that its entry names, so take them
from whom you would take a library. Refuses (and then the whole): bytes of another format; made for another processor,
or by another version of the code generator; and entries whose checksums are not those of their contents.
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from ..base import disk_cache
from ..loops.digest import digest
from . import cache
from .targets import host_identity

MAGIC = b"RLARTIFACTS1\n"


@functools.cache
def generator_identity() -> str:
    """What the generator's sources hold, wherever they lie and whenever they were written there."""
    parts = []
    for folder in ("loops", "codegen", os.path.join("codegen", "library")):
        place = os.path.join(cache._PACKAGE, folder)
        for name in sorted(os.listdir(place)):
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as file:
                    parts.append(digest(f"{folder}/{name}".encode()) + digest(file.read()))
    return digest(b"".join(parts)).hex()


def packed() -> tuple[bytes, list[str]] | None:
    """The kernels of this process, and their names; None where there are none on disk."""
    entries, blobs = [], []
    for key, kernel in sorted(cache._LOADED.items()):
        nest = cache.source_of(kernel.address)
        data = disk_cache.read(key.hex())
        code = None if data is None else cache.unpack(key, data)
        if nest is None or code is None or cache.key_of(nest) != key:
            continue
        entry = {"nest": nest.digest().hex(), "name": kernel.name, "size": len(code), "check": digest(code).hex()}
        entries.append(entry)
        blobs.append(code)
    if not entries:
        return None
    header = json.dumps({"host": host_identity().hex(), "generator": generator_identity(), "entries": entries}).encode()
    return b"".join((MAGIC, len(header).to_bytes(8, "little"), header, *blobs)), [e["name"] for e in entries]


def unpacked(data: bytes) -> list[str]:
    """Put the kernels into the cache on disk; their names. Raises ValueError, saying why, where they do not fit."""
    header, start = _header(data)
    if header["generator"] != generator_identity():
        raise ValueError("they were made by another version of the code generator")
    if header["host"] != host_identity().hex():
        raise ValueError("they were made for another processor")
    found = []
    for entry in header["entries"]:
        code = data[start : start + entry["size"]]
        start += entry["size"]
        if digest(code).hex() != entry["check"]:
            raise ValueError(f"the kernel {entry['name']!r} is damaged")
        found.append((entry, code))
    for entry, code in found:
        key = digest(bytes.fromhex(entry["nest"]) + host_identity() + cache.source_identity())
        problem = disk_cache.write(key.hex(), cache.pack(key, code))
        if problem:
            raise ValueError(f"the cache cannot be written ({problem})")
    return [entry["name"] for entry, _ in found]


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if not isinstance(data, bytes) or not data.startswith(MAGIC):
        raise ValueError("they are no kernels packed by save_cache_artifacts()")
    at = len(MAGIC)
    start = at + 8 + int.from_bytes(data[at : at + 8], "little")
    try:
        header = json.loads(data[at + 8 : start])
        sizes = [e["size"] for e in header["entries"]]
        sound = all(type(n) is int and n >= 0 for n in sizes) and start + sum(sizes) == len(data) and all(
            isinstance(e[k], str) for e in header["entries"] for k in ("nest", "name", "check")
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("their header cannot be read") from error
    if not sound:
        raise ValueError("they are not whole")
    return header, start
