"""Memory shared with NumPy, DLPack consumers and producers, and the buffer protocol."""

import gc
import struct
import weakref

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SHARED = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", SHARED)
def test_numpy_shares_memory_both_ways(name):
    array = np.arange(6).reshape(2, 3).astype(name)
    t = rl.from_numpy(array)
    assert t.dtype is getattr(rl, name) and t.shape == (2, 3) and t.data_ptr() == array.ctypes.data
    array[1, 2] = 1
    assert t[1, 2].item() == 1
    t[0, 1] = 0
    assert array[0, 1] == 0
    back = t.numpy()
    assert back.dtype == array.dtype and np.shares_memory(back, array)


def test_strided_arrays_keep_their_strides():
    base = np.arange(24.0).reshape(4, 6)
    for view in (base.T, base[::2], base[:, 1::3], base[1:, 2:].T, base[:0]):
        t = rl.from_numpy(view)
        assert t.tolist() == view.tolist()
        np.testing.assert_array_equal(t.numpy(), view)
        assert t.numel() == 0 or np.shares_memory(t.numpy(), base)


def test_views_become_arrays_over_the_same_memory():
    t = rl.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    array = t[:, 1:].numpy()
    array[0, 0] = 10
    assert t[0, 1].item() == 10 and array.strides == (12, 4)


def test_arrays_keep_tensor_memory_alive_and_tensors_keep_arrays():
    array = rl.tensor([1.0, 2.0, 3.0]).numpy()
    junk = [rl.tensor([9.0, 9.0, 9.0]) for _ in range(50)]
    assert array.tolist() == [1.0, 2.0, 3.0] and junk

    source = np.arange(5)
    alive = weakref.ref(source)
    t = rl.from_numpy(source)[1:]
    del source
    gc.collect()
    assert alive() is not None and t.tolist() == [1, 2, 3, 4]
    del t
    gc.collect()
    assert alive() is None


def test_exported_memory_may_not_be_resized():
    t = rl.tensor([1.0, 2.0])
    array = t.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(1000)
    assert array.tolist() == [1.0, 2.0]


def test_read_only_arrays_warn():
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        rl.from_numpy(array)


REFUSED = """
torch.from_numpy(np.arange(6)[::-1])
torch.from_numpy(np.array(['a']))
torch.from_numpy(np.array([None]))
torch.from_numpy(np.array(['2020-01-01'], dtype='datetime64[D]'))
torch.from_numpy(np.arange(3, dtype='>i4'))
torch.from_numpy(np.float64(3.0))
torch.from_numpy(np.zeros(2, dtype=[('a', 'i4')]))
torch.from_numpy(np.zeros(4, dtype=[('a', 'i4'), ('b', 'u1')])['a'])
torch.ones(3, dtype=torch.bfloat16).numpy()
torch.ones(3, requires_grad=True).numpy()
torch.ones(3, device='meta').numpy()
torch.ones(2).numpy(1)
np.asarray(torch.ones(2, requires_grad=True))
np.asarray(torch.ones(2, dtype=torch.bfloat16))
torch.frombuffer(bytearray(b''), dtype=torch.int32)
torch.frombuffer(bytearray(b'abcd'), dtype=torch.int32, count=2)
torch.frombuffer(bytearray(b'abcd'), dtype=torch.int32, offset=5)
torch.frombuffer(bytearray(b'abcd'), dtype=torch.int32, offset=-1)
torch.frombuffer([1], dtype=torch.int32)
torch.frombuffer(bytearray(b'abcd'))
torch.from_dlpack([1])
torch.ones(2, requires_grad=True).__dlpack__()
torch.ones(2, device='meta').__dlpack_device__()
""".strip().split("\n")


