"""The same autograd programs on torch and on rushlight: the same numbers, or the same type of exception.

Each case takes the module as `T`, so one source runs on both. Results are nested lists compared with a tolerance;
a case that raises must raise the same class on both sides.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight

torch = pytest.importorskip("torch")


def leaf(T: Any, values: Any, dtype: str = "float64") -> Any:
    return T.tensor(values, dtype=getattr(T, dtype)).requires_grad_()


def vector(T: Any) -> Any:
    return leaf(T, [0.5, -1.25, 2.0, 3.5])


def matrix(T: Any) -> Any:
    return leaf(T, [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def plain(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        return value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(agree(x, y) for x, y in zip(a, b))
    if isinstance(a, (float, complex)) and not isinstance(a, bool):
        if isinstance(a, float) and math.isnan(a):
            return math.isnan(b)
        return abs(a - b) <= 1e-6 * (1 + abs(a))
    return a == b


def outcome(fn: Callable, T: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(fn(T)), None
        except Exception as error:
            return type(error).__name__, error


def check(fn: Callable) -> None:
    expected, torch_error = outcome(fn, torch)
    got, error = outcome(fn, rushlight)
    if torch_error is not None:
        assert error is not None, f"torch raised {torch_error!r}, rushlight returned {got}"
        assert got == expected, f"torch: {torch_error!r}\nrushlight: {error!r}"
        return
    if error is not None:
        raise error
    assert agree(expected, got), f"torch {expected}\nrushlight {got}"
