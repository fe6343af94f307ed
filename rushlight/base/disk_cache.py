"""Files kept between processes: machine code of kernels, and the index of ops.

Enters: bytes under a name. Leaves: the same bytes in a later process. The folder is $RUSHLIGHT_CACHE, or
$XDG_CACHE_HOME/rushlight, or ~/.cache/rushlight. Files are written to a temporary name and renamed, so that concurrent
processes see whole files only; what they hold is for the caller to check. Refuses a folder, or a file, that anyone but
its owner (this user or root) can write to, the owner's group included. Failing to write costs speed in the next
process, never an error here: the caller is told why.

The folder holds about $RUSHLIGHT_CACHE_SIZE bytes ("500M", "2G"; 1G unless set; 0 for no limit). Reading a file marks
it as used, and once in a while a process that writes removes those not used for the longest time. Processes need no
lock for that: a file that is gone is made again, and one that is open stays readable.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import warnings

from . import environment

DEFAULT_LIMIT = 1 << 30
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BLOCK = 4096                 # what even a small file takes
_LOOK_AFTER_SECONDS = 3600    # between two looks at the whole folder, by any process
_LOOK_AFTER_SHARE = 16        # a process looks again once it wrote this share of the limit itself
_MARK_AFTER_SECONDS = 3600    # a file read again within this time is not marked again
_KEEP_SHARE = 0.8             # how full the folder is left
_LOOKED = "looked"            # its time says when the folder was last looked at
_NEW = "new-"

_written = 0


class NotKept(ValueError):  # noqa: N818 - no error: it is made again in every process
    """Something that no other process can know, or that none of this package's would have written."""


def folder() -> str:
    """Where files live; it may not exist yet."""
    return environment.get("RUSHLIGHT_CACHE") or os.path.join(
        os.path.expanduser(environment.get("XDG_CACHE_HOME")), "rushlight"
    )


def limit() -> int:
    """How many bytes the folder may hold; 0 for any number."""
    text = environment.get("RUSHLIGHT_CACHE_SIZE").strip().upper().removesuffix("B").removesuffix("I")
    if not text:
        return DEFAULT_LIMIT
    unit = _UNITS.get(text[-1], 1)
    try:
        return max(int(float(text if unit == 1 else text[:-1]) * unit), 0)
    except ValueError:
        warnings.warn(
            f"RUSHLIGHT_CACHE_SIZE: expected a number of bytes such as 500M or 2G, got {text!r}. The limit is 1G.",
            RuntimeWarning,
            stacklevel=2,
        )
        return DEFAULT_LIMIT


def is_private(info: os.stat_result) -> bool:
    """Whether only this user (or root) can change a folder or a file: some of what they hold is code that will run."""
    if not hasattr(os, "getuid"):
        return True
    return info.st_uid in (os.getuid(), 0) and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(name: str) -> bytes | None:
    """The file's bytes; None if there is no such file, or others could have written it."""
    where = folder()
    path = os.path.join(where, name)
    try:
        if not is_private(os.stat(where)):
            return None
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            if not is_private(info):
                return None
            data, used = file.read(), info.st_mtime
    except OSError:
        return None
    if time.time() - used > _MARK_AFTER_SECONDS:
        try:
            os.utime(path)
        except OSError:   # a folder of files to read only, or the file was just removed
            pass
    return data


def write(name: str, data: bytes) -> str | None:
    """Keep `data` under `name`; the reason where that cannot be done."""
    where = folder()
    temporary = None
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        if not is_private(os.stat(where)):
            return f"{where} belongs to, or can be written by, other users or a group; `chmod go-w` makes it private"
        temporary = os.path.join(where, f"{_NEW}{name}-{os.getpid()}-{threading.get_ident()}")
        # Whatever the umask says: a file that the group could write would not be believed.
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, os.path.join(where, name))
        _look_after(where, len(data))
    except OSError as error:
        if temporary is not None:
            _remove(temporary)
        return str(error)
    return None


# --- the limit --------------------------------------------------------------------------------------------------------


def _look_after(where: str, size: int) -> None:
    """Trim the folder if nobody did for a while, or if this process wrote much since it last did."""
    global _written
    _written += max(size, _BLOCK)
    most = limit()
    if not most:
        return
    mark = os.path.join(where, _LOOKED)
    try:
        idle = time.time() - os.stat(mark).st_mtime
    except OSError:
        idle = _LOOK_AFTER_SECONDS + 1
    if idle > _LOOK_AFTER_SECONDS or _written > most // _LOOK_AFTER_SHARE:
        with open(mark, "wb"):
            os.utime(mark)   # first of all, so that others need not look too
        _written = 0
        trim(where, most)


def trim(where: str, most: int) -> int:
    """Remove the files longest unused until `where` holds well under `most` bytes; how many were removed."""
    found, total, now = [], 0, time.time()
    with os.scandir(where) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:   # removed meanwhile
                continue
            if not stat.S_ISREG(info.st_mode) or entry.name == _LOOKED:
                continue
            if entry.name.startswith(_NEW):   # being written, or left by a process that died
                if now - info.st_mtime > _LOOK_AFTER_SECONDS:
                    _remove(entry.path)
                continue
            size = -(-info.st_size // _BLOCK) * _BLOCK
            found.append((info.st_mtime, size, entry.path))
            total += size
    if total <= most:
        return 0
    removed = 0
    for _, size, path in sorted(found):
        if total <= most * _KEEP_SHARE:
            break
        _remove(path)
        total -= size
        removed += 1
    return removed


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