@pytest.mark.parametrize("expression", REFUSED)
def test_refusals_have_pytorchs_type(expression):
    types = []
    for module in (rl, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            eval(expression, {"torch": module, "np": np})
        types.append(caught.type)
    assert types[0] is types[1]


def test_array_protocol():
    t = rl.tensor([[1.5, 2.5]])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.array(t, dtype=np.int32).tolist() == [[1, 2]]
    assert np.add(t, 1).tolist() == [[2.5, 3.5]]
    assert t.__array__(np.float32) is not None
    with pytest.raises(ValueError, match="copy"):
        t.__array__(np.float64, copy=False)


def test_force_detaches():
    t = rl.tensor([1.0, 2.0], requires_grad=True)
    assert t.numpy(force=True).tolist() == [1.0, 2.0]


def test_arrays_of_parameters_where_gradients_are_off():
    t = rl.tensor([1.0, 2.0], requires_grad=True)
    with rl.no_grad():
        assert t.numpy().tolist() == np.asarray(t).tolist() == [1.0, 2.0]


def test_buffer_protocol():
    t = rl.tensor([[1, 2, 3], [4, 5, 6]], dtype=rl.int32)
    view = memoryview(t)
    assert view.format == "i" and view.shape == (2, 3) and view.strides == (12, 4) and not view.readonly
    view[1, 2] = 60
    assert t[1, 2].item() == 60
    assert bytes(memoryview(t[0])) == struct.pack("3i", 1, 2, 3)
    column = memoryview(t[:, 1])
    assert column.tolist() == [2, 5] and not column.contiguous
    with pytest.raises(BufferError, match="contiguous"):
        struct.unpack("2i", t[:, 1])
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(rl.tensor([1.0], requires_grad=True))
    with pytest.raises(BufferError, match="host"):
        memoryview(rl.empty(2, device="meta"))
    held = memoryview(rl.tensor([7, 8]))
    gc.collect()
    assert held.tolist() == [7, 8]


def test_buffer_survives_the_tensor_looking_elsewhere():
    t = rl.tensor([1.0, 2.0])
    view = memoryview(t)
    t.data = rl.tensor([9.0])
    assert view.tolist() == [1.0, 2.0]
    view.release()
    assert t.tolist() == [9.0]


def test_frombuffer_shares_and_holds_the_buffer():
    raw = bytearray(struct.pack("4f", 1, 2, 3, 4))
    t = rl.frombuffer(raw, dtype=rl.float32, count=2, offset=4)
    assert t.tolist() == [2.0, 3.0]
    t[0] = 20
    assert struct.unpack("4f", raw) == (1, 20, 3, 4)
    with pytest.raises(BufferError):
        raw.append(0)
    del t
    gc.collect()
    raw.append(0)


@pytest.mark.parametrize("name", [*SHARED, "bfloat16"])
def test_dlpack_with_pytorch_both_ways(name):
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    ours = rl.from_dlpack(theirs)
    assert ours.dtype is getattr(rl, name) and ours.tolist() == theirs.tolist()
    assert ours.data_ptr() == theirs.data_ptr()
    back = torch.from_dlpack(ours.T)
    assert back.data_ptr() == theirs.data_ptr() and back.tolist() == theirs.T.tolist()


def test_dlpack_with_numpy_both_ways():
    array = np.arange(6.0).reshape(2, 3)
    t = rl.from_dlpack(array.T)
    t[0, 1] = 30
    assert array[1, 0] == 30
    assert np.shares_memory(np.from_dlpack(t), array)


def test_dlpack_capsules_are_consumed_once_and_freed():
    t = rl.tensor([1.0, 2.0])
    for versions in ({}, {"max_version": (1, 0)}):
        capsule = t.__dlpack__(**versions)
        first = rl.from_dlpack(capsule)
        assert first.data_ptr() == t.data_ptr()
        with pytest.raises(RuntimeError, match="consumed only once"):
            rl.from_dlpack(capsule)
    del capsule, first
    dropped = t.__dlpack__()
    del dropped
    gc.collect()
    copied = rl.from_dlpack(t.__dlpack__(copy=True))
    assert copied.data_ptr() != t.data_ptr() and copied.tolist() == [1.0, 2.0]
    assert t.__dlpack_device__() == (1, 0)


def test_dlpack_keeps_producers_alive():
    source = np.arange(5)
    alive = weakref.ref(source)
    t = rl.from_dlpack(source)
    del source
    gc.collect()
    assert alive() is not None and t.tolist() == [0, 1, 2, 3, 4]
    del t
    gc.collect()
    assert alive() is None


def test_read_only_dlpack_warns():
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        rl.from_dlpack(array)


def test_asarray_shares_or_copies_as_asked():
    array = np.arange(3.0)
    assert rl.asarray(array).data_ptr() == array.ctypes.data
    assert rl.asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert rl.asarray(array, dtype=rl.float32).dtype is rl.float32
    with pytest.raises(ValueError, match="alias"):
        rl.asarray(array, dtype=rl.float32, copy=False)
    t = rl.tensor([1.0], requires_grad=True)
    assert rl.asarray(t, requires_grad=True) is t
    assert not rl.asarray(t).requires_grad
    assert rl.as_tensor(t) is t


def test_tensor_copies_and_warns_about_tensors():
    t = rl.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="copy construct"):
        other = rl.tensor(t)
    assert other.data_ptr() != t.data_ptr() and other.tolist() == t.tolist()
