"""Losses of classes: cross_entropy as a fused composite, nll_loss, and the margin losses over classes.

Enters: scores [C], [N, C] or [N, C, d1, ...] and class indices (or, for cross_entropy, class probabilities). Leaves:
the loss of every item, their mean (weighted where there are class weights) or their sum. Refuses: targets that are no
class, and shapes that do not fit each other.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import reaches
from ...op import Composite, Fused, Meta, find_op
from ...op.extents import Outline
from ...op.fused import column, decayed, pick
from ...rules.levels import readable
from .elements import LEGACY, Loss, check_reduction, legacy_reduction, reduced

ONE_BLOCK = 1 << 16      # losses up to which one block of threads adds them in the time that a launch takes
ONE_PASS = 1 << 12       # losses up to which one thread adds them as soon, and as exactly, as sums in blocks do


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
        lse = decayed(input - top).sum(-1, keepdim=True).log() + top
        return lse - pick(input, target), lse

    def bad_index(self, index, cols):
        raise IndexError(f"cross_entropy: Target {index} is out of bounds: expected 0 <= target < {cols}.")

    saved_results = (1,)

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
        return (decayed(input - lse) - column(target, input)) * grad

    def vjp(self, g, grad, input, target, lse):
        soft = (input - lse).exp()
        chosen = g.gather(-1, target)
        along = (g * soft).sum(-1, keepdim=True)
        return {"grad": along - chosen, "input": g * soft * grad, "lse": -along * grad}


class CrossEntropyKeptRows(Fused):
    """As _cross_entropy_rows, with losses of 0 where the target is ignored, and 1 for rows that count, 0 for others.
    Ops of their own for that would cost small inputs more time than the loss does."""

    schema = "_cross_entropy_kept_rows(Tensor input, Tensor target, int ignore_index) -> (Tensor, Tensor, Tensor)"
    function = method = False
    row_operands = ("target",)
    index_operand = "target"
    bad_index = CrossEntropyRows.bad_index
    saved_results = (1,)

    def row_dims(self, *args):
        return 1

    def ignored_index(self, input, target, ignore_index):
        return ignore_index

    def compute(self, input, target, ignore_index):
        ignored = target == ignore_index
        top = input.amax(-1, keepdim=True)
        lse = decayed(input - top).sum(-1, keepdim=True).log() + top
        loss = lse - pick(input, target.masked_fill(ignored, 0))
        return loss.masked_fill(ignored, 0.0), lse, (target != ignore_index).to(input.dtype)

    def vjp(self, g, input, target, ignore_index, result):
        own = 0
        if g[0] is not None:
            own = find_op("_cross_entropy_kept_rows_backward")(g[0], input, target, result[1], ignore_index)
        if g[1] is not None:
            own = own + (input - result[1]).exp() * g[1]
        return {} if g[0] is None and g[1] is None else {"input": own}


class CrossEntropyKeptRowsBackward(Fused):
    """Gradient of _cross_entropy_kept_rows: that of _cross_entropy_rows_backward, 0 in rows that are ignored."""

    schema = (
        "_cross_entropy_kept_rows_backward(Tensor grad, Tensor input, Tensor target, Tensor lse, int ignore_index)"
        " -> Tensor"
    )
    function = method = False
    row_operands = ("grad", "target", "lse")
    index_operand = "target"
    bad_index = CrossEntropyRows.bad_index

    def row_dims(self, *args):
        return 1

    def ignored_index(self, grad, input, target, lse, ignore_index):
        return ignore_index

    def compute(self, grad, input, target, lse, ignore_index):
        ignored = target == ignore_index
        chosen = column(target.masked_fill(ignored, 0), input)
        return ((decayed(input - lse) - chosen) * grad).masked_fill(ignored, 0.0)

    def vjp(self, g, grad, input, target, lse, ignore_index):
        ignored = target == ignore_index
        g = g.masked_fill(ignored, 0.0)
        soft = (input - lse).exp()
        along = (g * soft).sum(-1, keepdim=True)
        chosen = g.gather(-1, target.masked_fill(ignored, 0))
        return {"grad": along - chosen, "input": g * soft * grad, "lse": -along * grad}


class MeanOfKept(Fused):
    """The sum of losses by how many of them count, and that number: one kernel where two sums and a quotient were."""

    schema = "_mean_of_kept(Tensor loss, Tensor kept) -> (Tensor, Tensor)"
    function = method = False
    saved_results = (1,)

    def row_dims(self, loss, kept):
        return loss.ndim

    def out_dtype(self, k, args):
        return args[0].dtype if k == 0 or args[0].dtype is _C.float64 else _C.float32

    def compute(self, loss, kept):
        dims = list(range(-loss.ndim, 0))
        count = kept.sum(dims, keepdim=True)
        return loss.sum(dims, keepdim=True) / count, count

    def vjp(self, g, loss: Meta, result):
        return {} if g[0] is None else {"loss": (g[0].expand(loss.shape) / result[1]).to(loss.dtype)}


def as_rows(input: Any, target: Any) -> tuple[Any, Any]:
    """Input as [N, C] and target as [N, 1], for inputs [C], [N, C] and [N, C, d1, ...]."""
    if input.ndim == 1:
        return input.unsqueeze(0), target.reshape(1, 1)
    if input.ndim == 2:
        return input, target.unsqueeze(1)
    return input.movedim(1, -1).reshape(-1, input.shape[1]), target.reshape(-1, 1)


def check_classes(name: str, input: Any, target: Any) -> None:
    """Shapes and types of a class-index target."""
    if input.ndim == 2 and target.ndim == 1 and target.dtype is _C.int64 and input.shape[0] == target.shape[0]:
        return
    if input.ndim == 0:
        raise RuntimeError(f"{name}: input must have at least one dimension")
    expected = () if input.ndim == 1 else (input.shape[0], *input.shape[2:])
    if tuple(target.shape) != expected and not (input.ndim == 1 and tuple(target.shape) == (1,)):
        if input.ndim == 1:
            raise ValueError(
                f"{name}: an input without a batch needs a target of 1 class, got target size {list(target.shape)}"
            )
        if input.ndim > 1 and target.ndim and target.shape[0] != input.shape[0]:
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
            )
        raise RuntimeError(f"{name}: expected target size {list(expected)}, got {list(target.shape)}")
    if target.dtype is not _C.int64 and (target.dtype is not _C.uint8 or input.ndim > 2):
        raise RuntimeError(
            f"{name}: expected a target of dtype int64, got {target.dtype.name}. Convert it with .long()."
        )


def check_scores(name: str, input: Any, weight: Any) -> None:
    """Scores are floats, and so are the weights of their classes, of the same type."""
    if not input.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype.name} tensors')
    if weight is not None and not weight.is_floating_point():
        raise RuntimeError(f"{name}: expected a weight of dtype {input.dtype.name}, got {weight.dtype.name}")


def is_seen(index: Any) -> bool:
    """Whether targets may be looked at before anything runs: here, and not while a plan is written down."""
    return not isinstance(index, Outline) and readable(index) and index.device.type == "cpu"


def check_targets(name: str, index: Any, classes: int, error: type[Exception] = IndexError) -> None:
    """Raise for a target that is no class. On a device the kernels that use it find out: nothing is waited for here."""
    if not is_seen(index) or not index.numel():
        return
    wrong = (index < 0) | (index >= classes)
    if bool(wrong.any()):
        raise error(
            f"{name}: Target {index.masked_select(wrong)[0].item()} is out of bounds: expected 0 <= target < {classes}."
        )


def without_ignored(index: Any, ignore_index: int) -> tuple[Any, Any]:
    """The index with some class where it is ignored, and which rows count; None where all do, if asking is free."""
    ignored = index == ignore_index
    if not is_seen(index) or bool(ignored.any()):
        return index.masked_fill(ignored, 0), ignored.logical_not()
    return index, None


def is_bare(t: Any) -> bool:
    """Whether a tensor has elements, and nobody looks at the ops that it goes through."""
    return isinstance(t, Outline) or not (t._keys or any(_C.get_thread_keys()) or t.is_meta)


class ClassLoss(Loss):
    """A loss of targets that name classes."""

    replays = True

    def is_planned(self, args: tuple) -> bool:
        """A plan would warn of deprecated switches once."""
        names = [p.name for p in self.spec.params]
        return all(args[names.index(name)] is None for name in ("size_average", "reduce"))


def weigh(loss: Any, target: Any, keep: Any, weight: Any, reduction: str, shape: Any, classes: int) -> Any:
    """Per-row losses with ignored rows dropped and class weights applied, then reduced."""
    scale, rows = None, loss.numel()
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(
                f"weight: expected one number for each of the {classes} classes, got shape {list(weight.shape)}"
            )
        scale = weight.index_select(0, target.reshape(-1)).reshape(loss.shape)
        loss = loss * scale
    if keep is not None:   # an ignored row contributes nothing, even where its loss is not a number
        ignored = keep.logical_not()
        loss = loss.masked_fill(ignored, 0.0)
        scale = None if scale is None else scale.masked_fill(ignored, 0.0)
        rows = keep.sum(dtype=loss.dtype) if scale is None else rows
    if reduction == "none":
        return loss.reshape(shape)
    total = loss.sum()
    if reduction == "sum":
        return total
    return total / (rows if scale is None else scale.sum())


class CrossEntropy(ClassLoss):
    """-log softmax of the target class; targets are class indices or class probabilities."""

    schema = (
        "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int"
        " ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0) -> Tensor"
    )

    def compute(self, input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction("cross_entropy", reduction)
        if label_smoothing > 1.0:
            raise RuntimeError(f"cross_entropy: expected label_smoothing in [0, 1], got {label_smoothing}")
        label_smoothing = max(label_smoothing, 0.0)     # below 0 there is none, as in PyTorch
        check_scores("cross_entropy", input, weight)
        if target.is_floating_point():
            if ignore_index >= 0:
                raise RuntimeError(
                    f"cross_entropy: a target of probabilities takes no ignore_index, got {ignore_index}"
                )
            return self.probabilities(input, target, weight, reduction, label_smoothing)
        check_classes("cross_entropy", input, target)
        if input.ndim > 2 and not label_smoothing and input.device.type == "cpu" and is_bare(input) and is_bare(target):
            # classes that lie apart are folded side by side: rows would have to be copied first
            scores = find_op("log_softmax")(input, 1)
            return find_op("nll_loss")(scores, target, weight, None, ignore_index, None, reduction)
        rows, index = as_rows(input, target.to(_C.int64))
        if weight is None and not label_smoothing and is_bare(rows) and is_bare(index):
            return self.of_rows(rows, index, ignore_index, reduction, target.shape)
        index, keep = without_ignored(index, ignore_index)
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
            count = (
                weight.index_select(0, index.reshape(-1)).reshape(index.shape)
                if weight is not None
                else smooth.new_ones(smooth.shape)
            )
            smooth = smooth.sum() / (count if keep is None else count.masked_fill(keep.logical_not(), 0.0)).sum()
        return plain * (1 - label_smoothing) + smooth * spread

    def of_rows(self, rows: Any, index: Any, ignore_index: int, reduction: str, shape: Any) -> Any:
        """The loss of plain targets, which the kernel checks as it meets them."""
        loss, _, kept = find_op("_cross_entropy_kept_rows")(rows, index, ignore_index)
        if reduction == "none":
            return loss.reshape(shape)
        if reduction == "sum":
            return loss.sum()
        kept = kept.detach()
        if not reaches(loss.numel(), 1 + (ONE_PASS if loss.device.type == "cpu" else ONE_BLOCK)):
            return find_op("_mean_of_kept")(loss, kept)[0].reshape(())
        if loss.itemsize > 2:
            return loss.sum() / kept.sum()
        wide = _C.float32       # a half type counts no further than a few thousand
        return (loss.sum(dtype=wide) / kept.sum(dtype=wide)).to(loss.dtype)

    def probabilities(self, input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float) -> Any:
        if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
            raise ValueError(
                f"cross_entropy: Expected input batch_size ({input.shape[0]}) to match target batch_size"
                f" ({target.shape[0]})."
            )
        if input.shape != target.shape:
            raise RuntimeError(
                f"cross_entropy: expected target to hold classes (Long or Byte) or probabilities of size "
                f"{list(input.shape)}, got {target.dtype.name} of size {list(target.shape)}. "
                "Classes are integers: target.long()."
            )
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


class NllRows(Fused):
    """Minus the number each row has at its index, [N, 1]."""

    schema = "_nll_rows(Tensor input, Tensor index) -> Tensor"
    function = method = False
    row_operands = ("index",)
    index_operand = "index"

    def row_dims(self, input, index):
        return 1

    def compute(self, input, index):
        return -pick(input, index)

    def bad_index(self, index, cols):
        raise IndexError(f"nll_loss: Target {index} is out of bounds: expected 0 <= target < {cols}.")

    def vjp(self, g, input, index):
        return {"input": find_op("_nll_rows_backward")(g, input, index)}


class NllRowsBackward(Composite):
    """Gradient of _nll_rows; it takes the input so that second derivatives (which are 0) exist."""

    schema = "_nll_rows_backward(Tensor grad, Tensor input, Tensor index) -> Tensor"
    function = method = out = False

    def compute(self, grad, input, index):
        return input.new_zeros(input.shape).scatter_(-1, index, -grad)

    def vjp(self, g, index):
        return {"grad": -g.gather(-1, index)}


class NllLoss(ClassLoss):
    """Minus the log probability of the target class."""

    schema = (
        "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int ignore_index=-100,"
        " bool? reduce=None, str reduction='mean') -> Tensor"
    )

    def compute(self, input, target, weight, size_average, ignore_index, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction("nll_loss", reduction)
        if input.ndim == 0:
            raise ValueError("nll_loss: expected an input with 1 or more dimensions, got 0")
        check_scores("nll_loss", input, weight)
        check_classes("nll_loss", input, target)
        if input.ndim > 2:   # one number of each row is wanted: rows are not made to lie densely for that
            index, keep = without_ignored(target.unsqueeze(1), ignore_index)
            check_targets("nll_loss", index, input.shape[1])
            return weigh(-input.gather(1, index), index, keep, weight, reduction, target.shape, input.shape[1])
        rows, index = as_rows(input, target.to(_C.int64))
        index, keep = without_ignored(index, ignore_index)
        return weigh(find_op("_nll_rows")(rows, index), index, keep, weight, reduction, target.shape, rows.shape[1])


# --- margins ----------------------------------------------------------------------------------------------------------


def check_long(name: str, target: Any) -> None:
    """Class numbers are int64 here."""
    if target.dtype is not _C.int64:
        raise RuntimeError(f"{name}: expected scalar type Long for the target but found {target.dtype.name}")


def check_margin_shapes(name: str, input: Any) -> None:
    """[C] or [N, C], with at least one class."""
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"{name}: expected a vector or a matrix with classes (the batch may be empty), got shape"
            f" {list(input.shape)}"
        )


class MultiMarginLoss(ClassLoss):
    """Mean over classes of max(0, margin - score of the target + score of the class) to the power p."""

    schema = (
        "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, float margin=1.0, Tensor? weight=None,"
        f" {LEGACY}) -> Tensor"
    )

    def compute(self, input, target, p, margin, weight, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if p not in (1, 2):
            raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"multi_margin_loss: weight must be one-dimensional, got {weight.ndim} dims")
        check_margin_shapes(self.name, input)
        if not input.is_floating_point():
            raise NotImplementedError(f'"multi_margin_loss" not implemented for {input.dtype.name} tensors')
        rows = input if input.ndim == 2 else input.reshape(1, -1)
        items, classes = rows.shape
        if target.ndim > 1 or target.numel() != items:
            raise RuntimeError(
                f"multi_margin_loss: inconsistent target size, expected {items} but got {list(target.shape)}"
            )
        if weight is not None and weight.numel() != classes:
            raise RuntimeError(
                f"multi_margin_loss: inconsistent weight size, expected {classes} but got {list(weight.shape)}"
            )
        check_long(self.name, target)
        index = target.reshape(-1, 1)
        check_targets(self.name, index, classes, RuntimeError)
        gap = (margin - rows.gather(1, index) + rows).clamp_min(0)
        gap = gap if p == 1 else gap * gap
        if weight is not None:
            gap = gap * weight.index_select(0, index.reshape(-1)).unsqueeze(1)
        loss = gap.scatter(1, index, 0.0).sum(1) / classes
        return reduced(loss.reshape(target.shape), reduction)


class MultilabelMarginLoss(Loss):
    """Mean over classes of how far every other class comes within 1 of each target class; -1 ends the targets."""

    schema = f"multilabel_margin_loss(Tensor input, Tensor target, {LEGACY}) -> Tensor"

    def compute(self, input, target, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        check_margin_shapes(self.name, input)
        if target.shape != input.shape and not (input.ndim < 2 and target.numel() == input.numel()):
            raise RuntimeError(
                f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size:"
                f" {list(input.shape)}"
            )
        check_long(self.name, target)
        rows, wanted = (t if t.ndim == 2 else t.reshape(1, -1) for t in (input, target))
        valid = (wanted < 0).to(_C.int64).cumsum(1) == 0
        index = wanted.masked_fill(valid.logical_not(), 0)
        check_targets(self.name, index, rows.shape[1], RuntimeError)
        counted = valid.to(_C.int64)
        is_target = counted.new_zeros(counted.shape).scatter_add(1, index, counted) > 0
        gap = (1 - rows.gather(1, index).unsqueeze(2) + rows.unsqueeze(1)).clamp_min(0)
        gap = gap.masked_fill(valid.logical_not().unsqueeze(2) | is_target.unsqueeze(1), 0)
        loss = gap.sum((1, 2)) / rows.shape[1]
        return reduced(loss.reshape(()) if input.ndim < 2 else loss, reduction)


class MultilabelSoftMarginLoss(Loss):
    """Mean over classes of the binary cross entropy of every class."""

    schema = f"multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, {LEGACY}) -> Tensor"

    def compute(self, input, target, weight, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        log_sigmoid = find_op("logsigmoid")
        loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
        loss = loss if weight is None else loss * weight
        return reduced(loss.sum(-1) / input.shape[-1], reduction)
