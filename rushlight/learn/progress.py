"""Which exercises are solved: one small JSON file, `rushlight/learn.json` below $XDG_DATA_HOME.

Enters: ids. Leaves: the set of those solved, in later processes too. The file is written beside itself and renamed,
under a lock, so that two checks at once lose nothing. Refuses: to fail where the folder cannot be written (the caller
is told why), and to believe a file that holds anything else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from pathlib import Path

from ..base import environment


def path() -> Path:
    """Where the file is; it may not exist yet."""
    return Path(environment.get("XDG_DATA_HOME")).expanduser() / "rushlight" / "learn.json"


def solved() -> set[str]:
    """Ids that were solved; empty where nothing was kept, or something else."""
    try:
        kept = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    names = kept.get("solved") if isinstance(kept, dict) else None
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def add(name: str) -> str | None:
    """Keep that an exercise is solved; the reason where that cannot be done."""
    where = path()
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with open(where.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            names = solved()
            if name not in names:
                write(where, json.dumps({"solved": sorted(names | {name})}, indent=1) + "\n")
    except OSError as wrong:
        return str(wrong)
    return None


def write(where: Path, text: str) -> None:
    """A file, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, where)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
