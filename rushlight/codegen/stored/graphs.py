"""Compiled graphs kept on disk: descriptions of plans, which name their kernels, so that a second process does not
compile a graph again.

Enters: a digest of everything that a graph's compilation depends on, and what was made of it, as JSON has it. Leaves:
the same in a later process. Entries are files of `disk_cache`, named by that digest, the processor, and the sources of
the package; they are data, and nothing in them is run. Refuses to trust what it finds, as the cache of kernels does:
an entry must carry the right magic, key and checksum. Failing to write one costs time in the next process only.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from ...base import disk_cache, sources
from ...base.digest import digest
from ..text.targets import host_identity
from . import cache

MAGIC = b"RLGRAPH2\n"
_used: dict[bytes, bytes] = {}      # the entries of this process: digest -> contents
_noting: list[set[bytes]] = []      # who wants to know which are found or made from now on


@contextlib.contextmanager
def noted() -> Iterator[set[bytes]]:
    """Inside, the set is filled with the digests of graphs that are found or made."""
    found: set[bytes] = set()
    _noting.append(found)
    try:
        yield found
    finally:
        _noting.remove(found)


def _note(graph_digest: bytes, contents: bytes) -> None:
    _used[graph_digest] = contents
    for found in _noting:
        found.add(graph_digest)


def package_identity() -> bytes:
    """Changes whenever a source that takes part in compiling does, or the interpreter."""
    return digest(sys.version.encode() + sources.identity())


def package_contents() -> str:
    """The same, wherever the files lie and whenever they were written there."""
    return digest(sys.version.encode() + sources.contents().encode()).hex()


def key_by(graph_digest: bytes) -> bytes:
    """What names the entry of a graph on this machine."""
    return digest(graph_digest + host_identity() + package_identity())


def read(graph_digest: bytes) -> Any:
    """What was made of a graph; None where there is no entry, or it is not sound."""
    key = key_by(graph_digest)
    data = disk_cache.read(key.hex())
    contents = None if data is None else cache.unpack(key, data, MAGIC)
    if contents is None:
        return None
    try:
        found = json.loads(contents)
    except ValueError:
        return None
    _note(graph_digest, contents)
    return found


def write(graph_digest: bytes, description: Any) -> str | None:
    """Keep what was made of a graph; the reason where that cannot be done."""
    contents = json.dumps(description, separators=(",", ":")).encode()
    _note(graph_digest, contents)
    return write_contents(graph_digest, contents)


def write_contents(graph_digest: bytes, contents: bytes) -> str | None:
    key = key_by(graph_digest)
    return disk_cache.write(key.hex(), cache.pack(key, contents, MAGIC))


def used() -> dict[bytes, bytes]:
    """The entries that this process made or found: digest -> contents."""
    return dict(_used)
