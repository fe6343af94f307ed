"""Tensors from Python data and back: PyTorch's values, dtypes and refusals."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl

torch = pytest.importorskip("torch")

EXPRESSIONS = """
torch.tensor(300, dtype=torch.uint8)
torch.tensor(-1, dtype=torch.uint8)
torch.tensor(-255, dtype=torch.uint8)
torch.tensor(-256, dtype=torch.uint8)
torch.tensor(127, dtype=torch.int8)
torch.tensor(128, dtype=torch.int8)
torch.tensor(2**40, dtype=torch.int32)
torch.tensor(2**63)
torch.tensor(2**64-1, dtype=torch.uint64)
torch.tensor(2**64, dtype=torch.uint64)
torch.tensor(-1, dtype=torch.uint64)
torch.tensor(-1, dtype=torch.uint16)
torch.tensor(1e40, dtype=torch.float32)
torch.tensor(1e6, dtype=torch.float16)
torch.tensor(1.5, dtype=torch.int32)
torch.tensor(-1.5, dtype=torch.int64)
torch.tensor(float('nan'), dtype=torch.int32)
torch.tensor(1j, dtype=torch.float32)
torch.tensor(1j, dtype=torch.int32)
torch.tensor(1j, dtype=torch.bool)
torch.tensor([1, 2.0])
torch.tensor([1, True])
torch.tensor([True, False])
torch.tensor([1, 2j])
torch.tensor([])
torch.tensor([[], []])
torch.tensor([[[]]])
torch.tensor(())
torch.tensor([[1], [2, 3]])
torch.tensor([[1, 2], [3]])
torch.tensor([[1], 2])
torch.tensor([1, [2]])
torch.tensor('a')
torch.tensor(['a'])
torch.tensor(['ab', 'cd'])
torch.tensor(None)
torch.tensor([None])
torch.tensor({})
torch.tensor({1, 2})
torch.tensor(object())
torch.tensor(x for x in range(3))
torch.tensor(range(3))
torch.tensor(((1, 2), [3, 4]))
torch.tensor([torch.tensor(1), torch.tensor(2.5)])
torch.tensor([torch.tensor([1, 2]), torch.tensor([3, 4])])
torch.tensor([torch.tensor([1.5]), torch.tensor([3.])])
torch.tensor([torch.tensor([1.5, 2.0])])
torch.tensor([torch.tensor(1), 2])
torch.tensor([np.float32(1.5), 2])
torch.tensor([np.float64(1.5), 2])
torch.tensor([np.float16(1.5)])
torch.tensor(np.float64(1.5))
torch.tensor(np.int16(3))
torch.tensor(np.bool_(True))
torch.tensor(np.complex64(1j))
torch.tensor(np.uint16(3))
torch.tensor([np.array([1, 2], dtype=np.int32)])
torch.tensor(np.array([1, 2], dtype=np.int32))
torch.tensor(np.array(2.5))
torch.tensor(np.zeros((0, 3)))
torch.tensor(np.array([True, False]))
torch.tensor(np.array([1 + 2j]))
torch.tensor(np.array([1, 2], dtype=np.float16))
torch.tensor(np.array(['a']))
torch.tensor(np.array([1, 2], dtype=object))
torch.tensor(np.arange(3, dtype='>i4'))
torch.tensor(np.arange(6)[::-1])
torch.tensor(np.arange(6).reshape(2, 3).T)
torch.tensor(np.arange(6, dtype=np.float64), dtype=torch.int32)
torch.tensor(b'abc')
torch.tensor(bytearray(b'abc'))
torch.tensor(memoryview(b'abc'))
torch.tensor(True, dtype=torch.float32)
torch.tensor(2.5, dtype=torch.bool)
torch.tensor('a', dtype=torch.float32)
torch.tensor([1.0, 'a'])
torch.tensor([1.0, None], dtype=torch.float32)
torch.tensor([1, 2], requires_grad=True)
torch.tensor([1., 2], requires_grad=True)
torch.tensor([2**63, 1.0])
torch.tensor([-2**63])
torch.tensor([2**64])
torch.tensor(3.0, dtype=torch.float8_e4m3fn)
torch.tensor(1e9, dtype=torch.float8_e4m3fn)
torch.tensor(1e9, dtype=torch.float8_e5m2)
torch.tensor(1, device='meta')
torch.tensor([1, 2], [3])
torch.tensor()
torch.tensor(data=[1])
torch.as_tensor([1, 2])
torch.as_tensor(np.arange(3))
torch.as_tensor(5, dtype=torch.float64)
torch.asarray([1, 2])
torch.asarray([1, 2], copy=False)
torch.asarray(np.arange(3), dtype=torch.float32, copy=False)
torch.Tensor()
torch.Tensor(2, 3).shape
torch.Tensor([1, 2])
torch.Tensor((2, 3))
torch.Tensor(2.5)
torch.Tensor('a')
torch.Tensor(torch.ones(2, dtype=torch.int32))
torch.IntTensor([1, 2])
torch.LongTensor(2).shape
torch.FloatTensor(torch.Size([2, 3])).shape
isinstance(torch.tensor([1.]), torch.FloatTensor)
isinstance(torch.tensor([1]), torch.FloatTensor)
torch.tensor([1., 2.]).type(torch.float64)
torch.tensor([1., 2.]).type('torch.IntTensor')
torch.tensor([1., 2.]).type('nonsense')
torch.tensor([1., 2.]).new([1, 2])
torch.tensor([1., 2.]).new(2, 2).shape
torch.ones(3).item()
torch.ones(0).item()
torch.ones(1, 1).item()
torch.ones(1, device='meta').item()
torch.ones(3, device='meta').tolist()
torch.tensor(3).tolist()
torch.ones(0, 3).tolist()
torch.ones(2, 0).tolist()
torch.tensor([[True], [False]]).tolist()
torch.tensor([1 + 2j]).tolist()
torch.ones(1, dtype=torch.bfloat16).tolist()
torch.tensor([[1, 2, 3], [4, 5, 6]])[:, 1:].tolist()
bool(torch.ones(3))
bool(torch.ones(0))
bool(torch.ones(1, 1))
bool(torch.tensor(0j))
int(torch.tensor(3.7))
int(torch.tensor([3.7]))
int(torch.ones(3))
int(torch.tensor(float('nan')))
int(torch.tensor(float('inf')))
int(torch.tensor(3j))
float(torch.tensor(3))
float(torch.tensor(3j))
complex(torch.tensor(3))
complex(torch.tensor(3j))
complex(torch.ones(3))
[1, 2, 3][torch.tensor(1)]
[1, 2, 3][torch.tensor([1])]
[1, 2, 3][torch.tensor(1.0)]
[1, 2, 3][torch.tensor(True)]
len(torch.tensor(3))
len(torch.ones(0, 2))
list(torch.tensor(3))
[t.tolist() for t in torch.tensor([[1, 2], [3, 4]])]
'a' in torch.tensor([1, 2, 3])
torch.Size([2, 3]).numel()
torch.Size((2, 3)) + (4,)
(4,) + torch.Size((2, 3))
torch.Size((2, 3))[0:1]
torch.Size((2, 3)) * 2
2 * torch.Size((2, 3))
torch.Size((2, 3))[0]
torch.Size([2.5])
torch.Size(3)
torch.Size([torch.tensor(2)])
torch.Size((2, 3)) == (2, 3)
torch.Size((2, 3)) + [4]
""".strip().split("\n")


def outcome(expression, module):
    """A comparable record of what an expression gives."""
    try:
        value = eval(expression, {"torch": module, "np": np})
    except Exception as error:
        return type(error).__name__
    if isinstance(value, module.Tensor):
        data = None if value.device.type == "meta" else repr(value.tolist())
        return str(value.dtype).split(".")[1], tuple(value.shape), data, value.requires_grad
    if isinstance(value, module.Size):
        return "Size", tuple(value)
    return repr(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_outcome_is_pytorchs(expression):
    assert outcome(expression, rl) == outcome(expression, torch)


MESSAGES = """
torch.tensor(300, dtype=torch.uint8)
torch.tensor(2**63)
torch.tensor([[1], [2, 3]])
torch.tensor('a')
torch.tensor(['a'])
torch.tensor(None)
torch.tensor(np.array(['a']))
torch.ones(3).item()
bool(torch.ones(3))
bool(torch.ones(0))
int(torch.ones(3))
[1, 2, 3][torch.tensor(1.0)]
len(torch.tensor(3))
list(torch.tensor(3))
torch.ones(3, requires_grad=True).numpy()
torch.ones(3, dtype=torch.bfloat16).numpy()
torch.from_numpy([1])
torch.frombuffer(bytearray(b'abcde'), dtype=torch.int32)
""".strip().split("\n")


@pytest.mark.parametrize("expression", MESSAGES)
def test_message_is_about_the_same(expression):
    texts = []
    for module in (rl, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is compared by the test above
            eval(expression, {"torch": module, "np": np})
        texts.append({word.rstrip("s") for word in re.findall(r"[a-z]{4,}|\d+", str(caught.value).lower())})
    assert texts[0] & texts[1], "no word and no number in common with PyTorch's message"


FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"]


@settings(max_examples=500, deadline=None)
@given(st.floats() | st.floats(-1000, 1000) | st.floats(-1e-3, 1e-3), st.sampled_from(FLOATS))
def test_narrow_floats_round_as_pytorchs(value, dtype):
    ours = rl.tensor(value, dtype=getattr(rl, dtype)).item()
    theirs = torch.tensor(value, dtype=getattr(torch, dtype)).item()
    assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    assert math.copysign(1, ours) == math.copysign(1, theirs) or math.isnan(ours)


def test_every_narrow_pattern_reads_as_pytorchs():
    for dtype, bits in (("float8_e4m3fn", 8), ("float8_e5m2", 8), ("float16", 16), ("bfloat16", 16)):
        raw = np.arange(2**bits, dtype=np.uint8 if bits == 8 else np.uint16)
        ours = rl._C.alias(rl.from_numpy(raw), (2**bits,), (1,), 0, getattr(rl, dtype)).tolist()
        theirs = torch.from_numpy(raw).view(getattr(torch, dtype)).tolist()
        assert all(a == b or (a != a and b != b) for a, b in zip(ours, theirs, strict=True))


nested = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(nested)
def test_any_nested_list_is_read_as_pytorch_reads_it(data):
    def read(module):
        try:
            t = module.tensor(data)
        except Exception as error:
            return type(error).__name__
        return str(t.dtype).split(".")[1], tuple(t.shape), repr(t.tolist())

    assert read(rl) == read(torch)


def test_data_that_changes_while_it_is_read_is_refused():
    data = [0, 0]

    class Shrinks:
        def __index__(self):
            data.clear()
            return 1

    data[0] = Shrinks()
    with pytest.raises(ValueError, match="changed size"):
        rl.tensor(data, dtype=rl.int64)


def test_objects_with_an_array_protocol_are_read():
    class Image:
        def __array__(self, dtype=None, copy=None):
            return np.arange(4.0).reshape(2, 2)

    assert rl.tensor(Image()).tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"]
)
def test_finfo_is_pytorchs(name):
    ours, theirs = rl.finfo(getattr(rl, name)), torch.finfo(getattr(torch, name))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "dtype"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_iinfo_is_pytorchs(name):
    ours, theirs = rl.iinfo(getattr(rl, name)), torch.iinfo(getattr(torch, name))
    assert (ours.bits, ours.min, ours.max, ours.dtype) == (theirs.bits, theirs.min, theirs.max, theirs.dtype)
    assert repr(ours) == repr(theirs)


def test_limits_refuse_the_other_family():
    for make, dtype in ((rl.finfo, rl.int32), (rl.iinfo, rl.float32), (rl.iinfo, rl.bool), (rl.finfo, 3)):
        with pytest.raises(TypeError):
            make(dtype)
