"""Readers of MNIST and CIFAR files, and scikit-learn's data: what they give, and what they refuse."""

from __future__ import annotations

import gzip
import pickle
import struct

import numpy as np
import pytest

import rushlight
from rushlight import datasets
from rushlight.utils.data import DataLoader

rng = np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    codes = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
    head = bytes([0, 0, codes[array.dtype.name], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_read_idx(tmp_path, dtype):
    array = (rng.random((3, 4)) * 100).astype(dtype)
    (tmp_path / "plain").write_bytes(idx_bytes(array))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx_bytes(array)))
    for name in ("plain", "packed.gz"):
        read = datasets.read_idx(tmp_path / name)
        assert str(read.dtype) == f"rushlight.{dtype}"
        assert np.array_equal(read.numpy(), array)


def test_read_idx_without_elements(tmp_path):
    (tmp_path / "empty").write_bytes(idx_bytes(np.zeros((0, 28, 28), np.uint8)))
    assert datasets.read_idx(tmp_path / "empty").shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\x00\x00", "not an idx file"),
        (b"PK\x03\x04 something else", "not an idx file"),
        (idx_bytes(np.zeros((2, 3), np.uint8))[:-1], "truncated: 17 bytes, 18 expected"),
        (idx_bytes(np.zeros((2, 3), np.uint8))[:7], "truncated"),
        (idx_bytes(np.zeros((2, 3), np.uint8)) + b"x", "longer than it should be"),
        (gzip.compress(idx_bytes(np.zeros((2, 3), np.uint8)))[:-10], "not a whole gzip file"),
        (b"\x1f\x8b" + b"garbage" * 5, "not a whole gzip file"),
    ],
    ids=["empty", "short", "foreign", "truncated", "header", "longer", "gzip", "garbage"],
)
def test_damaged_idx_is_refused(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=message):
        datasets.read_idx(path)


def write_mnist(folder, images, labels, part="train"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


@pytest.mark.parametrize("below", ["", "raw", "MNIST/raw"])
def test_mnist(tmp_path, below):
    images, labels = rng.integers(0, 255, (7, 28, 28), np.uint8), rng.integers(0, 10, 7).astype(np.uint8)
    write_mnist(tmp_path / below, images, labels, "t10k")
    loaded = datasets.MNIST(
        tmp_path, train=False, transform=lambda x: x.float() / 255, target_transform=lambda y: y + 100
    )
    assert len(loaded) == 7
    image, label = loaded[3]
    assert label == labels[3] + 100
    assert np.allclose(image.numpy(), images[3] / 255)
    batch, targets = next(iter(DataLoader(loaded, batch_size=7)))
    assert batch.shape == (7, 28, 28) and targets.tolist() == (labels.astype(int) + 100).tolist()
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        datasets.MNIST(tmp_path)


def test_mnist_refuses_files_that_do_not_belong_together(tmp_path):
    write_mnist(tmp_path / "a", np.zeros((3, 28, 28), np.uint8), np.zeros(2, np.uint8))
    with pytest.raises(RuntimeError, match="3 images but 2 labels"):
        datasets.FashionMNIST(tmp_path / "a")
    write_mnist(tmp_path / "b", np.zeros((1, 28, 28), np.uint8), np.full(1, 11, np.uint8))
    with pytest.raises(RuntimeError, match="label 11"):
        datasets.MNIST(tmp_path / "b")
    write_mnist(tmp_path / "c", np.zeros((1, 28), np.uint8), np.zeros(1, np.uint8))
    with pytest.raises(RuntimeError, match="2 dims, bytes of 3 expected"):
        datasets.MNIST(tmp_path / "c")
    assert datasets.FashionMNIST.classes[0] == "T-shirt/top"


# --- CIFAR ------------------------------------------------------------------------------------------------------------


def old_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """As the authors' Python 2 wrote them: bytes are its str."""

    def text(s):
        return b"U" + bytes([len(s)]) + s

    shape = b"J" + struct.pack("<i", images.shape[0]) + b"J" + struct.pack("<i", images.shape[1]) + b"\x86"
    dtype = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    content = images.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01"
        + shape
        + dtype
    )
    array += b"\x89T" + struct.pack("<i", len(content)) + content + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([v]) for v in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + numbers + b"u."


