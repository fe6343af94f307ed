"""NumPy on tensors."""

from __future__ import annotations

import numpy as np
import rushlight as torch

from .harness import case, tensors


def plain():
    return (tensors()[0].detach(),)


@case("numpy ufuncs and operators on a tensor", plain)
def _(x):
    a = x.numpy()
    return torch.from_numpy(np.sin(a) * 2 + 1 - a**2)


@case("numpy reductions and methods", plain)
def _(x):
    a = x.numpy()
    b = a.mean(axis=0, keepdims=True) + np.max(a, axis=1)[:, None]
    return torch.from_numpy(b), torch.from_numpy(a.sum(1)), torch.from_numpy(a.astype(np.float64).cumsum(0))


@case("numpy scalars of reductions", plain)
def _(x):
    a = x.numpy()
    return torch.from_numpy(a / np.sum(a) + a.std()), a.shape, a.ndim, a.dtype.name


@case("numpy views share memory", plain)
def _(x):
    a = x.numpy()
    b = a.T[1:].reshape(-1)
    c = a[0]
    x.add_(1)
    return torch.from_numpy(b * 2), torch.from_numpy(c + 0)


@case("numpy matmul, stack, concatenate, where", plain)
def _(x):
    a = x.numpy()
    b = np.concatenate([a, a * 2], axis=1)
    c = np.stack([a, np.ones((3, 4), dtype=np.float32)])
    d = np.where(a > 0, a, a * 0)
    return torch.as_tensor(d), torch.from_numpy(a @ a.T), torch.tensor(b), torch.from_numpy(c)


@case("numpy between tensor ops")
def _(x):
    y = x.detach() * 3
    b = torch.from_numpy(np.tanh(y.numpy()) + np.arange(4, dtype=np.float32))
    return x * b


@case("numpy of elements decides a size", plain, breaks=True)
def _(x):
    y = x + 1
    return torch.from_numpy(np.unique(np.sign(y.numpy())))


@case("numpy write to shared memory", plain, breaks=True)
def _(x):
    y = x + 1
    a = y.numpy()
    a[0] = 5
    return y


@case("numpy in-place operator", plain, breaks=True)
def _(x):
    y = x + 1
    a = y.numpy()
    a += 2
    return y


@case("if on a numpy element", plain, breaks=True)
def _(x):
    a = (x + 1).numpy()
    return x * 2 if a.sum() > 0 else x


@case("numpy random numbers", lambda: (torch.ones(3),), breaks=True)
def _(x):
    rng = np.random.default_rng(0)
    return x + torch.from_numpy(rng.standard_normal(3).astype(np.float32))


@case("numpy of a tensor with a gradient is an error")
def _(x):
    return x.numpy() + 1


@case("an array that leaves the frame")
def _(x):
    y = x.detach() + 1
    a = np.exp(y.numpy())
    return a.tolist is not None, isinstance(a, np.ndarray), torch.from_numpy(a), type(a).__name__
