"""Plain pickles, copies and storages."""

import copy
import io
import pickle
import warnings

import pytest

import rushlight


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_keep_storages_shared(protocol):
    x = rushlight.arange(6.0).view(2, 3)
    a, b = pickle.loads(pickle.dumps([x, x[0]], protocol))
    assert a.equal(x) and b.tolist() == [0, 1, 2] and a.untyped_storage() == b.untyped_storage()
    a[0, 0] = 9
    assert b[0].item() == 9 and x[0, 0].item() == 0


def test_plain_pickles_of_all_kinds():
    nested = rushlight.nested.nested_tensor([rushlight.ones(2, 3), rushlight.ones(1, 3)])
    values = [rushlight.nn.Parameter(rushlight.ones(2)), rushlight.eye(3).to_sparse(), rushlight.eye(3).to_sparse_csr(),
              rushlight.empty(2, device="meta"), rushlight.ones(2).to(rushlight.float8_e5m2),
              rushlight.ones(2, requires_grad=True), rushlight.ones(2).untyped_storage(),
              rushlight.ones(2).storage(), rushlight.strided, rushlight.float16, rushlight.Size([1]),
              rushlight.device("cpu"), nested]
    read = pickle.loads(pickle.dumps(values))
    assert [type(v) for v in read] == [type(v) for v in values]
    assert (
        read[0].requires_grad
        and read[1].to_dense().equal(rushlight.eye(3))
        and read[2].layout is rushlight.sparse_csr
        and read[3].is_meta
    )
    assert (
        read[4].dtype is rushlight.float8_e5m2
        and read[5].requires_grad
        and read[6].tolist() == values[6].tolist()
        and read[7].tolist() == [1, 1]
    )
    assert (
        read[8] is rushlight.strided
        and read[9] is rushlight.float16
        and read[10] == (1,)
        and read[12].unbind()[0].shape == (2, 3)
    )


def test_buffers_out_of_band():
    x = rushlight.arange(1000.0)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 1000 and len(buffers) == 1
    assert pickle.loads(data, buffers=buffers).equal(x)


def test_subclasses_with_state_of_their_own():
    x = rushlight.ones(2).as_subclass(WithState)
    x.note = 1
    for read in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(read) is WithState and read.tolist() == [1, 1]
    assert pickle.loads(pickle.dumps(x)).restored == {"kept": 1}


class WithState(rushlight.Tensor):
    def __getstate__(self):
        return {"kept": self.note}

    def __setstate__(self, state):
        self.restored = state


def test_hooks_are_left_out_with_a_warning():
    x = rushlight.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="will not be serialized"):
        file = io.BytesIO()
        rushlight.save(x, file)
    quiet = rushlight.ones(2, requires_grad=True)
    quiet.register_hook(rushlight.utils.hooks.unserializable_hook(lambda g: g))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rushlight.save(quiet, io.BytesIO())
    file.seek(0)
    assert not rushlight.load(file)._backward_hooks


def test_deepcopy_of_modules_and_views():
    layer = rushlight.nn.Linear(2, 2)
    layer.tied = layer.weight
    twin = copy.deepcopy(layer)
    assert twin.tied is twin.weight and twin.weight is not layer.weight
    x = rushlight.ones(4)
    a, b = copy.deepcopy([x, x[2:]])
    a[2] = 5
    assert b.tolist() == [5, 1] and x[2].item() == 1


# --- storages ---------------------------------------------------------------------------------------------------------


