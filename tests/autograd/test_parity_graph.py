"""Flags, in-place writes and views, modes, hooks and the graph itself, against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from autograd_parity import check, leaf, matrix, vector

CASES: list[Callable] = []


def case(fn: Callable) -> Callable:
    CASES.append(fn)
    return fn


# --- flags and fields -------------------------------------------------------------------------------------------------


@case
def leaf_flags(T):
    x = vector(T)
    y = x * 2
    return x.is_leaf, y.is_leaf, y.requires_grad, x.grad_fn is None, y.output_nr, y.detach().requires_grad


@case
def requires_grad_on_integers(T):
    T.tensor([1, 2]).requires_grad_()


@case
def requires_grad_off_non_leaf(T):
    y = vector(T) * 2
    y.requires_grad = False


@case
def grad_of_wrong_type(T):
    vector(T).grad = 3


@case
def grad_of_wrong_shape(T):
    vector(T).grad = T.ones(2, dtype=T.float64)


@case
def grad_of_wrong_dtype(T):
    vector(T).grad = T.ones(4, dtype=T.float32)


@case
def grad_is_itself(T):
    x = vector(T)
    x.grad = x


@case
def grad_assigned(T):
    x = vector(T)
    x.grad = T.ones(4, dtype=T.float64)
    (x * 2).sum().backward()
    first = x.grad.clone()
    x.grad = None
    return first, x.grad is None


@case
def retained(T):
    x = vector(T)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, y.retains_grad, x.retains_grad


@case
def retain_without_grad(T):
    T.tensor([1.0]).retain_grad()


@case
def detach_in_place(T):
    x = vector(T)
    y = x * 2
    y.detach_()
    return y.requires_grad, y.is_leaf


@case
def detach_view_in_place(T):
    (vector(T) * 2)[:2].detach_()


# --- in-place ---------------------------------------------------------------------------------------------------------


@case
def in_place_on_intermediate(T):
    x = vector(T)
    y = x * 2
    y.add_(x)
    (y * y).sum().backward()
    return x.grad


@case
def in_place_reads_old_self(T):
    x, w = vector(T), leaf(T, [1.0, 2.0, 3.0, 4.0])
    y = x * 2
    y.mul_(w)
    y.sum().backward()
    return x.grad, w.grad


@case
def in_place_saves_result(T):
    x = vector(T)
    y = x * 2
    y.exp_()
    y.sum().backward()
    return x.grad


@case
def in_place_on_leaf(T):
    vector(T).mul_(2)


@case
def in_place_on_view_of_leaf(T):
    vector(T)[:2].mul_(2)


@case
def in_place_under_no_grad(T):
    x = vector(T)
    with T.no_grad():
        x.mul_(2)
    (x * x).sum().backward()
    return x, x.grad


@case
def in_place_breaks_saved(T):
    x = vector(T)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@case
def in_place_breaks_saved_input(T):
    x = vector(T)
    y = x * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


@case
def in_place_harmless(T):
    x = vector(T)
    y = x * 2
    z = y + 1
    y.add_(1)
    (z + y).sum().backward()
    return x.grad


@case
def write_through_view(T):
    x = vector(T)
    y = x * 2
    y[1:3].mul_(3)
    (y * y).sum().backward()
    return x.grad


@case
def write_through_view_with_grad(T):
    x, w = vector(T), leaf(T, [5.0, 7.0])
    y = x * 2
    y[1:3].mul_(w)
    (y * y).sum().backward()
    return x.grad, w.grad


@case
def view_follows_base(T):
    x = vector(T)
    y = x * 2
    v = y[1:3]
    y.mul_(3)
    (v * v).sum().backward()
    return x.grad


@case
def sibling_view_follows(T):
    x = vector(T)
    y = x * 2
    v = y[0:3]
    y[1:4].mul_(3)
    (v * v).sum().backward()
    return x.grad


@case
def overlapping_views(T):
    x = vector(T)
    y = x * 2
    a, b = y[0:2], y[1:3]
    a.add_(b)
    (b * b).sum().backward()
    return x.grad


@case
def gradient_enters_through_view(T):
    base, w = T.zeros(4, dtype=T.float64), leaf(T, [5.0, 7.0])
    base[1:3].copy_(w)
    (base * base).sum().backward()
    return w.grad, base.requires_grad, base.is_leaf


@case
def set_item(T):
    x, w = vector(T), leaf(T, [5.0, 7.0])
    y = x * 2
    y[1:3] = w
    (y * y).sum().backward()
    return x.grad, w.grad


@case
def view_of_view(T):
    x = matrix(T)
    y = x * 2
    y.view(-1)[1:5].view(2, 2).mul_(3)
    (y * y).sum().backward()
    return x.grad


@case
def second_derivative_through_write(T):
    x, w = vector(T), leaf(T, [5.0, 7.0])
    y = x * x
    y[1:3].mul_(w)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    return T.autograd.grad(g.sum(), [x, w])


@case
def many_views_refuse(T):
    a, _ = (vector(T) * 2).split(2)
    a.mul_(2)


@case
def no_grad_view_refuses(T):
    y = vector(T) * 2
    with T.no_grad():
        v = y[1:]
    v.mul_(2)


@case
def version_counts(T):
    x = T.zeros(4)
    v = x[1:]
    x.add_(1)
    v.mul_(2)
    d = x.detach()
    d.add_(1)
    return x._version, v._version, d._version, v._base is x, d._base is None, x._is_view(), v._is_view()


# --- modes ------------------------------------------------------------------------------------------------------------


@case
def inference_tensor_in_place_outside(T):
    with T.inference_mode():
        t = T.ones(3)
    t.mul_(2)


@case
def inference_tensor_saved(T):
    with T.inference_mode():
        t = T.ones(4, dtype=T.float64)
    (t * vector(T)).sum().backward()


@case
def inference_tensor_requires(T):
    with T.inference_mode():
        t = T.ones(3)
    t.requires_grad_()


@case
def inference_flags(T):
    with T.inference_mode():
        t = vector(T) * 2
        inside = t.requires_grad, t.is_inference(), T.is_inference_mode_enabled(), T.is_grad_enabled()
        with T.inference_mode(False):
            back = T.is_inference_mode_enabled(), T.is_grad_enabled()
    return inside, back, T.is_grad_enabled()


# --- hooks ------------------------------------------------------------------------------------------------------------


@case
def hook_replaces(T):
    x = vector(T)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    return x.grad


@case
def hook_order_and_removal(T):
    x, seen = vector(T), []
    first = x.register_hook(lambda g: seen.append("a"))
    x.register_hook(lambda g: seen.append("b"))
    (x * 2).sum().backward()
    first.remove()
    first.remove()
    (x * 2).sum().backward()
    return seen


@case
def hook_returns_nonsense(T):
    x = vector(T)
    x.register_hook(lambda g: 3)
    (x * 2).sum().backward()


@case
def hook_raises(T):
    x = vector(T)

    def fail(g):
        raise KeyError("mine")

    x.register_hook(fail)
    (x * 2).sum().backward()


@case
def hook_without_grad(T):
    T.tensor([1.0]).register_hook(print)


@case
def hook_in_grad(T):
    x = vector(T)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return T.autograd.grad(y.sum(), [y, x])


@case
def hook_before_in_place(T):
    x, seen = vector(T), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3)
    y.sum().backward()
    return seen, x.grad


@case
def retained_across_in_place(T):
    x = vector(T)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return y.grad, x.grad


@case
def retained_across_a_dirty_function(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            a.mul_(2)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = vector(T)
    y = x * 3
    y.retain_grad()
    Double.apply(y)
    (y * y).sum().backward()
    return y.grad, x.grad


@case
def post_accumulate(T):
    x, seen = vector(T), []

    def take(t):
        seen.append(t.grad.tolist())
        t.grad = None

    x.register_post_accumulate_grad_hook(take)
    (x * 2).sum().backward()
    return seen, x.grad is None


@case
def post_accumulate_non_leaf(T):
    (vector(T) * 2).register_post_accumulate_grad_hook(print)


@case
def node_hooks(T):
    x, seen = vector(T), []
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    y.sum().backward()
    return seen, x.grad


@case
def node_hook_replaces(T):
    x = vector(T)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: tuple(g if g is None else g * 100 for g in gi))
    y.sum().backward()
    return x.grad


@case
def node_hook_wrong_count(T):
    x = vector(T)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0], gs[0]))
    y.sum().backward()


@case
def multi_hook_all(T):
    x, y, seen = vector(T), vector(T), []
    a, b = x * 2, y * 3
    T.autograd.graph.register_multi_grad_hook(
        (a, b), lambda gs: seen.append([g is not None and g.tolist() for g in gs])
    )
    (a * b).sum().backward(retain_graph=True)
    a.sum().backward()
    return seen


@case
def multi_hook_any(T):
    x, seen = vector(T), []
    a, b = x * 2, x * 3
    T.autograd.graph.register_multi_grad_hook((a, b), lambda g: seen.append(1), mode="any")
    (a + b).sum().backward()
    return seen


# --- the graph --------------------------------------------------------------------------------------------------------


@case
def names(T):
    x = vector(T)
    nodes = [(x + x).grad_fn, (x * x).grad_fn, x.exp().grad_fn, x.sum().grad_fn]
    return [n.name() for n in nodes], nodes[0].next_functions[0][0].name().split("::")[-1], len(nodes[0].next_functions)


@case
def accumulator_is_shared(T):
    x = vector(T)
    y, z = x * 2, x * 3
    return (
        y.grad_fn.next_functions[0][0] is z.grad_fn.next_functions[0][0],
        y.grad_fn.next_functions[0][0].variable is x,
    )


@case
def edges(T):
    x = vector(T)
    y = x * 2
    edge = T.autograd.graph.get_gradient_edge(y)
    return T.autograd.grad((y * y).sum(), edge), T.autograd.grad(edge, x, T.ones(4, dtype=T.float64))


@case
def edge_without_grad(T):
    T.autograd.graph.get_gradient_edge(T.ones(3))


@case
def call_a_node(T):
    y = vector(T) * 2
    return y.grad_fn(T.ones(4, dtype=T.float64))[0]


@case
def saved_hooks_round_trip(T):
    x, seen = vector(T), []

    def pack(t):
        seen.append(tuple(t.shape))
        return t * 2

    with T.autograd.graph.saved_tensors_hooks(pack, lambda t: t / 2):
        y = (x * x).exp()
    y.sum().backward()
    return x.grad, len(seen)


@case
def saved_hooks_disabled(T):
    with T.autograd.graph.disable_saved_tensors_hooks("no hooks here"), T.autograd.graph.saved_tensors_hooks(id, id):
        pass


@case
def unpack_returns_nonsense(T):
    x = vector(T)
    with T.autograd.graph.saved_tensors_hooks(lambda t: 1, lambda p: 2):
        y = x.exp()
    y.sum().backward()


@case
def save_on_cpu_works(T):
    x = vector(T)
    with T.autograd.graph.save_on_cpu():
        y = (x * x).sum()
    y.backward()
    return x.grad


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_same_as_torch(fn: Callable) -> None:
    check(fn)
