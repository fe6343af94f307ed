"""Custom autograd Functions in whole graphs: classes whose methods close over values, tensors and functions, or are
made inside of the compiled function. Results and gradients are those of the uncompiled function, also when what they
close over is another the next time."""

import sys

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable

pytestmark = pytest.mark.share(2)   # of each test that has several cases


def _scaled(k, more=None):
    """A class whose methods close over `k`."""

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * k if more is None else more(x) * k

        @staticmethod
        def backward(ctx, g):
            return g * k if more is None else more(g) * k

    return Scaled


def _with_context(k):
    class WithContext(Function):
        @staticmethod
        def forward(x, name):
            return x * k, x.argsort()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k, ctx.name, ctx.shape = k, inputs[1], inputs[0].shape
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, of_order):
            assert ctx.name == "name" and ctx.shape == g.shape and ctx.needs_input_grad[0]
            return g * ctx.k, None

    return WithContext


def _once(k):
    class Once(Function):
        @staticmethod
        def forward(ctx, x, function):
            ctx.function = function
            return function(x) * k

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return ctx.function(g) * k, None

    return Once


def _itself(k):
    class Itself(Function):
        factor = k

        @staticmethod
        def forward(ctx, x):
            return x * Itself.factor

        @staticmethod
        def backward(ctx, g):
            return g * Itself.factor

    return Itself


def _module(k):
    kind = _scaled(k)

    class Layer(nn.Module):
        def forward(self, x):
            def inner(x):
                return kind.apply(x)

            return inner(x).sin()

    return Layer()


def _inside_helper(x):
    k = x.detach() + 1

    def helper(v):
        return v * k

    class Inside(Function):
        @staticmethod
        def forward(ctx, x):
            return helper(x)

        @staticmethod
        def backward(ctx, g):
            return helper(g)

    return Inside.apply(x).sin()


PAIR = (3.0, 0.5)
PROGRAMS = {
    "a number": lambda: lambda x, kind=_scaled(2.0): kind.apply(x).sin(),
    "a tensor": lambda: lambda x, kind=_scaled(rl.full((4,), 2.0)): kind.apply(x).sin(),
    "a tuple": lambda: lambda x, kind=_scaled(2.0, lambda v: v * PAIR[0] * PAIR[1]): kind.apply(x).sin(),
    "a function": lambda: lambda x, kind=_scaled(2.0, lambda v: v * 3): kind.apply(x).sin(),
    "a function of a tensor": lambda: lambda x, k=rl.ones(4), kind=None: _scaled(2.0, lambda v: v * k).apply(x).sin(),
    "setup_context": lambda: lambda x, kind=_with_context(2.0): kind.apply(x, "name")[0].sin(),
    "a context of tensors": lambda: lambda x, kind=_with_context(rl.full((4,), 3.0)): kind.apply(x, "name")[0].sin(),
    "once": lambda: lambda x, kind=_once(2.0): kind.apply(x, lambda v: v * 3).sin(),
    "itself": lambda: lambda x, kind=_itself(2.0): kind.apply(x).sin(),
    "in a module": lambda: _module(rl.full((4,), 2.0)),
    "made inside": lambda: lambda x: _scaled(3.0).apply(x).sin(),
    "made inside of a tensor": lambda: lambda x: _scaled(x.detach() * 2).apply(x).sin(),
    "made inside with a helper": lambda: _inside_helper,
    "made inside of a size": lambda: lambda x: _scaled(x.shape[0]).apply(x).sin(),
    "one in another": lambda: lambda x, a=_scaled(2.0), b=_scaled(rl.ones(4)): b.apply(a.apply(x)).sin(),
}


def _graded(function):
    x = rl.linspace(0.1, 0.8, 4).requires_grad_()
    result = function(x)
    result.sum().backward()
    return result.tolist(), x.grad.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_graphs(name, backend):
    program = PROGRAMS[name]()
    compiled = rl.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        for found, wanted in zip(_graded(compiled), _graded(program), strict=True):
            assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("kind", ["numbers", "tensors"])
def test_what_a_class_made_inside_closes_over_is_this_calls(kind, backend):
    compiled = rl.compile(lambda x, k: _scaled(k).apply(x), backend=backend, fullgraph=True)
    for k in (2.0, 3.0, 4.0, 5.5):
        x = rl.ones(2, requires_grad=True)
        result = compiled(x, k if kind == "numbers" else rl.full((2,), k))
        result.sum().backward()
        assert result.tolist() == x.grad.tolist() == [k, k]


def test_what_a_cell_holds_is_guarded():
    k = 2.0

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * k

    compiled = rl.compile(lambda x: Scaled.apply(x), backend="aot_eager", fullgraph=True)
    assert compiled(rl.ones(2)).tolist() == [2.0, 2.0]
    k = 7.0
    assert compiled(rl.ones(2)).tolist() == [7.0, 7.0]
    k = rl.full((2,), 9.0)
    assert compiled(rl.ones(2)).tolist() == [9.0, 9.0]
    k.fill_(4.0)      # the tensor itself is an input, not its elements
    assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]


FACTOR = 2.0


def _by_factor(x, depth=2):
    return _by_factor(x, depth - 1) if depth else x * FACTOR


def test_what_helpers_read_is_guarded(monkeypatch):
    class Helped(Function):
        @staticmethod
        def forward(ctx, x):
            return _by_factor(x)

        @staticmethod
        def backward(ctx, g):
            return _by_factor(g)

    compiled = rl.compile(lambda x: Helped.apply(x), backend="aot_eager", fullgraph=True)
    for factor in (2.0, 5.0):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", factor)
        x = rl.ones(2, requires_grad=True)
        result = compiled(x)
        result.sum().backward()
        assert result.tolist() == x.grad.tolist() == [factor, factor]


def test_a_list_that_is_changed_breaks_the_graph():
    seen = []

    class Counting(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    assert rl.compile(lambda x: Counting.apply(x).sin(), backend="eager")(rl.zeros(2)).tolist() == [0.0, 0.0]
    assert seen
    with pytest.raises(rl._dynamo.exc.Unsupported, match="seen"):
        rl.compile(lambda x: Counting.apply(x).sin(), backend="eager", fullgraph=True)(rl.zeros(2))
