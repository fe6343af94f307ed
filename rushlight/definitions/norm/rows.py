"""Row-wise normalisation as fused composites: softmax, log_softmax, layer_norm, rms_norm and their gradients.

Enters: floating tensors and the dim (or trailing sizes) a row is made of. Leaves: normalised rows; rows along the last
dim are one kernel, others a few. Refuses: integer tensors without a dtype to compute in.
"""

from __future__ import annotations

import warnings
from math import prod
from typing import Any

from ... import _C
from ...autograd import enable_grad, grad as grad_of
from ...base.shape import contiguous_format, surely
from ...base.tracebacks import users_level
from ...op import Composite, Fused, Meta, find_op, wrap_dim
from ...op.fused import decayed, in_rows, multiply_add
from ...rules import levels

# Intermediate results of these types would be rounded at every step.
WIDE = {_C.float16: _C.float32, _C.bfloat16: _C.float32, _C.complex32: _C.complex64}


class _AlongDim(Fused):
    """Ops over one dim: one kernel when it is the last, the steps of the body one by one otherwise."""

    def dim_of(self, args: tuple) -> int:
        return args[self.spec.index("dim")]

    def row_dims(self, *args):
        t = args[0]
        last = t.ndim and wrap_dim(self.name, self.dim_of(args), t.ndim) == t.ndim - 1
        return 1 if last and t.ndim <= 64 and self.own_dtype(args) else 0

    def own_dtype(self, args: tuple) -> bool:
        return True

    def check(self, *args):
        wrap_dim(self.name, self.dim_of(args), args[0].ndim)
        dtype = args[0].dtype if self.own_dtype(args) else args[2]
        if not (dtype.is_floating_point or dtype.is_complex):
            raise NotImplementedError(f'"{self.name}_lastdim_kernel_impl" not implemented for {dtype.name} tensors')

    def run(self, *args):
        t, d = args[0], self.dim_of(args)
        if surely(t.numel() == 0):   # nothing along dim to look at
            return t.clone(memory_format=contiguous_format)
        if t.ndim > 64:   # amax takes no more: what is before and after the dim becomes one dim each
            d = wrap_dim(self.name, d, t.ndim)
            behind = prod(t.shape[d + 1 :])
            parts = (prod(t.shape[:d]), t.shape[d], *([behind] if behind != 1 else []))
            flat = [a.reshape(parts) if isinstance(a, _C.Tensor) else a for a in args]
            flat[self.spec.index("dim")] = 1
            return find_op(self.spec.name)(*flat).reshape(t.shape)
        if t.ndim and wrap_dim(self.name, d, t.ndim) != t.ndim - 1:
            widened = [a.to(WIDE[t.dtype]) if isinstance(a, _C.Tensor) and t.dtype in WIDE else a for a in args]
            return self.compute(*widened).to(t.dtype)
        return super().run(*args)


class Softmax(_AlongDim):
    """exp(input) divided by its sum along `dim`."""

    schema = "softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    aliases = ("special.softmax",)
    out = True

    def own_dtype(self, args):
        return args[2] is None or args[2] is args[0].dtype

    def run(self, input, dim, dtype):
        return super().run(input if dtype is None else input.to(dtype), dim, None)

    def compute(self, input, dim, dtype):
        e = decayed(input - input.amax(dim, keepdim=True))
        return in_rows("mul", e, e.sum(dim, keepdim=True).reciprocal())

    def vjp(self, g, input: Meta, result, dim):
        return {"input": find_op("_softmax_backward")(g, result, dim).to(input.dtype)}


class SoftmaxBackward(_AlongDim):
    """Gradient of softmax from its result."""

    schema = "_softmax_backward(Tensor grad, Tensor soft, int dim) -> Tensor"
    function = method = False

    def compute(self, grad, soft, dim):
        weighted = grad * soft
        return in_rows("sub", weighted, soft * weighted.sum(dim, keepdim=True))

    def vjp(self, g, grad, soft, dim):
        own = find_op("_softmax_backward")
        inner = (g * soft).sum(dim, keepdim=True)
        total = (grad * soft).sum(dim, keepdim=True)
        return {"grad": own(g, soft, dim), "soft": g * (grad - total) - grad * inner}


class LogSoftmax(_AlongDim):
    """Logarithm of softmax, computed without overflow."""

    schema = "log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    aliases = ("special.log_softmax",)
    out = True

    own_dtype = Softmax.own_dtype

    def run(self, input, dim, dtype):
        return super().run(input if dtype is None else input.to(dtype), dim, None)

    def compute(self, input, dim, dtype):
        shifted = input - input.amax(dim, keepdim=True)
        return in_rows("sub", shifted, decayed(shifted).sum(dim, keepdim=True).log())

    def vjp(self, g, input: Meta, result, dim):
        return {"input": find_op("_log_softmax_backward")(g, result, dim).to(input.dtype)}


