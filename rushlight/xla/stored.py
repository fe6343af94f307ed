"""Programs that XLA compiled, kept between processes in a folder that the user names.

Enters: StableHLO text. Leaves: an executable, read from the folder where it was compiled before by the same jaxlib for
the same processor. Refuses to believe entries that are cut, damaged or foreign, or that others can write: these are
compiled anew, and written over.
"""

from __future__ import annotations

import os
from typing import Any

from ..base.digest import digest
from ..base.disk_cache import is_private
from ..codegen.llvm.cpu import host_target
from ..lazy import metrics
from ..serialization.sources import replaced
from . import client

MAGIC = b"rushlight xla 1\n"
DIGEST = 32
_folder: dict[str, Any] = {"path": None, "readonly": False}


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keep compiled programs in a folder from now on, and look there first. `readonly`: write nothing."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"initialize_cache: expected a folder, got {type(path).__name__}")
    path = os.fspath(path)
    if not readonly:
        os.makedirs(path, mode=0o700, exist_ok=True)
    elif not os.path.isdir(path):
        raise FileNotFoundError(f"initialize_cache: there is no folder {path!r} to read from")
    if not is_private(os.stat(path)):
        raise PermissionError(
            f"initialize_cache: {path} belongs to, or can be written by, others, and what it holds would run here."
            " `chmod go-w` makes it private.")
    _folder.update(path=path, readonly=readonly)


def forget() -> None:
    """Use no folder any more."""
    _folder.update(path=None, readonly=False)


def executable_of(text: str | bytes) -> Any:
    """The program, ready to run."""
    if _folder["path"] is None:
        return client.compile_text(text)
    path = os.path.join(_folder["path"], f"{_name(text)}.xla")
    data = _read(path)
    found = None if data is None else client.from_stored_form(data)
    if found is not None:
        metrics.count("PersistentCacheHit")
        return found
    metrics.count("PersistentCacheMiss")
    made = client.compile_text(text)
    if not _folder["readonly"]:
        _write(path, client.stored_form(made))
    return made


def _name(text: str | bytes) -> str:
    """What a program is called by everyone who would compile it to the same machine code."""
    key = (client.jaxlib_version(), repr(host_target()), os.environ.get("XLA_FLAGS", ""))
    program = text.encode() if isinstance(text, str) else text
    return digest("\0".join(key).encode() + b"\0" + program, 20).hex()


def _read(path: str) -> bytes | None:
    """What was kept; None where it is not there, not whole, not ours, or others can write it."""
    try:
        with open(path, "rb") as file:
            if not is_private(os.fstat(file.fileno())):
                return None
            data = file.read()
    except OSError:
        return None
    start = len(MAGIC) + DIGEST
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : start] != digest(data[start:], DIGEST):
        return None
    return data[start:]


def _write(path: str, data: bytes) -> None:
    """Keep it; a folder that cannot be written to costs the next process time, and nothing else."""
    try:
        with replaced(path) as fd, os.fdopen(os.dup(fd), "wb") as file:
            file.write(MAGIC + digest(data, DIGEST) + data)
    except (OSError, RuntimeError) as error:
        metrics.tell("cache", f"a program is not kept: {error}")
