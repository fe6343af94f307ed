"""Functions of a [2, 3] tensor that write in place: whole tensors, views, indices, masks, and buffers of constants.

Each takes the library, PyTorch or ours, and a tensor. `python -m tests.func.written` prints PyTorch's answers, which
test_written_tangents.py holds: the sum of the weighted tangent, and of the product of a Hessian with the direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


def zeros(T: Any, *shape: int) -> Any:
    return T.zeros(*shape, dtype=T.float64)


def numbers(T: Any) -> Any:
    return T.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=T.float64)


@program
def whole(T, x):
    y = x * 2
    y.mul_(x)
    y.add_(1).sin_()
    return y


@program
def copied_into_constant(T, x):
    y = zeros(T, 2, 3) + 0
    y.copy_(x * x)
    return y * x


@program
def row(T, x):
    y = x * x
    y[0].mul_(3)
    return y.sin()


@program
def view_of_view(T, x):
    y = x * x
    v = y.view(3, 2).t()[0]
    v *= x[0]
    return y * x


@program
def view_sees_write_to_base(T, x):
    y = x * x
    v = y.t()
    y.mul_(x)
    return v * 2


@program
def row_of_constant(T, x):
    y = numbers(T).clone()
    y[1].copy_(x[0] * x[1])
    return y * x


@program
def two_views_of_constant(T, x):
    y = numbers(T).clone()
    a, b = y[0], y.view(6)
    a.copy_(x[0] * x[0])
    b[4] = x[1, 1]
    return y * b.view(2, 3)


@program
def collected(T, x):
    h, rows = x[0], zeros(T, 4, 3)
    for k in range(4):
        h = (h * x[1]).sin()
        rows[k] = h
    return rows


@program
def elements(T, x):
    y = zeros(T, 4)
    y[1] = x[0, 0] * x[1, 1]
    y[3] = x[0, 2]
    return y * y


@program
def numbers_over_tangent(T, x):
    y = zeros(T, 2, 3)
    y[0] = x[0]
    y[0] = 7.0
    z = x * x
    z[0, 1] = 5.0
    return y * x + z * x


@program
def columns_added(T, x):
    y = x * x
    y[:, 1] += x[:, 0] * 2
    return y


@program
def row_over_row(T, x):
    y = x * x
    y[0].copy_(y[1])
    return y * x


@program
def by_index(T, x):
    y = x * x
    y[T.tensor([1, 0])] = x.sin()
    y[T.tensor([0, 1]), T.tensor([2, 0])] = x[0, :2] * x[1, 1:]
    return y


@program
def by_mask(T, x):
    y = x * x
    m = numbers(T) > 0.35
    y[m] = x[0]
    y.masked_fill_(numbers(T) < 0.15, x[1, 1].sin())
    return y * y


@program
def put_and_added(T, x):
    y = x * x
    y.index_put_((T.tensor([0, 0]), T.tensor([1, 1])), x[0, :2] * x[1, :2], accumulate=True)
    y.index_add_(0, T.tensor([1, 1]), x.exp(), alpha=2)
    return y


@program
def scattered(T, x):
    y = x * x
    y.scatter_(1, T.tensor([[0, 2], [1, 0]]), x[:, :2].exp())
    y.scatter_add_(1, T.tensor([[0, 0], [1, 1]]), x[:, :2].sin())
    return y


@program
def filled(T, x):
    y, z = x * x, x * x
    y.fill_(x[0, 0] * x[1, 1])
    z[0].zero_()
    return y * x + z


@program
def triangle(T, x):
    y = x * x
    y.tril_()
    return y * x


@program
def product_added(T, x):
    y = x @ x.t()
    y.addmm_(x, x.t())
    return y


@program
def parts_of_complex(T, x):
    z = T.complex(x * x, x)
    z.real.mul_(x)
    T.view_as_real(z)[..., 1].add_(x)
    return z.real * z.imag


@program
def parts_of_constant_complex(T, x):
    z = T.zeros(2, 3, dtype=T.complex128) * 1
    T.view_as_real(z)[..., 0] = x * x
    z.imag.copy_(x)
    return z.real * z.imag


@program
def shortened(T, x):
    y = x * 5
    y.renorm_(2, 0, 1.0)
    return y


@program
def not_recorded(T, x):
    y = x * x
    with T.no_grad():
        y.mul_(3)
    return y * x


X, V = [[0.3, 0.7, -0.4], [0.9, 0.5, 0.2]], [[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]]


def weighted(T: Any, y: Any) -> Any:
    """One number that every element counts differently in."""
    return (y * (1 + T.arange(y.numel(), dtype=T.float64).reshape(y.shape))).sum()


def answers(T: Any, f: Callable) -> tuple[float, float]:
    """The weighted tangent of f, and the sum of the Hessian of a weighted sine times the direction."""
    x, v = T.tensor(X, dtype=T.float64), T.tensor(V, dtype=T.float64)
    tangent = T.func.jvp(lambda z: f(T, z), (x,), (v,))[1]
    curved = T.func.jvp(T.func.grad(lambda z: weighted(T, f(T, z).sin())), (x,), (v,))[1]
    return float(weighted(T, tangent)), float(weighted(T, curved))


if __name__ == "__main__":
    import torch

    for name, f in PROGRAMS.items():
        print(f'    "{name}": ({", ".join(f"{n:.9g}" for n in answers(torch, f))}),')