def test_untyped_storages():
    s = rushlight.UntypedStorage([1, 2, 3, 4])
    assert (
        s.tolist() == [1, 2, 3, 4]
        and len(s) == s.nbytes() == s.size() == 4
        and s[2] == 3
        and s[-1] == 4
        and list(s) == [1, 2, 3, 4]
    )
    part = s[1:3]
    part[0] = 9
    assert s.tolist() == [1, 9, 3, 4] and part.nbytes() == 2 and s.element_size() == 1 and s.untyped() is s
    s[0] = 7
    s.fill_(5)
    assert s.tolist() == [5] * 4 and s.clone().copy_(rushlight.UntypedStorage([1, 2, 3, 4])).tolist() == [1, 2, 3, 4]
    assert s.float().tolist() == [5.0] * 4 and s.type() == "rushlight.storage.UntypedStorage" and not s.is_cuda
    assert (
        s.to(device="meta").device.type == "meta"
        and s.cpu() is s
        and rushlight.UntypedStorage(8, device="meta").nbytes() == 8
    )
    for index in (4, -5):
        with pytest.raises(IndexError):
            s[index]
    with pytest.raises(RuntimeError, match="step"):
        s[::2]
    with pytest.raises((ValueError, TypeError)):
        rushlight.UntypedStorage(["a"])


def test_typed_storages_and_the_classes_of_one_dtype():
    s = rushlight.FloatStorage([1, 2, 3])
    assert (
        type(s) is rushlight.TypedStorage
        and isinstance(s, rushlight.FloatStorage)
        and not isinstance(s, rushlight.IntStorage)
    )
    assert (
        s.tolist() == [1.0, 2.0, 3.0]
        and len(s) == 3
        and s.nbytes() == 12
        and s.element_size() == 4
        and s.type() == "rushlight.FloatStorage"
    )
    s[1] = 7
    assert s[1] == 7 and s.int().tolist() == [1, 7, 3] and s.int().dtype is rushlight.int32 and s.half().nbytes() == 6
    assert rushlight.LongStorage(4).nbytes() == 32 and rushlight.TypedStorage(2, dtype=rushlight.int16).nbytes() == 4
    assert s.clone().fill_(0).tolist() == [0, 0, 0] and s.tolist()[0] == 1 and s.pickle_storage_type() == "FloatStorage"
    assert rushlight.TypedStorage([1, 2], dtype=rushlight.int64).copy_(rushlight.FloatStorage([3, 4])).tolist() == [
        3,
        4,
    ]
    with pytest.raises(KeyError):
        rushlight.TypedStorage(1, dtype=rushlight.uint16).pickle_storage_type()
    with pytest.raises(AttributeError):
        rushlight.UInt16Storage  # noqa: B018


def test_storages_over_files(tmp_path):
    path = tmp_path / "raw"
    rushlight.tensor([1.0, 2.0, 3.0]).numpy().tofile(path)
    private = rushlight.FloatStorage.from_file(str(path), size=3)
    assert private.tolist() == [1, 2, 3] and private.filename == str(path)
    private[0] = 9
    assert (
        rushlight.UntypedStorage.from_file(path, nbytes=12).float is not None
        and rushlight.FloatStorage.from_file(path, size=3)[0] == 1
    )
    shared = rushlight.UntypedStorage.from_file(path, shared=True, nbytes=16)
    shared[12] = 3
    assert path.stat().st_size == 16 and path.read_bytes()[12] == 3
    with pytest.raises(RuntimeError, match="fewer"):
        rushlight.UntypedStorage.from_file(path, nbytes=100)
    with pytest.raises(FileNotFoundError):
        rushlight.UntypedStorage.from_file(tmp_path / "missing", nbytes=1)


def test_storages_from_buffers():
    assert rushlight.UntypedStorage.from_buffer(b"\x01\x02\x03", dtype=rushlight.uint8).tolist() == [1, 2, 3]
    big = rushlight.ShortStorage.from_buffer(b"\x00\x01\x00\x02", byte_order="big")
    assert big.tolist() == [1, 2] and rushlight.ShortStorage.from_buffer(
        b"\x00\x01\x00\x02", byte_order="little", count=1, offset=2
    ).tolist() == [512]
    for bad in ({"count": 5}, {"offset": 9}, {"byte_order": "odd"}, {"offset": 1}):
        with pytest.raises(ValueError):
            rushlight.ShortStorage.from_buffer(b"\x00\x01\x00\x02", **bad)


