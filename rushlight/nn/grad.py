"""Gradients of convolutions as functions: of their input, and of their weight.

Enters: the operands other than the one asked for, its sizes, and the convolution's arguments. Leaves: that operand's
gradient. Refuses: what the convolution itself would.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import _C, ops
from ..base.shape import INTS

Numbers = int | Sequence[int]


def _spread(value: Numbers, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, INTS) else tuple(value)


def _gradient(
    which: int,
    input: _C.Tensor,
    weight: _C.Tensor,
    grad_output: _C.Tensor,
    numbers: tuple[Numbers, ...],
    groups: int,
    dims: int,
) -> _C.Tensor:
    stride, padding, dilation = (_spread(value, dims) for value in numbers)
    mask = [which == 0, which == 1, False]
    return ops.aten.convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, False, (0,) * dims, groups, mask
    )[which]


def _input(
    size: Sequence[int], weight: _C.Tensor, grad_output: _C.Tensor, numbers: tuple[Numbers, ...], groups: int, dims: int
) -> _C.Tensor:
    return _gradient(0, grad_output.new_empty((1,)).expand(tuple(size)), weight, grad_output, numbers, groups, dims)


def _weight(
    input: _C.Tensor, size: Sequence[int], grad_output: _C.Tensor, numbers: tuple[Numbers, ...], groups: int, dims: int
) -> _C.Tensor:
    return _gradient(1, input, grad_output.new_empty((1,)).expand(tuple(size)), grad_output, numbers, groups, dims)


def conv1d_input(
    input_size: Sequence[int],
    weight: _C.Tensor,
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv1d's input, which has sizes `input_size`."""
    return _input(input_size, weight, grad_output, (stride, padding, dilation), groups, 1)


def conv1d_weight(
    input: _C.Tensor,
    weight_size: Sequence[int],
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv1d's weight, which has sizes `weight_size`."""
    return _weight(input, weight_size, grad_output, (stride, padding, dilation), groups, 1)


def conv2d_input(
    input_size: Sequence[int],
    weight: _C.Tensor,
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv2d's input, which has sizes `input_size`."""
    return _input(input_size, weight, grad_output, (stride, padding, dilation), groups, 2)


def conv2d_weight(
    input: _C.Tensor,
    weight_size: Sequence[int],
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv2d's weight, which has sizes `weight_size`."""
    return _weight(input, weight_size, grad_output, (stride, padding, dilation), groups, 2)


def conv3d_input(
    input_size: Sequence[int],
    weight: _C.Tensor,
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv3d's input, which has sizes `input_size`."""
    return _input(input_size, weight, grad_output, (stride, padding, dilation), groups, 3)


def conv3d_weight(
    input: _C.Tensor,
    weight_size: Sequence[int],
    grad_output: _C.Tensor,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Gradient of conv3d's weight, which has sizes `weight_size`."""
    return _weight(input, weight_size, grad_output, (stride, padding, dilation), groups, 3)
