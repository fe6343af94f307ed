"""Normalization, softmax, dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..building import Builder
from ..model import Value
from .table import full_size, number, reshaped, rule


@rule("softmax", "_softmax", "_functional_softmax")
def softmax(g: Builder, input: Value, dim: int, dtype: Any = None, half_to_float: bool = False,
            _stacklevel: int = 3) -> Value:
    return _along(g, "Softmax", input, dim)


@rule("log_softmax", "_log_softmax", "_functional_log_softmax")
def log_softmax(g: Builder, input: Value, dim: int, dtype: Any = None, half_to_float: bool = False,
                _stacklevel: int = 3) -> Value:
    return _along(g, "LogSoftmax", input, dim)


def _along(g: Builder, op: str, input: Value, dim: int) -> Value:
    x = g.cast(input, g.result.dtype)
    if not input.ndim:
        return g.node("Squeeze", g.node(op, g.node("Unsqueeze", x, g.ints([0])), axis=0), g.ints([0]))
    return g.node(op, x, axis=dim)


@rule("layer_norm", "native_layer_norm")
def layer_norm(g: Builder, input: Value, normalized_shape: Sequence[Any], weight: Value | None = None,
               bias: Value | None = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Any:
    several = isinstance(g.result, (tuple, list))
    scale = weight if weight is not None else _filled(g, 1.0, normalized_shape, input)
    axis, settings = -len(normalized_shape), {"axis": -len(normalized_shape), "epsilon": float(eps)}
    if not several:
        return g.node("LayerNormalization", input, scale, bias, **settings)
    result = g.node("LayerNormalization", input, scale, bias, **settings)
    axes = g.ints(range(axis, 0))
    wide = g.cast(input, g.result[1].dtype)
    mean = g.node("ReduceMean", wide, axes, keepdims=1)
    apart = g.node("Sub", wide, mean)
    variance = g.node("ReduceMean", g.node("Mul", apart, apart), axes, keepdims=1)
    return result, mean, _inverse_root(g, variance, eps)


def _filled(g: Builder, value: float, shape: Sequence[Any], like: Value) -> Value:
    if all(isinstance(n, int) for n in shape) and math.prod(shape) <= 4096:
        return g.constant(_nested(value, list(shape)), like.dtype)
    return g.node("Expand", number(g, value, like), g.sizes(shape), dtype=like.dtype)


def _nested(value: float, shape: list[int]) -> Any:
    return value if not shape else [_nested(value, shape[1:])] * shape[0]


def _inverse_root(g: Builder, variance: Value, eps: float) -> Value:
    return g.node("Reciprocal", g.node("Sqrt", g.node("Add", variance, number(g, eps, variance))))


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(g: Builder, input: Value, normalized_shape: Sequence[Any], weight: Value | None = None,
             eps: float | None = None) -> Any:
    axes = range(-len(normalized_shape), 0)
    wide = g.cast(input, _C.float32) if input.dtype.itemsize < 4 else input
    limits = {"f32": 2.0**-23, "f64": 2.0**-52}
    square = g.node("ReduceMean", g.node("Mul", wide, wide), g.ints(axes), keepdims=1)
    root = _inverse_root(g, square, limits[wide.dtype.code] if eps is None else eps)
    scaled = g.node("Mul", wide, root)
    if weight is not None:
        scaled = g.node("Mul", scaled, g.cast(weight, wide.dtype))
    result = g.cast(scaled, input.dtype)
    return (result, root) if isinstance(g.result, (tuple, list)) else result


@rule("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit",
      "_native_batch_norm_legit_functional")
def batch_norm(g: Builder, input: Value, running_mean: Value | None = None, running_var: Value | None = None,
               weight: Value | None = None, bias: Value | None = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-5, cudnn_enabled: bool = False) -> Any:
    several = isinstance(g.result, (tuple, list))
    channels = input.shape[1]
    scale = weight if weight is not None else _filled(g, 1.0, [channels], input)
    shift = bias if bias is not None else _filled(g, 0.0, [channels], input)
    if not training and running_mean is not None:
        result = g.node("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=float(eps))
        return (result, *[None] * (len(g.result) - 1)) if several else result
    return _by_batch(g, input, scale, shift, running_mean, running_var, momentum, eps)


def _by_batch(g: Builder, input: Value, scale: Value, shift: Value, mean: Value | None, var: Value | None,
              momentum: float, eps: float) -> Any:
    """Statistics of the batch itself, as in training: result, mean and root; new running ones where they are asked."""
    axes = [0, *range(2, input.ndim)]
    own_mean = g.node("ReduceMean", input, g.ints(axes), keepdims=1)
    apart = g.node("Sub", input, own_mean)
    own_var = g.node("ReduceMean", g.node("Mul", apart, apart), g.ints(axes), keepdims=1)
    root = _inverse_root(g, own_var, eps)
    line = [-1, *[1] * (input.ndim - 2)]
    result = g.node("Mul", g.node("Mul", apart, root), g.node("Reshape", scale, g.ints(line)))
    result = g.node("Add", result, g.node("Reshape", shift, g.ints(line)))
    if not isinstance(g.result, (tuple, list)):
        return result
    flat = [g.node("Squeeze", v, g.ints(axes)) for v in (own_mean, root, own_var)]
    if len(g.result) < 5 or mean is None:
        return (result, *flat[:2])
    count = g.node("Div", g.node("Size", input, dtype=_C.int64), g.node("Size", own_mean, dtype=_C.int64))
    many = g.cast(count, input.dtype)
    unbiased = g.node("Mul", flat[2], g.node("Div", many, g.node("Sub", many, number(g, 1.0, many))))
    new = [_moved(g, mean, flat[0], momentum), _moved(g, var, unbiased, momentum)]
    return (result, *flat[:2], *new)


def _moved(g: Builder, old: Value, new: Value, momentum: float) -> Value:
    kept = g.node("Mul", old, number(g, 1 - momentum, old))
    return g.node("Add", kept, g.node("Mul", new, number(g, momentum, new)))


@rule("instance_norm")
def instance_norm(g: Builder, input: Value, running_mean: Value | None = None, running_var: Value | None = None,
                  weight: Value | None = None, bias: Value | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5, cudnn_enabled: bool = False) -> Value:
    channels = [input.shape[1]]
    scale = weight if weight is not None else _filled(g, 1.0, channels, input)
    shift = bias if bias is not None else _filled(g, 0.0, channels, input)
    if not use_input_stats:
        return g.node("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=float(eps))
    return g.node("InstanceNormalization", input, scale, shift, epsilon=float(eps))


@rule("group_norm", "_functional_group_norm", "native_group_norm")
def group_norm(g: Builder, input: Value, num_groups: int | None = None, weight: Value | None = None,
               bias: Value | None = None, eps: float = 1e-5, cudnn_enabled: bool = True, N: Any = None, C: Any = None,
               HxW: Any = None, group: int | None = None) -> Any:
    """Groups are normalized as channels of images with one dim, and scaled by channel afterwards."""
    several = isinstance(g.result, (tuple, list))
    groups, sizes = group if num_groups is None else num_groups, full_size(g, input)
    rows = reshaped(g, input, [sizes[0], groups, -1]) if isinstance(sizes[0], int) else g.node(
        "Reshape", input, g.ints([0, groups, -1]))
    ones, zeros = _filled(g, 1.0, [groups], input), _filled(g, 0.0, [groups], input)
    result = reshaped(g, g.node("InstanceNormalization", rows, ones, zeros, epsilon=float(eps)), sizes)
    line = g.ints([-1, *[1] * (input.ndim - 2)])
    if weight is not None:
        result = g.node("Mul", result, g.node("Reshape", weight, line))
    if bias is not None:
        result = g.node("Add", result, g.node("Reshape", bias, line))
    if not several:
        return result
    mean = g.node("ReduceMean", rows, g.ints([2]), keepdims=1)
    apart = g.node("Sub", rows, mean)
    variance = g.node("ReduceMean", g.node("Mul", apart, apart), g.ints([2]), keepdims=1)
    return result, *[g.node("Squeeze", v, g.ints([2])) for v in (mean, _inverse_root(g, variance, eps))]


@rule("dropout")
def dropout(g: Builder, input: Value, p: float = 0.5, train: bool = False, training: bool | None = None,
            inplace: bool = False) -> Value:
    if (train if training is None else training) and p:
        return g.node("Dropout", input, g.constant(float(p), _C.float32), g.constant(True, _C.bool))
    return input


@rule("native_dropout")
def native_dropout(g: Builder, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    if not train or not p:
        return input, g.node("Expand", g.constant(True, _C.bool), g.node("Shape", input, dtype=_C.int64), dtype=_C.bool)
    return tuple(g.nodes("Dropout", input, g.constant(float(p), _C.float32), g.constant(True, _C.bool),
                         dtypes=(input.dtype, _C.bool)))
