"""Function transforms inside of compiled programs: captured whole, and equal to eager on every backend."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.fake import FakeTensorMode
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.utils import _pytree as pytree

pytestmark = pytest.mark.share(2)   # of each test that has several cases

X = rl.linspace(-1, 1.5, 4)
ROWS = rl.linspace(-1, 2, 24).reshape(6, 4)
ALONG = rl.tensor([0.5, -1.0, 2.0, 0.25])
LAYER = nn.Linear(4, 4)
MODELS = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
EMPTY = copy.deepcopy(MODELS[0]).to("meta")


def scalar(x: Any) -> Any:
    return (x.sin() * x.cos() * x[0]).sum() + (x**3).sum()


def several(x: Any) -> Any:
    return LAYER(x).tanh() * x.sum()


def noisy(x: Any) -> Any:
    return nn.functional.dropout(x.sin(), 0.5)


def pulled(x: Any) -> Any:
    value, pull = vjp(several, x)
    return value, pull(ALONG), pull(value)


def pulled_with_more(x: Any) -> Any:
    value, pull, more = vjp(lambda a: (several(a), {"twice": a * 2}), x, has_aux=True)
    return pull(value), more


def pulled_in_a_batch(x: Any) -> Any:
    _, pull = vjp(several, x)
    return vmap(pull)(rl.eye(4))


def pulled_noise(x: Any) -> Any:
    value, pull = vjp(noisy, x)
    return value, pull(ALONG)


def pushed(x: Any) -> Any:
    value, push = linearize(several, x)
    return value, push(ALONG), push(ALONG * 2)


def ensemble(rows: Any) -> Any:
    parameters, buffers = stack_module_state(MODELS)
    return vmap(lambda p, b, a: functional_call(EMPTY, (p, b), (a,)), in_dims=(0, 0, None))(parameters, buffers, rows)


def per_sample(rows: Any) -> Any:
    def loss(p: Any, row: Any, target: Any) -> Any:
        return ((functional_call(MODELS[0], p, (row[None],)) - target) ** 2).sum()

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(MODELS[0].named_parameters()), rows, rl.ones(6, 2))


def value_and_more(x: Any) -> Any:
    return grad_and_value(lambda a: (several(a).sum(), (a + 1, {"b": a * 2})), has_aux=True)(x)


CASES: dict[str, tuple[Callable, Any]] = {
    "hessian": (lambda x: hessian(scalar)(x), X),
    "a hessian made outside": (hessian(scalar), X),
    "jacrev of jacrev": (lambda x: jacrev(jacrev(scalar))(x), X),
    "jacfwd of jacrev": (lambda x: jacfwd(jacrev(scalar))(x), X),
    "jacrev of jacfwd": (lambda x: jacrev(jacfwd(several))(x), X),
    "grad of grad": (lambda x: grad(lambda a: grad(scalar)(a).sum())(x), X),
    "hessian in a batch": (lambda rows: vmap(hessian(scalar))(rows), ROWS),
    "hessian times vector": (lambda x: jvp(grad(scalar), (x,), (ALONG,))[1], X),
    "jacobians by several": (lambda x: jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x, ALONG), X),
    "jacrev in chunks": (lambda x: jacrev(several, chunk_size=3)(x), X),
    "jacfwd in chunks": (lambda x: jacfwd(several, chunk_size=3)(x), X),
    "vmap in chunks": (lambda rows: vmap(several, chunk_size=4)(rows), ROWS),
    "vmap in chunks, numbers that differ": (lambda r: vmap(noisy, randomness="different", chunk_size=4)(r), ROWS),
    "numbers that differ": (lambda rows: vmap(noisy, randomness="different")(rows), ROWS),
    "the same numbers": (lambda rows: vmap(noisy, randomness="same")(rows), ROWS),
    "vjp": (pulled, X),
    "vjp with more": (pulled_with_more, X),
    "vjp in a batch": (pulled_in_a_batch, X),
    "vjp of what draws": (pulled_noise, X),
    "jvp": (lambda x: jvp(several, (x,), (ALONG,)), X),
    "jvp in a batch": (lambda x: vmap(lambda t: jvp(several, (x,), (t,))[1])(rl.eye(4)), X),
    "linearize": (pushed, X),
    "an ensemble": (ensemble, ROWS),
    "gradients per sample": (per_sample, ROWS),
    "grad_and_value with more": (value_and_more, X),
}


def seeded(function: Callable, x: Any) -> Any:
    rl.manual_seed(3)
    return function(x), rl.rand(2)      # what is drawn behind it shows where the generator was left


def check(function: Callable, x: Any, **options: Any) -> None:
    expected, result = seeded(function, x), seeded(rl.compile(function, fullgraph=True, **options), x)
    assert pytree.tree_structure(result) == pytree.tree_structure(expected)
    rl.testing.assert_close(pytree.tree_leaves(result), pytree.tree_leaves(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", CASES)
def test_is_captured_whole(name: str, backend: str) -> None:
    check(*CASES[name], backend=backend)


def trained(function: Callable, x: Any) -> list:
    LAYER.zero_grad()
    x = x.clone().requires_grad_()
    sum(t.sum() for t in pytree.tree_leaves(function(x))).backward()
    return [x.grad, LAYER.weight.grad.clone()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", ["jacrev of jacfwd", "jacfwd in chunks", "vjp", "jvp", "linearize"])
def test_has_gradients(name: str, backend: str) -> None:
    function, x = CASES[name]
    result = trained(rl.compile(function, backend=backend, fullgraph=True), x)
    rl.testing.assert_close(result, trained(function, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["hessian", "vjp of what draws", "linearize of any size"])
def test_sizes_may_be_symbols(name: str) -> None:
    def linear(x: Any) -> Any:
        value, push = linearize(lambda a: a.sin() * a.sum(), x)
        return value, push(x)

    function = linear if name == "linearize of any size" else \
        (lambda x: hessian(lambda a: (a**3).sum())(x)) if name == "hessian" else \
        (lambda x: vjp(noisy, x)[1](x))
    compiled = rl.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (5, 3, 7):
        x = rl.linspace(-1, 1, size)
        rl.testing.assert_close(seeded(compiled, x), seeded(function, x))


def test_chunks_that_draw_the_same_numbers_end_the_graph() -> None:
    function = CASES["the same numbers"][0]

    def chunked(rows: Any) -> Any:
        return vmap(noisy, randomness="same", chunk_size=4)(rows)

    assert rl.equal(seeded(rl.compile(chunked), ROWS)[0], seeded(chunked, ROWS)[0])
    with pytest.raises(rl._dynamo.exc.Unsupported, match="chunks of vmap set the random generator back"):
        rl.compile(chunked, fullgraph=True)(ROWS)
    with pytest.raises(NotImplementedError, match="chunk_size"):
        make_fx(chunked)(ROWS)
    assert make_fx(function)(ROWS)(ROWS).shape == ROWS.shape


def test_what_vjp_returned_may_leave_a_compiled_function() -> None:
    value, pull = rl.compile(lambda x: vjp(several, x))(X)
    expected, other = vjp(several, X)
    rl.testing.assert_close((value, pull(ALONG)), (expected, other(ALONG)))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_second_derivatives_are_recorded(mode: str) -> None:
    function = jacrev(jacrev(scalar))
    graph = make_fx(function, tracing_mode=mode)(X)
    rl.testing.assert_close(graph(X), function(X))


def test_devices_of_fake_tensors_are_seen_through_transforms() -> None:
    seen = []

    def loss(x: Any) -> Any:
        seen.append((x.device.type, x.is_cpu))
        return (x * rl.ones(4, device=x.device)).sum()

    with FakeTensorMode() as mode:
        x = mode.from_tensor(X)
        result = vmap(grad(loss))(x[None])
    assert seen == [("cpu", True)] and result.device.type == "cpu"
