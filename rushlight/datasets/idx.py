"""MNIST and data sets in its file format.

Enters: idx files, as they are or compressed with gzip. Leaves: tensors. An idx file is two zero bytes, an element type,
the number of dims, each size as a big-endian 32-bit number, and the elements. Refuses: files that are shorter or longer
than their header says, unknown types, damaged gzip streams, labels that are no classes.
"""

from __future__ import annotations

import gzip
import math
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from .._C import Tensor, float32, float64, int8, int16, int32, int64, uint8
from ..tensors.interop import frombuffer
from .paired import PairedDataset, find_file

# By the type byte of the header: the dtype, and bytes of an element, stored with the highest first.
_TYPES = {0x08: (uint8, 1), 0x09: (int8, 1), 0x0B: (int16, 2), 0x0C: (int32, 4), 0x0D: (float32, 4), 0x0E: (float64, 8)}


def _read_bytes(path: Path) -> bytearray:
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return bytearray(content)
    try:
        return bytearray(gzip.decompress(content))
    except (EOFError, OSError, zlib.error) as e:
        raise RuntimeError(f"read_idx: {path} is not a whole gzip file ({e}). Get it again.") from None


def _in_our_order(content: bytearray, start: int, width: int) -> bytearray:
    """The elements in this machine's byte order."""
    if width == 1 or sys.byteorder == "big":
        return content[start:]
    result = bytearray(len(content) - start)
    for k in range(width):
        result[k::width] = content[start + width - 1 - k :: width]
    return result


def read_idx(path: str | Path) -> Tensor:
    """The tensor in an idx file."""
    path = Path(path)
    content = _read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise RuntimeError(
            f"read_idx: {path} is not an idx file: it begins with {bytes(content[:4]).hex() or 'nothing'}"
        )
    dtype, width = _TYPES[content[2]]
    start = 4 + 4 * content[3]
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    need = start + math.prod(shape) * width
    if len(content) != need:
        how = "truncated" if len(content) < need else "longer than it should be"
        raise RuntimeError(f"read_idx: {path} is {how}: {len(content)} bytes, {need} expected for shape {tuple(shape)}")
    elements = _in_our_order(content, start, width)
    if not elements:
        return frombuffer(bytearray(width), dtype=dtype)[:0].reshape(shape)
    return frombuffer(elements, dtype=dtype).reshape(shape)


class MNIST(PairedDataset):
    """Handwritten digits: (28, 28) uint8 images and labels 0 to 9, from the four idx files in `root`.

    Files are looked for in `root` itself, in `raw` and in `MNIST/raw` below it (torchvision's layout), plain or .gz.
    """

    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        self.root = root
        self.train = train
        part = "train" if train else "t10k"
        images = self._read(f"{part}-images-idx3-ubyte", 3)
        labels = self._read(f"{part}-labels-idx1-ubyte", 1)
        if images.size(0) != labels.size(0):
            raise RuntimeError(f"{type(self).__name__}: {images.size(0)} images but {labels.size(0)} labels in {root}")
        if labels.numel() and labels.max().item() >= len(self.classes):
            raise RuntimeError(
                f"{type(self).__name__}: label {labels.max().item()} in {root}, but there are {len(self.classes)}"
                " classes"
            )
        super().__init__(images, labels.to(int64), transform, target_transform)

    def _read(self, name: str, ndim: int) -> Tensor:
        # Some copies are unpacked under a name with a dot where the authors have a dash.
        names = tuple(base + end for base in (name, name.replace("-idx", ".idx")) for end in ("", ".gz"))
        path = find_file(self.root, ("raw", f"{type(self).__name__}/raw"), names)
        result = read_idx(path)
        if result.ndim != ndim or result.dtype is not uint8:
            raise RuntimeError(
                f"{type(self).__name__}: {path} holds {result.dtype} of {result.ndim} dims, bytes of {ndim} expected"
            )
        return result


class FashionMNIST(MNIST):
    """Zalando's articles of clothing, in MNIST's format."""

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class KMNIST(MNIST):
    """Handwritten hiragana, in MNIST's format."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
