"""Steps from folders to the contents of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import IOBase

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..streams import StreamWrapper, list_files, open_files
from .source import IterableWrapperIterDataPipe

__all__ = ["FileListerIterDataPipe", "FileOpenerIterDataPipe", "StreamReaderIterDataPipe"]


class _WithGivenLength(IterDataPipe):
    """A pipe whose length the user may know: -1 if not."""

    length: int

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_WithGivenLength):
    """Paths of the files in one or more folders whose names fit `masks`."""

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        super().__init__()
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self) -> Iterator[str]:
        for path in self.datapipe:
            yield from list_files(path, self.masks, self.recursive, self.abspath, self.non_deterministic)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_WithGivenLength):
    """Each path with its open file."""

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        super().__init__()
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        yield from open_files(self.datapipe, self.mode, self.encoding)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, bytes]]):
    """Each path with the content of its open file, whole or `chunk` bytes at a time."""

    def __init__(self, datapipe: IterDataPipe[tuple[str, IOBase]], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for path, stream in self.datapipe:
            while content := stream.read(self.chunk):
                yield path, content
            stream.close()
