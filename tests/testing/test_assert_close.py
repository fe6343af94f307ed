"""assert_close accepts and refuses what PyTorch's does, and says the same of it."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def outcome(t, actual, expected, **options):
    """None when close, else the exception's type and message, names of the two packages made alike."""
    try:
        t.testing.assert_close(actual(t), expected(t), **options)
    except Exception as error:
        text = str(error).replace("<class 'torch.", "<class 'rushlight.").replace("torch.", "rushlight.")
        return type(error), text.replace("rushlight.nn.parameter.Parameter", "Parameter").replace(
            "rushlight.nn.Parameter", "Parameter"
        )
    return None


def agree(actual, expected, **options):
    ours, theirs = outcome(rl, actual, expected, **options), outcome(torch, actual, expected, **options)
    assert ours == theirs
    return ours


def vector(*values, **options):
    return lambda t: t.tensor(values, **{k: getattr(t, v) if k == "dtype" else v for k, v in options.items()})


CLOSE = {
    "equal": (vector(1.0, 2.0), vector(1.0, 2.0), {}),
    "near": (vector(1.0), vector(1.0 + 1e-6), {}),
    "int": (vector(1, 2), vector(1, 2), {}),
    "infinite": (vector(float("inf"), float("-inf")), vector(float("inf"), float("-inf")), {}),
    "nan": (vector(float("nan")), vector(float("nan")), {"equal_nan": True}),
    "dtype unchecked": (vector(1.0), vector(1, dtype="int32"), {"check_dtype": False}),
    "unsigned unchecked": (vector(3, dtype="uint16"), vector(3, dtype="int8"), {"check_dtype": False}),
    "stride ignored": (lambda t: t.ones(3, 2), lambda t: t.ones(2, 3).t(), {}),
    "numbers": (lambda t: 1.0, lambda t: 1.0 + 1e-8, {}),
    "number types unchecked": (lambda t: 1.0, lambda t: 1, {"check_dtype": False}),
    "complex": (lambda t: 1 + 2j, lambda t: 1 + 2j, {}),
    "numpy": (lambda t: np.array([1.0, 2.0]), lambda t: np.array([1.0, 2.0]), {}),
    "numpy numbers": (lambda t: np.float32(2), lambda t: 2.0, {}),
    "numpy bool": (lambda t: np.bool_(True), lambda t: True, {}),
    "none": (lambda t: None, lambda t: None, {}),
    "bools": (lambda t: True, lambda t: True, {}),
    "sequence": (lambda t: [t.ones(2), 2.0, (1, None)], lambda t: (t.ones(2), 2.0, [1, None]), {}),
    "mapping": (lambda t: {"a": 1, "b": [t.ones(1)]}, lambda t: OrderedDict(b=(t.ones(1),), a=1), {}),
    "parameter": (lambda t: t.nn.Parameter(t.ones(2)), lambda t: t.ones(2), {}),
    "meta": (lambda t: t.empty(2, device="meta"), lambda t: t.ones(2), {"check_device": False}),
    "empty": (lambda t: t.ones(0, 3), lambda t: t.ones(0, 3), {}),
    "coo": (lambda t: t.eye(3).to_sparse(), lambda t: t.eye(3).to_sparse(), {}),
    "csr": (lambda t: t.eye(3).to_sparse_csr(), lambda t: t.eye(3).to_sparse_csr(), {}),
    "layout unchecked": (lambda t: t.eye(3).to_sparse(), lambda t: t.eye(3), {"check_layout": False}),
    "byte floats": (lambda t: t.ones(3).to(t.float8_e5m2), lambda t: t.ones(3).to(t.float8_e5m2), {}),
    "zero-dim and number": (lambda t: np.float64(1.0), lambda t: 1.0, {}),
}
DIFFERENT = {
    "values": (vector(1.0, 2.0, 4.0), vector(1.0, 3.0, 3.0), {}),
    "message replaced": (vector(1.0), vector(2.0), {"msg": "no!"}),
    "message extended": (vector(1.0), vector(2.0), {"msg": lambda text: f"before\n{text}\nafter"}),
    "exact": (vector(1.0, 2.0), vector(1.0, 2.5), {"rtol": 0, "atol": 0}),
    "tolerances": (vector(1.0, 2.0), vector(1.0, 2.5), {"rtol": 1e-2, "atol": 0.1}),
    "matrix": (lambda t: t.arange(12.0).view(3, 4), lambda t: t.arange(12.0).view(3, 4).flip(0), {}),
    "ints": (vector(1, 200, dtype="uint8"), vector(3, 100, dtype="uint8"), {}),
    "bool tensors": (vector(True, False), vector(True, True), {}),
    "complex tensors": (vector(1 + 1j, 2j), vector(1 + 1j, 3j), {}),
    "half": (vector(1.0, 2.0, dtype="float16"), vector(1.0, 2.1, dtype="float16"), {}),
    "nan": (vector(float("nan"), 1.0), vector(float("nan"), 1.0), {}),
    "infinity": (vector(float("inf")), vector(-float("inf")), {}),
    "against zero": (vector(1.0, 0.5), vector(0.0, 0.5), {}),
    "zero-dim": (lambda t: t.tensor(1.0), lambda t: t.tensor(2.0), {}),
    "numbers": (lambda t: 1.0, lambda t: 2.0, {}),
    "number against zero": (lambda t: 1, lambda t: 0, {}),
    "number types": (lambda t: 1.0, lambda t: 1, {}),
    "none": (lambda t: None, lambda t: 1, {}),
    "shape": (lambda t: t.ones(2, 3), lambda t: t.ones(3, 2), {}),
    "dtype": (vector(1.0), vector(1), {}),
    "stride": (lambda t: t.ones(3, 2), lambda t: t.ones(2, 3).t(), {"check_stride": True}),
    "device": (lambda t: t.ones(2, device="meta"), lambda t: t.ones(2), {}),
    "layout": (lambda t: t.eye(2).to_sparse(), lambda t: t.eye(2), {}),
    "one tolerance": (vector(1.0), vector(1.0), {"rtol": 0.1}),
    "other tolerance": (lambda t: 1.0, lambda t: 1.0, {"atol": 0.1}),
    "lengths": (lambda t: [1, 2], lambda t: [1], {}),
    "keys": (lambda t: {"a": 1, "b": 2}, lambda t: {"a": 1, "c": 2}, {}),
    "item": (lambda t: {"a": [1, t.ones(2)]}, lambda t: {"a": [1, t.zeros(2)]}, {}),
    "types": (lambda t: np.ones(2), lambda t: t.ones(2), {}),
    "strings": (lambda t: "a", lambda t: "a", {}),
    "subclass": (lambda t: t.nn.Parameter(t.ones(2)), lambda t: t.ones(2), {"allow_subclasses": False}),
    "coo values": (lambda t: t.eye(2).to_sparse(), lambda t: (2 * t.eye(2)).to_sparse(), {}),
    "coo indices": (lambda t: t.eye(2).to_sparse(), lambda t: t.eye(2).flip(0).to_sparse(), {}),
    "coo count": (lambda t: t.eye(2).to_sparse(), lambda t: t.ones(2, 2).to_sparse(), {}),
    "coo dims": (lambda t: t.eye(2).to_sparse(1), lambda t: t.eye(2).to_sparse(2), {}),
    "csr values": (lambda t: t.eye(2).to_sparse_csr(), lambda t: (2 * t.eye(2)).to_sparse_csr(), {}),
    "csr indices": (lambda t: t.eye(2).to_sparse_csr(), lambda t: t.eye(2).flip(0).to_sparse_csr(), {}),
    "csr count": (lambda t: t.eye(2).to_sparse_csr(), lambda t: t.ones(2, 2).to_sparse_csr(), {}),
    "csc rows": (lambda t: t.tensor([[1.0, 1], [0, 0]]).to_sparse_csc(),
                 lambda t: t.tensor([[1.0, 0], [0, 1]]).to_sparse_csc(), {}),
    "byte floats": (lambda t: t.ones(3).to(t.float8_e5m2), lambda t: t.tensor([1.0, 2, 3]).to(t.float8_e5m2), {}),
    "numpy": (lambda t: np.ones(2), lambda t: np.zeros(2), {}),
}

