"""The node that a compiled function leaves on the tape: it behaves as a recorded function's does."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.inductor.compiled import Compiled

BACKENDS = ("inductor", "aot_eager")


def two_results(x: rl.Tensor, w: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    y = (x @ w).tanh()
    return y, y.exp().sum(0)


def given() -> tuple[rl.Tensor, rl.Tensor]:
    rl.manual_seed(0)
    return rl.randn(6, 4, requires_grad=True), rl.randn(4, 5, requires_grad=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_without_a_gradient_counts_as_zeros(backend: str) -> None:
    x, w = given()
    compiled = rl.compile(two_results, backend=backend, fullgraph=True)
    got = rl.autograd.grad(compiled(x, w)[1].sum(), (x, w))
    expected = rl.autograd.grad(two_results(x, w)[1].sum(), (x, w))
    for a, b in zip(got, expected, strict=True):
        rl.testing.assert_close(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_in_another_layout(backend: str) -> None:
    x, w = given()
    compiled = rl.compile(two_results, backend=backend, fullgraph=True)
    for grad in (rl.randn(5, 6).t(), rl.randn(1, 5).expand(6, 5), rl.randn(6, 10)[:, ::2]):
        got = rl.autograd.grad(compiled(x, w)[0], (x, w), grad)
        expected = rl.autograd.grad(two_results(x, w)[0], (x, w), grad)
        for a, b in zip(got, expected, strict=True):
            rl.testing.assert_close(a, b)


def test_the_node_has_a_name_and_edges() -> None:
    x, w = given()
    y, z = rl.compile(two_results, fullgraph=True)(x, w)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert y.grad_fn is z.grad_fn
    assert [edge[0].variable is t for edge, t in zip(y.grad_fn.next_functions, (x, w), strict=True)] == [True, True]


def test_backward_runs_twice_only_where_the_graph_is_kept() -> None:
    x, w = given()
    y, _ = rl.compile(two_results, fullgraph=True)(x, w)
    first = rl.autograd.grad(y.sum(), x, retain_graph=True)[0]
    rl.testing.assert_close(rl.autograd.grad(y.sum(), x)[0], first)
    with pytest.raises(RuntimeError, match="second time"):
        rl.autograd.grad(y.sum(), x)


def test_writing_to_what_the_backward_needs_is_an_error() -> None:
    x, w = given()
    y, _ = rl.compile(two_results, fullgraph=True)(x, w)
    with rl.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation|was written to|version"):
        y.sum().backward()


def test_hooks_on_saved_tensors_see_them() -> None:
    x, w = given()
    compiled = rl.compile(two_results, fullgraph=True)
    compiled(x, w)
    seen: list[Any] = []
    with rl.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        y, _ = compiled(x, w)
    assert seen
    rl.testing.assert_close(rl.autograd.grad(y.sum(), x)[0], rl.autograd.grad(two_results(x, w)[0].sum(), x)[0])


def test_calls_and_compiled_functions_are_freed() -> None:
    model = nn.Linear(4, 4)
    compiled = rl.compile(model, fullgraph=True)
    x = rl.randn(3, 4)
    y = compiled(x)
    y.sum().backward()
    kept = weakref.ref(y)
    del y
    assert kept() is None
    whole = weakref.ref(model)
    del model, compiled
    gc.collect()
    assert whole() is None


def test_no_grad_and_grad_have_graphs_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    compiled = rl.compile(model, fullgraph=True)
    x = rl.randn(3, 4)
    for _ in range(2):
        assert compiled(x).requires_grad
        with rl.no_grad():
            assert not compiled(x).requires_grad
        with rl.autocast("cpu", rl.bfloat16):
            assert compiled(x).dtype is rl.bfloat16
        with rl.inference_mode():
            assert compiled(x).is_inference() == model(x).is_inference()
    model.eval()
    rl.testing.assert_close(compiled(x), model(x))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    rl.testing.assert_close(compiled(x), model(x))


def test_results_in_another_order_than_they_are_made_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: rl.Tensor, w: rl.Tensor) -> tuple[Any, ...]:
        y = x.relu()
        return (y @ w).tanh(), y, None, y.sum()

    x, w = given()
    compiled = rl.compile(function, fullgraph=True)

    def gradients(results: tuple[Any, ...]) -> tuple[rl.Tensor, ...]:
        return rl.autograd.grad(results[0].sum() + results[1].exp().sum() + results[3], (x, w))

    def in_python(self: Compiled, inputs: Any) -> Any:
        raise AssertionError("a graph was called through Python")

    monkeypatch.setattr(Compiled, "__call__", in_python)
    expected, got = function(x, w), compiled(x, w)
    assert got[2] is None
    for a, b in zip((got[0], got[1], got[3], *gradients(got)),
                    (expected[0], expected[1], expected[3], *gradients(expected)), strict=True):
        rl.testing.assert_close(a, b)


def test_compiled_modules_follow_hooks_and_new_originals() -> None:
    """Calls of a compiled module go straight to its code, but for what may change between them."""
    first, second = nn.Linear(4, 3), nn.Linear(4, 2)
    x = rl.randn(5, 4)
    compiled = rl.compile(first, fullgraph=True)
    for _ in range(2):
        rl.testing.assert_close(compiled(x), first(x))
    rl.testing.assert_close(compiled(input=x), first(x))
    with pytest.raises(TypeError):
        compiled(x, x)
    seen: list[Any] = []
    handle = first.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    compiled(x)
    assert seen == [(5, 3)]
    handle.remove()
    compiled(x)
    assert len(seen) == 1
    compiled._orig_mod = second
    assert compiled(x).shape == (5, 2)

    class Counted(type(compiled)):
        calls = 0

        def __call__(self, *args: Any) -> Any:
            self.__dict__["calls"] = self.calls + 1
            return super().__call__(*args)

    own = Counted(first)
    own(x), own(x)
    assert own.__dict__["calls"] == 2


def test_a_region_takes_one_list() -> None:
    x, w = given()
    compiled = rl.compile(two_results, fullgraph=True)
    compiled(x, w)
    region = next(c.cell_contents for _, f in compiled.entries() for c in f.__closure__ or ())
    assert len(region([x, w])) == 2
    for wrong in (((x, w),), ([x, w], []), ()):
        with pytest.raises(TypeError, match="one list"):
            region(*wrong)
    with pytest.raises(TypeError, match="nothing else"):
        region([x, w], more=1)
