"""functionalize: the same results and the same effect on arguments, and ops that write nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl
from rushlight.func import functionalize, grad, vmap
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.op import View, definitions, load_all

VIEWS = [
    lambda t: t.view(-1) if t.is_contiguous() else t,
    lambda t: t.reshape(2, -1) if t.numel() % 2 == 0 and t.is_contiguous() else t, lambda t: t.transpose(0, -1),
    lambda t: t[0] if t.ndim > 1 else t, lambda t: t[..., 1:], lambda t: t[..., ::2], lambda t: t.unsqueeze(0),
    lambda t: t.squeeze(), lambda t: t.diagonal() if t.ndim > 1 else t,
    lambda t: t.narrow(-1, 0, 1), lambda t: t.split(1, -1)[0], lambda t: t.unbind(0)[-1] if t.ndim > 1 else t,
    lambda t: t.permute(*reversed(range(t.ndim))), lambda t: t.detach(), lambda t: t.view_as(t),
    lambda t: t.select(-1, -1) if t.ndim > 1 else t, lambda t: t.chunk(2, -1)[0], lambda t: t.t() if t.ndim == 2 else t,
]
WRITES = [
    lambda t, o: t.add_(1),
    lambda t, o: t.mul_(2),
    lambda t, o: t.copy_(o.sum()),
    lambda t, o: t.zero_(),
    lambda t, o: t.fill_(3),
    lambda t, o: t.sub_(o.mean()),
    lambda t, o: t.clamp_(min=-2),
    lambda t, o: t.masked_fill_(t > 1, -1.0),
    lambda t, o: t.__setitem__(0, 7.0) if t.ndim else t,
    lambda t, o: t.sigmoid_(),
    lambda t, o: t.index_fill_(0, rl.tensor([0]), 4.0) if t.ndim else t,
    lambda t, o: t.neg_(),
    lambda t, o: t.__iadd__(o.max()),
]


def program(choices):
    """A function of one tensor: every step makes a view of something seen, or writes to it."""

    def run(x):
        seen = [x]
        for is_write, which, where in choices:
            t, other = seen[where % len(seen)], seen[(where // 3) % len(seen)]
            if is_write:
                WRITES[which % len(WRITES)](t, other)
            elif t.ndim and t.numel() > 1:
                view = VIEWS[which % len(VIEWS)](t)
                seen += [view] if view.numel() else []      # some writes need elements
        return [t * 1 for t in seen]

    return run


def root(node):
    """What a node is a view of: the tracer calls a view that shows all of a tensor in its order by the last such view's
    name."""
    views = "squeeze unsqueeze view detach alias permute transpose select slice split unbind narrow".split()
    name = node.target.__name__ if node.op == "call_function" else ""
    is_view = name == "t" or name.startswith(tuple(views))
    return root(node.args[0]) if is_view else node


def is_functional(graph):
    """Whether nothing but arguments, at the end, is written."""
    calls = [n for n in graph.nodes if n.op == "call_function"]
    while calls and calls[-1].target.__name__.startswith("copy_") and root(calls[-1].args[0]).op == "placeholder":
        calls.pop()
    return not [n for n in calls if n.target.__name__.partition(".")[0].endswith("_")]


@settings(deadline=None, max_examples=120)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=9),
    st.sampled_from(["mutations", "mutations_and_views"]),
)
def test_programs_of_views_and_writes(choices, remove):
    run = program(choices)
    plain, inside = rl.arange(12.0).reshape(3, 4), rl.arange(12.0).reshape(3, 4)
    wanted, got = run(plain), functionalize(run, remove=remove)(inside)
    rl.testing.assert_close(got, wanted)
    rl.testing.assert_close(inside, plain)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6))
def test_graphs_write_nothing(choices):
    run = program(choices)
    traced = make_fx(functionalize(run))(rl.ones(3, 4))
    assert is_functional(traced.graph), traced.code
    plain, inside = rl.arange(12.0).reshape(3, 4), rl.arange(12.0).reshape(3, 4)
    if not any(is_write and which % len(WRITES) == 7 for is_write, which, _ in choices):
        rl.testing.assert_close(traced(inside), run(plain))
        rl.testing.assert_close(inside, plain)


def test_copies_lie_as_the_views_they_stand_for():
    def layouts(x):
        part = x[..., 1:]
        return [t.stride() for t in (part, part.detach(), part.t().detach(), part.detach().unsqueeze(0))]

    x = rl.arange(12.0).reshape(3, 4)
    assert functionalize(layouts, remove="mutations_and_views")(x) == layouts(x)


def test_every_view_has_its_inverse():
    """What the inverse of a view gives shows the new elements through the view, and the old ones elsewhere."""
    load_all()
    arguments = {
        "select": (0, 1), "slice": (1, 1, 4, 2), "narrow": (1, 1, 2), "diagonal": (1, 0, 1),
        "as_strided": ((2, 2), (4, 1), 1), "split": (2, 1), "unbind": (1,), "view": ((2, 6),),
        "permute": ((1, 0),), "transpose": (0, 1), "t": (), "unsqueeze": (1,), "squeeze": (), "expand": ((3, 4), False),
        "alias": (), "unfold": (1, 2, 2), "_basic_index": ((slice(1, 3), 0),), "_conj": (), "_neg_view": (),
    }
    for name, args in arguments.items():
        overload = rl.op.find_op(name).overload_list[0]
        base = rl.arange(12.0).reshape(3, 4) * (1j if name == "_conj" else 1)
        shown = overload.call(base, *args)
        which = 1 if isinstance(shown, tuple) else 0
        part = shown[which] if isinstance(shown, tuple) else shown
        new = -part.clone() - 1
        result = overload.definition.inverse(base, new, which, *args)
        base = base.clone()
        again = overload.call(base, *args)
        (again[which] if isinstance(again, tuple) else again).copy_(new)
        rl.testing.assert_close(result, base, msg=name)
    views = {name for name, classes in definitions.items() if any(issubclass(c, View) for c in classes)}
    assert views - {"view_as_real", "view_as_complex", "_real_part", "_imag_part"} <= set(arguments), views


@pytest.mark.parametrize("dtype", [rl.complex64, rl.complex128])
def test_parts_of_complex_numbers(dtype):
    def f(x):
        x.real.mul_(3)
        x.imag.add_(1)
        rl.view_as_real(x)[0, 0] = 5.0
        return x * 2

    plain, inside = rl.tensor([1 + 2j, 3 - 1j], dtype=dtype), rl.tensor([1 + 2j, 3 - 1j], dtype=dtype)
    rl.testing.assert_close(functionalize(f)(inside), f(plain))
    rl.testing.assert_close(inside, plain)


def test_other_types_of_the_same_bytes():
    def f(x):
        x.view(rl.int32).bitwise_and_(0x7FFFFFFF)
        return x + 0

    plain, inside = rl.tensor([-1.5, 2.0]), rl.tensor([-1.5, 2.0])
    rl.testing.assert_close(functionalize(f)(inside), f(plain))
    rl.testing.assert_close(inside, plain)


def test_under_other_transforms():
    def f(x):
        y = x.clone()
        y[0] = y[1] * 3
        y.mul_(x)
        return y.sum()

    x = rl.tensor([2.0, 5.0, 7.0])
    rl.testing.assert_close(grad(functionalize(f))(x), grad(f)(x))
    rl.testing.assert_close(functionalize(grad(f))(x), grad(f)(x))
    batch = rl.arange(6.0).reshape(2, 3)
    rl.testing.assert_close(vmap(functionalize(f))(batch), vmap(f)(batch))


def test_gradients_reach_outside():
    x = rl.ones(3, requires_grad=True)

    def f(x):
        y = x * 2
        y.add_(x)
        y[1] = 0
        return y

    functionalize(f)(x).sum().backward()
    assert x.grad.tolist() == [3.0, 0.0, 3.0]


def test_results_that_are_arguments():
    x = rl.ones(3)
    assert functionalize(lambda t: t)(x) is x
    assert functionalize(lambda t: t.add_(1))(x) is x and x.tolist() == [2.0, 2.0, 2.0]


def test_refusals():
    outside = rl.zeros(3)
    with pytest.raises(RuntimeError, match="made outside"):
        functionalize(lambda t: outside.add_(t))(rl.ones(3))
    with pytest.raises(RuntimeError, match="cast"):
        functionalize(lambda t: t.add_(1.5))(rl.ones(3, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="remove="):
        functionalize(lambda t: t, remove="views")
