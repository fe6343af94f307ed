"""Where files go and come from: paths replaced at once, file objects of all kinds, mapped memory, devices."""

import io
import mmap
import os
import pathlib
import stat
import tempfile

import pytest

import rushlight


class Unpicklable:
    def __reduce__(self):
        raise ValueError("not me")


def test_a_failed_save_keeps_the_old_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "x.pt"
    rushlight.save({"a": 1}, path)
    for is_zip in (True, False):
        with pytest.raises(ValueError, match="not me"):
            rushlight.save([rushlight.ones(1000), Unpicklable()], path, _use_new_zipfile_serialization=is_zip)
        assert rushlight.load(path) == {"a": 1} and os.listdir(tmp_path) == ["x.pt"]


def test_a_save_interrupted_while_writing_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    rushlight.save({"a": 1}, path)
    monkeypatch.setattr(os, "writev", lambda fd, pieces: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        rushlight.save({"a": rushlight.ones(10)}, path)
    monkeypatch.undo()
    assert rushlight.load(path) == {"a": 1} and os.listdir(tmp_path) == ["x.pt"]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    whole = os.writev
    monkeypatch.setattr(
        os, "writev", lambda fd, pieces: os.write(fd, bytes(pieces[0])[:7]) if len(pieces[0]) else whole(fd, pieces)
    )
    rushlight.save({"a": rushlight.arange(500)}, tmp_path / "x.pt")
    monkeypatch.undo()
    assert rushlight.load(tmp_path / "x.pt")["a"].tolist() == list(range(500))


def test_modes_links_and_special_files_are_respected(tmp_path):
    path = tmp_path / "x.pt"
    rushlight.save(1, path)
    path.chmod(0o600)
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    rushlight.save(2, link)
    assert link.is_symlink() and rushlight.load(path) == 2 and stat.S_IMODE(path.stat().st_mode) == 0o600
    rushlight.save(3, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_fsync_on_request(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    rushlight.save(1, tmp_path / "x.pt")
    monkeypatch.setattr(rushlight.serialization.options.save, "fsync", True)
    rushlight.save(1, tmp_path / "x.pt")
    assert len(synced) == 1


def test_paths_of_all_kinds_and_missing_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("plain.pt", tmp_path / "path.pt", str(tmp_path / "no_suffix"), pathlib.Path("relative.pt")):
        rushlight.save({"a": rushlight.ones(2)}, path)
        assert rushlight.load(path)["a"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        rushlight.save(1, tmp_path / "missing" / "x.pt")
    with pytest.raises(RuntimeError, match="directory"):
        rushlight.save(1, tmp_path)


class Stream:
    """A file object with `write` alone, or with what reading needs."""

    def __init__(self, data=b""):
        self.inner = io.BytesIO(data)
        self.write = self.inner.write


class ReadStream(Stream):
    def __init__(self, data):
        super().__init__(data)
        self.read, self.readline, self.seek, self.tell = (
            self.inner.read,
            self.inner.readline,
            self.inner.seek,
            self.inner.tell,
        )


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_file_objects(tmp_path, is_zip, weights_only):
    value = {"a": rushlight.arange(300000), "b": [rushlight.ones(2)]}
    stream = Stream()
    rushlight.save(value, stream, _use_new_zipfile_serialization=is_zip)
    data = stream.inner.getvalue()
    files = [io.BytesIO(data), ReadStream(data)]
    path = tmp_path / "x.pt"
    path.write_bytes(data)
    with open(path, "rb") as plain, open(path, "rb", buffering=0) as raw, tempfile.TemporaryFile() as temporary:
        temporary.write(data)
        temporary.seek(0)
        for file in (*files, plain, raw, temporary):
            read = rushlight.load(file, weights_only=weights_only)
            assert read["a"].equal(value["a"]) and read["b"][0].tolist() == [1, 1]


def test_several_objects_in_one_old_file_and_an_offset():
    file = io.BytesIO()
    file.write(b"before")
    for k in range(3):
        rushlight.save({"k": k, "t": rushlight.full((2,), k)}, file, _use_new_zipfile_serialization=False)
    file.seek(6)
    for k in range(3):
        assert rushlight.load(file, weights_only=k % 2 == 0)["k"] == k
    zipped = io.BytesIO()
    rushlight.save(rushlight.ones(2), zipped)
    shifted = io.BytesIO(b"12345" + zipped.getvalue())
    shifted.seek(5)
    assert rushlight.load(shifted).tolist() == [1, 1]


def test_file_objects_that_cannot_serve_are_told_what_they_lack(tmp_path):
    with pytest.raises(AttributeError, match="write"):
        rushlight.save(1, 5)
    with pytest.raises(AttributeError, match="readline|read|tell|seek"):
        rushlight.load(5)
    with pytest.raises(AttributeError, match="seekable"):
        rushlight.load(Stream(b"abc"))
    with pytest.raises(TypeError, match="binary"), open(tmp_path / "x.txt", "w") as file:
        rushlight.save(1, file)
    reader, writer = os.pipe()
    with open(reader, "rb") as pipe, open(writer, "wb"), pytest.raises((io.UnsupportedOperation, OSError)):
        rushlight.load(pipe)


# --- mapped memory ----------------------------------------------------------------------------------------------------


def test_mapped_tensors_look_at_the_file(tmp_path):
    path = tmp_path / "x.pt"
    x = rushlight.arange(100000.0)
    rushlight.save({"a": x, "b": x[5:7], "c": rushlight.ones(3, dtype=rushlight.int64), "e": rushlight.zeros(0)}, path)
    read = rushlight.load(path, mmap=True)
    assert read["b"].tolist() == [5, 6] and read["c"].tolist() == [1, 1, 1] and read["e"].shape == (0,)
    assert (
        read["a"].untyped_storage().data_ptr() == read["b"].untyped_storage().data_ptr()
        and read["a"].data_ptr() % 64 == 0
    )
    read["a"][0] = 9
    assert rushlight.load(path)["a"][0].item() == 0    # a private copy of the page was written
    a = read["a"]
    del read
    os.unlink(path)
    assert a[1].item() == 1 and a.sum().item() > 0


def test_shared_mapping_writes_to_the_file(tmp_path):
    path = tmp_path / "x.pt"
    rushlight.save(rushlight.zeros(4), path)
    with rushlight.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert rushlight.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        rushlight.load(path, mmap=True).fill_(3)
    assert rushlight.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert rushlight.load(path).tolist() == [3, 3, 3, 3]
    with pytest.raises(ValueError, match="MAP_"):
        rushlight.serialization.set_default_mmap_options(77)


def test_mapping_needs_a_path_and_the_zip_format(tmp_path):
    file = io.BytesIO()
    rushlight.save(1, file)
    file.seek(0)
    with pytest.raises(ValueError, match="path"):
        rushlight.load(file, mmap=True)
    rushlight.save(1, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        rushlight.load(tmp_path / "old.pt", mmap=True)


# --- where storages go ------------------------------------------------------------------------------------------------


def saved(value):
    file = io.BytesIO()
    rushlight.save(value, file)
    file.seek(0)
    return file


def test_map_location():
    x = rushlight.arange(4.0)
    seen = []

    def keep(storage, location):
        seen.append((type(storage), location))
        return storage

    for where in (None, "cpu", rushlight.device("cpu"), {"cpu": "cpu"}, {}, keep, lambda storage, location: None):
        assert rushlight.load(saved([x, x[1:]]), map_location=where)[1].tolist() == [1, 2, 3]
    assert seen == [(rushlight.UntypedStorage, "cpu")]
    for where in ("meta", rushlight.device("meta"), {"cpu": "meta"}):
        assert rushlight.load(saved(x), map_location=where).is_meta
    for where, error in (("cuda", RuntimeError), ("mars", RuntimeError), (5, TypeError)):
        with pytest.raises(error, match="map_location"):
            rushlight.load(saved(x), map_location=where)


def test_files_of_cuda_storages_say_how_to_load_them(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rushlight.serialization.write, "location_tag", lambda storage: "cuda:0")
        file = saved(rushlight.ones(2))
    with pytest.raises(RuntimeError, match="CUDA.*map_location"):
        rushlight.load(file)
    for where in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        file.seek(0)
        assert rushlight.load(file, map_location=where).tolist() == [1, 1]


def test_registered_places_are_asked(monkeypatch):
    monkeypatch.setattr(
        rushlight.serialization.locations, "_registry", list(rushlight.serialization.locations._registry)
    )
    rushlight.serialization.register_package(
        0,
        lambda storage: "moon" if storage.nbytes() == 12 else None,
        lambda storage, tag: storage if tag == "moon" else None,
    )
    assert rushlight.serialization.location_tag(rushlight.ones(3).untyped_storage()) == "moon"
    file = saved(rushlight.ones(3))
    assert b"moon" in file.getvalue()
    assert rushlight.load(file).tolist() == [1, 1, 1]


def test_skipped_data():
    with rushlight.serialization.skip_data():
        file = saved({"a": rushlight.ones(4)})
    assert rushlight.load(file)["a"].tolist() == [0, 0, 0, 0]
    file = saved({"a": rushlight.ones(4)})
    with rushlight.serialization.skip_data():
        assert rushlight.load(file)["a"].shape == (4,)


def test_one_storage_as_two_dtypes_is_refused():
    x = rushlight.ones(4)
    with pytest.raises(RuntimeError, match="different types"):
        rushlight.save([x, x.view(rushlight.int32)], io.BytesIO())


def test_safetensors_files_load_by_their_suffix(tmp_path):
    import json
    import struct

    header = json.dumps(
        {"__metadata__": {"a": "b"}, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    ).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2))
    assert rushlight.load(path)["x"].tolist() == [1, 2] and rushlight.load(str(path), map_location="meta")["x"].is_meta
    for lie in (b'"shape": [2]', b'"shape": [3]'), (b"[0, 8]", b"[4, 9]"), (b"F32", b"F99"), (b'{"__m', b'["__m'):
        path.write_bytes(struct.pack("<Q", len(header)) + header.replace(*lie) + struct.pack("<2f", 1, 2))
        with pytest.raises(RuntimeError, match="safetensors"):
            rushlight.load(path)
