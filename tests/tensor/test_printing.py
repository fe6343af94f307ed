"""How tensors print: the same text as PyTorch's, over many values, shapes, dtypes and options."""

import math
import re

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl

torch = pytest.importorskip("torch")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64",
          "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]

SAMPLES = [
    0, 0.0, 1.5, -1.5, 3, [], [[]], [[], []], [1, 2, 3], [1.0, 2.0], [1.5, 2.25, -3.125], [1e-5, 1.0], [1e-4, 0.5],
    [1e9, 1.0], [1000.5, 1.0], [1001.0, 1.0], [99999999.0], [100000001.0], [math.inf, 1.0], [-math.inf, math.nan, 2.5],
    [math.nan], [0.0, -0.0], [math.inf], [True, False], [[True], [False]], [1 + 2j, -3.5 - 0.25j], [1e-10 + 1j],
    [[1j, 0], [2.5, -1j]], [123456789, -1], [0.1, 0.01, 0.001], [0.1, 0.00001], [[1.0, 20.0], [300.0, 4000.0]],
    [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [1e38, 1e-38], [float(i) for i in range(40)], [i * 1.37 for i in range(40)],
    [[i * 100 + j for j in range(30)] for i in range(3)],
]


def in_rushlight_words(text: str) -> str:
    return text.replace("torch.", "rushlight.")


def both(data, dtype=None, **kwargs):
    kind = {} if dtype is None else {"dtype": getattr(rl, dtype)}
    theirs = {} if dtype is None else {"dtype": getattr(torch, dtype)}
    return rl.tensor(data, **kind, **kwargs), torch.tensor(data, **theirs, **kwargs)


def on_one_line(text: str) -> str:
    """The dtype after the numbers, wherever the line broke: our module's name is longer than PyTorch's."""
    return re.sub(r",\s+dtype=", ", dtype=", text)


def assert_same_text(ours, theirs):
    assert on_one_line(repr(ours)) == on_one_line(in_rushlight_words(repr(theirs)))
    assert on_one_line(str(ours)) == on_one_line(in_rushlight_words(str(theirs)))


@pytest.mark.parametrize("data", SAMPLES, ids=lambda d: str(d)[:24])
def test_samples_print_alike(data):
    assert_same_text(*both(data))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_prints_alike(dtype):
    for data in ([], [0, 1, 1], [[1, 0], [1, 1]], 1, [[[0]]]):
        assert_same_text(*both(data, dtype))
    if dtype.startswith(("float", "bfloat")):
        assert_same_text(*both([1.5, 0.0001, 12.0, math.nan, math.inf], dtype))
    if dtype.startswith("complex"):
        assert_same_text(*both([1.5 - 2j, 1e-7 + 0j, complex(math.nan, math.inf), -0j], dtype))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.floats(width=32) | st.floats(-10, 10, width=32) | st.integers(-5, 5).map(float), min_size=1, max_size=12
    )
)
def test_random_floats_print_alike(values):
    assert_same_text(*both(values, "float32"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.complex_numbers(max_magnitude=1e6, allow_subnormal=False), min_size=1, max_size=8))
def test_random_complex_print_alike(values):
    assert_same_text(*both(values, "complex128"))


@pytest.mark.parametrize(
    "shape", [(1001,), (2, 600), (30, 40), (1100, 1), (1, 1100), (9, 9, 20), (3, 2, 3, 70), (7, 7, 7, 7)]
)
@pytest.mark.parametrize("scale", [1, 0.37])
def test_long_tensors_are_abbreviated_alike(shape, scale):
    theirs = torch.arange(math.prod(shape)).reshape(shape) * scale
    assert_same_text(rl.tensor(theirs.tolist()), theirs)


def test_shapes_without_elements_print_alike():
    for shape in [(0,), (0, 3), (3, 0), (2, 0, 4)]:
        for dtype in ("float32", "int64", "bool", "complex64"):
            ours = rl.empty(shape, dtype=getattr(rl, dtype))
            assert_same_text(ours, torch.empty(shape, dtype=getattr(torch, dtype)))


def test_meta_tensors_print_their_size():
    for dtype in ("float32", "int64", "float16"):
        ours = rl.empty(2, 3, dtype=getattr(rl, dtype), device="meta")
        assert_same_text(ours, torch.empty(2, 3, dtype=getattr(torch, dtype), device="meta"))


def test_autograd_state_is_shown():
    ours, theirs = both([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert_same_text(ours, theirs)
    assert_same_text(ours[0], theirs[0])
    assert_same_text(ours[:, 1:], theirs[:, 1:])
    assert_same_text(ours[None], theirs[None])
    assert_same_text(ours * 2, theirs * 2)
    wide = [i * 1.1 for i in range(9)]
    assert_same_text(*both(wide, "float64", requires_grad=True))


OPTIONS = [
    {"precision": 2}, {"precision": 8}, {"precision": 0}, {"threshold": 5}, {"threshold": 5, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 0}, {"edgeitems": 0}, {"linewidth": 30}, {"linewidth": 5}, {"linewidth": 200},
    {"sci_mode": True}, {"sci_mode": False}, {"profile": "short"}, {"profile": "full"}, {"profile": "default"},
    {"profile": "full", "precision": 1, "sci_mode": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_print_alike(options):
    data = [*SAMPLES, [[i * 0.5 for i in range(9)] for _ in range(9)], [float(i) for i in range(1100)]]
    try:
        rl.set_printoptions(**options)
        torch.set_printoptions(**options)
        for value in data:
            assert_same_text(*both(value))
    finally:
        rl.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_get_printoptions_round_trips():
    before = rl.get_printoptions()
    rl.set_printoptions(precision=7, sci_mode=True)
    changed = rl.get_printoptions()
    assert changed["precision"] == 7 and changed["sci_mode"] is True
    rl.set_printoptions(**before)
    assert (
        rl.get_printoptions()
        == before
        == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
    )


def test_default_dtype_decides_what_is_obvious():
    rl.set_default_dtype(rl.float64)
    torch.set_default_dtype(torch.float64)
    try:
        for dtype in ("float32", "float64", "complex64", "complex128"):
            assert_same_text(*both([1.5], dtype))
            assert_same_text(*both([], dtype))
    finally:
        rl.set_default_dtype(rl.float32)
        torch.set_default_dtype(torch.float32)


def test_subclasses_print_under_their_name():
    class Named(rl.Tensor):
        __torch_function__ = rl._C._disabled_torch_function_impl

    t = rl.tensor([[1.5, 2.0], [3.0, 4.0]])
    assert repr(Named._make_subclass(Named, t)) == "Named([[1.5000, 2.0000],\n       [3.0000, 4.0000]])"


def test_format_of_one_element_is_the_numbers():
    assert f"{rl.tensor(3.14159):.2f}" == "3.14"
    assert f"{rl.tensor(7)}" == "7"
    assert f"{rl.tensor([1.5])}" == "tensor([1.5000])"
    with pytest.raises(TypeError):
        f"{rl.tensor([1.5]):.2f}"


def test_parameters_print_as_tensors():
    text = repr(rl.nn.Parameter(rl.tensor([[1.5, 2.0]])))
    assert text == in_rushlight_words(repr(torch.nn.Parameter(torch.tensor([[1.5, 2.0]]))))


def test_dual_tensors_show_their_tangent():
    texts = []
    for module in (rl, torch):
        forward_ad = module.autograd.forward_ad
        with forward_ad.dual_level():
            texts.append(repr(forward_ad.make_dual(module.ones(2), module.tensor([2.0, 3.0]))))
    assert texts[0] == texts[1]
