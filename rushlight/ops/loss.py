"""Losses: elementwise ones with their reduction, and cross entropy as a fused composite."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C
from ..op import Composite, Fused, find_op
from ..op.fused import column, pick


def check_reduction(name: str, reduction: str) -> None:
    """One of the three words."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{name}: {reduction} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")


def reduced(loss: Any, reduction: str) -> Any:
    """The loss of every element, their mean, or their sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def legacy_reduction(reduction: str, size_average: Any, reduce: Any) -> str:
    """PyTorch's two deprecated switches, which win over `reduction` when given."""
    if size_average is None and reduce is None:
        return reduction
    warnings.warn("size_average and reduce args will be deprecated, please use reduction instead.", UserWarning, stacklevel=4)
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def check_same_size(name: str, input: Any, target: Any) -> None:
    """Warn, as PyTorch does, when broadcasting would hide a mistake."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.", UserWarning, stacklevel=5,
        )  # fmt: skip


class _ElementLoss(Composite):
    """A loss of pairs of elements, then reduced."""

    namespace = "nn.functional"
    method = False
    out = False

    def element(self, input: Any, target: Any, *own: Any) -> Any:
        raise NotImplementedError

    def compute(self, input, target, *rest):
        values = dict(zip([p.name for p in self.spec.params[2:]], rest, strict=True))
        reduction = legacy_reduction(values.pop("reduction"), values.pop("size_average", None), values.pop("reduce", None))
        weight = values.pop("weight", None)
        check_reduction(self.name, reduction)
        check_same_size(self.name, input, target)
        loss = self.element(input, target, *values.values())
        return reduced(loss if weight is None else loss * weight, reduction)


LEGACY = "bool? size_average=None, bool? reduce=None, str reduction='mean'"


class MseLoss(_ElementLoss):
    """Squared differences."""

    schema = f"mse_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor"

    def element(self, input, target):
        difference = input - target
        return difference * difference


class L1Loss(_ElementLoss):
    """Absolute differences."""

    schema = f"l1_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor"

    def element(self, input, target):
        return (input - target).abs()


class SmoothL1Loss(_ElementLoss):
    """Squared where small, absolute where large; `beta` is where it changes."""

    schema = f"smooth_l1_loss(Tensor input, Tensor target, {LEGACY}, float beta=1.0) -> Tensor"

    def element(self, input, target, beta):
        if beta < 0:
            raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
        distance = (input - target).abs()
        if beta == 0:
            return distance
        return find_op("where")(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)


class HuberLoss(_ElementLoss):
    """Squared where small, linear where large; `delta` is where it changes."""

    schema = "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor"

    def element(self, input, target, delta):
        if delta <= 0:
            raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
        distance = (input - target).abs()
        return find_op("where")(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)


class BinaryCrossEntropy(_ElementLoss):
    """-log likelihood of targets under probabilities."""

    schema = f"binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {LEGACY}) -> Tensor"

    def compute(self, input, target, *rest):
        if input.shape != target.shape:
            raise ValueError(f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}) is deprecated. Please ensure they have the same size.")
        if input.device.type != "meta" and bool(((input < 0) | (input > 1)).any()):
            raise RuntimeError("all elements of input should be between 0 and 1")
        return super().compute(input, target, *rest)

    def element(self, input, target):
        # Logarithms are held at -100 so that a certain but wrong guess has a finite loss.
        return (target - 1) * (-input).log1p().clamp(min=-100) - target * input.log().clamp(min=-100)


class BinaryCrossEntropyWithLogits(Composite):
    """binary_cross_entropy of sigmoid(input), computed without overflow."""

    schema = "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor"
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, input, target, weight, size_average, reduce, reduction, pos_weight):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if input.shape != target.shape:
            raise ValueError(f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})")
        low = find_op("softplus")(-input)
        if pos_weight is None:
            loss = (1 - target) * input + low
        else:
            loss = (1 - target) * input + (1 + (pos_weight - 1) * target) * low
        return reduced(loss if weight is None else loss * weight, reduction)


class KlDiv(Composite):
    """target * (log target - input), pointwise, then reduced."""

    schema = f"kl_div(Tensor input, Tensor target, {LEGACY}, bool log_target=False) -> Tensor"
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, input, target, size_average, reduce, reduction, log_target):
        reduction = legacy_reduction(reduction, size_average, reduce)
        if reduction != "batchmean":
            check_reduction("kl_div", reduction)
        loss = target.exp() * (target - input) if log_target else find_op("xlogy")(target, target) - target * input
        if reduction == "batchmean":
            return loss.sum() / input.shape[0]
        return reduced(loss, reduction)


class SoftMarginLoss(_ElementLoss):
    """log(1 + exp(-target * input))."""

    schema = f"soft_margin_loss(Tensor input, Tensor target, {LEGACY}) -> Tensor"

    def element(self, input, target):
        return find_op("softplus")(-target * input)


# --- classes ----------------------------------------------------------------------------------------------------------------------


class CrossEntropyRows(Fused):
    """-log softmax of the target class of every row, and the row's log of the sum of exponentials."""

    schema = "_cross_entropy_rows(Tensor input, Tensor target) -> (Tensor, Tensor)"
    function = method = False
    row_operands = ("target",)
    index_operand = "target"

    def row_dims(self, input, target):
        return 1

    def compute(self, input, target):
        top = input.amax(-1, keepdim=True)
        lse = (input - top).exp().sum(-1, keepdim=True).log() + top
        return lse - pick(input, target), lse

    def bad_index(self, index, cols):
        raise IndexError(f"cross_entropy: Target {index} is out of bounds: expected 0 <= target < {cols}.")

    def vjp(self, g, input, target, result):
        if g[0] is None and g[1] is None:
            return {}
        if g[1] is not None:
            soft = (input - result[1]).exp()
            own = 0 if g[0] is None else find_op("_cross_entropy_rows_backward")(g[0], input, target, result[1])
            return {"input": own + g[1] * soft}
        return {"input": find_op("_cross_entropy_rows_backward")(g[0], input, target, result[1])}


