"""Normalizations, softmax and its kind, dropout, losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import _C, ops
from ....nn import functional
from ..layers import BatchNormalization, Dropout, OlderDropout
from ..table import rule

aten = ops.aten
STASHED = {1: _C.float32, 10: _C.float16, 11: _C.float64, 16: _C.bfloat16}


@rule("Softmax", since=13)
def softmax(x: Any, *, axis: int = -1) -> Any:
    return aten.softmax(x, axis)


@rule("LogSoftmax", since=13)
def log_softmax(x: Any, *, axis: int = -1) -> Any:
    return aten.log_softmax(x, axis)


@rule("Hardmax", since=13)
def hardmax(x: Any, *, axis: int = -1) -> Any:
    best = aten.argmax(x, axis, True)
    return aten.scatter(aten.zeros_like(x), axis, best, 1.0)


def _as_matrix(x: Any, axis: int) -> Any:
    sizes = tuple(x.shape)
    axis = axis % x.ndim if x.ndim else 0
    return aten.reshape(x, (math.prod(sizes[:axis]), math.prod(sizes[axis:])))


@rule("Softmax", since=1)
def softmax_1(x: Any, *, axis: int = 1) -> Any:
    """Over all dims from `axis` on."""
    return aten.reshape(aten.softmax(_as_matrix(x, axis), 1), tuple(x.shape))


@rule("LogSoftmax", since=1)
def log_softmax_1(x: Any, *, axis: int = 1) -> Any:
    return aten.reshape(aten.log_softmax(_as_matrix(x, axis), 1), tuple(x.shape))


@rule("Hardmax", since=1)
def hardmax_1(x: Any, *, axis: int = 1) -> Any:
    return aten.reshape(hardmax(_as_matrix(x, axis), axis=1), tuple(x.shape))


@rule("BatchNormalization", since=14, closed=(3, 4), layer=BatchNormalization)
def batch_normalization(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5,
                        momentum: float = 0.9, training_mode: int = 0, count: int) -> tuple:
    return BatchNormalization().eval()(x, scale, shift, mean, variance, epsilon=epsilon, momentum=momentum,
                                       training_mode=training_mode, count=count)


@rule("BatchNormalization", since=1, closed=(3, 4), layer=BatchNormalization)
def batch_normalization_1(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5,
                          momentum: float = 0.9, is_test: int = 0, spatial: int = 1, count: int) -> tuple:
    return batch_normalization(x, scale, shift, mean, variance, epsilon=epsilon, momentum=momentum, count=count)


@rule("InstanceNormalization")
def instance_normalization(x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5) -> Any:
    return functional.instance_norm(x, None, None, scale, shift, True, 0.0, epsilon)


@rule("LayerNormalization", since=17)
def layer_normalization(x: Any, scale: Any, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5,
                        stash_type: int = 1, count: int) -> tuple:
    axis = axis % x.ndim
    sizes = tuple(x.shape)[axis:]
    fits = tuple(scale.shape) == sizes and (shift is None or tuple(shift.shape) == sizes)
    if fits and count == 1 and scale.dtype is x.dtype:
        return (aten.layer_norm(x, sizes, scale, shift, epsilon),)
    wide = x.to(STASHED[stash_type])
    dims = list(range(axis, x.ndim))
    mean = aten.mean(wide, dims, True)
    centered = aten.sub(wide, mean)
    inverse = aten.rsqrt(aten.add(aten.mean(aten.mul(centered, centered), dims, True), epsilon))
    found = aten.mul(aten.mul(centered, inverse).to(x.dtype), scale)
    return found if shift is None else aten.add(found, shift), mean, inverse


@rule("RMSNormalization", since=23)
def rms_normalization(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    wide = x.to(STASHED[stash_type])
    dims = list(range(axis % x.ndim, x.ndim))
    inverse = aten.rsqrt(aten.add(aten.mean(aten.mul(wide, wide), dims, True), epsilon))
    return aten.mul(aten.mul(wide, inverse).to(scale.dtype), scale)


@rule("GroupNormalization", since=21)
def group_normalization(x: Any, scale: Any, shift: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
                        ) -> Any:
    return aten.group_norm(x, num_groups, scale, shift, epsilon)


@rule("GroupNormalization", since=18)
def group_normalization_18(x: Any, scale: Any, shift: Any, *, num_groups: int, epsilon: float = 1e-5) -> Any:
    """A scale for each group."""
    each = x.shape[1] // num_groups
    return aten.group_norm(x, num_groups, aten.repeat_interleave(scale, each), aten.repeat_interleave(shift, each),
                           epsilon)


@rule("LpNormalization")
def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    size = aten.sum(aten.abs(x), [axis], True) if p == 1 else aten.sqrt(aten.sum(aten.mul(x, x), [axis], True))
    return aten.where(aten.eq(size, 0), aten.zeros_like(x), aten.div(x, size))


@rule("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Any, *, axes: Sequence[int] = (0, 2, 3)) -> Any:
    mean = aten.mean(x, list(axes), True)
    spread = aten.sqrt(aten.sub(aten.mean(aten.mul(x, x), list(axes), True), aten.mul(mean, mean)))
    return aten.div(aten.sub(x, mean), aten.add(spread, 1e-9))


@rule("LRN")
def local_response(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    square = aten.mul(x, x)
    before, channels = (size - 1) // 2, x.shape[1]
    margins = [0, 0] * (x.ndim - 2) + [before, size - 1 - before]
    padded = aten.constant_pad_nd(square, margins, 0)
    total = aten.slice(padded, 1, 0, channels)
    for k in range(1, size):
        total = aten.add(total, aten.slice(padded, 1, k, k + channels))
    return aten.div(x, aten.pow(aten.add(aten.mul(total, alpha / size), bias), beta))


@rule("Dropout", since=12, closed=(1, 2), host=(1, 2), layer=Dropout)
def dropout(x: Any, ratio: Any = 0.5, training: Any = None, *, seed: int | None = None, count: int) -> tuple:
    return Dropout().eval()(x, ratio, training, seed=seed)


@rule("Dropout", since=1, layer=OlderDropout)
def dropout_1(x: Any, *, ratio: float = 0.5, is_test: int = 0, count: int) -> tuple:
    return OlderDropout().eval()(x, ratio=ratio)


# --- losses -----------------------------------------------------------------------------------------------------------


@rule("NegativeLogLikelihoodLoss", since=12, closed=(1,))
def negative_log_likelihood(scores: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
                            reduction: str = "mean") -> Any:
    ignored = -100 if ignore_index is None else ignore_index
    target = target.to(_C.int64)
    outside = aten.eq(target, ignored)
    safe = aten.where(outside, aten.zeros_like(target), target)
    loss = aten.neg(aten.squeeze(aten.gather(scores, 1, aten.unsqueeze(safe, 1)), 1))
    share = aten.ones_like(loss) if weight is None else aten.reshape(
        aten.index_select(weight, 0, aten.reshape(safe, (-1,))), tuple(safe.shape))
    share = aten.where(outside, aten.zeros_like(share), share)
    loss = aten.where(outside, aten.zeros_like(loss), aten.mul(loss, share))
    if reduction == "none":
        return loss
    if reduction == "sum":
        return aten.sum(loss)
    if reduction != "mean":
        raise ValueError(f"NegativeLogLikelihoodLoss: reduction should be 'none', 'sum' or 'mean', got {reduction!r}")
    if weight is None and ignore_index is None:
        return aten.mean(loss)
    return aten.div(aten.sum(loss), aten.sum(share))


@rule("SoftmaxCrossEntropyLoss", since=12, closed=(1,))
def softmax_cross_entropy(scores: Any, labels: Any, weights: Any = None, *, ignore_index: int | None = None,
                          reduction: str = "mean", count: int) -> tuple:
    logs = aten.log_softmax(scores, 1)
    return negative_log_likelihood(logs, labels, weights, ignore_index=ignore_index, reduction=reduction), logs
