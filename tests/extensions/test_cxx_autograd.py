"""torch::autograd::Function, whose nodes the core and the extension make without Python, and hooks in C++."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.cpp_extension import load

pytestmark = pytest.mark.slow  # a compiler runs


@pytest.fixture(scope="module")
def ext(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = Path(__file__).with_name("recorded.cpp")
    return load("recorded", source, extra_cflags=["-O0"], build_directory=tmp_path_factory.mktemp("recorded"))


def leaf(*values: float) -> Any:
    return rl.tensor(values, dtype=rl.float32, requires_grad=True)


def test_arguments_of_every_kind_get_their_gradients(ext):
    a, b, c = leaf(1, 2), leaf(3, 4), rl.tensor([5.0, 6.0])
    total, copy = ext.mixed(a, 3, [b, c])
    assert total.tolist() == [11, 16] and copy.tolist() == [1, 2] and copy.requires_grad
    (total.sum() + 2 * copy.sum()).backward()
    assert a.grad.tolist() == [5, 7] and b.grad.tolist() == [2, 2] and c.grad is None
    assert ext.was_asked() == [True, True, False]


def test_a_backward_pass_says_which_gradients_it_follows(ext):
    a, b = leaf(1, 2), leaf(3, 4)
    total, _ = ext.mixed(a, 3, [b])
    assert rl.autograd.grad(total.sum(), b)[0].tolist() == [2, 2]
    assert ext.was_asked() == [False, True]


def test_nodes_are_called_as_pytorchs(ext):
    node = ext.mixed(leaf(1), 3, [])[0].grad_fn
    assert node.name() == "torch::autograd::CppNode<Mixed>" and type(node).__name__ == "CppFunction"
    assert node.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


def test_functions_differentiate_twice(ext):
    a = leaf(1, 2)
    copy = ext.mixed(a, 3, [])[1]  # whose derivative is the gradient times a
    (first,) = rl.autograd.grad((copy**2).sum() / 2, a, create_graph=True)
    assert first.tolist() == [1, 4]  # copy * a
    assert rl.autograd.grad(first.sum(), a)[0].tolist() == [2, 6]


def test_an_input_comes_back_as_an_alias(ext):
    x = leaf(1, 2)
    (y,) = ext.chosen(x, "same")
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_inputs_written_in_place_get_the_node(ext):
    x = leaf(1, 2)
    y = x * 2
    (z,) = ext.chosen(y, "dirty")
    assert z is y and y.tolist() == [6, 12] and y.grad_fn.name().endswith("<Chosen>")
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="leaf"):
        ext.chosen(leaf(1), "dirty")
    with pytest.raises(RuntimeError, match="not among the outputs"):
        ext.chosen(leaf(1), "not among")


def test_gradients_that_are_missing_are_zeros_unless_it_is_said(ext):
    x = leaf(2, 1)
    _, order, five = ext.chosen(x, "")
    assert not order.requires_grad and order.tolist() == [1, 0]
    five.sum().backward()
    assert x.grad.tolist() == [5, 5]
    x.grad = None
    ext.chosen(x, "none")[0].sum().backward()
    assert x.grad.tolist() == [7, 7]


@pytest.mark.parametrize(
    "how, kind, words",
    [
        ("count", RuntimeError, "expected 2 gradients"),
        ("not a tensor", RuntimeError, "position 1"),
        ("backward throws", IndexError, "backward: by design"),
    ],
)
def test_what_backward_gives_is_checked(ext, how, kind, words):
    y = ext.chosen(leaf(1, 2), how)[0]
    with pytest.raises(kind, match=words):
        y.sum().backward()


def test_errors_of_forward_leave_the_mode_as_it_was(ext):
    with pytest.raises(ValueError, match="forward: by design"):
        ext.chosen(leaf(1), "throws")
    assert rl.is_grad_enabled()


def test_saved_tensors_are_watched_and_freed(ext):
    x = leaf(1, 2)
    y = x * 1
    z = ext.chosen(y, "")[0]
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    assert x.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()
    z = ext.chosen(y := x * 1, "")[0]
    y.mul_(2)
    with pytest.raises(RuntimeError, match="inplace|in place|version"):
        z.sum().backward()


def test_nodes_free_what_they_keep(ext):
    y = leaf(1, 2) * 1
    seen = weakref.ref(y)
    results = ext.chosen(y, "")
    del y
    assert seen() is not None
    del results
    gc.collect()
    assert seen() is None


def test_hooks_on_tensors_saved_for_backward_see_cpp_functions(ext):
    packed = []
    with rl.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = ext.chosen(leaf(1, 2), "")[0]
    assert len(packed) == 2
    y.sum().backward()


def test_hooks_of_tensors_change_gradients(ext):
    assert ext.hooked(leaf(1, 2)).tolist() == [1020, 1020]


def test_hooks_of_nodes_run_before_and_after(ext):
    assert rl.allclose(ext.hooked_nodes(leaf(0, 0)), rl.tensor([4.0, 4.0]))


def test_a_gradient_can_be_assigned(ext):
    assert ext.given(leaf(1, 2)).tolist() == [4, 4]


def test_guards_restore_what_was(ext):
    assert ext.guarded(leaf(1)) == [True, False, True]
    assert rl.is_grad_enabled()
