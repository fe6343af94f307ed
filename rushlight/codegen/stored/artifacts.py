"""Kernels and graphs packed to be taken elsewhere, so that a deployed program starts warm:
`compiler.save_cache_artifacts`.

Enters: the kernels that this process uses, as their object files on disk, and what it made of graphs. Leaves: bytes;
and the other way round, entries of the caches of kernels and graphs. The bytes are a header in JSON, the object files
and the graphs' descriptions; nothing in them is run when they are read. Graphs that another version of this package
made are left: they would never be looked for. They are machine code, though: a kernel is run when a program needs the
nest that its entry names, so take them from whom you would take a library. Refuses (and then the whole): bytes of
another format; made for another processor, or by another version of the code generator; and entries whose checksums
are not those of their contents.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from ...base import disk_cache, sources
from ...base.digest import digest
from ..text.targets import host_identity
from . import cache, graphs as stored_graphs

MAGIC = b"RLARTIFACTS2\n"


def generator_identity() -> str:
    """What the generator's sources hold, wherever they lie and whenever they were written there."""
    return sources.contents(*sources.GENERATOR)


def packed(only: Collection[bytes] | None = None) -> tuple[bytes, list[str], list[str]] | None:
    """The kernels and graphs of this process, and their names; None where there are none on disk. `only`: some graphs
    (their digests), and the kernels that those name."""
    entries: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    graphs = sorted((k, v) for k, v in stored_graphs.used().items() if only is None or k in only)
    for key, kernel in sorted(cache._LOADED.items()):
        result = cache.digest_of(kernel.address)
        if result is None or (only is not None and not any(result.hex().encode() in held for _, held in graphs)):
            continue
        data = disk_cache.read(key.hex())
        code = None if data is None else cache.unpack(key, data)
        if code is None or cache.key_by(result) != key:
            continue
        entries.append({"nest": result.hex(), "name": kernel.name, "size": len(code), "check": digest(code).hex()})
        blobs.append(code)
    if not entries:
        return None
    named = [{"graph": name.hex(), "size": len(held), "check": digest(held).hex()} for name, held in graphs]
    header = json.dumps({
        "host": host_identity().hex(), "generator": generator_identity(),
        "package": stored_graphs.package_contents() if graphs else "", "entries": entries, "graphs": named,
    }).encode()
    whole = b"".join((MAGIC, len(header).to_bytes(8, "little"), header, *blobs, *[held for _, held in graphs]))
    return whole, [e["name"] for e in entries], [name.hex() for name, _ in graphs]


def unpacked(data: bytes) -> tuple[list[str], list[str]]:
    """Put kernels and graphs into the caches on disk; their names. Raises ValueError, saying why, where they do not
    fit."""
    header, start = _header(data)
    if header["generator"] != generator_identity():
        raise ValueError("they were made by another version of the code generator")
    if header["host"] != host_identity().hex():
        raise ValueError("they were made for another processor")
    found = []
    for entry in (*header["entries"], *header["graphs"]):
        part = data[start : start + entry["size"]]
        start += entry["size"]
        if digest(part).hex() != entry["check"]:
            raise ValueError(f"the entry {entry.get('name') or entry['graph']!r} is damaged")
        found.append((entry, part))
    is_same = bool(header["graphs"]) and header["package"] == stored_graphs.package_contents()
    kernels, graphs = [], []
    for entry, part in found:
        if "nest" in entry:
            key = cache.key_by(bytes.fromhex(entry["nest"]))
            problem = disk_cache.write(key.hex(), cache.pack(key, part))
            kernels.append(entry["name"])
        elif is_same:
            problem = stored_graphs.write_contents(bytes.fromhex(entry["graph"]), part)
            graphs.append(entry["graph"])
        if problem:
            raise ValueError(f"the cache cannot be written ({problem})")
    return kernels, graphs


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if not isinstance(data, bytes) or not data.startswith(MAGIC):
        raise ValueError("they were not packed by this version's save_cache_artifacts()")
    at = len(MAGIC)
    start = at + 8 + int.from_bytes(data[at : at + 8], "little")
    try:
        header = json.loads(data[at + 8 : start])
        sizes = [e["size"] for e in (*header["entries"], *header["graphs"])]
        texts = [e[k] for e in header["entries"] for k in ("nest", "name", "check")]
        texts += [header["package"], *[e[k] for e in header["graphs"] for k in ("graph", "check")]]
        sound = all(type(n) is int and n >= 0 for n in sizes) and start + sum(sizes) == len(data)
        sound = sound and all(isinstance(text, str) for text in texts)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("their header cannot be read") from error
    if not sound:
        raise ValueError("they are not whole")
    return header, start
