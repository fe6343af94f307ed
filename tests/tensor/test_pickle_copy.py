"""Pickling, copying, and looking at other memory."""

import copy
import io
import pickle

import pytest

import rushlight as rl

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64",
          "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]


class Marked(rl.Tensor):
    """A subclass that stays on the fast path, as Parameter does."""

    __torch_function__ = rl._C._disabled_torch_function_impl


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("name", DTYPES)
def test_pickle_round_trip(name, protocol):
    t = rl.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(rl, name))
    back = pickle.loads(pickle.dumps(t, protocol))
    assert back.dtype is t.dtype and back.shape == t.shape and back.tolist() == t.tolist()
    assert back.data_ptr() != t.data_ptr()


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickle_keeps_views_of_one_storage_together(protocol):
    base = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    whole, row, column = pickle.loads(pickle.dumps((base, base[0], base[:, 1]), protocol))
    assert whole.untyped_storage() == row.untyped_storage() == column.untyped_storage()
    whole[0, 1] = 20
    assert row.tolist() == [1.0, 20.0] and column.tolist() == [20.0, 4.0]
    assert row.storage_offset() == 0 and column.stride() == (2,)


def test_pickle_out_of_band_buffers():
    t = rl.tensor([1.0, 2.0, 3.0])
    buffers = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    assert pickle.loads(data, buffers=buffers).tolist() == [1.0, 2.0, 3.0]