def write_cifar10(folder, count=4, write=pickle.dumps):
    folder.mkdir(parents=True)
    images, labels = rng.integers(0, 255, (6, count, 3072), np.uint8), rng.integers(0, 10, (6, count))
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        rows = images[i], labels[i].tolist()
        content = old_pickle(*rows) if write is old_pickle else pickle.dumps({"data": rows[0], "labels": rows[1]}, 2)
        (folder / name).write_bytes(content)
    names = [f"class{i}" for i in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}, 2))
    return images, labels, names


@pytest.mark.parametrize("write", [pickle.dumps, old_pickle])
def test_cifar10_pickles(tmp_path, write):
    images, labels, names = write_cifar10(tmp_path / "cifar-10-batches-py", write=write)
    train, test = datasets.CIFAR10(tmp_path), datasets.CIFAR10(tmp_path / "cifar-10-batches-py", train=False)
    assert len(train) == 20 and len(test) == 4
    assert train.classes == names and train.class_to_idx["class3"] == 3
    assert np.array_equal(train.data.numpy().reshape(20, -1), images[:5].reshape(20, -1))
    image, label = test[2]
    assert image.shape == (3, 32, 32) and image.dtype is rushlight.uint8
    assert label == labels[5][2]


def test_cifar_binaries(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    images, labels = rng.integers(0, 255, (3, 3072), np.uint8), np.array([[1], [9], [0]], np.uint8)
    (folder / "test_batch.bin").write_bytes(np.concatenate([labels, images], 1).tobytes())
    loaded = datasets.CIFAR10(tmp_path, train=False)
    assert loaded.targets.tolist() == [1, 9, 0] and loaded.classes[9] == "9"
    assert np.array_equal(loaded.data.numpy().reshape(3, -1), images)
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    both = np.array([[1, 42], [2, 99], [3, 0]], np.uint8)
    (folder / "train.bin").write_bytes(np.concatenate([both, images], 1).tobytes())
    assert datasets.CIFAR100(tmp_path).targets.tolist() == [42, 99, 0]
    (folder / "train.bin").write_bytes(np.concatenate([both, images], 1).tobytes()[:-5])
    with pytest.raises(RuntimeError, match="truncated"):
        datasets.CIFAR100(tmp_path)


class Hostile:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/rushlight-was-here",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"data": Hostile(), "labels": [1]}, 2), "it names (posix|nt).system"),
        (pickle.dumps([1, 2], 2), "holds a list"),
        (pickle.dumps({"labels": [1]}, 2), "no images"),
        (pickle.dumps({"data": np.zeros((1, 5), np.uint8), "labels": [1]}, 2), r"shape \(1, 5\)"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.float32), "labels": [1]}, 2), "an array of f4"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [1, 2]}, 2), "1 images but 2 labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": "x"}, 2), "no list of labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, 2), "labels from 10 to 10"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [1]}, 2)[:-900], "cannot be read"),
        (b"", "cannot be read"),
    ],
    ids=["hostile", "list", "no_data", "shape", "dtype", "count", "labels", "class", "truncated", "empty"],
)
def test_damaged_or_hostile_cifar_is_refused(tmp_path, content, message):
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(RuntimeError, match=message):
        datasets.CIFAR10(tmp_path, train=False)
    assert not __import__("os").path.exists("/tmp/rushlight-was-here")


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def test_scikit_learn_data():
    pytest.importorskip("sklearn")
    digits = datasets.Digits(transform=lambda x: x / 16)
    assert len(digits) == 1797 and digits[0][0].shape == (8, 8) and digits[0][1] == 0
    assert digits[0][0].max().item() <= 1
    assert datasets.Iris().classes == ["setosa", "versicolor", "virginica"]
    assert datasets.Diabetes()[0][1] == 151.0
    assert [len(d()) for d in (datasets.Wine, datasets.BreastCancer, datasets.Linnerud)] == [178, 569, 20]


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install rushlight\[datasets\]"):
        datasets.Iris()