def test_ops_pickle_by_public_names():
    functional = rushlight.nn.functional
    for op in (
        rushlight.relu,
        functional.gelu,
        functional.softmax,
        functional.fold,
        rushlight.special.erf,
        rushlight.linalg.norm,
        rushlight.fft.fft,
    ):
        data = pickle.dumps(op)
        assert pickle.loads(data) is op and b"find_op" not in data and copy.deepcopy(op) is op


def test_one_object_per_storage():
    x = rushlight.ones(4)
    assert x.untyped_storage() is x[1:].untyped_storage()
    first = id(x.untyped_storage())
    held = x.untyped_storage()
    assert x.view(2, 2).untyped_storage() is held and held.data_ptr() == x.data_ptr() and first


@pytest.mark.skipif(not hasattr(rushlight._C, "crc32"), reason="this machine does not multiply without carry")
def test_checksums_equal_zlib():
    import os
    import zlib

    for size in (*range(200), 1000, 65537):
        data = os.urandom(size)
        assert rushlight._C.crc32(data) == zlib.crc32(data) and rushlight._C.crc32(data, 7) == zlib.crc32(data, 7)
        assert rushlight._C.crc32(memoryview(data)[3:]) == zlib.crc32(memoryview(data)[3:])
    with pytest.raises(TypeError):
        rushlight._C.crc32("text")


def test_loading_among_fake_tensors_reads_no_bytes(tmp_path):
    from rushlight.fake import FakeTensor, FakeTensorMode

    x = rushlight.ones(3, 4)
    rushlight.save({"a": x, "b": x[1:, ::2], "p": rushlight.nn.Parameter(x)}, tmp_path / "x.pt")
    with FakeTensorMode():
        read = rushlight.load(tmp_path / "x.pt")
    assert isinstance(read["a"], FakeTensor) and read["a"].shape == (3, 4) and read["a"].device.type == "cpu"
    assert (
        tuple(read["b"].stride()) == (4, 2)
        and read["p"].requires_grad
        and isinstance(read["p"], rushlight.nn.Parameter)
    )
    assert rushlight.load(tmp_path / "x.pt")["a"].sum().item() == 12
    with FakeTensorMode():
        fake = rushlight.ones(3, 4)
    with rushlight.serialization.skip_data(materialize_fake_tensors=True):
        rushlight.save({"a": fake}, tmp_path / "hole.pt")
    assert rushlight.load(tmp_path / "hole.pt")["a"].equal(rushlight.zeros(3, 4))


def test_names_in_pickles_are_found_as_pickletools_finds_them():
    import pickletools
    import random

    from rushlight.serialization import names

    chance = random.Random(3)

    def value(depth=0):
        text = "".join(chr(chance.choice([10, 99, 114, 233, 0x1F600, 0])) for _ in range(chance.randrange(300)))
        leaves = [chance.randrange(-(2**70), 2**70), chance.choice([0, 255, 256, 65536, -1]), chance.random(), text,
                  text.encode(), None, True, 1j, copy.copy, rushlight.nn.Linear, rushlight.float32, rushlight.Size([1]),
                  {1, 2}, frozenset("ab"), bytearray(b"x")]
        kind = chance.randrange(4) if depth < 4 else 0
        inner = [value(depth + 1) for _ in range(chance.randrange(4))] if kind else []
        return (chance.choice(leaves), inner, tuple(inner), dict(enumerate(inner)))[kind]

    for _ in range(150):
        obj = value()
        for protocol in range(4):
            data = pickle.dumps(obj, protocol)
            expected = [argument.split(" ", 1) for op, argument, _ in pickletools.genops(data) if op.name == "GLOBAL"]
            assert [[module, name] for _, _, module, name in names.global_sites(data)] == expected
        for protocol in range(6):
            pickletools.dis(names.with_torch_names(pickle.dumps(obj, protocol)), io.StringIO())
