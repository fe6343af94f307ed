"""Modes that see ops."""

from __future__ import annotations

import rushlight as torch
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._python_dispatch import TorchDispatchMode

from .harness import case, tensors


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Scaling(TorchFunctionMode):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.scale if func.__name__ == "sin" else result


@case("a function mode made inside sees ops")
def _(x):
    mode = Counting()
    with mode:
        y = x.sin() + 1
    return y * 2, mode.count, mode.names


@case("a function mode changes results, and is gone afterwards")
def _(x):
    with Scaling(3):
        y = torch.sin(x)
    return y + torch.sin(x)


@case("function modes inside of each other")
def _(x):
    outer, inner = Counting(), Scaling(2.5)
    with outer, inner:
        y = x.sin()
    with inner, outer:
        z = x.sin()
    return y, z, outer.names


OUTSIDE = Counting()


def _restart():
    OUTSIDE.count = 0
    OUTSIDE.names.clear()
    return tensors()


@case("a function mode from outside", _restart, lambda: (OUTSIDE.count, list(OUTSIDE.names)))
def _(x):
    with OUTSIDE:
        y = x.cos() * x
    return y


@case("a function mode around a module", lambda: (torch.nn.Linear(4, 2), *tensors()))
def _(m, x):
    mode = Counting()
    with mode:
        y = m(x).relu()
    return y, mode.count > 0


@case("an exception inside of a function mode")
def _(x):
    mode = Counting()
    try:
        with mode:
            y = x.sin()
            raise KeyError("out")
    except KeyError:
        y = x.cos()
    return y + 1, mode.count


@case("a break inside of a function mode", breaks=True)
def _(x):
    mode = Counting()
    with mode:
        y = x.sin()
        if y.sum() > 0:
            y = y * 2
    return y, mode.count


class Dispatching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {})) * 2


@case("a dispatch mode inside", breaks=True)
def _(x):
    y = x + 1
    mode = Dispatching()
    with mode:
        y = y.sin()
    return y, mode.count
