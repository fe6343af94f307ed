"""Transforms and their compositions against torch.func: the same source run with both libraries."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.share(2)   # of each test that has several cases


BOTH = ((torch, torch.func), (rl, rl.func))


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=s) for s in shapes]


def flat(tree) -> list:
    if isinstance(tree, (list, tuple)):
        return [x for item in tree for x in flat(item)]
    if isinstance(tree, dict):
        return [x for item in tree.values() for x in flat(item)]
    return [tree]


def compare(case, *inputs: np.ndarray) -> None:
    """case(T, F, *tensors) must give the same numbers with PyTorch and with Rushlight."""
    want, got = (flat(case(t, f, *(t.tensor(a.tolist(), dtype=t.float64) for a in inputs))) for t, f in BOTH)
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        assert tuple(w.shape) == tuple(g.shape)
        np.testing.assert_allclose(np.array(g.detach().tolist()), np.array(w.detach().tolist()), rtol=1e-7, atol=1e-9)


# Functions of one vector. `T` is the library.
VECTOR = {
    "sin_cube": lambda T, x: x.sin() * x**3,
    "softmax": lambda T, x: x.softmax(-1),
    "log_softmax": lambda T, x: T.log_softmax(x, -1),
    "outer": lambda T, x: (x[:, None] * x[None, :]).sum(1),
    "norm": lambda T, x: x / x.norm(),
    "cumsum": lambda T, x: x.cumsum(0) * x,
    "slices": lambda T, x: T.cat([x[1:], x[:1] * 2]) + x.flip(0),
    "gather": lambda T, x: x[T.tensor([2, 0, 1, 0])] * x[0],
    "where": lambda T, x: T.where(x > 0, x.exp(), x * x),
    "matmul": lambda T, x: T.stack([x, x * 2]) @ x,
    "logsumexp": lambda T, x: x.logsumexp(0) * x,
    "sort": lambda T, x: x.sort()[0] * T.arange(4.0, dtype=T.float64),
    "max": lambda T, x: x.max() * x + x.min(),
    "pow": lambda T, x: (x.abs() + 0.5) ** x,
    "var": lambda T, x: x.var() * x + x.mean(),
    "prod": lambda T, x: x.prod() * x.sigmoid(),
    "inplace": lambda T, x: x.clone().mul_(x).add_(1).sin_(),
    "inplace_view": lambda T, x: write_view(T, x),
    "einsum": lambda T, x: T.einsum("i,j->ij", x, x).sum(0),
    "layer_norm": lambda T, x: T.nn.functional.layer_norm(x, (4,)) * x,
    "clamp": lambda T, x: x.clamp(-0.5, 0.5) + x.relu(),
    "triangle": lambda T, x: (x[:, None] - x).tril().sum(1),
    "scatter": lambda T, x: T.zeros(6, dtype=T.float64).scatter_add(0, T.tensor([0, 2, 2, 5]), x),
    "index_put": lambda T, x: index_write(T, x),
    "pad": lambda T, x: T.nn.functional.pad(x, (1, 2)) ** 2,
    "unbind": lambda T, x: T.stack([a * b for a, b in zip(x.unbind(), x.flip(0).unbind())]),
}


def write_view(T, x):
    y = x.new_zeros(2, 4)
    y[0] = x * x
    y[1, 1:] = x[1:].exp()
    y.mul_(2)
    return y.sum(0)


def index_write(T, x):
    y = x * 1
    y[T.tensor([0, 3])] = x[1:3] * x[0]
    return y


TRANSFORMS = {
    "jacrev": lambda F, f: F.jacrev(f),
    "jacfwd": lambda F, f: F.jacfwd(f),
    "hessian": lambda F, f: F.hessian(lambda x: f(x).sum()),
    "jacrev(jacrev)": lambda F, f: F.jacrev(F.jacrev(lambda x: f(x).sum())),
    "jacfwd(jacfwd)": lambda F, f: F.jacfwd(F.jacfwd(lambda x: f(x).sum())),
    "jacrev(jacfwd)": lambda F, f: F.jacrev(F.jacfwd(lambda x: f(x).sum())),
    "grad(grad.dot)": lambda F, f: F.grad(lambda x: (F.grad(lambda y: f(y).sum())(x) * x).sum()),
}
# or is wrong in
TORCH_REFUSES = {("index_put", "jacfwd(jacfwd)"), ("layer_norm", "jacfwd(jacfwd)"), ("layer_norm", "jacrev(jacfwd)")}
BATCHED = {
    "vmap": lambda F, f: F.vmap(f),
    "vmap(in 1, out 1)": lambda F, f: F.vmap(f, in_dims=1, out_dims=1),
    "vmap(grad)": lambda F, f: F.vmap(F.grad(lambda x: f(x).sum())),
    "grad(vmap)": lambda F, f: F.grad(lambda x: F.vmap(f)(x).sum()),
    "vmap(jacrev)": lambda F, f: F.vmap(F.jacrev(f)),
    "vmap(jacfwd)": lambda F, f: F.vmap(F.jacfwd(f)),
    "jvp(vmap)": lambda F, f: lambda x: F.jvp(F.vmap(f), (x,), (x * 0.3,)),
    "vmap(jvp)": lambda F, f: F.vmap(lambda x: F.jvp(f, (x,), (x * 0.3,))),
    "vmap(hessian)": lambda F, f: F.vmap(F.hessian(lambda x: f(x).sum())),
    "vmap(chunk)": lambda F, f: F.vmap(f, chunk_size=2),
}


@pytest.mark.parametrize("name", list(VECTOR))
def test_derivatives(name: str) -> None:
    for label, transform in TRANSFORMS.items():
        if (name, label) in TORCH_REFUSES:
            continue
        compare(lambda T, F, x, transform=transform: transform(F, lambda y: VECTOR[name](T, y))(x), *arrays((4,)))


@pytest.mark.parametrize("name", list(VECTOR))
def test_batches(name: str) -> None:
    for label, transform in BATCHED.items():
        shape = (4, 3) if "in 1" in label else (3, 4)
        compare(lambda T, F, x, transform=transform: transform(F, lambda y: VECTOR[name](T, y))(x), *arrays(shape))


@pytest.mark.parametrize("name", ["sin_cube", "matmul", "gather", "inplace_view", "var", "sort", "scatter"])
def test_vmap_in_vmap(name: str) -> None:
    compare(lambda T, F, x: F.vmap(F.vmap(lambda y: VECTOR[name](T, y)))(x), *arrays((2, 3, 4)))
    compare(lambda T, F, x: F.vmap(F.vmap(lambda y: VECTOR[name](T, y), in_dims=1), in_dims=2)(x), *arrays((4, 3, 2)))
    compare(lambda T, F, x: F.vmap(F.vmap(F.grad(lambda y: VECTOR[name](T, y).sum())))(x), *arrays((2, 3, 4)))
    compare(
        lambda T, F, x: F.vmap(F.grad(lambda z: F.vmap(lambda y: VECTOR[name](T, y))(z).sum()))(x), *arrays((2, 3, 4))
    )


def test_outer_values_are_constants_of_inner_transforms() -> None:
    compare(lambda T, F, x: F.grad(lambda y: (y * F.grad(lambda z: (y * z**2).sum())(y)).sum())(x), *arrays((3,)))
    compare(
        lambda T, F, x: F.jvp(
            lambda y: y * F.jvp(lambda z: y * z, (x,), (T.ones_like(x),))[1], (x,), (T.ones_like(x),)
        ),
        *arrays((3,)),
    )
    compare(lambda T, F, x, w: F.vmap(lambda y: F.grad(lambda v: (v * y).sum())(w))(x), *arrays((2, 3), (3,)))


def test_per_sample_gradients() -> None:
    def case(T, F, w, b, x, y):
        def loss(w, b, x, y):
            return ((T.nn.functional.linear(x, w, b).tanh() - y) ** 2).mean()

        return F.vmap(F.grad(loss, argnums=(0, 1)), in_dims=(None, None, 0, 0))(w, b, x, y)

    compare(case, *arrays((2, 3), (2,), (5, 3), (5, 2)))


def test_in_dims_and_out_dims_as_structures() -> None:
    def case(T, F, x, y):
        f = lambda pair, z: {"sum": pair[0] + z["y"], "both": (pair[0] * 2, pair[1])}  # noqa: E731
        return F.vmap(f, in_dims=((0, None), {"y": 1}), out_dims={"sum": 1, "both": (0, 0)})((x, y[:, 0]), {"y": y})

    compare(case, *arrays((2, 3), (3, 2)))


def test_has_aux_and_argnums() -> None:
    def case(T, F, x, y):
        f = lambda x, y: ((x * y**2).sum(), x + y)  # noqa: E731
        g = lambda x, y: (x * y, (x, y))  # noqa: E731
        value = F.grad_and_value(f, argnums=(1, 0), has_aux=True)(x, y)
        out, pull, aux = F.vjp(g, x, y, has_aux=True)
        pushed = F.jvp(g, (x, y), (y, x), has_aux=True)
        return [
            value,
            out,
            pull(x),
            aux,
            pushed,
            F.jacrev(g, argnums=1, has_aux=True)(x, y),
            F.jacfwd(g, argnums=(0,), has_aux=True)(x, y),
        ]

    compare(case, *arrays((3,), (3,)))


def test_linearize() -> None:
    def case(T, F, x):
        out, push = F.linearize(lambda x: (x.sin(), x.cumsum(0) * x), x)
        return [out, push(x), push(x * 2)]

    compare(case, *arrays((4,)))


def test_jacobians_of_several_outputs_in_chunks() -> None:
    def case(T, F, x, y):
        f = lambda x, y: {"a": x @ y, "b": (x.sum(), y.exp())}  # noqa: E731
        return [
            F.jacrev(f, argnums=(0, 1))(x, y),
            F.jacrev(f, argnums=(0, 1), chunk_size=2)(x, y),
            F.jacfwd(f, argnums=(0, 1))(x, y),
        ]

    compare(case, *arrays((2, 3), (3, 2)))


def test_mode_inside_and_outside() -> None:
    def case(T, F, x):
        def f(x):
            with T.no_grad():
                shift = x * 2
            return (x * x - shift * x).sum()

        with T.no_grad():
            outside = F.grad(lambda x: (x**3).sum())(x)
        return [F.grad(f)(x), outside]

    compare(case, *arrays((3,)))


def test_outer_autograd_sees_the_result() -> None:
    def case(T, F, x, w):
        w.requires_grad_()
        out = F.grad(lambda x: (w * x**2).sum())(x)
        assert out.requires_grad and not F.grad(lambda x: (x**2).sum())(x).requires_grad
        out.sum().backward()
        return w.grad

    compare(case, *arrays((3,), (3,)))


def test_autograd_grad_under_vmap() -> None:
    def case(T, F, x):
        x = x.requires_grad_()
        y = x.sin() * x[0]
        return F.vmap(lambda v: T.autograd.grad(y, x, v, retain_graph=True)[0])(T.eye(3, dtype=T.float64))

    compare(case, *arrays((3,)))


def test_batched_indices_and_values() -> None:
    def case(T, F, x):
        index = T.tensor([[0, 2], [1, 1], [2, 0]])
        take = F.vmap(lambda a, i: a[i])(x, index)
        put = F.vmap(lambda a, i: a.index_put((i,), T.ones(2, dtype=T.float64)))(x, index)
        one = F.vmap(lambda i: x[0].index_select(0, i))(index)
        add = F.vmap(lambda a, i: a.clone().index_add_(0, i, a[:2]))(x, index)
        return [take, put, one, add, F.vmap(lambda a, m: a.masked_fill(m, 0.0))(x, x > 0)]

    compare(case, *arrays((3, 4)))


def test_convolutions_per_sample() -> None:
    def case(T, F, x, w, b):
        conv = T.nn.functional.conv2d
        f = lambda w, b, x: (conv(x[None], w, b, stride=2, padding=1) ** 2).sum()  # noqa: E731
        grads = F.vmap(F.grad(f, argnums=(0, 1)), in_dims=(None, None, 0))(w, b, x)
        each = F.vmap(lambda w, x: conv(x[None], w, padding=1))(T.stack([w, w * 2, w * 3]), x)
        return [grads, each]

    compare(case, *arrays((3, 2, 5, 5), (4, 2, 3, 3), (4,)))


def test_autograd_functional_in_one_pass() -> None:
    def case(T, F, x, w):
        api = T.autograd.functional
        f = lambda x, w: (w @ x.sin(), (x * x).sum())  # noqa: E731
        s = lambda x, w: (w @ x.sin()).pow(3).sum()  # noqa: E731
        result = [
            api.jacobian(f, (x, w), vectorize=v, strategy=how)
            for v, how in ((False, "reverse-mode"), (True, "reverse-mode"), (True, "forward-mode"))
        ]
        result += [
            api.hessian(s, (x, w), vectorize=v, outer_jacobian_strategy=how)
            for v, how in ((False, "reverse-mode"), (True, "reverse-mode"), (True, "forward-mode"))
        ]
        result += [
            api.vjp(f, (x, w), (w[:, 0], x[0])),
            api.jvp(f, (x, w), (x, w)),
            api.vhp(s, (x, w), (x, w)),
            api.hvp(s, (x, w), (x, w)),
        ]
        return [*result, api.jacobian(lambda x: x.exp(), x, create_graph=True, vectorize=True)]

    compare(case, *arrays((3,), (2, 3)))
