"""Losses in the spelling of ATen: the reduction is a number (0 none, 1 mean, 2 sum) and no deprecated switches exist.

Enters: the arguments of `ops.aten.<loss>`; those PyTorch also has at the top level are published there. Leaves: what
the loss of nn.functional answers. Refuses: other numbers.
"""

from __future__ import annotations

from typing import Any

from ...op import Composite, find_op

REDUCTIONS = ("none", "mean", "sum")


class _Enumerated(Composite):
    """Calls the loss of the same name with the reduction by name."""

    method = out = False
    function = False
    target = ""          # the op called, where it has another name

    def compute(self, *args: Any) -> Any:
        named = {p.name: a for p, a in zip(self.spec.params, args, strict=True)}
        number = named.pop("reduction")
        if number not in (0, 1, 2):
            raise ValueError(
                f"{self.name}: {number} is not a valid value for reduction; expected 0 (none), 1 (mean) or 2 (sum)"
            )
        return find_op(self.target or self.spec.name)(**named, reduction=REDUCTIONS[number])


class MseLossNumber(_Enumerated):
    """mse_loss."""

    schema = "mse_loss.number(Tensor input, Tensor target, int reduction) -> Tensor"


class L1LossNumber(_Enumerated):
    """l1_loss."""

    schema = "l1_loss.number(Tensor input, Tensor target, int reduction) -> Tensor"


class SmoothL1LossNumber(_Enumerated):
    """smooth_l1_loss."""

    schema = "smooth_l1_loss.number(Tensor input, Tensor target, int reduction, float beta=1.0) -> Tensor"


class HuberLossNumber(_Enumerated):
    """huber_loss."""

    schema = "huber_loss.number(Tensor input, Tensor target, int reduction, float delta=1.0) -> Tensor"


class BinaryCrossEntropyNumber(_Enumerated):
    """binary_cross_entropy."""

    schema = "binary_cross_entropy.number(Tensor input, Tensor target, Tensor? weight, int reduction) -> Tensor"


class SoftMarginLossNumber(_Enumerated):
    """soft_margin_loss."""

    schema = "soft_margin_loss.number(Tensor input, Tensor target, int reduction) -> Tensor"


class MultilabelMarginLossNumber(_Enumerated):
    """multilabel_margin_loss."""

    schema = "multilabel_margin_loss.number(Tensor input, Tensor target, int reduction) -> Tensor"


class MultiMarginLossNumber(_Enumerated):
    """multi_margin_loss."""

    schema = (
        "multi_margin_loss.number(Tensor input, Tensor target, int p, float margin, Tensor? weight, int reduction) ->"
        " Tensor"
    )


class NllLossNumber(_Enumerated):
    """nll_loss."""

    schema = (
        "nll_loss.number(Tensor input, Tensor target, Tensor? weight, int reduction, int ignore_index=-100) -> Tensor"
    )


class NllLossNd(_Enumerated):
    """nll_loss of any rank."""

    schema = (
        "nll_loss_nd(Tensor input, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) ->"
        " Tensor"
    )
    target = "nll_loss"


class NllLoss2d(_Enumerated):
    """nll_loss of images."""

    schema = (
        "nll_loss2d(Tensor input, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor"
    )
    target = "nll_loss"


class CrossEntropyLoss(_Enumerated):
    """cross_entropy."""

    schema = (
        "cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100,"
        " float label_smoothing=0.0) -> Tensor"
    )
    target = "cross_entropy"


class KlDivNumber(_Enumerated):
    """kl_div."""

    schema = "kl_div.number(Tensor input, Tensor target, int reduction, *, bool log_target=False) -> Tensor"
    function = True


class BinaryCrossEntropyWithLogitsNumber(_Enumerated):
    """binary_cross_entropy_with_logits."""

    schema = (
        "binary_cross_entropy_with_logits.number(Tensor input, Tensor target, Tensor? weight, Tensor? pos_weight, int"
        " reduction) -> Tensor"
    )
    function = True


class CosineEmbeddingLossNumber(_Enumerated):
    """cosine_embedding_loss."""

    schema = (
        "cosine_embedding_loss.number(Tensor input1, Tensor input2, Tensor target, float margin, int reduction) ->"
        " Tensor"
    )
    function = True


class HingeEmbeddingLossNumber(_Enumerated):
    """hinge_embedding_loss."""

    schema = "hinge_embedding_loss.number(Tensor input, Tensor target, float margin, int reduction) -> Tensor"
    function = True


class MarginRankingLossNumber(_Enumerated):
    """margin_ranking_loss."""

    schema = (
        "margin_ranking_loss.number(Tensor input1, Tensor input2, Tensor target, float margin, int reduction) -> Tensor"
    )
    function = True


class TripletMarginLossNumber(_Enumerated):
    """triplet_margin_loss."""

    schema = (
        "triplet_margin_loss.number(Tensor anchor, Tensor positive, Tensor negative, float margin, float p, float eps,"
        " bool swap, int reduction) -> Tensor"
    )
    function = True


class PoissonNllLossNumber(_Enumerated):
    """poisson_nll_loss."""

    schema = (
        "poisson_nll_loss.number(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) ->"
        " Tensor"
    )
    function = True