class LogSoftmaxBackward(_AlongDim):
    """Gradient of log_softmax from its result."""

    schema = "_log_softmax_backward(Tensor grad, Tensor logs, int dim) -> Tensor"
    function = method = False

    def compute(self, grad, logs, dim):
        return in_rows("sub", grad, decayed(logs) * grad.sum(dim, keepdim=True))

    def vjp(self, g, grad, logs, dim):
        p = logs.exp()
        return {"grad": g - (g * p).sum(dim, keepdim=True), "logs": -g * p * grad.sum(dim, keepdim=True)}


class Softmin(Composite):
    """softmax of the negated input."""

    schema = (
        "softmin(Tensor input, int dim, dtype? dtype=None) -> Tensor",
        "softmin.functional(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
    )
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, dim, *rest):
        return (-input).softmax(chosen_dim(self.name, input, dim), rest[-1])


def chosen_dim(name: str, input: Any, dim: int | None) -> int:
    """The dim, or where none is given the one PyTorch's first versions took, with a warning."""
    if dim is not None:
        return dim
    warnings.warn(f"{name}: Implicit dimension choice is deprecated. Pass dim.", UserWarning, stacklevel=users_level())
    return 0 if input.ndim in (0, 1, 3) else 1


class FunctionalSoftmax(Softmax):
    """softmax as nn.functional spells it."""

    schema = "_functional_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    namespace = "nn.functional"
    aliases = ("nn.functional.softmax",)
    method = out = False


class ImplicitSoftmax(Composite):
    """The same without a dim, or with the argument that says where its warning points."""

    schema = "_functional_softmax.implicit(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, dim, _stacklevel, dtype):
        name = self.spec.name.removeprefix("_functional_")
        return find_op(name)(input, chosen_dim(name, input, dim), dtype)


class FunctionalLogSoftmax(LogSoftmax):
    """log_softmax as nn.functional spells it."""

    schema = "_functional_log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    namespace = "nn.functional"
    aliases = ("nn.functional.log_softmax",)
    method = out = False


class ImplicitLogSoftmax(ImplicitSoftmax):
    """The same without a dim, or with the argument that says where its warning points."""

    schema = (
        "_functional_log_softmax.implicit(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor"
    )


class PlainSoftmax(Composite):
    """softmax; `half_to_float` computes and answers in float32."""

    schema = "_softmax(Tensor input, int dim, bool half_to_float) -> Tensor"
    method = False

    def compute(self, input, dim, half_to_float):
        if half_to_float and input.dtype is not _C.float16:
            raise RuntimeError(f"{self.name}: conversion is supported for Half type only, got {input.dtype.name}")
        return find_op(self.spec.name[1:])(input, dim, _C.float32 if half_to_float else None)


class PlainLogSoftmax(PlainSoftmax):
    """log_softmax; `half_to_float` computes and answers in float32."""

    schema = "_log_softmax(Tensor input, int dim, bool half_to_float) -> Tensor"


class SoftmaxBackwardData(Composite):
    """Gradient of softmax from its output."""

    schema = "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor"
    method = False

    def compute(self, grad_output, output, dim, input_dtype):
        return find_op("_softmax_backward")(grad_output, output, dim).to(input_dtype)


class LogSoftmaxBackwardData(Composite):
    """Gradient of log_softmax from its output."""

    schema = "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor"
    method = False

    def compute(self, grad_output, output, dim, input_dtype):
        return find_op("_log_softmax_backward")(grad_output, output, dim).to(input_dtype)


class GumbelSoftmax(Composite):
    """A sample of the classes that softmax makes likely: soft, or one-hot with the soft one's gradient."""

    schema = "gumbel_softmax(Tensor logits, float tau=1.0, bool hard=False, float eps=1e-10, int dim=-1) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, logits, tau, hard, eps, dim):
        if eps != 1e-10:
            warnings.warn("gumbel_softmax: eps is deprecated and ignored.", UserWarning, stacklevel=users_level())
        noise = -find_op("empty_like")(logits.detach()).exponential_().log()
        soft = ((logits + noise) / tau).softmax(dim)
        if not hard:
            return soft
        chosen = soft.detach().argmax(dim, keepdim=True)
        return soft.detach().new_zeros(soft.shape).scatter_(dim, chosen, 1.0) - soft.detach() + soft


# --- layer and root-mean-square norm ----------------------------------------------------------------------------------


