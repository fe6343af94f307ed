"""make_tensor draws PyTorch's numbers and refuses what PyTorch refuses."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]


def numbers(x):
    """Values as NumPy's, through a dtype NumPy has."""
    name = str(x.dtype).split(".")[1]
    if name.startswith(("bfloat", "float8")):
        x = x.float()
    if name == "complex32":
        x = x.to((torch if isinstance(x, torch.Tensor) else rl).complex64)
    return x.detach().resolve_conj().numpy() if x.dtype.is_complex else x.detach().numpy()


def made(t, *shape, dtype, **options):
    t.manual_seed(11)
    if "memory_format" in options:
        options["memory_format"] = getattr(t, options["memory_format"])
    return t.testing.make_tensor(*shape, dtype=getattr(t, dtype), device="cpu", **options)


def check(*shape, dtype, **options):
    ours, theirs = made(rl, *shape, dtype=dtype, **options), made(torch, *shape, dtype=dtype, **options)
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride()
    assert ours.requires_grad == theirs.requires_grad and ours.storage_offset() == theirs.storage_offset()
    np.testing.assert_array_equal(numbers(ours), numbers(theirs))
    return ours


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_numbers(dtype):
    check(3, 5, dtype=dtype)
    check((4,), dtype=dtype, low=0, high=2)
    check([], dtype=dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32", "float64", "complex64"])
def test_bounds_are_pulled_into_range(dtype):
    check(50, dtype=dtype, low=-1e40, high=1e40)
    check(50, dtype=dtype, low=0.5, high=3.5)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex64"])
def test_forms(dtype):
    check(4, 3, dtype=dtype, noncontiguous=True)
    check(2, 3, 4, 5, dtype=dtype, memory_format="channels_last")
    if dtype != "bool":
        check(200, dtype=dtype, low=-1, high=1.5, exclude_zero=True)
    assert (made(rl, 100, dtype=dtype, low=0, high=2, exclude_zero=True) != 0).all()


def test_gradients_are_asked_for():
    assert check(3, dtype="float32", requires_grad=True).requires_grad


@pytest.mark.parametrize("options", [
    {"dtype": "int32", "requires_grad": True}, {"dtype": "float32", "low": 2, "high": 1},
    {"dtype": "float32", "low": float("nan")}, {"dtype": "bool", "low": 5, "high": 6},
    {"dtype": "float32", "noncontiguous": True, "memory_format": "channels_last"},
    {"dtype": "uint8", "low": -9, "high": -3},
])
def test_refusals(options):
    for t in (rl, torch):
        with pytest.raises(ValueError) as error:
            made(t, 3, **options)
        assert any(name in str(error.value) for name in options), "the message names none of the arguments"


def test_equal_bounds_warn():
    with pytest.warns(FutureWarning, match="low==high"):
        made(rl, 2, dtype="float32", low=1, high=1)
