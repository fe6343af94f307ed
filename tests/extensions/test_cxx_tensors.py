"""at::Tensor and what goes with it, from a compiled extension."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.cpp_extension import load

pytestmark = pytest.mark.slow  # a compiler runs


@pytest.fixture(scope="module")
def ext(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(
        "everything",
        Path(__file__).with_name("everything.cpp"),
        extra_cflags=["-O0"],
        build_directory=tmp_path_factory.mktemp("everything"),
    )


def test_ops_and_operators_compute(ext):
    x = rl.arange(6.0).reshape(3, 2)
    assert ext.affine(x, 3.0).tolist() == [[1, 4], [7, 10], [13, 16]]
    expected = (2 - (x + 1) ** 2).abs().sum(0, keepdim=True).sqrt().clamp(0, 3) / 2
    assert rl.allclose(ext.all_ops(x.clone()), expected)
    assert ext.out_of(x).tolist() == (x + 2 * x).tolist()


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int32, rl.int64, rl.uint8, rl.float16, rl.bfloat16])
def test_dispatch_reaches_every_type(ext, dtype):
    x = rl.arange(15).to(dtype)
    got = ext.squares(x)
    assert got.dtype == dtype and rl.equal(got, x * x)


def test_dispatch_names_the_type_it_lacks(ext):
    with pytest.raises(NotImplementedError, match="\"squares\" not implemented for 'Bool'"):
        ext.squares(rl.ones(3, dtype=rl.bool))


def test_accessors_and_pointers_read_the_elements(ext):
    assert ext.corner(rl.arange(6.0).reshape(2, 3)).tolist() == [0, 4]
    assert ext.corner(rl.arange(6.0).reshape(3, 2).T).tolist() == [0, 3]
    assert ext.total(rl.arange(1000, dtype=rl.float64)) == 499500
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        ext.total(rl.ones(3))


@pytest.mark.parametrize(
    "how, kind",
    [
        ("index", IndexError),
        ("value", ValueError),
        ("type", TypeError),
        ("todo", NotImplementedError),
        ("check", RuntimeError),
        ("assert", RuntimeError),
        ("range", IndexError),
        ("python", RuntimeError),
        ("thread", ValueError),
        ("undefined", RuntimeError),
        ("dtype", RuntimeError),
    ],
)
def test_exceptions_keep_their_class(ext, how, kind):
    with pytest.raises(kind) as caught:
        ext.fails(how)
    assert type(caught.value) is kind or how == "python"


def test_indexing(ext):
    x = rl.arange(6.0).reshape(3, 2)
    assert ext.part(x).tolist() == [2, 4]
    assert ext.parts(x).tolist() == [[7, 7], [14, 14], [4, 5]]
    assert ext.part(x).data_ptr() == x[1:, 0].data_ptr()


def test_sequences_and_options_convert(ext):
    x = rl.arange(5.0)
    assert [p.tolist() for p in ext.pieces(x)] == [[0, 1], [2, 3], [4]]
    values, places = ext.most(x.reshape(1, 5), 1)
    assert values.tolist() == [4] and places.tolist() == [4]
    assert ext.joined([x, x], None).shape == (10,) and ext.joined((x,), x).shape == (10,)
    assert ext.described(rl.float64, rl.device("cpu"), 2.5, None) == "Double cpu 2.5 -1"
    assert ext.described(rl.bool, "meta", True, 4) == "Bool meta true 4"
    assert ext.wider(rl.int64, rl.float16) is rl.float16
    assert [ext.same(v) for v in (1, 1.5, True, 2j)] == [1, 1.5, True, 2j]
    assert ext.product([2, 3]) == 6 and ext.product(rl.Size([4, 5])) == 20 and ext.product(()) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.affine(3, 1.0),
        lambda e: e.affine(rl.ones(1), "x"),
        lambda e: e.joined([1], None),
        lambda e: e.wider(1.5, rl.bool),
        lambda e: e.product([1.5]),
        lambda e: e.described(rl.float32, 1.5, 1, None),
        lambda e: e.same("one"),
    ],
)
def test_a_wrong_python_type_is_a_type_error(ext, call):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        call(ext)


def test_foreign_memory_is_released_once(ext):
    before = ext.count_freed()
    x = ext.borrowed(False)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    view = x[1]
    del x
    gc.collect()
    assert ext.count_freed() == before and view.tolist() == [3, 4, 5]
    del view
    gc.collect()
    assert ext.count_freed() == before + 1
    assert ext.borrowed(True).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_guards_restore_what_was(ext):
    assert ext.modes(rl.ones(1, requires_grad=True)) == [True, False, False, True]
    with rl.no_grad():
        assert ext.modes(rl.ones(1, requires_grad=True)) == [False, False, False, False]


def test_factories_follow_their_options(ext):
    zeros, numbers, threes, square, reals, eye, steps = ext.made()
    assert zeros.dtype == rl.float64 and zeros.requires_grad and zeros.shape == (2, 3)
    assert numbers.tolist() == [0, 1, 2, 3, 4] and numbers.dtype == rl.int64
    assert threes.dtype == rl.int32 and threes.tolist() == [3, 3]
    assert square.tolist() == [[1, 2], [3, 4]] and square.dtype == rl.int64
    assert reals.dtype == rl.float32 and eye.tolist() == [[1, 0], [0, 1]] and steps.tolist() == [0, 0.5, 1]


def test_geometry_is_read_from_the_core(ext):
    x = rl.zeros(4, 6)[1:, ::2]
    assert ext.geometry(x) == [2, 9, 6, 6, 0, 36, 3]


def test_functions_differentiate_twice(ext):
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    y = ext.cube(x, 2.0)
    (first,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = rl.autograd.grad(first.sum(), x)
    assert y.tolist() == [2, 16] and first.tolist() == [6, 24] and second.tolist() == [12, 24]
    assert rl.autograd.gradcheck(lambda t: ext.cube(t, 2.0), (x.detach().double().requires_grad_(),))
    assert ext.gradients(x)[0].tolist() == [2, 4]


def test_functions_take_absent_tensors_and_mark_results(ext):
    a, b = rl.tensor([3.0, 1.0], requires_grad=True), rl.ones(2, requires_grad=True)
    total, order = ext.two(a, b)
    assert not order.requires_grad and order.tolist() == [1, 0]
    total.sum().backward()
    assert a.grad.tolist() == [5, 5] and b.grad.tolist() == [7, 7]
    a.grad = None
    ext.two(a, None)[0].sum().backward()
    assert a.grad.tolist() == [5, 5]


def test_calls_keep_no_references(ext):
    import sys

    x = rl.ones(2)
    before = sys.getrefcount(x)
    for _ in range(10):
        ext.affine(x, 1.0)
        ext.geometry(x)
        ext.pieces(x)
    assert sys.getrefcount(x) == before
