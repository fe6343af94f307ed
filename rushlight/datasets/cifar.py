"""CIFAR-10 and CIFAR-100.

Enters: the "python version" (pickles) or the "binary version" of the files. Leaves: (3, 32, 32) uint8 images and
labels. The pickles are taken apart, not executed: the only things they may name are NumPy's array and dtype, for which
records of our own stand in. Refuses: every other name, files of a wrong size, labels that are no classes.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .._C import Tensor, int64, uint8
from ..op import find_op
from ..tensors.interop import frombuffer, tensor
from .paired import PairedDataset, find_file

_PIXELS = 3 * 32 * 32


# --- pickles ----------------------------------------------------------------------------------------------------------


class _Array:
    """Stands in for an array that is being unpickled; `state` is what NumPy would have been given."""

    def __init__(self, *args: Any) -> None:
        self.state: tuple = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def to_tensor(self) -> Tensor:
        _, shape, dtype, is_fortran, content = self.state
        if isinstance(content, str):  # written by Python 2: bytes as text, one character each
            content = content.encode("latin1")
        if dtype.name not in ("u1", "|u1") or is_fortran:
            raise ValueError(f"an array of {dtype.name}, bytes in C order expected")
        return frombuffer(bytearray(content), dtype=uint8).reshape(shape)


class _DType:
    def __init__(self, name: str = "", *args: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        pass


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"text in {encoding}")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers, text and arrays of bytes; no other class or function can be reached."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no CIFAR file does") from None


def _read_pickle(path: Path) -> dict:
    try:
        content = _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except Exception as e:  # damaged pickles fail in any way they like
        raise RuntimeError(f"CIFAR: {path} cannot be read: {e or type(e).__name__}. Get it again.") from None
    if not isinstance(content, dict):
        raise RuntimeError(f"CIFAR: {path} holds a {type(content).__name__}, not the dict of a CIFAR file")
    return content


def _images_of(content: dict, path: Path) -> Tensor:
    try:
        result = content["data"].to_tensor()
        if result.ndim != 2 or result.size(1) != _PIXELS:
            raise ValueError(f"an array of shape {tuple(result.shape)}, (images, {_PIXELS}) expected")
    except Exception as e:
        raise RuntimeError(f"CIFAR: {path} has no images: {e or type(e).__name__}") from None
    return result


def _labels_of(content: dict, key: str, path: Path) -> Tensor:
    labels = content.get(key)
    if not isinstance(labels, list) or not all(type(v) is int for v in labels):
        raise RuntimeError(f"CIFAR: {path} has no list of {key}")
    return tensor(labels, dtype=int64)


# --- the datasets -----------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """Where the files of one of the two are, and what their parts are called."""

    pickles: str
    binaries: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str
    names_key: str
    label_key: str
    label_bytes: int
    label_at: int
    names_file: str


class CIFAR10(PairedDataset):
    """Small photographs of 10 kinds of things: (3, 32, 32) uint8 images, labels 0 to 9.

    Files are looked for in `root` and in the folder their archive unpacks to (cifar-10-batches-py or -bin).
    """

    _layout = _Layout(
        "cifar-10-batches-py", "cifar-10-batches-bin", tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",),
        "batches.meta", "label_names", "labels", 1, 0, "batches.meta.txt",
    )
    _count = 10

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ) -> None:
        self.root = root
        self.train = train
        names = self._layout.train if train else self._layout.test
        parts = [self._read_part(name) for name in names]
        images = find_op("cat")([images for images, _ in parts]).reshape(-1, 3, 32, 32)
        labels = find_op("cat")([labels for _, labels in parts])
        if labels.numel() and not (0 <= labels.min().item() and labels.max().item() < self._count):
            raise RuntimeError(
                f"{type(self).__name__}: labels from {labels.min().item()} to {labels.max().item()}, 0 to"
                f" {self._count - 1} expected"
            )
        self.classes = self._read_names()
        super().__init__(images, labels, transform, target_transform)

    def _read_part(self, name: str) -> tuple[Tensor, Tensor]:
        layout = self._layout
        path = find_file(self.root, (layout.pickles, layout.binaries), (name, f"{name}.bin"))
        if path.suffix == ".bin":
            return self._read_binary(path)
        content = _read_pickle(path)
        images, labels = _images_of(content, path), _labels_of(content, layout.label_key, path)
        if images.size(0) != labels.size(0):
            raise RuntimeError(f"{type(self).__name__}: {path} has {images.size(0)} images but {labels.size(0)} labels")
        return images, labels

    def _read_binary(self, path: Path) -> tuple[Tensor, Tensor]:
        layout = self._layout
        content = bytearray(path.read_bytes())
        row = layout.label_bytes + _PIXELS
        if not content or len(content) % row:
            raise RuntimeError(
                f"{type(self).__name__}: {path} is truncated: {len(content)} bytes, a multiple of {row} expected"
            )
        rows = frombuffer(content, dtype=uint8).reshape(-1, row)
        return rows[:, layout.label_bytes :], rows[:, layout.label_at].to(int64)

    def _read_names(self) -> list[str]:
        """The classes' names, or their numbers where the file with the names is not there."""
        layout = self._layout
        try:
            path = find_file(self.root, (layout.pickles, layout.binaries), (layout.meta, layout.names_file))
        except FileNotFoundError:
            return [str(i) for i in range(self._count)]
        if path.suffix == ".txt":
            names = path.read_text(encoding="ascii", errors="replace").split()
        else:
            names = [str(name) for name in _read_pickle(path).get(layout.names_key, ())]
        if len(names) != self._count:
            raise RuntimeError(f"{type(self).__name__}: {path} names {len(names)} classes, {self._count} expected")
        return names


class CIFAR100(CIFAR10):
    """Small photographs of 100 kinds of things, by their fine labels."""

    _layout = _Layout(
        "cifar-100-python", "cifar-100-binary", ("train",), ("test",), "meta", "fine_label_names", "fine_labels", 2, 1,
        "fine_label_names.txt",
    )
    _count = 100
