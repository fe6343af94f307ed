"""How many floating-point operations a call is counted as: PyTorch's rules, for the ops PyTorch counts.

Enters: the name of an op and what a recording holds of its inputs. Leaves: a number, 0 for all that is not counted.
Counted are products of matrices (2 per multiplication and addition), 2-D convolutions with explicit padding, and the
elements of the first operand of `add` and `mul`. Where PyTorch's op runs another inside that it counts (`linear` its
`addmm`, `matmul` its `mm` or `bmm`), the op itself is counted here: what lies inside it has other names.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from .recording import concrete_value

Inputs = tuple[list, list, list, list]


def _sizes(inputs: Inputs, first: int) -> tuple[list[int], list[int]]:
    """The sizes of two arguments next to each other."""
    dims = [*inputs[0], [], [], []]
    return dims[first], dims[first + 1]


def _matrix(a: list[int], b: list[int], rank: int) -> int:
    """Of (..., M, K) by (..., K, N)."""
    if len(a) != rank or len(b) != rank or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return 0
    return 2 * prod(a) * b[-1]


def _mm(inputs: Inputs) -> int:
    return _matrix(*_sizes(inputs, 0), rank=2)


def _addmm(inputs: Inputs) -> int:
    return _matrix(*_sizes(inputs, 1), rank=2)


def _bmm(inputs: Inputs) -> int:
    return _matrix(*_sizes(inputs, 0), rank=3)


def _baddbmm(inputs: Inputs) -> int:
    return _matrix(*_sizes(inputs, 1), rank=3)


def _elements(inputs: Inputs) -> int:
    sizes, types = inputs[0], inputs[1]
    return prod(sizes[0]) if sizes and types and types[0] not in ("", "Scalar", "ScalarList") else 0


def _linear(inputs: Inputs) -> int:
    x, weight = _sizes(inputs, 0)
    return 2 * prod(x) * weight[0] if len(x) >= 2 and len(weight) == 2 else 0


def _matmul(inputs: Inputs) -> int:
    """As `mm`, `bmm`, or the one `mm` of a stack by a matrix; products with vectors are not counted."""
    a, b = _sizes(inputs, 0)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return 0
    batch = 1
    for i in range(1, max(len(a), len(b)) - 1):
        batch *= max(a[-2 - i] if i + 2 <= len(a) else 1, b[-2 - i] if i + 2 <= len(b) else 1)
    return 2 * batch * a[-2] * a[-1] * b[-1]


def _pair(value: Any) -> list[int] | None:
    """A list of two numbers; one number stands for both."""
    if isinstance(value, int):
        return [value, value]
    if isinstance(value, (list, tuple)) and len(value) in (1, 2) and all(isinstance(one, int) for one in value):
        return [*value] * (3 - len(value)) if len(value) == 1 else [*value]
    return None


def _conv2d(inputs: Inputs) -> int:
    x, weight = _sizes(inputs, 0)
    values = [concrete_value(text) for text in inputs[3]]
    if len(x) != 4 or len(weight) != 4 or len(values) < 7:
        return 0
    stride, padding, dilation, groups = _pair(values[3]), _pair(values[4]), _pair(values[5]), values[6]
    if stride is None or padding is None or dilation is None or not groups or 0 in stride:
        return 0
    height, width = (
        (x[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) // stride[i] + 1 for i in range(2)
    )
    return 2 * x[0] * (x[1] * weight[2] * weight[3] // groups) * weight[0] * height * width


FORMULAS: dict[str, Callable[[Inputs], int]] = {
    "mm": _mm, "addmm": _addmm, "bmm": _bmm, "baddbmm": _baddbmm, "conv2d": _conv2d, "add": _elements,
    "mul": _elements, "linear": _linear, "matmul": _matmul,
}


def flops_of(name: str, inputs: Inputs) -> int:
    """The operations that the call of an op counts as; within another (`rushlight::mm`), only products are counted."""
    namespace, _, op = name.partition("::")
    formula = FORMULAS.get(op) if namespace in ("aten", "rushlight") else None
    if namespace == "rushlight" and formula is _elements:
        return 0
    return 0 if formula is None or not inputs[0] else formula(inputs)
