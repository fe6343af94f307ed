"""Parts of our ops as calls of ATen: what graphs that are handed to others are spelled with.

Enters: targets of calls that a trace recorded below autograd. Leaves: `aten_rule(target)`: a function of the call's
arguments that computes the same with ATen's ops, or None for calls that ATen has as they are. PyTorch records such
graphs with its composites taken apart (`linear` as `t` and `addmm`), which `TAKEN_APART` lists.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .. import _C
from ..aten.overloads import AtenOverload, schemas_of
from ..definitions.window.axes import AVERAGE, POOL, Axis, unpack
from ..op import find_op
from ..op.pointwise import PointwiseVjp
from .core import inner_rule, rule_of
from .elements import by_expression
from .rules.networks import matmul


def aten_rule(target: Any) -> Callable | None:
    """The rule for a call, as ATen's ops below autograd."""
    name = str(target).removeprefix("aten.")
    op = name.partition(".")[0]
    if name in TAKEN_APART:
        return TAKEN_APART[name]
    if isinstance(target, AtenOverload) or schemas_of(op) or schemas_of(f"special_{op}"):
        return None
    definition = getattr(target, "definition", None)
    if isinstance(definition, PointwiseVjp):
        return functools.partial(_slope, definition)
    return FORMS.get(op) or inner_rule(target)


# --- gradients of pointwise ops ---------------------------------------------------------------------------------------


def _slope(definition: PointwiseVjp, *args: Any) -> Any:
    """A pointwise gradient: the op ATen has for it, or its expression."""
    rule = SLOPES.get(definition.forward.name) if definition.wanted == (0,) else None
    if rule is not None:
        given = {p.name: a for p, a in zip(definition.spec.params, args, strict=True)}
        result = rule(args[0], given)
        if result is not NotImplemented:
            return result
    return by_expression(definition, args)


def _from_input(name: str, *settings: str) -> Callable:
    """A gradient that ATen computes from the input and some of the call's numbers."""

    def rule(g: Any, given: dict[str, Any]) -> Any:
        if "input" not in given or any(s not in given for s in settings):
            return NotImplemented
        return find_op(name)(g, given["input"], *[given[s] for s in settings])

    return rule


def _from_result(name: str) -> Callable:
    def rule(g: Any, given: dict[str, Any]) -> Any:
        return find_op(name)(g, given["result"]) if "result" in given else NotImplemented

    return rule


def _gelu(g: Any, given: dict[str, Any]) -> Any:
    how = given.get("approximate", "none")
    return find_op("gelu_backward")(g, given["input"], **({} if how == "none" else {"approximate": how}))


def _leaky_relu(g: Any, given: dict[str, Any]) -> Any:
    return find_op("leaky_relu_backward")(g, given["input"], given["negative_slope"], False)


def _elu(g: Any, given: dict[str, Any]) -> Any:
    return find_op("elu_backward")(g, given["alpha"], 1, 1, False, given["input"])


SLOPES: dict[str, Callable] = {
    "relu": lambda g, given: find_op("threshold_backward")(g, given["result"], 0),
    "threshold": _from_input("threshold_backward", "threshold"),
    "sigmoid": _from_result("sigmoid_backward"), "tanh": _from_result("tanh_backward"),
    "gelu": _gelu, "silu": _from_input("silu_backward"), "mish": _from_input("mish_backward"),
    "leaky_relu": _leaky_relu, "elu": _elu, "softplus": _from_input("softplus_backward", "beta", "threshold"),
    "hardswish": _from_input("hardswish_backward"), "hardsigmoid": _from_input("hardsigmoid_backward"),
    "hardtanh": _from_input("hardtanh_backward", "min_val", "max_val"),
    "hardshrink": _from_input("hardshrink_backward", "lambd"),
    "softshrink": _from_input("softshrink_backward", "lambd"),
}


# --- parts of layers --------------------------------------------------------------------------------------------------