def test_pickle_keeps_requires_grad_class_and_attributes():
    t = rl.tensor([1.0, 2.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(t)).requires_grad
    marked = Marked._make_subclass(Marked, rl.tensor([1.0]), True)
    marked.note = {"seen": 3}
    back = pickle.loads(pickle.dumps(marked))
    assert type(back) is Marked and back.note == {"seen": 3} and back.requires_grad
    plain = rl.tensor([1.0])
    plain.tag = "x"
    assert pickle.loads(pickle.dumps(plain)).tag == "x"


def test_pickle_of_tensors_without_elements_or_data():
    for t in (rl.empty(0), rl.empty(2, 0, 3), rl.empty(2, 3, device="meta")):
        back = pickle.loads(pickle.dumps(t))
        assert back.shape == t.shape and back.device == t.device


def test_small_values_pickle():
    for value in (rl.float32, rl.Size([2, 3]), rl.device("cpu"), rl.strided, rl.channels_last):
        back = pickle.loads(pickle.dumps(value))
        assert back == value and type(back) is type(value)
    assert pickle.loads(pickle.dumps(rl.channels_last)) is rl.channels_last


def test_damaged_pickles_raise():
    data = pickle.dumps(rl.tensor([1.0, 2.0, 3.0]))
    with pytest.raises((pickle.UnpicklingError, EOFError, ValueError)):
        pickle.load(io.BytesIO(data[: len(data) // 2]))


def test_deepcopy_is_independent_and_keeps_sharing():
    base = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    group = {"base": base, "row": base[1], "again": base}
    result = copy.deepcopy(group)
    assert result["base"] is result["again"] and result["base"] is not base
    result["base"][1, 0] = 30
    assert result["row"].tolist() == [30.0, 4.0] and base[1].tolist() == [3.0, 4.0]


def test_deepcopy_keeps_class_grad_and_attributes():
    t = Marked._make_subclass(Marked, rl.tensor([1.0, 2.0]), True)
    t.grad = rl.tensor([5.0, 6.0])
    t.note = ["a"]
    result = copy.deepcopy(t)
    assert type(result) is Marked and result.requires_grad and result.grad.tolist() == [5.0, 6.0]
    assert result.grad is not t.grad and result.note == ["a"] and result.note is not t.note


def test_deepcopy_refuses_computed_tensors():
    t = rl.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(t[0])


def test_copy_shares_memory():
    t = rl.tensor([1.0, 2.0])
    result = copy.copy(t)
    result[0] = 10
    assert result is not t and t.tolist() == [10.0, 2.0]


def test_data_is_outside_the_graph():
    t = rl.tensor([1.0, 2.0], requires_grad=True)
    inside = t.data
    assert not inside.requires_grad and inside.data_ptr() == t.data_ptr()
    inside[0] = 5
    assert t._version == 0 and t.detach().tolist() == [5.0, 2.0]
    t.data = rl.tensor([[7.0]])
    assert t.shape == (1, 1) and t.requires_grad
    with pytest.raises(TypeError, match="has to be a tensor"):
        t.data = 3
    with pytest.raises(RuntimeError, match="floating point"):
        t.data = rl.tensor([1])


def test_resize_keeps_leading_elements():
    t = rl.tensor([1.0, 2.0, 3.0])
    assert t.resize_(2, 2) is t and t.shape == (2, 2) and t[0].tolist() == [1.0, 2.0] and t[1, 0].item() == 3
    t.resize_((1,))
    assert t.tolist() == [1.0] and t.untyped_storage().nbytes() >= 16
    assert rl.empty(0).resize_as_(rl.empty(2, 5)).shape == (2, 5)
    assert rl.empty(0).resize_(2, 3, 4, 5, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="require grad"):
        rl.tensor([1.0], requires_grad=True).resize_(2)
    with pytest.raises(RuntimeError, match="negative"):
        t.resize_(-1)


def test_set_looks_at_other_memory():
    a, b = rl.tensor([1.0, 2.0, 3.0, 4.0]), rl.tensor([0.0])
    b.set_(a)
    assert b.is_set_to(a) and b.tolist() == a.tolist()
    b.set_(a.untyped_storage(), 1, (3,), (1,))
    assert b.tolist() == [2.0, 3.0, 4.0] and not b.is_set_to(a)
    b.set_(a.storage())
    assert b.tolist() == a.tolist()
    b.set_()
    assert b.shape == (0,)
    with pytest.raises(RuntimeError):
        b.set_(rl.tensor([1]))
    with pytest.raises(TypeError):
        b.set_(3)


def test_typed_storage():
    t = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    s = t.T.storage()
    assert len(s) == 4 and s.tolist() == [1.0, 2.0, 3.0, 4.0] and s[1] == 2.0 and list(s) == s.tolist()
    s[1] = 20.0
    assert t[0, 1].item() == 20 and s.nbytes() == 16 and s.element_size() == 4 and s.data_ptr() == t.data_ptr()
    with pytest.raises(IndexError):
        s[4]
    assert pickle.loads(pickle.dumps(s)).tolist() == s.tolist()
    assert "TypedStorage(dtype=rushlight.float32, device=cpu) of size 4" in repr(s)


def test_memory_formats():
    t = rl.empty(2, 3, 4, 5)
    assert t.is_contiguous() and not t.is_contiguous(memory_format=rl.channels_last)
    last = t.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert last.is_contiguous(memory_format=rl.channels_last) and not last.is_contiguous()
    assert not rl.empty(2, 3).is_contiguous(memory_format=rl.channels_last)


def test_as_subclass_keeps_the_history():
    t = rl.tensor([1.0, 2.0], requires_grad=True)
    result = (t * 2).as_subclass(Marked)
    assert type(result) is Marked and result.requires_grad and result.grad_fn is not None
    assert type(rl.tensor([1]).as_subclass(Marked)) is Marked
    with pytest.raises(TypeError):
        t.as_subclass(int)


def test_a_storage_shrunk_under_a_tensor_cannot_be_read():
    t = rl.tensor([1.0, 2.0])
    t.untyped_storage().resize_(0)
    for read in (t.tolist, lambda: t[0].item(), lambda: repr(t), lambda: t.__setitem__(0, 1.0)):
        with pytest.raises(RuntimeError, match="storage"):
            read()


@pytest.mark.parametrize("sizes, strides", [
    ((1, 4), (7, 1)), ((4, 1), (1, 9)), ((3, 1, 4), (4, 99, 1)), ((1, 1), (5, 3)), ((1, 4), (1, 1)),
    ((2, 1, 3), (1, 50, 2)), ((1, 3, 2), (100, 1, 3)), ((1, 0), (3, 7)), ((4, 1), (2, 5)), ((1,), (17,)),
    ((2, 3), (1, 2)), ((2, 3), (6, 2)),
])
def test_copies_keep_the_strides_of_dims_of_one_element(sizes, strides):
    torch = pytest.importorskip("torch")

    def layouts(t):
        x = t.empty_strided(sizes, strides)
        copies = [x.clone(), x.clone(memory_format=t.preserve_format), x.to(t.float64), x.to(t.float32, copy=True),
                  x.double(), t.empty_strided(sizes, strides, device="meta").clone()]
        return [tuple(c.stride()) for c in copies]

    assert layouts(rl) == layouts(torch)


def test_copies_of_odd_layouts_have_the_elements():
    x = rl.empty_strided((3, 1, 4), (4, 99, 1)).copy_(rl.arange(12.0).view(3, 1, 4))
    assert x.clone().flatten().tolist() == x.to(rl.int64).flatten().tolist() == list(range(12))
    w = x.clone().requires_grad_()
    w.clone().square().sum().backward()
    assert w.grad.flatten().tolist() == [2 * k for k in range(12)]
