"""Batch normalization folded into the layer before it, for inference.

Enters: a convolution or linear layer in evaluation mode and the BatchNorm after it. Leaves: one layer that does both.
Refuses: layers that are training.
"""

from __future__ import annotations

import copy
from typing import Any

from ..._C import Tensor
from ...op import find_op
from ..parameter import Parameter


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _fused(weight: Any, bias: Any, bn: tuple, eps: float, channel_dim: int) -> tuple[Parameter, Parameter]:
    mean, var, scale, shift = bn
    bias = find_op("zeros_like")(mean) if bias is None else bias
    scale = find_op("ones_like")(mean) if scale is None else scale
    shift = find_op("zeros_like")(mean) if shift is None else shift
    factor = scale * find_op("rsqrt")(var + eps)
    shape = [1] * weight.dim()
    shape[channel_dim] = -1
    result = (weight * factor.reshape(shape)).to(weight.dtype), ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(result[0], weight.requires_grad), Parameter(result[1], bias.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of a convolution that also normalizes."""
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_w, bn_b), bn_eps, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of a linear layer that also normalizes."""
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_w, bn_b), bn_eps, 0)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of the convolution that also normalizes."""
    _check(conv, bn)
    result = copy.deepcopy(conv)
    result.weight, result.bias = fuse_conv_bn_weights(
        result.weight, result.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return result


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of the linear layer that also normalizes."""
    _check(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    result = copy.deepcopy(linear)
    result.weight, result.bias = fuse_linear_bn_weights(
        result.weight, result.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return result
