"""Files of formats nobody writes any more: tar archives, and pickles of tensors by their state."""

import io
import pickle
import struct
import sys
import tarfile
import warnings
import zipfile

import pytest

import rushlight


class _Named:
    """Pickles as a global of PyTorch's, without importing it."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class _Pickler(pickle._Pickler):
    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, _Named):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        else:
            super().save(obj, save_persistent_id)

    def persistent_id(self, obj):
        return obj.key if isinstance(obj, _Held) else None


class _Held:
    def __init__(self, key):
        self.key = key


def dumped(obj):
    file = io.BytesIO()
    _Pickler(file, 2).dump(obj)
    return file.getvalue()


def tar_file(tmp_path, sizes=(2, 2), offset=1, count=6, view=(12, 11, 1, 5)):
    storages = (
        dumped(1)
        + dumped((11, "cpu", _Named("torch", "FloatStorage")))
        + struct.pack("<q", count)
        + struct.pack("<6f", *range(6))
        + dumped([view])
    )
    geometry = (
        struct.pack("<ii", 2, 0) + struct.pack("<2q", *sizes) + struct.pack("<2q", 2, 1) + struct.pack("<q", offset)
    )
    tensors = (
        dumped(2)
        + dumped((7, 11, _Named("torch", "FloatTensor")))
        + geometry
        + dumped((8, 12, _Named("torch", "FloatTensor")))
        + geometry
    )
    body = dumped({"w": _Held(7), "again": _Held(7), "view": _Held(8), "n": 3})
    path = tmp_path / "old.tar"
    with tarfile.open(path, "w") as archive:
        for name, data in (("storages", storages), ("tensors", tensors), ("pickle", body)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize("weights_only", [True, False])
def test_tar_archives(tmp_path, weights_only):
    path = tar_file(tmp_path)
    read = rushlight.load(path, weights_only=weights_only)
    assert read["w"].tolist() == [[1, 2], [3, 4]] and read["n"] == 3 and read["w"] is read["again"]
    assert read["view"].tolist() == [[2, 3], [4, 5]] and read["view"].data_ptr() == read["w"].data_ptr() + 4


def test_pytorch_reads_the_same_tar(tmp_path):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = torch.load(tar_file(tmp_path), weights_only=False)
    assert read["w"].tolist() == [[1, 2], [3, 4]] and read["view"].tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize(
    "lie",
    [
        {"sizes": (9, 9)},
        {"offset": -1},
        {"offset": 100},
        {"count": 2**40},
        {"count": -1},
        {"view": (12, 11, 3, 9)},
        {"view": (12, 11, -1, 3)},
    ],
)
def test_tar_archives_that_lie(tmp_path, lie):
    with pytest.raises((RuntimeError, EOFError)):
        rushlight.load(tar_file(tmp_path, **lie))


def test_a_tar_of_something_else(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "readme")
    with pytest.raises(RuntimeError, match="tar"):
        rushlight.load(path)


def test_tensors_by_their_state():
    """Before 0.2, tensors were made empty and given their storage by __setstate__."""
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
    body = b"ctorch\nFloatTensor\n)\x81(" + storage + b"K\x01K\x02\x85K\x01\x85tb."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + body)
        archive.writestr("archive/data/0", struct.pack("<4f", 0, 1, 2, 3))
        archive.writestr("archive/byteorder", sys.byteorder)
    file.seek(0)
    assert rushlight.load(file).tolist() == [1, 2]
