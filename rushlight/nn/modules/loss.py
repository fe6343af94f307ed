"""Losses as layers: each calls the function of its name with the settings it was made with.

Enters: predictions and targets. Leaves: their mean, sum, or one loss per element. Refuses what the functions refuse.
AdaptiveLogSoftmaxWithLoss has a file of its own.

Shape:
    input and target of one shape; output a number, or that shape with reduction='none'

Example:
    >>> layer = rl.nn.{name}()
    >>> tuple(layer(rl.full((2, 3), 0.25), rl.ones(2, 3)).shape)
    ()
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from .. import functional as F
from ..linear_cross_entropy_options import LinearCrossEntropyOptions
from .descriptions import describe_layers
from .distance import PairwiseDistance
from .linear import Linear
from .module import Module
from .settings import settings


def _old_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two flags of old programs ask for."""
    if size_average is None and reduce is None:
        return reduction
    result = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{result}' instead.", stacklevel=4
    )
    return result


class _Loss(Module):
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _old_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Tensor | None


class L1Loss(_Loss):
    """|x - y|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(x - y)²."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the given log-probability of the target class.

    Shape:
        input (N, C, ...), target (N, ...) of classes; output a number, or (N, ...) with reduction='none'

    Example:
        >>> layer = rl.nn.NLLLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.tensor([0, 2])).shape)
        ()
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss over images.

    Shape:
        input (N, C, H, W), target (N, H, W) of classes; output a number, or (N, H, W) with reduction='none'

    Example:
        >>> layer = rl.nn.NLLLoss2d()
        >>> tuple(layer(rl.zeros(1, 3, 2, 2), rl.zeros(1, 2, 2, dtype=rl.int64)).shape)
        ()
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "NLLLoss2d has been deprecated. Please use NLLLoss instead: it takes images too.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts under a Poisson rate.

    Arguments:
        log_input: whether the input holds logarithms
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood under a normal with predicted mean and variance.

    Shape:
        input, target and variance (N, ...); output a number, or (N, ...) with reduction='none'

    Example:
        >>> layer = rl.nn.GaussianNLLLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.ones(2, 3), rl.ones(2, 3)).shape)
        ()
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of targets from given log-probabilities.

    Arguments:
        log_target: whether the target holds logarithms too
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities of two classes.

    Arguments:
        weight: weight of each element
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of two classes, from logits.

    Arguments:
        weight: weight of each element
        pos_weight: weight of the positive examples of each class
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.weight: Tensor | None
        self.pos_weight: Tensor | None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """Losses with a margin; 0 unless the class says otherwise."""

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss):
    """x for similar pairs (1), max(0, margin - x) for others (-1).

    Shape:
        input and target of one shape; output a number, or that shape with reduction='none'; targets are 1 or -1
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos for similar pairs (1), max(0, cos - margin) for others (-1).

    Shape:
        two inputs (N, D), target (N,) of 1 and -1; output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.CosineEmbeddingLoss()
        >>> tuple(layer(rl.ones(2, 3), rl.ones(2, 3), rl.ones(2)).shape)
        ()
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """max(0, -y (x1 - x2) + margin).

    Shape:
        two inputs and a target of 1 and -1, all (N,); output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.MarginRankingLoss()
        >>> tuple(layer(rl.ones(2), rl.zeros(2), rl.ones(2)).shape)
        ()
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge between every target class and every other.

    Shape:
        input and target (N, C) or (C,), targets integers, ended by -1; output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.MultiLabelMarginLoss()
        >>> tuple(layer(rl.ones(1, 3), rl.tensor([[1, -1, -1]])).shape)
        ()
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below beta, absolute above.

    Arguments:
        beta: error from which on the loss is linear
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below delta, absolute times delta above.

    Arguments:
        delta: error from which on the loss is linear
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)).

    Shape:
        input and target of one shape; output a number, or that shape with reduction='none'; targets are 1 or -1
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log-softmax of the target class, or of target probabilities.

    Shape:
        input (N, C, ...), target (N, ...) of classes; output a number, or (N, ...) with reduction='none'

    Example:
        >>> layer = rl.nn.CrossEntropyLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.tensor([0, 2])).shape)
        ()
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of its output, computed in chunks without all logits in memory.

    Arguments:
        num_classes: number of classes
        options: how the work is divided

    Shape:
        input (N, in_features), target (N,) of classes; output a number

    Example:
        >>> layer = rl.nn.LinearCrossEntropyLoss(4, 3)
        >>> tuple(layer(rl.ones(2, 4), rl.tensor([0, 2])).shape)
        ()
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"label_smoothing: expected a number in [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(
            in_features, math.prod(out_features, start=num_classes), bias=bias, device=device, dtype=dtype
        )
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape((*shape, self.linear.in_features)), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )

    def extra_repr(self) -> str:
        linear = (
            f"in_features={self.linear.in_features}, "
            + settings(self, "num_classes", "out_features")
            + f", bias={self.linear.bias is not None}, "
        )
        return linear + settings(self, "reduction", "ignore_index", "label_smoothing", "options")


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of two-class cross entropies.

    Shape:
        input and target (N, C); output a number, or (N,) with reduction='none'
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge, to the power p, between the target class and every other.

    Arguments:
        p: exponent of the distance from the margin, 1 or 2

    Shape:
        input (N, C), target (N,) of classes; output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.MultiMarginLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.tensor([0, 2])).shape)
        ()
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: weight must be None or a vector (1D), got {weight.dim()}D")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    Arguments:
        p: exponent of the norm

    Shape:
        anchor, positive and negative (N, D); output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.TripletMarginLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.ones(2, 3), rl.full((2, 3), 2.0)).shape)
        ()
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of one's own.

    Arguments:
        distance_function: of two tensors; the Euclidean distance if None

    Shape:
        anchor, positive and negative (N, D); output a number, or (N,) with reduction='none'

    Example:
        >>> layer = rl.nn.TripletMarginWithDistanceLoss()
        >>> tuple(layer(rl.zeros(2, 3), rl.ones(2, 3), rl.full((2, 3), 2.0)).shape)
        ()
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Minus the log-probability of a target sequence over all alignments.

    Arguments:
        blank: the class that stands for nothing
        zero_infinity: whether infinite losses count as zero

    Shape:
        log-probabilities (T, N, C), targets (N, S), and their lengths (N,); output a number, or (N,) with
        reduction='none'

    Example:
        >>> layer = rl.nn.CTCLoss()
        >>> tuple(layer(rl.zeros(4, 1, 3).log_softmax(-1), rl.tensor([[1, 2]]), rl.tensor([4]), rl.tensor([2])).shape)
        ()
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


describe_layers(globals())
