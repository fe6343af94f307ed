"""cross_entropy of a linear layer, whole or in chunks of rows that never hold all logits at once.

Enters: inputs [N, features], a weight [classes, ..., features] and targets. Leaves: the loss. The chunked form keeps
one number per row and computes logits again for the gradient; of a mean or sum that is learned from, gradients are
found while the logits are there. Refuses: shapes that do not fit; options it cannot follow are named in a warning and
the whole form is used, as in PyTorch.
"""

from __future__ import annotations

import warnings
from typing import Any

from ... import _C
from ...autograd import is_grad_enabled
from ...base.tracebacks import users_level
from ...op import Composite, find_op
from ...op.reduction import product
from ...rules import levels
from .elements import Loss, check_reduction, reduced


class LinearCrossEntropyRows(Composite):
    """Loss of every row of the linear layer (rows `scale` is 0 for excepted),
    and the log of its sum of exponentials."""

    schema = (
        "_linear_cross_entropy_rows(Tensor input, Tensor linear_weight, Tensor? linear_bias, Tensor target, Tensor"
        " scale, int chunk) -> (Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, input, linear_weight, linear_bias, target, scale, chunk):
        losses, sums = [], []
        for rows in range(0, max(1, input.shape[0]), chunk):
            part = slice(rows, rows + chunk)
            logits = find_op("linear")(input[part], linear_weight, linear_bias)
            loss, lse = find_op("_cross_entropy_rows")(logits, target[part])
            losses.append((loss * scale[part]).masked_fill(scale[part] == 0, 0.0))
            sums.append(lse)
        return find_op("cat")(losses), find_op("cat")(sums)

    saved_results = (1,)

    def vjp(self, g, input, linear_weight, linear_bias, target, scale, chunk, result):
        if g[0] is None:
            return {}
        lse = None if is_grad_enabled() else result[1]
        found = slopes(input, linear_weight, linear_bias, target, g[0] * scale, chunk, lse)
        return dict(zip(("input", "linear_weight", "linear_bias"), found, strict=True))


def slopes(input: Any, weight: Any, bias: Any, target: Any, grad: Any, chunk: int, lse: Any) -> tuple[Any, Any, Any]:
    """Gradients of the rows' losses, times `grad`, for input, weight and bias: logits are computed again, and their
    `lse` where it is None."""
    d_input, d_weight, d_bias = [], 0, 0
    for rows in range(0, max(1, input.shape[0]), chunk):
        part = slice(rows, rows + chunk)
        logits = find_op("linear")(input[part], weight, bias)
        sums = logits.logsumexp(-1, keepdim=True) if lse is None else lse[part]
        d_logits = find_op("_cross_entropy_rows_backward")(grad[part], logits, target[part], sums)
        d_input.append(d_logits @ weight)
        d_weight = d_logits.t() @ input[part] + d_weight
        d_bias = d_logits.sum(0) + d_bias
    return find_op("cat")(d_input), d_weight, None if bias is None else d_bias


class LinearCrossEntropySum(Composite):
    """The sum of such losses, and its gradients for input, weight and bias: they are found while a chunk's logits are
    there, so that backward computes none again."""

    schema = (
        "_linear_cross_entropy_sum(Tensor input, Tensor linear_weight, Tensor? linear_bias, Tensor target, Tensor"
        " scale, int chunk) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, input, linear_weight, linear_bias, target, scale, chunk):
        total, d_input, d_weight, d_bias = 0, [], 0, 0
        for rows in range(0, max(1, input.shape[0]), chunk):
            part = slice(rows, rows + chunk)
            logits = find_op("linear")(input[part], linear_weight, linear_bias)
            loss, lse = find_op("_cross_entropy_rows")(logits, target[part])
            total = (loss * scale[part]).masked_fill(scale[part] == 0, 0.0).sum() + total
            d_logits = find_op("_cross_entropy_rows_backward")(scale[part], logits, target[part], lse)
            d_input.append(d_logits @ linear_weight)
            d_weight = d_logits.t() @ input[part] + d_weight
            d_bias = d_bias if linear_bias is None else d_logits.sum(0) + d_bias
        none = input.new_empty((0,))
        return total, find_op("cat")(d_input), d_weight, none if linear_bias is None else d_bias

    saved_results = (1, 2, 3)

    def vjp(self, g, input, linear_weight, linear_bias, target, scale, chunk, result):
        if g[0] is None:
            return {}
        if is_grad_enabled():      # of which gradients may be asked for
            found = slopes(input, linear_weight, linear_bias, target, g[0] * scale, chunk, None)
        else:
            found = result[1] * g[0], result[2] * g[0], None if linear_bias is None else result[3] * g[0]
        return dict(zip(("input", "linear_weight", "linear_bias"), found, strict=True))


class LinearCrossEntropy(Loss):
    """cross_entropy(linear(input, linear_weight, linear_bias), target)."""

    schema = (
        "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None, Tensor?"
        " weight=None, str reduction='mean', int? ignore_index=None, float label_smoothing=0.0, any options=None) ->"
        " Tensor"
    )

    def compute(
        self, input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing, options
    ):
        self.check(input, linear_weight, linear_bias)
        classes, inner = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
        shape = (*input.shape[:-1], classes, *inner)
        if tuple(target.shape) == shape and ignore_index is not None:
            raise RuntimeError("linear_cross_entropy: a target of probabilities takes no ignore_index")
        ignore_index = -100 if ignore_index is None else ignore_index
        if options is not None:
            if reduction in ("none", "mean", "sum") and not label_smoothing and target.dtype is _C.int64 and not inner:
                return self.chunked(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, options)
            warnings.warn(
                "linear_cross_entropy: options ignored; chunks need int64 class targets, no label smoothing and a 2-D"
                f" weight. Got target dtype {target.dtype.name}, label_smoothing={label_smoothing},"
                f" reduction={reduction!r}, weight shape {list(linear_weight.shape)}.",
                UserWarning,
                stacklevel=users_level(),
            )
        flat = linear_weight.reshape(product((classes, *inner)), linear_weight.shape[-1])
        logits = find_op("linear")(input, flat, None if linear_bias is None else linear_bias.reshape(-1)).reshape(shape)
        return find_op("cross_entropy")(
            logits,
            target,
            weight=weight,
            reduction=reduction,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )

    def check(self, input: Any, linear_weight: Any, linear_bias: Any) -> None:
        """Shapes that fit each other."""
        name = "linear_cross_entropy"
        if input.ndim not in (1, 2):
            raise RuntimeError(f"{name}: expected input with dimensionality 1 or 2, got {input.ndim}")
        if linear_weight.ndim < 2:
            raise RuntimeError(f"{name}: linear_weight: expected at least 2 dimensions, got {linear_weight.ndim}")
        if input.shape[-1] != linear_weight.shape[-1]:
            raise RuntimeError(
                f"{name}: input and linear_weight must agree in their last dimension, in_features; got"
                f" {input.shape[-1]} and {linear_weight.shape[-1]}"
            )
        wanted = tuple(linear_weight.shape[:-1])
        if linear_bias is not None and tuple(linear_bias.shape) != wanted:
            raise RuntimeError(f"{name}: expected linear_bias shape {wanted}, got {tuple(linear_bias.shape)}")
        if linear_weight.ndim > 2 and input.ndim == 1:
            raise RuntimeError(
                f"{name}: a linear_weight of shape {tuple(linear_weight.shape)} needs an input with a batch dimension,"
                f" (N, {input.shape[-1]}), got shape {tuple(input.shape)}"
            )

    def chunked(
        self,
        input: Any,
        linear_weight: Any,
        target: Any,
        linear_bias: Any,
        weight: Any,
        reduction: str,
        ignore_index: int,
        options: Any,
    ) -> Any:
        """The loss from pieces of the batch."""
        check_reduction("linear_cross_entropy", reduction)
        dtype, classes = input.dtype, linear_weight.shape[0]
        batched = input.ndim == 2
        if not batched:
            input, target = input.unsqueeze(0), target.reshape(1)
        wide = options.compute_dtype(dtype)
        chunk = options.chunk_rows(input.shape[0], input.shape[1], classes, dtype)
        index = target.reshape(-1, 1)
        ignored = index == ignore_index
        index = index.masked_fill(ignored, 0)
        scale = ignored.logical_not().to(wide)
        if weight is not None:
            scale = weight.to(wide).index_select(0, index.reshape(-1)).unsqueeze(1) * scale
        parts = [None if t is None else t.to(wide) for t in (input, linear_weight, linear_bias)]
        learns = is_grad_enabled() and any(t is not None and t.requires_grad for t in parts)
        if reduction != "none" and learns and not levels.state.stack:
            total = find_op("_linear_cross_entropy_sum")(*parts, index, scale, chunk)[0]
        else:
            loss = find_op("_linear_cross_entropy_rows")(*parts, index, scale, chunk)[0].reshape(-1)
            if reduction == "none":
                return (loss if batched else loss.squeeze(0)).to(dtype)
            total = reduced(loss, "sum")
        return (total / scale.sum() if reduction == "mean" else total).to(dtype)
