"""A function compiled and run eagerly, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor.compile_fx import Compiled, compile_graph
from rushlight.utils._pytree import tree_flatten


def compiled(function: Callable, args: Sequence[Any]) -> Compiled:
    """The function's graph for these arguments, compiled."""
    return compile_graph(make_fx(function, tracing_mode="fake", _own_ops=True)(*args), tree_flatten(tuple(args))[0])


def check(function: Callable, *args: Any, rtol: float = 1e-5, atol: float = 1e-6) -> Compiled:
    """Compare what the compiled function gives with what the function gives: values, types, shapes and strides."""
    made = compiled(function, args)
    flat = tree_flatten(tuple(args))[0]
    rl.manual_seed(3)
    expected = tree_flatten(function(*args))[0]
    rl.manual_seed(3)
    got = made(flat)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        rl.testing.assert_close(a, b.detach(), rtol=rtol, atol=atol, equal_nan=True)
    return made


def kernels(made: Compiled) -> list[str]:
    """What each step of the plan belongs to, without shapes."""
    return [label.rsplit(" [", 1)[0] for label in made.labels]
