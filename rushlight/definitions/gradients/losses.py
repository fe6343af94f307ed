"""Gradients of losses, and the losses of classes with what ATen keeps for theirs.

Enters: ATen's arguments; `reduction` is 0 (none), 1 (mean) or 2 (sum). Leaves: gradients of the input.
"""

from __future__ import annotations

from rushlight.op import Composite, find_op


def _per_element(grad, input, reduction):
    """The gradient that every element's loss gets."""
    if reduction not in (0, 1, 2):
        raise RuntimeError(f"a loss: expected reduction to be 0 (none), 1 (mean) or 2 (sum), got {reduction}")
    return grad / input.numel() if reduction == 1 else grad


class MseLossBackward(Composite):
    """Gradient of mse_loss."""

    schema = "mse_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction) -> Tensor"
    function = method = False

    def compute(self, grad_output, input, target, reduction):
        return _per_element(grad_output, input, reduction) * (input - target) * 2


class SmoothL1LossBackward(Composite):
    """Gradient of smooth_l1_loss: of the square within beta of the target, of the distance beyond."""

    schema = (
        "smooth_l1_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction, float beta) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, input, target, reduction, beta):
        gap = input - target
        slope = gap.sign() if beta == 0 else (gap / beta).clamp(-1, 1)
        return _per_element(grad_output, input, reduction) * slope


class HuberLossBackward(Composite):
    """Gradient of huber_loss."""

    schema = (
        "huber_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction, float delta) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, input, target, reduction, delta):
        return _per_element(grad_output, input, reduction) * (input - target).clamp(-delta, delta)


class SoftMarginLossBackward(Composite):
    """Gradient of soft_margin_loss."""

    schema = "soft_margin_loss_backward(Tensor grad_output, Tensor input, Tensor target, int reduction) -> Tensor"
    function = method = False

    def compute(self, grad_output, input, target, reduction):
        return _per_element(grad_output, input, reduction) * -target * (-target * input).sigmoid()


class BinaryCrossEntropyBackward(Composite):
    """Gradient of binary_cross_entropy; the slope is bounded as the loss's logarithms are."""

    schema = (
        "binary_cross_entropy_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? weight=None, int"
        " reduction=1) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, input, target, weight, reduction):
        slope = (input - target) / ((1 - input) * input).clamp(min=1e-12)
        result = _per_element(grad_output, input, reduction) * slope
        return result if weight is None else result * weight


class _ClassLoss(Composite):
    """nll_loss with the sum of the weights that counted."""

    function = method = out = False

    def compute(self, input, target, weight, reduction, ignore_index):
        kept = target != ignore_index
        name = {0: "none", 1: "mean", 2: "sum"}.get(reduction)
        if name is None:
            raise RuntimeError(f"{self.name}: expected reduction to be 0 (none), 1 (mean) or 2 (sum), got {reduction}")
        result = find_op("nll_loss")(input, target, weight, ignore_index=ignore_index, reduction=name)
        if reduction == 0:
            return result, input.new_zeros(())
        if weight is None:
            return result, kept.sum().to(input.dtype)
        index = target.masked_fill(kept.logical_not(), 0)
        return result, (weight[index] * kept.to(weight.dtype)).sum()


class _ClassLossBackward(Composite):
    """Gradient of nll_loss: minus the weight of the target's class, at that class."""

    function = method = False

    def compute(self, grad_output, input, target, weight, reduction, ignore_index, total_weight):
        dim = 0 if input.ndim == 1 else 1
        kept = target != ignore_index
        index = target.masked_fill(kept.logical_not(), 0)
        each = kept.to(input.dtype) if weight is None else weight[index] * kept.to(weight.dtype)
        each = -each * (grad_output / total_weight if reduction == 1 else grad_output)
        zeros = find_op("zeros_like")(input.detach())
        return zeros.scatter(dim, index.unsqueeze(dim), each.to(input.dtype).unsqueeze(dim))


class NllLossForward(_ClassLoss):
    """nll_loss of rows, and the sum of the weights that counted."""

    schema = (
        "nll_loss_forward(Tensor input, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor,"
        " Tensor)"
    )


class NllLoss2dForward(_ClassLoss):
    """nll_loss of images, and the sum of the weights that counted."""

    schema = (
        "nll_loss2d_forward(Tensor input, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) ->"
        " (Tensor, Tensor)"
    )


class NllLossBackward(_ClassLossBackward):
    """Gradient of nll_loss of rows."""

    schema = (
        "nll_loss_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? weight, int reduction, SymInt"
        " ignore_index, Tensor total_weight) -> Tensor"
    )


class NllLoss2dBackward(_ClassLossBackward):
    """Gradient of nll_loss of images."""

    schema = (
        "nll_loss2d_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? weight, int reduction, SymInt"
        " ignore_index, Tensor total_weight) -> Tensor"
    )
