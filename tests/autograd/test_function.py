"""Custom functions: both ctx styles, what they may save and mark, and what goes wrong."""

from __future__ import annotations

import gc
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import Function, grad
from rushlight.autograd.function import once_differentiable


def leaf(values, dtype=rl.float64):
    return rl.tensor(values, dtype=dtype).requires_grad_()


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class CubeSplit(Function):
    @staticmethod
    def forward(x, scale=1.0):
        return x * x * x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale = inputs
        ctx.save_for_backward(x)
        ctx.scale = scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g * ctx.scale, None


def test_forward_with_context() -> None:
    x = leaf([1.0, -2.0])
    y = Cube.apply(x)
    y.backward(rl.tensor([1.0, 2.0], dtype=rl.float64))
    assert x.grad.tolist() == [3.0, 24.0]


def test_setup_context_with_keyword_and_default() -> None:
    x = leaf([1.0, -2.0])
    CubeSplit.apply(x, scale=2.0).sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]


def test_second_derivative_goes_through_saved_input() -> None:
    x = leaf([1.0, -2.0])
    (g,) = grad(Cube.apply(x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert h.tolist() == [6.0, -12.0]


def test_saved_output_is_no_cycle_and_differentiable_twice() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return y * g

    x = leaf([0.5])
    y = Exp.apply(x)
    (g,) = grad(y.sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x, create_graph=True)
    assert abs(h.item() - y.item()) < 1e-12
    gc.collect()
    gc.disable()
    try:
        fresh = Exp.apply(x)
        gone = weakref.ref(fresh)
        node = weakref.ref(fresh.grad_fn)
        del fresh
        assert gone() is None and node() is None
    finally:
        gc.enable()


def test_output_kept_as_attribute_is_collected() -> None:
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x * 2
            return ctx.y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = Keeps.apply(leaf([1.0]))
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_several_outputs_and_missing_gradients() -> None:
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a is None, b is None))
            return (a * 2 if a is not None else 0 * b) + (b * 3 if b is not None else 0), None

    x = leaf([1.0])
    Two.apply(x, True)[0].sum().backward()
    Two.apply(x, False)[1].sum().backward()
    assert seen == [(False, False), (True, False)]
    assert x.grad.tolist() == [5.0]


def test_non_tensor_arguments_and_needs_input_grad() -> None:
    needs = []

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, y, label):
            ctx.factor = factor
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            needs.append(ctx.needs_input_grad)
            return g * ctx.factor, None, None, None

    x, y = leaf([1.0]), rl.tensor([2.0], dtype=rl.float64)
    Scale.apply(x, 3.0, y, "name").sum().backward()
    assert needs == [(True, False, False, False)] and x.grad.tolist() == [3.0]


def test_mark_dirty_modifies_in_place() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf([1.0, 2.0])
    y = x * 1
    z = Double.apply(y)
    assert z is y and y._version == 1
    (y * y).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(x)
    base = x * 1
    Double.apply(base[:1])
    x.grad = None
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_dirty_must_be_returned() -> None:
    class Forgets(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="dirty"):
        Forgets.apply(leaf([1.0]) * 1)


def test_mark_non_differentiable() -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx, ga, gb):
            return ga * 2

    a, b = Sorted.apply(leaf([1.0]))
    assert a.requires_grad and not b.requires_grad


def test_returning_an_input_gives_an_alias() -> None:
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = leaf([1.0])
    y = Identity.apply(x)
    assert y is not x and x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [10.0]


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x, w = leaf([3.0]), leaf([1.0])
    (g,) = grad(Once.apply(x), x, w, create_graph=True)
    assert g.tolist() == [6.0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


@pytest.mark.parametrize("result, error", [(2, RuntimeError), ("text", TypeError), ("shape", RuntimeError)])
def test_bad_backward_results(result, error) -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return {2: (g, g), "text": "text", "shape": rl.ones(7, dtype=rl.float64)}[result]

    with pytest.raises(error):
        Bad.apply(leaf([1.0, 2.0])).sum().backward()


def test_gradient_for_non_tensor_input() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(RuntimeError, match="position 1"):
        Bad.apply(leaf([1.0]), 2).sum().backward()


def test_saved_tensor_modified_names_the_function() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"CubeBackward.*modified by an inplace operation.*version 1; expected version 0"
    ):
        z.sum().backward()


def test_saved_tensors_after_release() -> None:
    y = Cube.apply(leaf([1.0]))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_node_stands_for_context() -> None:
    class Tagged(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.tag = 42
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf([1.0])
    y = Tagged.apply(x)
    assert y.grad_fn.tag == 42 and y.grad_fn.name() == "TaggedBackward"
    assert y.grad_fn.saved_tensors[0] is x
    assert y.grad_fn.next_functions[0][0].variable is x


def test_not_instantiated() -> None:
    with pytest.raises(RuntimeError):
        Cube()


def test_no_recording_without_need() -> None:
    y = Cube.apply(rl.tensor([2.0]))
    assert not y.requires_grad
    with rl.no_grad():
        assert not Cube.apply(leaf([2.0])).requires_grad


def test_jvp_is_used_in_forward_mode() -> None:
    from rushlight.autograd import forward_ad as fwad

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.x * g

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.x * t

    with fwad.dual_level():
        dual = fwad.make_dual(rl.tensor([3.0]), rl.tensor([2.0]))
        out = Square.apply(dual)
        assert fwad.unpack_dual(out).tangent.tolist() == [12.0]


def test_outputs_without_a_gradient_reach_backward_as_zeros():
    seen = []

    class Marked(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order, twice = x.argsort(), x * 2
            ctx.mark_non_differentiable(order, twice)
            return x * 3, order, twice, "no tensor"

        @staticmethod
        def backward(ctx, *grads):
            seen.extend(grads)
            return grads[0]

    Marked.apply(rl.ones(2, requires_grad=True))[0].sum().backward()
    assert seen[1].dtype is rl.int64 and seen[1].tolist() == [0, 0]
    assert seen[2].dtype is rl.float32 and seen[2].tolist() == [0, 0] and seen[3] is None
