"""Which files of this package decide what machine code and compiled graphs look like, and what identifies them.

Enters: rooms (folders of the package). Leaves: an identity that is another one as soon as any file of theirs is, at
whatever depth: by name, size and time for caches on this machine, by contents for what travels. Everything that is kept
on disk is named by one of these, so that no changed source meets the machine code of an older one. Refuses to be told
file by file: rooms are walked whole, and a room that is new counts without being listed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection

from .digest import digest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GENERATOR = ("loops", "codegen")      # from a nest to machine code
# Rooms that only use compiled graphs; all others take part in making them.
APART = frozenset((
    "backends", "compat", "datasets", "distributed", "export", "freestanding", "jit", "onnx", "package", "profiler",
    "testing",
))
_COUNTED = (".py", ".pyc", ".txt", ".so", ".pyd")      # sources (or what an installation has of them), tables, the core


def takes_part(room: str) -> bool:
    """Whether a room's files count for compiled graphs."""
    return room not in APART


def _entries(rooms: Collection[str]) -> list[tuple[str, os.DirEntry]]:
    """The files of `rooms`, by their names within the package; without rooms, all that take part in compiling."""
    found = []
    waiting = [(room, os.path.join(PACKAGE, room)) for room in rooms] or [("", PACKAGE)]
    while waiting:
        name, place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                own = f"{name}/{entry.name}"
                if entry.name.endswith(_COUNTED):
                    found.append((own, entry))
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    if name or takes_part(entry.name):
                        waiting.append((own, entry.path))
    return sorted(found, key=lambda item: item[0])


@functools.cache
def identity(*rooms: str) -> bytes:
    """Names, sizes and times of the files: reading them all would cost more."""
    found = []
    for name, entry in _entries(rooms):
        info = entry.stat()
        found.append((name, info.st_size, info.st_mtime_ns))
    return digest(repr(found).encode())


@functools.cache
def contents(*rooms: str) -> str:
    """The same wherever the files lie and whenever they were written there."""
    parts = []
    for name, entry in _entries(rooms):
        with open(entry.path, "rb") as file:
            parts.append(digest(name.encode()) + digest(file.read()))
    return digest(b"".join(parts)).hex()
