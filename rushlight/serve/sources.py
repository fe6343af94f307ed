"""Files that models come from, as the server opens them before any worker does.

Enters: a path, or an address that was allowed. Leaves: what workers are told to load, the memory that holds the weights
once for all of them, and how their requests become batches. Refuses: files that are neither `.pt2` nor `.mar`, cut off,
or foreign; nothing in a file is run here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from . import inference
from .refusals import LoadError, Refusal
from .served import Source

LARGEST_FETCHED = 1 << 36
FETCHED = "rushlight_fetched_"      # how folders of fetched files begin
MOST_HOPS = 5


def opened(path: Path, handler: str | None = None, may_install: bool = False) -> Source:
    """What a file holds; LoadError where that is nothing to serve."""
    if not path.is_file():
        raise LoadError(f"there is no file {str(path)!r}")
    if not zipfile.is_zipfile(path):
        raise LoadError(f"{path.name} is no archive: expected a .pt2 or .mar file, which are zip files, whole")
    try:
        with zipfile.ZipFile(path) as listing:
            names = listing.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise LoadError(f"{path.name} is damaged: {error}") from None
    if any("/models/" in f"/{n}" and n.endswith(".json") for n in names) and "MAR-INF/MANIFEST.json" not in names:
        if handler is not None:
            raise Refusal(400, "handler: a .pt2 file needs none, and takes none")
        fd = _copied(path)
        return Source(path.stem, "1", {"kind": "program"}, inference.together, inference.apart, (fd,))
    if path.suffix == ".pt2" and "MAR-INF/MANIFEST.json" not in names:      # one cut off may end with a zip within it
        raise LoadError(f"{path.name} holds no program: expected a .pt2 file as export.save writes it, whole")
    from . import archives  # few servers have any

    return archives.opened(path, handler, may_install)


def _copied(path: Path) -> int:
    """The file's bytes as memory that workers map, which stays as it is when the file changes."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(f"rushlight:{path.name}"[:200])
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    with open(path, "rb") as file, open(os.dup(fd), "wb") as target:
        shutil.copyfileobj(file, target, 1 << 24)
    return fd


async def fetched(url: str, is_allowed: Callable[[str], bool]) -> Path:
    """The file at an address, in a folder of its own. Where it is said to lie elsewhere that must be allowed too."""
    from aiohttp import ClientError, ClientSession

    path = Path(tempfile.mkdtemp(prefix=FETCHED)) / (os.path.basename(url.partition("?")[0]) or "model")
    try:
        async with ClientSession(raise_for_status=True) as session:
            await _copied_from(session, url, path, is_allowed)
    except (ClientError, OSError, ValueError) as error:
        forget(path)
        raise Refusal(400, f"url: {url[:100]!r} could not be fetched: {error}", "DownloadArchiveException") from None
    except BaseException:
        forget(path)
        raise
    return path


def forget(path: Path) -> None:
    """A file that was fetched is needed no longer; others stay."""
    if path.parent.name.startswith(FETCHED) and path.parent.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(path.parent, ignore_errors=True)


async def _copied_from(session: Any, url: str, path: Path, is_allowed: Callable[[str], bool]) -> None:
    for _ in range(MOST_HOPS):
        async with session.get(url, allow_redirects=False) as answer:
            if answer.status in (301, 302, 303, 307, 308) and "Location" in answer.headers:
                url = urljoin(url, answer.headers["Location"])
                if not is_allowed(url):
                    raise Refusal(403, f"url: it leads to {url[:100]!r}, which --allowed-urls does not allow",
                                  "InvalidUrlException")
                continue
            size = 0
            with open(path, "wb") as file:
                async for piece in answer.content.iter_chunked(1 << 20):
                    size += len(piece)
                    if size > LARGEST_FETCHED:
                        raise Refusal(400, f"url: {url[:100]!r} is larger than {LARGEST_FETCHED} bytes")
                    file.write(piece)
            return
    raise Refusal(400, f"url: it leads on more than {MOST_HOPS} times", "DownloadArchiveException")
