"""Where bytes come from and go to: paths, open files, buffers, anything with `read` and `seek`.

Enters: what users hand to `save` and `load`. Leaves: a `Source` that reads any stretch of bytes by its offset, or a
writer that replaces a file only when everything has been written. Refuses file objects that cannot do what is needed,
naming the method they lack.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C

_MOST_PIECES = 512
_MOST_AT_ONCE = 1 << 30
_SMALL_FILE = 1 << 20


def is_path(f: Any) -> bool:
    """Whether `f` names a file."""
    return isinstance(f, (str, os.PathLike))


# --- reading ----------------------------------------------------------------------------------------------------------


class Source:
    """Bytes at offsets. `size` is how many there are; reading past the end gives fewer than asked for."""

    size: int

    def read(self, at: int, size: int) -> bytes:
        raise NotImplementedError

    def read_into(self, at: int, target: memoryview) -> int:
        """Fill `target`; how many bytes there were. May run on any thread where `is_parallel` says so."""
        data = self.read(at, target.nbytes)
        target[: len(data)] = data
        return len(data)

    is_parallel = False


class BufferSource(Source):
    """Bytes in memory."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data).cast("B")
        self.size = self._data.nbytes

    def read(self, at: int, size: int) -> bytes:
        return bytes(self._data[at : at + size])

    def read_into(self, at: int, target: memoryview) -> int:
        piece = self._data[at : at + target.nbytes]
        target[: piece.nbytes] = piece
        return piece.nbytes


class FileSource(Source):
    """A file of the system, read without moving its position; the first byte is at `base`."""

    is_parallel = True

    def __init__(self, fd: int, base: int = 0) -> None:
        self._fd, self._base = fd, base
        self.size = max(os.fstat(fd).st_size - base, 0)

    def read(self, at: int, size: int) -> bytes:
        pieces, left = [], min(size, max(self.size - at, 0))
        while left > 0:
            piece = os.pread(self._fd, min(left, _MOST_AT_ONCE), self._base + at)
            if not piece:
                break
            pieces.append(piece)
            at, left = at + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, at: int, target: memoryview) -> int:
        done, size = 0, target.nbytes
        while done < size:
            count = os.preadv(self._fd, [target[done : done + _MOST_AT_ONCE]], self._base + at + done)
            if not count:
                break
            done += count
        return done


class StreamSource(Source):
    """A file object that can only seek and read."""

    def __init__(self, file: Any) -> None:
        self._file, self._base = file, file.tell()
        file.seek(0, os.SEEK_END)
        self.size = file.tell() - self._base
        file.seek(self._base)

    def read(self, at: int, size: int) -> bytes:
        self._file.seek(self._base + at)
        return self._file.read(min(size, max(self.size - at, 0)))

    def read_into(self, at: int, target: memoryview) -> int:
        if not hasattr(self._file, "readinto"):
            return super().read_into(at, target)
        self._file.seek(self._base + at)
        done = 0
        while done < target.nbytes:
            count = self._file.readinto(target[done:])
            if not count:
                break
            done += count
        return done


def source_of(file: Any) -> Source:
    """The bytes of an open file from its position on."""
    if isinstance(file, io.BytesIO):
        return BufferSource(file.getbuffer()[file.tell() :])
    if type(file) in (io.BufferedReader, io.FileIO, io.BufferedRandom) and hasattr(os, "preadv"):
        raw = FileSource(file.fileno(), file.tell())
        return BufferSource(raw.read(0, raw.size)) if raw.size <= _SMALL_FILE else raw
    return StreamSource(file)


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Any]:
    """`f` as an open file, closed again if it was a path."""
    if is_path(f):
        with open(f, "rb") as file:
            yield file
        return
    check_seekable(f)
    yield f


def check_seekable(f: Any) -> None:
    """Raise what reading from `f` will need and `f` lacks."""
    advice = ("load: expected a seekable file. Read this one into an io.BytesIO "
              "and load from that.")
    for name in ("read", "readline", "tell", "seek"):
        if not hasattr(f, name):
            raise AttributeError(f"'{type(f).__name__}' object has no attribute '{name}'. {advice}")
    try:
        f.seek(f.tell())
    except io.UnsupportedOperation as error:
        raise type(error)(f"{error}. {advice}") from None


# --- writing ----------------------------------------------------------------------------------------------------------


class FileSink:
    """Writes buffers to a descriptor, gathering small ones."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting: list = []
        self._size = self._written = 0
        self._is_reserved = False

    def reserve(self, size: int) -> None:
        """Take room for a large file at once: the file system need not look for it with every write."""
        if size >= _SMALL_FILE:
            self._is_reserved = _C.reserve_file(self._fd, size + self._written + self._size)

    def __call__(self, pieces: list) -> None:
        for piece in pieces:
            self._waiting.append(piece)
            self._size += len(piece)
        if self._size > 1 << 18 or len(self._waiting) >= _MOST_PIECES:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._written, self._size = self._written + self._size, 0
        for first in range(0, len(waiting), _MOST_PIECES):
            _write_all(self._fd, waiting[first : first + _MOST_PIECES])

    def finish(self) -> None:
        """Write what waits, and give back what was reserved in vain."""
        self.flush()
        if self._is_reserved:
            os.ftruncate(self._fd, self._written)


def _write_all(fd: int, pieces: list) -> None:
    """Write all of `pieces`, however little the system takes at once."""
    left = [memoryview(p) for p in pieces if len(p)]
    while left:
        done = os.writev(fd, left)
        while left and done >= left[0].nbytes:
            done -= left.pop(0).nbytes
        if done:
            left[0] = left[0][done:]


def stream_sink(file: Any) -> Callable[[list], None]:
    """Writes buffers to a file object."""
    write = file.write

    def sink(pieces: list) -> None:
        for piece in pieces:
            write(piece)

    return sink


@contextlib.contextmanager
def replaced(path: str, fsync: bool = False) -> Iterator[int]:
    """A descriptor to write to; `path` becomes what was written, at once, when the block ends without an exception.

    Until then, and if it fails, `path` keeps what it had. What is no plain file (a device, a pipe) and files in folders
    where none can be made are written directly.
    """
    mode = _mode_of(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise RuntimeError(f"save: {path} cannot be written: it is a directory")
    temporary, fd = "", -1
    if mode is None or stat.S_ISREG(mode):
        target = os.path.realpath(path)
        folder, name = os.path.split(target)
        if not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
        temporary, fd = _open_beside(folder, name)
    if not temporary:
        with open(path, "wb", buffering=0) as file:
            yield file.fileno()
        return
    try:
        try:
            if mode is not None:
                os.fchmod(fd, stat.S_IMODE(mode))
            yield fd
            if fsync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _open_beside(folder: str, name: str) -> tuple[str, int]:
    """A new file in `folder`; ("", -1) if the folder takes none."""
    while True:
        temporary = os.path.join(folder, f".{name[:200]}.{os.urandom(6).hex()}.part")
        try:
            return temporary, os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666
            )
        except FileExistsError:
            continue
        except PermissionError:
            return "", -1