def check_normalized(name: str, input: Any, normalized_shape: Any, **parameters: Any) -> None:
    """The trailing sizes must be the normalized shape, and so must the parameters'."""
    shape = tuple(normalized_shape)
    if not (input.is_floating_point() or input.is_complex()):
        raise NotImplementedError(
            f"{name}: not implemented for {input.dtype.name} tensors. Cast to a floating type first."
        )
    if not shape:
        raise RuntimeError(f"{name}: expected at least one size in normalized_shape, got []")
    for label, p in parameters.items():
        if p is not None and tuple(p.shape) != shape:
            raise RuntimeError(
                f"{name}: expected {label} of shape normalized_shape = {list(shape)}, got {list(p.shape)}"
            )
    if tuple(input.shape[input.ndim - len(shape) :]) != shape or input.ndim < len(shape):
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape [*,"
            f" {', '.join(map(str, shape))}], but got input of size {list(input.shape)}"
        )


def trailing(shape: Any) -> tuple[int, ...]:
    """The dims, counted from the back, that a normalized shape covers."""
    return tuple(range(-len(shape), 0))


class LayerNormRows(Fused):
    """layer_norm together with the mean and reciprocal deviation of every row."""

    schema = (
        "_layer_norm_rows(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,"
        " Tensor, Tensor)"
    )
    function = method = False
    column_operands = ("weight", "bias")

    def check(self, input, normalized_shape, weight, bias, eps):
        check_normalized("layer_norm", input, normalized_shape, weight=weight, bias=bias)

    def row_dims(self, input, normalized_shape, weight, bias, eps):
        return len(normalized_shape)

    def out_dtype(self, k, args):
        return args[0].dtype if k == 0 else WIDE.get(args[0].dtype, args[0].dtype)

    def compute(self, input, normalized_shape, weight, bias, eps):
        dims = trailing(normalized_shape)
        mean = input.mean(dims, keepdim=True)
        centred = input - mean
        rstd = ((centred * centred).mean(dims, keepdim=True) + eps).rsqrt()
        result = centred * rstd
        if weight is not None and bias is not None:
            result = multiply_add(result, weight, bias)
        elif weight is not None:
            result = result * weight
        elif bias is not None:
            result = result + bias
        return result, mean, rstd

    saved_results = (1, 2)

    def vjp(self, g, input, normalized_shape, weight, bias, result):
        g_out, g_mean, g_rstd = g
        if g_mean is not None or g_rstd is not None:
            raise RuntimeError("layer_norm: the mean and reciprocal deviation it returns are not differentiable")
        if g_out is None:
            return {}
        answer = find_op("_layer_norm_backward")(g_out, input, result[1], result[2], weight, bias, normalized_shape)
        return {
            "input": answer[0],
            "weight": answer[1] if weight is not None else None,
            "bias": answer[2] if bias is not None else None,
        }


class LayerNormBackward(Fused):
    """Gradients of layer_norm for input, weight and bias, in one pass over the rows."""

    schema = (
        "_layer_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, int[]"
        " normalized_shape) -> (Tensor, Tensor, Tensor)"
    )
    function = method = False
    row_operands = ("mean", "rstd")
    column_operands = ("weight", "bias")

    def row_dims(self, *args):
        return len(args[-1])

    def compute(self, grad, input, mean, rstd, weight, bias, normalized_shape):
        dims = trailing(normalized_shape)
        normal = (input - mean) * rstd
        scaled = grad if weight is None else grad * weight
        average = scaled.mean(dims, keepdim=True)
        slope = (scaled * normal).mean(dims, keepdim=True)
        d_input = rstd * (scaled - average - normal * slope)
        return d_input, (grad * normal).sum_to_size(normalized_shape), grad.sum_to_size(normalized_shape)

    def vjp(self, g, grad, input, mean, rstd, weight, bias, normalized_shape):
        return through_body(
            lambda gr, x, w: layer_norm_gradients(gr, x, w, normalized_shape, mean, rstd),
            g,
            {"grad": grad, "input": input, "weight": weight},
        )


def layer_norm_gradients(grad: Any, input: Any, weight: Any, normalized_shape: Any, mean: Any, rstd: Any) -> tuple:
    """The gradients as differentiable expressions of grad, input and weight; eps is recovered from the saved rstd."""
    dims = trailing(normalized_shape)
    centred = input - input.mean(dims, keepdim=True)
    variance = (centred * centred).mean(dims, keepdim=True)
    eps = (rstd.pow(-2) - variance).detach()
    rstd = (variance + eps).rsqrt()
    normal = centred * rstd
    scaled = grad if weight is None else grad * weight
    d_input = rstd * (scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True))
    return d_input, (grad * normal).sum_to_size(normalized_shape), grad.sum_to_size(normalized_shape)