class CrossEntropyRowsBackward(Fused):
    """Gradient of _cross_entropy_rows: softmax minus one at the target, times the row's gradient."""

    schema = "_cross_entropy_rows_backward(Tensor grad, Tensor input, Tensor target, Tensor lse) -> Tensor"
    function = method = False
    row_operands = ("grad", "target", "lse")
    index_operand = "target"
    bad_index = CrossEntropyRows.bad_index

    def row_dims(self, *args):
        return 1

    def compute(self, grad, input, target, lse):
        return ((input - lse).exp() - column(target, input)) * grad

    def vjp(self, g, grad, input, target, lse):
        soft = (input - lse).exp()
        chosen = g.gather(-1, target)
        along = (g * soft).sum(-1, keepdim=True)
        return {"grad": along - chosen, "input": g * soft * grad, "lse": -along * grad}


def as_rows(input: Any, target: Any) -> tuple[Any, Any]:
    """Input as [N, C] and target as [N, 1], for inputs [C], [N, C] and [N, C, d1, ...]."""
    if input.ndim == 1:
        return input.unsqueeze(0), target.reshape(1, 1)
    if input.ndim == 2:
        return input, target.reshape(-1, 1)
    return input.movedim(1, -1).reshape(-1, input.shape[1]), target.reshape(-1, 1)


def check_classes(name: str, input: Any, target: Any) -> None:
    """Shapes and types of a class-index target."""
    if input.ndim == 0:
        raise RuntimeError(f"{name}: input must have at least one dimension")
    expected = () if input.ndim == 1 else (input.shape[0], *input.shape[2:])
    if tuple(target.shape) != expected and not (input.ndim == 1 and tuple(target.shape) == (1,)):
        if input.ndim == 1:
            raise ValueError(f"{name}: For 1D input, 1D target must have size 1, but got target size: {list(target.shape)}")
        if input.ndim > 1 and target.ndim and target.shape[0] != input.shape[0]:
            raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]}).")
        raise RuntimeError(f"{name}: expected target size {list(expected)}, got {list(target.shape)}")
    if target.dtype not in (_C.int64, _C.uint8, _C.int32):
        raise RuntimeError(f'"{name}": expected scalar type Long for the target but found {target.dtype.name}')


