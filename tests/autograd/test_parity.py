"""Gradients, the arguments of backward and grad, and functional derivatives, against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from autograd_parity import check, leaf, matrix, vector

CASES: list[Callable] = []


def case(fn: Callable) -> Callable:
    CASES.append(fn)
    return fn


# --- gradients --------------------------------------------------------------------------------------------------------


@case
def chain_of_ops(T):
    x = vector(T)
    (x * x + x.exp() - 3 * x).sum().backward()
    return x.grad


@case
def used_twice(T):
    x = vector(T)
    y = x * 2
    (y * y + y).sum().backward()
    return x.grad


@case
def accumulates(T):
    x = vector(T)
    (x * 2).sum().backward()
    held = x.grad
    (x * 3).sum().backward()
    return x.grad, held is x.grad, held


@case
def broadcast_right(T):
    x, y = matrix(T), leaf(T, [1.0, 2.0, 3.0])
    (x * y).sum().backward()
    return x.grad, y.grad


@case
def broadcast_column(T):
    x, y = matrix(T), leaf(T, [[1.0], [2.0]])
    (x * y + y).sum().backward()
    return x.grad, y.grad


@case
def broadcast_scalar(T):
    x, y = matrix(T), leaf(T, 2.5)
    (x / y).sum().backward()
    return x.grad, y.grad


@case
def mixed_dtypes(T):
    x, y = leaf(T, [1.0, 2.0], "float32"), leaf(T, [3.0, 4.0], "float64")
    (x * y).sum().backward()
    return x.grad, y.grad, str(x.grad.dtype)[-7:], str(y.grad.dtype)[-7:]


@case
def complex_product(T):
    x, y = leaf(T, [1 + 2j, 3 - 1j], "complex128"), leaf(T, [2 - 1j, 0.5 + 1j], "complex128")
    (x * y).backward(T.tensor([1 + 1j, 2 - 3j], dtype=T.complex128))
    return x.grad, y.grad


@case
def complex_and_real(T):
    x, y = leaf(T, [1.0, 3.0]), leaf(T, [2 - 1j, 0.5 + 1j], "complex128")
    (x * y).backward(T.tensor([1 + 1j, 2 - 3j], dtype=T.complex128))
    return x.grad, y.grad


@case
def sums_and_means(T):
    x = matrix(T)
    (x.sum(0) * T.tensor([1.0, 2.0, 3.0], dtype=T.float64)).sum().backward()
    (x.mean(1, keepdim=True) * x).sum().backward()
    return x.grad


@case
def matmul_both(T):
    a, b = matrix(T), leaf(T, [[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    (a @ b).exp().sum().backward()
    return a.grad, b.grad


@case
def views(T):
    x = matrix(T)
    y = x.t()[1:].reshape(-1).unsqueeze(0).expand(3, 4)
    (y * y).sum().backward()
    return x.grad


@case
def indexing(T):
    x = matrix(T)
    (x[:, 1] * x[0, :2] + x[1, 2]).sum().backward()
    return x.grad


@case
def no_gradient_needed(T):
    x = vector(T).detach()
    y = x * 2
    return y.requires_grad, y.grad_fn is None, y.is_leaf


# --- backward's arguments ---------------------------------------------------------------------------------------------


@case
def explicit_gradient(T):
    x = vector(T)
    (x * x).backward(T.tensor([1.0, 0.5, 0.0, -1.0], dtype=T.float64))
    return x.grad


@case
def not_a_scalar(T):
    (vector(T) * 2).backward()


@case
def wrong_gradient_shape(T):
    (vector(T) * 2).backward(T.tensor([1.0], dtype=T.float64))


@case
def nothing_recorded(T):
    T.tensor([1.0]).sum().backward()


@case
def second_time(T):
    y = vector(T).exp().sum()
    y.backward()
    y.backward()


@case
def second_time_without_saved(T):
    x = vector(T)
    y = (x + x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@case
def only_some_inputs(T):
    x, y = vector(T), vector(T)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad is None


@case
def no_inputs(T):
    (vector(T) * 2).sum().backward(inputs=[])


@case
def non_leaf_inputs(T):
    x = vector(T)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(inputs=[y])
    return x.grad is None, y.grad


@case
def several_roots(T):
    x = vector(T)
    a, b = x * 2, x.exp()
    T.autograd.backward([a.sum(), b], [None, T.ones_like(b)])
    return x.grad


@case
def root_feeds_root(T):
    x = vector(T)
    a = x * 2
    b = a * a
    T.autograd.backward([a.sum(), b.sum()])
    return x.grad


@case
def same_root_twice(T):
    x = vector(T)
    a = (x * x).sum()
    T.autograd.backward([a, a])
    return x.grad


@case
def backward_on_leaf(T):
    x = leaf(T, 3.0)
    x.backward()
    return x.grad


# --- grad -------------------------------------------------------------------------------------------------------------


@case
def grad_leaves_no_trace(T):
    x = vector(T)
    (g,) = T.autograd.grad((x * x).sum(), x)
    return g, x.grad is None, g.requires_grad


@case
def grad_of_intermediate(T):
    x = vector(T)
    y = x * 2
    return T.autograd.grad((y * y).sum(), [x, y])


@case
def grad_of_output_itself(T):
    x = leaf(T, 2.0)
    y = x * 3
    return T.autograd.grad(y, [y, x])


@case
def unused_input(T):
    return T.autograd.grad(vector(T).sum(), vector(T))


@case
def unused_allowed(T):
    return [g is None for g in T.autograd.grad(vector(T).sum(), vector(T), allow_unused=True)]


@case
def unused_materialized(T):
    return T.autograd.grad(vector(T).sum(), vector(T), materialize_grads=True)


@case
def materialize_and_refuse(T):
    return T.autograd.grad(vector(T).sum(), vector(T), materialize_grads=True, allow_unused=False)


@case
def grad_without_requires(T):
    return T.autograd.grad(vector(T).sum(), T.tensor([1.0]))


@case
def second_derivative(T):
    x = vector(T)
    (g,) = T.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = T.autograd.grad(h.sum(), x)
    return g, h, third


@case
def create_graph_accumulates(T):
    x = vector(T)
    (x * x).sum().backward(create_graph=True)
    g = x.grad
    (g * x).sum().backward()
    return x.grad, g.requires_grad


@case
def hessian_vector(T):
    x = matrix(T)
    y = (x.exp() * x).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    (hv,) = T.autograd.grad(g, x, T.ones_like(g) * 2)
    return hv


@case
def batched_grads(T):
    x = vector(T)
    y = x * x
    return T.autograd.grad(y, x, T.eye(4, dtype=T.float64), is_grads_batched=True)


# --- functional -------------------------------------------------------------------------------------------------------


def two_in(a, b):
    return (a * b).sum(1), a.exp()


@case
def functional_vjp(T):
    a, b = matrix(T).detach(), matrix(T).detach() + 1
    return T.autograd.functional.vjp(two_in, (a, b), (T.ones(2, dtype=T.float64), a))


@case
def functional_jvp(T):
    a, b = matrix(T).detach(), matrix(T).detach() + 1
    return T.autograd.functional.jvp(two_in, (a, b), (b, a))


@case
def functional_jacobian(T):
    a, b = matrix(T).detach(), matrix(T).detach() + 1
    return T.autograd.functional.jacobian(two_in, (a, b)), T.autograd.functional.jacobian(lambda x: x.exp(), a)


@case
def functional_hessian(T):
    x, y = vector(T).detach(), vector(T).detach() + 1
    return T.autograd.functional.hessian(lambda a: (a * a * a).sum(), x), T.autograd.functional.hessian(
        lambda a, b: (a * a * b).sum(), (x, y)
    )


@case
def functional_hvp_vhp(T):
    x = vector(T).detach()
    f = lambda a: (a * a * a).sum()  # noqa: E731
    return T.autograd.functional.hvp(f, x, x), T.autograd.functional.vhp(f, x, x)


@case
def functional_strict(T):
    T.autograd.functional.jacobian(lambda a, b: a * 2, (vector(T), vector(T)), strict=True)


@case
def functional_wrong_vector(T):
    T.autograd.functional.vjp(lambda a: a * 2, vector(T), T.ones(2, dtype=T.float64))


@case
def functional_not_a_tensor(T):
    T.autograd.functional.jacobian(lambda a: 3, vector(T))


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_same_as_torch(fn: Callable) -> None:
    check(fn)
