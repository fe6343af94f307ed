"""Gradients of convolutions as functions: of their input, and of their weight.

Enters: the operands other than the one asked for, its sizes, and the convolution's arguments. Leaves: that operand's
gradient. Refuses: what the convolution itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import _C, ops
from ..base.shape import INTS

Numbers = int | Sequence[int]


def _spread(value: Numbers, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, INTS) else tuple(value)


def _gradient(
    which: int, input: _C.Tensor, weight: _C.Tensor, grad_output: _C.Tensor, *numbers: Numbers, groups: int, dims: int
) -> _C.Tensor:
    """The gradient of a convolution's input (0) or weight (1), of which the sizes count."""
    stride, padding, dilation = (_spread(value, dims) for value in numbers)
    mask = [which == 0, which == 1, False]
    return ops.aten.convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, False, (0,) * dims, groups, mask
    )[which]


def _of_input(dims: int) -> Callable[..., _C.Tensor]:
    def of_input(
        input_size: Sequence[int], weight: _C.Tensor, grad_output: _C.Tensor, stride: Numbers = 1, padding: Numbers = 0,
        dilation: Numbers = 1, groups: int = 1,
    ) -> _C.Tensor:
        input = grad_output.new_empty((1,)).expand(tuple(input_size))
        return _gradient(0, input, weight, grad_output, stride, padding, dilation, groups=groups, dims=dims)

    of_input.__name__ = of_input.__qualname__ = f"conv{dims}d_input"
    of_input.__doc__ = f"Gradient of conv{dims}d's input, which has sizes `input_size`."
    return of_input


def _of_weight(dims: int) -> Callable[..., _C.Tensor]:
    def of_weight(
        input: _C.Tensor, weight_size: Sequence[int], grad_output: _C.Tensor, stride: Numbers = 1, padding: Numbers = 0,
        dilation: Numbers = 1, groups: int = 1,
    ) -> _C.Tensor:
        weight = grad_output.new_empty((1,)).expand(tuple(weight_size))
        return _gradient(1, input, weight, grad_output, stride, padding, dilation, groups=groups, dims=dims)

    of_weight.__name__ = of_weight.__qualname__ = f"conv{dims}d_weight"
    of_weight.__doc__ = f"Gradient of conv{dims}d's weight, which has sizes `weight_size`."
    return of_weight


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))