def through_body(body: Any, g: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Gradients of a body written with differentiable ops, at tensors that are part of the graph already."""
    wanted = {n: t for n, t in inputs.items() if t is not None and t.requires_grad}
    if not wanted:
        return {}
    with enable_grad():   # by aliases: one of the inputs may depend on another
        fresh = {n: levels.alias(t) if n in wanted else t for n, t in inputs.items()}
        results = body(*fresh.values())
    pairs = [
        (r, d)
        for r, d in zip(results, g if isinstance(g, tuple) else (g,), strict=True)
        if d is not None and r.requires_grad
    ]
    result = grad_of(
        [r for r, _ in pairs], [fresh[n] for n in wanted], [d for _, d in pairs], create_graph=True, allow_unused=True
    )
    return dict(zip(wanted, result, strict=True))


class LayerNorm(Composite):
    """Rows shifted and scaled to mean 0 and variance 1, then by weight and bias."""

    schema = (
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool"
        " cudnn_enable=True) -> Tensor"
    )
    replays = True
    method = False
    out = False

    def compute(self, input, normalized_shape, weight, bias, eps, cudnn_enable):
        return find_op("_layer_norm_rows")(input, normalized_shape, weight, bias, eps)[0]


class NativeLayerNorm(Composite):
    """layer_norm with the mean and reciprocal deviation of every row, which carry no gradient."""

    schema = (
        "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,"
        " Tensor, Tensor)"
    )
    method = False

    def compute(self, input, normalized_shape, weight, bias, eps):
        result, *statistics = find_op("_layer_norm_rows")(input, normalized_shape, weight, bias, eps)
        if input.device.type in ("cpu", "meta"):      # where PyTorch keeps them in the type of the parameters
            statistics = [t.to(input.dtype if weight is None else weight.dtype) for t in statistics]
        return result, *[t.detach() for t in statistics]


class RmsNormRows(Fused):
    """rms_norm together with the reciprocal root mean square of every row."""

    schema = "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor, Tensor)"
    function = method = False
    column_operands = ("weight",)

    def check(self, input, normalized_shape, weight, eps):
        check_normalized("rms_norm", input, normalized_shape, weight=weight)

    def row_dims(self, input, normalized_shape, weight, eps):
        return len(normalized_shape)

    out_dtype = LayerNormRows.out_dtype

    def compute(self, input, normalized_shape, weight, eps):
        scale = ((input * input).mean(trailing(normalized_shape), keepdim=True) + eps).rsqrt()
        result = input * scale
        return (result if weight is None else result * weight), scale

    saved_results = (1,)

    def vjp(self, g, input, normalized_shape, weight, result):
        if g[0] is None:
            return {}
        answer = find_op("_rms_norm_backward")(g[0], input, result[1], weight, normalized_shape)
        return {"input": answer[0], "weight": answer[1] if weight is not None else None}


class RmsNormBackward(Fused):
    """Gradients of rms_norm for input and weight."""

    schema = (
        "_rms_norm_backward(Tensor grad, Tensor input, Tensor scale, Tensor? weight, int[] normalized_shape) ->"
        " (Tensor, Tensor)"
    )
    function = method = False
    row_operands = ("scale",)
    column_operands = ("weight",)

    def row_dims(self, *args):
        return len(args[-1])

    def compute(self, grad, input, scale, weight, normalized_shape):
        normal = input * scale
        scaled = grad if weight is None else grad * weight
        slope = (scaled * normal).mean(trailing(normalized_shape), keepdim=True)
        return scale * (scaled - normal * slope), (grad * normal).sum_to_size(normalized_shape)

    def vjp(self, g, grad, input, scale, weight, normalized_shape):
        return through_body(
            lambda gr, x, w: rms_norm_gradients(gr, x, w, normalized_shape, scale),
            g,
            {"grad": grad, "input": input, "weight": weight},
        )


def rms_norm_gradients(grad: Any, input: Any, weight: Any, normalized_shape: Any, scale: Any) -> tuple:
    """As layer_norm_gradients, for rms_norm."""
    dims = trailing(normalized_shape)
    square = (input * input).mean(dims, keepdim=True)
    eps = (scale.pow(-2) - square).detach()
    scale = (square + eps).rsqrt()
    normal = input * scale
    scaled = grad if weight is None else grad * weight
    return scale * (scaled - normal * (scaled * normal).mean(dims, keepdim=True)), (grad * normal).sum_to_size(
        normalized_shape
    )


class RmsNorm(Composite):
    """Rows scaled to root mean square 1, then by weight."""

    schema = "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"
    method = False
    out = False

    def compute(self, input, normalized_shape, weight, eps):
        if eps is None:
            eps = 2.0**-52 if input.dtype in (_C.float64, _C.complex128) else 2.0**-23      # of the type computed in
        return find_op("_fused_rms_norm")(input, normalized_shape, weight, eps)[0]
