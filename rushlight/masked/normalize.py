"""Masked normalizations: results of the input's shape in which masked elements take no part."""

from __future__ import annotations

import math
from typing import Any

from ..op import find_op
from .fill import as_float, filled, full_mask, takes_masked
from .reduce import norm


@takes_masked
def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax of the unmasked elements along `dim`; 0 at the others."""
    x = as_float(input, dtype)
    return filled(x, full_mask("masked.softmax", x, mask), -math.inf).softmax(dim)


@takes_masked
def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`."""
    x = as_float(input, dtype)
    return filled(x, full_mask("masked.log_softmax", x, mask), -math.inf).log_softmax(dim)


@takes_masked
def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax of the negated elements."""
    x = as_float(input, dtype)
    return (-filled(x, full_mask("masked.softmin", x, mask), math.inf)).softmax(dim)


@takes_masked
def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements over the norm of their row, which counts as at least `eps`; 0 where masked."""
    x = as_float(input, dtype)
    seen = full_mask("masked.normalize", x, mask)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return filled(x, seen, 0) / find_op("maximum")(size, size.new_full((), eps))


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)) in which masked elements count as -inf."""
    a, b = as_float(input, dtype), as_float(other, dtype)
    a = filled(a, full_mask("masked.logaddexp", a, input_mask), -math.inf)
    return find_op("logaddexp")(a, filled(b, full_mask("masked.logaddexp", b, other_mask), -math.inf))