def layer_norm(input: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return find_op("native_layer_norm")(input, list(shape), weight, bias, eps)


def layer_norm_backward(grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, bias: Any, shape: Any) -> Any:
    mask = [True, weight is not None, bias is not None]
    return find_op("native_layer_norm_backward")(grad, input, list(shape), mean, rstd, weight, bias, mask)


def _group_sizes(input: Any) -> tuple[Any, Any, Any]:
    return input.shape[0], input.shape[1], math.prod(input.shape[2:])


def group_norm(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    return find_op("native_group_norm")(input, weight, bias, *_group_sizes(input), groups, eps)


def group_norm_backward(grad: Any, input: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float) -> Any:
    mask = [True, weight is not None, weight is not None]
    return find_op("native_group_norm_backward")(
        grad, input, mean, rstd, weight, *_group_sizes(input), groups, mask)


def batch_norm(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    result, mean, invstd = find_op("_native_batch_norm_legit")(input, weight, bias, True, 0.0, eps)
    variance = find_op("var")(input, [0, *range(2, input.ndim)], correction=0)
    return result, mean, invstd, variance if variance.dtype is mean.dtype else variance.to(mean.dtype)


def batch_norm_backward(grad: Any, input: Any, weight: Any, mean: Any, invstd: Any, eps: float) -> Any:
    return find_op("native_batch_norm_backward")(
        grad, input, weight, None, None, mean, invstd, True, eps, [True, True, True])


def convolution_weight(grad: Any, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any,
                       groups: int) -> Any:
    """Of the weight its sizes matter alone."""
    dims = input.ndim - 2
    stride, padding, dilation = (list(n) * dims if len(n) == 1 else list(n) for n in (stride, padding, dilation))
    like = input.new_empty([grad.shape[1], input.shape[1] // groups, *kernel])
    return find_op("convolution_backward")(grad, input, like, None, stride, padding, dilation, False, [0] * dims,
                                           groups, [False, True, False])[1]


def _softmax_backward(name: str) -> Callable:
    return lambda grad, output, dim: find_op(name)(grad, output, dim, output.dtype)


def cross_entropy_rows(input: Any, target: Any) -> Any:
    if input.ndim != 2:
        return NotImplemented
    scores = find_op("_log_softmax")(input, 1, False)
    loss = find_op("nll_loss_forward")(scores, target.squeeze(1), None, 0, -100)[0]
    return loss.unsqueeze(1), find_op("logsumexp")(input, [1], True)


def cross_entropy_rows_backward(grad: Any, input: Any, target: Any, lse: Any) -> Any:
    if input.ndim != 2:
        return NotImplemented
    scores, nothing = input - lse, input.new_zeros([])
    slope = find_op("nll_loss_backward")(grad.squeeze(1), scores, target.squeeze(1), None, 0, -100, nothing)
    return find_op("_log_softmax_backward_data")(slope, scores, 1, scores.dtype)


def _sliding(axes: Any, rule: int) -> tuple[Axis, ...] | None:
    """Axes over which windows of one size slide, all in the same way; None for others."""
    found = unpack(axes)
    alike = {(a.rule, a.flip, a.e, a.d if rule == AVERAGE else 0) for a in found}
    return found if len(found) in (2, 3) and len(alike) == 1 and found[0].rule == rule else None


def _numbers(axes: tuple[Axis, ...], fields: str) -> list[list[int]]:
    return [[getattr(a, field) for a in axes] for field in fields]


def _is_rounded_up(axes: tuple[Axis, ...], dilations: list[int]) -> bool:
    return any((a.size + 2 * a.c - d * (a.a - 1) - 1) // a.b + 1 != a.out
               for a, d in zip(axes, dilations, strict=True))


def window_sum(input: Any, axes: Any) -> Any:
    """Windows of one size: an average pool, or the gradient of one."""
    found = _sliding(axes, AVERAGE)
    if found is None:
        return NotImplemented
    given = [*_numbers(found, "abc"), _is_rounded_up(found, [1] * len(found)), bool(found[0].d),
             1 if found[0].e else None]
    if not found[0].flip:
        return find_op(f"avg_pool{len(found)}d")(input, *given)
    like = input.new_empty([*input.shape[: input.ndim - len(found)], *(a.size for a in found)])
    return find_op(f"avg_pool{len(found)}d_backward")(input, like, *given)


def window_max(input: Any, axes: Any, index: int) -> Any:
    """Positions are int64 here, whatever their kernel counts with: only the gradient reads the others."""
    found = _sliding(axes, POOL)
    if found is None:
        return NotImplemented
    given = _numbers(found, "abcd")
    return find_op(f"max_pool{len(found)}d_with_indices")(input, *given, _is_rounded_up(found, given[3]))


def window_max_backward(g: Any, indices: Any, sizes: Any, checked: bool) -> Any:
    """Every gradient goes to the element that its window chose."""
    lead = list(g.shape[: g.ndim - len(sizes)])
    flat = g.new_zeros([*lead, math.prod(sizes)])
    indices = indices if indices.dtype is _C.int64 else indices.to(_C.int64)
    rows = [t.reshape([*lead, math.prod(t.shape[len(lead):])]) for t in (indices, g)]
    return find_op("scatter_add")(flat, len(lead), *rows).view([*lead, *sizes])


def pad(input: Any, pad: Any, mode: str) -> Any:
    name = {"reflect": "reflection", "replicate": "replication"}.get(mode)
    return NotImplemented if name is None else find_op(f"{name}_pad{len(pad) // 2}d")(input, list(pad))


def pad_backward(g: Any, pad: Any, mode: str, sizes: Any) -> Any:
    name = {"reflect": "reflection", "replicate": "replication"}.get(mode)
    if name is None:
        return NotImplemented
    like = g.new_empty([*g.shape[: g.ndim - len(sizes)], *sizes])
    return find_op(f"{name}_pad{len(pad) // 2}d_backward")(g, like, list(pad))


FORMS: dict[str, Callable] = {
    "_layer_norm_rows": layer_norm, "_layer_norm_backward": layer_norm_backward,
    "_group_norm_rows": group_norm, "_group_norm_rows_backward": group_norm_backward,
    "_channel_norm": batch_norm, "_channel_norm_backward": batch_norm_backward,
    "_convolution_weight": convolution_weight, "_window_sum": window_sum, "_window_max": window_max,
    "_window_max_backward": window_max_backward,
    "_softmax_backward": _softmax_backward("_softmax_backward_data"),
    "_log_softmax_backward": _softmax_backward("_log_softmax_backward_data"),
    "_cross_entropy_rows": cross_entropy_rows, "_cross_entropy_rows_backward": cross_entropy_rows_backward,
    "_pad_by_index": pad, "_pad_by_index_backward": pad_backward,
    "logsigmoid": lambda input: find_op("log_sigmoid_forward")(input)[0],
}


# --- composites of ATen -----------------------------------------------------------------------------------------------


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.ndim != 2 or not input.ndim:
        return NotImplemented
    rows = input if input.ndim == 2 else input.reshape([-1, input.shape[-1]])
    result = find_op("mm")(rows, weight.t()) if bias is None else find_op("addmm")(bias, rows, weight.t())
    return result if input.ndim == 2 else result.view([*input.shape[:-1], weight.shape[0]])


def _as(name: str) -> Callable:
    def rule(input: Any, dim: int, dtype: Any = None) -> Any:
        return find_op(name)(input if dtype is None or dtype is input.dtype else input.to(dtype), dim, False)

    return rule


def convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                output_padding: Any, groups: int) -> Any:
    """The call with a number for every dim, which PyTorch's calls have."""
    dims, given = input.ndim - 2, (stride, padding, dilation, output_padding)
    if all(len(n) == dims for n in given):
        return NotImplemented
    stride, padding, dilation, output_padding = (list(n) * dims if len(n) == 1 else list(n) for n in given)
    return find_op("convolution")(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def reshape(input: Any, shape: Any) -> Any:
    return input.view(list(shape)) if input.is_contiguous() else NotImplemented


def to_dtype(input: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    if input.dtype is dtype and not copy:
        return input
    return find_op("_to_copy")(input, dtype=dtype)


def narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    if isinstance(start, _C.Tensor):
        return NotImplemented
    return find_op("slice")(input, dim, start, start + length)


TAKEN_APART: dict[str, Callable] = {
    "linear.default": linear, "matmul.default": matmul, "to.dtype": to_dtype, "narrow.default": narrow,
    "softmax.int": _as("_softmax"), "log_softmax.int": _as("_log_softmax"),
    "square.default": lambda input: input.pow(2),
    "true_divide.Tensor": lambda input, other: input / other,
    "relu6.default": lambda input: find_op("hardtanh")(input, 0, 6),
    "convolution.default": convolution, "reshape.default": reshape,
    **{name: rule for name in ("var.default", "var.dim", "std.default", "std.dim", "var_mean.default",
                                        "var_mean.dim", "std_mean.default", "std_mean.dim", "isfinite.default",
                                        "isreal.default", "isclose.default", "selu.default", "rms_norm.default",
                                        "_fused_rms_norm.default") if (rule := rule_of(name))},
}