# Reports of differences read as PyTorch's do (programs parse them); refused arguments are explained in our words.
OUR_WORDS = {"one tolerance", "other tolerance", "types", "strings", "subclass"}


@pytest.mark.parametrize("name", CLOSE)
def test_accepts(name):
    assert agree(*CLOSE[name][:2], **CLOSE[name][2]) is None


@pytest.mark.parametrize("name", DIFFERENT)
def test_refuses(name):
    if name not in OUR_WORDS:
        assert agree(*DIFFERENT[name][:2], **DIFFERENT[name][2]) is not None
        return
    ours, theirs = (outcome(t, *DIFFERENT[name][:2], **DIFFERENT[name][2]) for t in (rl, torch))
    assert ours[0] is theirs[0] and ours[1]


def test_booleans():
    with pytest.raises(AssertionError, match=r"Booleans mismatch: True is not False[\s\S]*item \[0\]"):
        rl.testing.assert_close([True], [False])
    with pytest.raises(AssertionError, match="dtype"):
        rl.testing.assert_close(True, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int32"])
def test_default_tolerances(dtype):
    from rushlight.testing._comparison import default_tolerances

    assert default_tolerances(getattr(rl, dtype)) == torch.testing._comparison.default_tolerances(getattr(torch, dtype))


def test_every_difference_can_be_listed():
    from rushlight.testing._comparison import NumberPair, ObjectPair, not_close_error_metas

    found = not_close_error_metas([1, "a", 3], [2, "a", 4], pair_types=(NumberPair, ObjectPair))
    assert [meta.id for meta in found] == [(0,), (2,)]
    assert "rtol=0.0" in repr(NumberPair(1, 2)) and "actual=1" in repr(NumberPair(1, 2))


def test_gradients_do_not_disturb_the_message():
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2"):
        rl.testing.assert_close(x * rl.tensor([1.0, 2.0]), x)


def test_allclose_is_looser_and_warns():
    with pytest.warns(FutureWarning, match="deprecated"):
        rl.testing.assert_allclose(rl.tensor([1.0, float("nan")]), np.array([1.00005, float("nan")]))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="mine"):
        rl.testing.assert_allclose([1.0], [2.0], msg="mine")
