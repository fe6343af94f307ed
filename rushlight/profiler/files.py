"""Files that are whole or not there: written beside their place, then moved into it.

Enters: a path. Leaves: a binary file to write to; when the block ends well it stands at the path, compressed where the
path ends in `.gz`; when it fails (a full disk, an error in the block) nothing stands there that was not there before.
What is no regular file (`/dev/stdout`, a pipe) is written to directly.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open `path` for writing, all or nothing. Refuses as `open` does: a missing folder, no permission, a full disk."""
    target = os.path.realpath(os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(beside, "xb") as raw:
            if name.endswith(".gz") or os.fspath(path).endswith(".gz"):
                with gzip.GzipFile(name.removesuffix(".gz"), "wb", 6, raw) as packed:
                    yield packed
            else:
                yield raw
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and error.filename == beside:
            error.filename = target
        raise