def check_targets(name: str, index: Any, classes: int) -> None:
    """IndexError for a target that is no class."""
    if index.device.type == "meta" or not index.numel():
        return
    wrong = (index < 0) | (index >= classes)
    if bool(wrong.any()):
        raise IndexError(f"{name}: Target {index.masked_select(wrong)[0].item()} is out of bounds: expected 0 <= target < {classes}.")


def weigh(loss: Any, target: Any, keep: Any, weight: Any, reduction: str, shape: Any, classes: int) -> Any:
    """Per-row losses with ignored rows dropped and class weights applied, then reduced."""
    scale = keep.to(loss.dtype) if keep is not None else None
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {list(weight.shape)}")
        chosen = weight.index_select(0, target.reshape(-1)).reshape(loss.shape)
        scale = chosen if scale is None else chosen * scale
    if scale is not None:
        loss = loss * scale
        if keep is not None:   # an ignored row contributes nothing, even where its loss is not a number
            loss = loss.masked_fill(keep.logical_not(), 0.0)
    if reduction == "none":
        return loss.reshape(shape)
    total = loss.sum()
    if reduction == "sum":
        return total
    return total / (loss.numel() if scale is None else scale.sum())


class CrossEntropy(Composite):
    """-log softmax of the target class; targets are class indices or class probabilities."""

    schema = "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0) -> Tensor"
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction("cross_entropy", reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
        if target.is_floating_point():
            if ignore_index >= 0:
                raise RuntimeError(f"cross_entropy: ignore_index is not supported for floating point target, got {ignore_index}")
            return self.probabilities(input, target, weight, reduction, label_smoothing)
        check_classes("cross_entropy", input, target)
        rows, index = as_rows(input, target.to(_C.int64))
        keep = None
        if ignore_index >= rows.shape[1] or ignore_index < 0:
            ignored = index == ignore_index
            if index.device.type == "meta" or bool(ignored.any()):
                keep, index = ignored.logical_not(), index.masked_fill(ignored, 0)
        else:
            keep = index != ignore_index
        loss, lse = find_op("_cross_entropy_rows")(rows, index)
        plain = weigh(loss, index, keep, weight, reduction, target.shape, rows.shape[1])
        if not label_smoothing:
            return plain
        logs = lse - rows
        smooth = (logs if weight is None else logs * weight).sum(-1, keepdim=True)
        if keep is not None:
            smooth = smooth.masked_fill(keep.logical_not(), 0.0)
        spread = label_smoothing / rows.shape[1]
        if reduction == "none":
            smooth = smooth.reshape(target.shape)
        elif reduction == "sum":
            smooth = smooth.sum()
        else:
            count = weight.index_select(0, index.reshape(-1)).reshape(index.shape) if weight is not None else smooth.new_ones(smooth.shape)
            smooth = smooth.sum() / (count if keep is None else count.masked_fill(keep.logical_not(), 0.0)).sum()
        return plain * (1 - label_smoothing) + smooth * spread

    def probabilities(self, input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float) -> Any:
        if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
            raise ValueError(f"cross_entropy: Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]}).")
        if input.shape != target.shape:
            raise RuntimeError(f"cross_entropy: expected probabilities of size {list(input.shape)}, got {list(target.shape)}")
        dim = 0 if input.ndim == 1 else 1
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[dim]
        logs = input.log_softmax(dim) * target
        if weight is not None:
            logs = logs * weight.reshape([-1 if d == dim else 1 for d in range(input.ndim)])
        loss = -logs.sum(dim)
        if reduction == "mean":
            return loss.sum() / max(1, input.numel() // input.shape[dim])
        return reduced(loss, reduction)


class NllLoss(Composite):
    """Minus the log probability of the target class."""

    schema = "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor"
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, input, target, weight, size_average, ignore_index, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction("nll_loss", reduction)
        check_classes("nll_loss", input, target)
        rows, index = as_rows(input, target.to(_C.int64))
        ignored = index == ignore_index
        index = index.masked_fill(ignored, 0)
        check_targets("nll_loss", index, rows.shape[1])
        return weigh(-rows.gather(-1, index), index, ignored.logical_not(), weight, reduction, target.shape, rows.shape[1])
