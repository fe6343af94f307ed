"""Losses of pairs and triples of vectors: how close they are compared with how close they should be.

Enters: vectors (the last dim) and targets of 1 or -1. Leaves: the loss of every pair, their mean or their sum.
Refuses: numbers of dims that do not fit each other, margins outside their range.
"""

from __future__ import annotations

from typing import Any

from ...op import find_op
from .elements import LEGACY, Loss, check_reduction, legacy_reduction, reduced


class CosineEmbeddingLoss(Loss):
    """1 - cosine for pairs meant to be alike (target 1), max(0, cosine - margin) for the others (target -1)."""

    schema = f"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, {LEGACY}) -> Tensor"

    def compute(self, input1, input2, target, margin, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        sizes = f"sizes {list(input1.shape)} and {list(input2.shape)}"
        if target.ndim > 1:
            raise RuntimeError(f"cosine_embedding_loss: expected a target with 0 or 1 dimensions, got {target.ndim}")
        if target.ndim == 1 and (input1.ndim != 2 or input2.ndim != 2):
            raise RuntimeError(f"cosine_embedding_loss: a target with 1 dimension needs inputs with 2, got {sizes}.")
        if target.ndim == 0 and (input1.ndim != 1 or input2.ndim != 1):
            raise RuntimeError(f"cosine_embedding_loss: a target with 0 dimensions needs inputs with 1, got {sizes}.")
        dim = target.ndim
        lengths = [(x * x).sum(dim) + 1e-12 for x in (input1, input2)]
        cosine = (input1 * input2).sum(dim) / (lengths[0] * lengths[1]).sqrt()
        alike = (1 - cosine).masked_fill(target != 1, 0)
        return reduced(alike + (cosine - margin).clamp_min(0).masked_fill(target != -1, 0), reduction)


class HingeEmbeddingLoss(Loss):
    """input for pairs meant to be alike (target 1), max(0, margin - input) for the others (target -1)."""

    schema = f"hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, {LEGACY}) -> Tensor"

    def compute(self, input, target, margin, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        choose, nothing = find_op("where"), input.new_zeros(())
        far = choose(target == 1, nothing, (margin - input).clamp_min(0))
        return reduced(far + choose(target == -1, nothing, input), reduction)


class MarginRankingLoss(Loss):
    """max(0, margin - target * (input1 - input2)): input1 should be the larger where target is 1."""

    schema = f"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, {LEGACY}) -> Tensor"

    def compute(self, input1, input2, target, margin, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if not input1.ndim == input2.ndim == target.ndim:
            raise RuntimeError(
                f"margin_ranking_loss: expected one number of dimensions, got input1: {list(input1.shape)}, input2:"
                f" {list(input2.shape)}, target: {list(target.shape)}"
            )
        return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def check_triple(name: str, anchor: Any, positive: Any, negative: Any, margin: float) -> None:
    """Three tensors of one rank and a positive margin."""
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"{name}: expected one number of dimensions, got anchor: {anchor.ndim}, positive: {positive.ndim},"
            f" negative: {negative.ndim}"
        )


class TripletMarginLoss(Loss):
    """max(0, margin + distance to the positive - distance to the negative)."""

    schema = (
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float"
        f" eps=1e-06, bool swap=False, {LEGACY}) -> Tensor"
    )

    def compute(self, anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        check_triple(self.name, anchor, positive, negative, margin)
        distance = find_op("pairwise_distance")
        near, far = distance(anchor, positive, p, eps), distance(anchor, negative, p, eps)
        if swap:
            far = find_op("minimum")(far, distance(positive, negative, p, eps))
        return reduced((margin + near - far).clamp_min(0), reduction)


class TripletMarginWithDistanceLoss(Loss):
    """triplet_margin_loss by any measure of distance."""

    schema = (
        "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, any"
        " distance_function=None, float margin=1.0, bool swap=False, str reduction='mean') -> Tensor"
    )

    def compute(self, anchor, positive, negative, distance_function, margin, swap, reduction):
        check_reduction(self.name, reduction)
        check_triple(self.name, anchor, positive, negative, margin)
        distance = distance_function or find_op("pairwise_distance")
        near, far = distance(anchor, positive), distance(anchor, negative)
        if swap:
            far = find_op("minimum")(far, distance(positive, negative))
        return reduced((margin + near - far).clamp_min(0), reduction)
