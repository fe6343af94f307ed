"""Connectionist temporal classification: the likelihood of a label sequence over all its alignments in time.

Enters: log probabilities [T, N, C] (or [T, C]), labels per item ([N, S], or all items one after the other) and lengths.
Leaves: minus the log likelihood of every item, their mean or sum; its gradient, as PyTorch's, is that of a
log_softmax in front. Refuses: half types, lengths beyond the input, labels that are no class.

Both directions of the recursion are one generated kernel, an item per thread and label positions in vectors: the
backward scores are the forward scores of the reversed problem.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Composite, Library, Spec, find_op
from ...op.extern import own_function
from ...planners.ctc import EDGE, IMPOSSIBLE, scores_schedule
from ...rules.batching import expanded, wrapped
from ...rules.levels import shape_is_enough
from .elements import check_reduction, reduced


class CtcScores(Library):
    """Log of the summed weight of all paths that reach each position of the extended labels at each time.

    `skip` is 0 where a path may come from two positions before, else -inf. Time runs from `start` in steps of `step`.
    """

    schema = (
        "_ctc_scores(Tensor log_probs, Tensor labels, Tensor skip, Tensor lengths, Tensor start, int step) -> Tensor"
    )
    function = method = out = differentiable = False

    def meta(self, log_probs, labels, skip, lengths, start, step):
        times, items, _ = log_probs.shape
        return Spec((items, times, labels.shape[1] + EDGE), log_probs.dtype)

    def launches(self, args):
        log_probs, labels, *_, step = args
        if self.of_device(log_probs, labels) is not None:
            return None
        times, items, classes = log_probs.shape
        return scores_schedule(log_probs.dtype.code, times, items, classes, labels.shape[1], step)

    def of_device(self, log_probs: Any, labels: Any) -> Any:
        """What fills the result on a device that has a kernel of its own for such sizes, or None."""
        own = own_function("_ctc_recursion", log_probs.device)
        return None if own is None else own(log_probs, labels)

    def elsewhere(self, out, log_probs, labels, *rest):
        self.of_device(log_probs, labels)(out, log_probs, labels, *rest)

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples are more items."""
        log_probs, *others, step = args
        count, items = level.batch_size, log_probs.shape[1]
        flat = expanded(log_probs, level).movedim(0, 1).flatten(1, 2).contiguous()
        result = overload.call(flat, *[expanded(t, level).flatten(0, 1).contiguous() for t in others], step)
        return wrapped(result.unflatten(0, (count, items)), level)


# --- the extended labels ----------------------------------------------------------------------------------------------


def check_lengths(name: str, lengths: Any, items: int) -> Any:
    """Lengths as int64, one per item."""
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype is _C.bool:
        raise RuntimeError(f"ctc_loss: {name} must be integral, got {lengths.dtype.name}")
    if tuple(lengths.shape) != (items,):
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size {items}, got {list(lengths.shape)}")
    return lengths.to(_C.int64)


def extremes(*tensors: Any) -> list[int]:
    """The least and the largest of each, read at once where they lie on one device."""
    found = [end for t in tensors for end in (t.min(), t.max())]
    if len({t.device for t in tensors}) == 1:
        return find_op("stack")(found).tolist()
    return [int(end.item()) for end in found]


def counted(count: int, like: Any) -> Any:
    """0, 1, 2, ...: made from `like`, so that they stand for elements where it does."""
    return like.detach().new_ones((count,), dtype=_C.int64).cumsum(0) - 1


def as_matrix(targets: Any, target_lengths: Any, longest: int, items: int, blank: int) -> Any:
    """Labels as int64 [N, S], blank beyond each item's length, of which the longest is known."""
    # Labels one behind the other are as wide as the longest of them: only elements tell.
    is_meta = targets.is_meta if targets.ndim == 2 else shape_is_enough("ctc_loss", targets)
    longest = 0 if is_meta else longest
    place = counted(targets.shape[1] if targets.ndim == 2 else longest, targets)
    inside = place < target_lengths.unsqueeze(1)
    if targets.ndim == 2:
        if targets.shape[0] != items or longest > targets.shape[1]:
            raise RuntimeError(
                f"ctc_loss: Expected targets of size [{items}, at least {longest}], but got size {list(targets.shape)}"
            )
        found = targets.to(_C.int64)
    elif targets.ndim == 1:
        if not is_meta and int(target_lengths.sum().item()) != targets.numel():
            raise RuntimeError(
                f"ctc_loss: Expected targets of the summed target_lengths {int(target_lengths.sum().item())}, but got"
                f" size {list(targets.shape)}"
            )
        at = ((target_lengths.cumsum(0) - target_lengths).unsqueeze(1) + place).masked_fill(inside.logical_not(), 0)
        found = targets.to(_C.int64).index_select(0, at.reshape(-1)).reshape(at.shape) if at.numel() else at
    else:
        raise RuntimeError(f"ctc_loss: targets must be 1-D or 2-D, got {targets.ndim} dims")
    return found.masked_fill(inside.logical_not(), blank)


def prepared(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple[Any, Any, Any]:
    """(labels [N, S], input lengths, target lengths), everything checked."""
    if log_probs.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(
            f'"ctc_loss_cpu" not implemented for {log_probs.dtype.name} tensors. Cast to float32 first.'
        )
    times, items, classes = log_probs.shape
    if targets.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"ctc_loss: targets must be int64 or int32, got {targets.dtype.name}")
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    inputs = check_lengths("input_lengths", input_lengths, items)
    lengths = check_lengths("target_lengths", target_lengths, items)
    longest = 0
    if not inputs.is_meta and not lengths.is_meta and items:
        least, most, shortest, longest = extremes(inputs, lengths)
        if not 0 <= least <= most <= times:
            raise RuntimeError(f"ctc_loss: expected input_lengths from 0 to {times}, got {inputs.tolist()}")
        if shortest < 0:
            raise RuntimeError(f"ctc_loss: expected target_lengths of 0 or more, got {lengths.tolist()}")
    inputs, lengths = inputs.to(log_probs.device), lengths.to(log_probs.device)      # lengths on the host were free
    labels = as_matrix(targets, lengths, longest, items, blank)
    if not labels.is_meta and labels.numel():
        least, most = extremes(labels)
        if not 0 <= least <= most < classes:
            raise RuntimeError(
                f"ctc_loss: targets must be classes in [0, {classes}), got values from {least} to {most}"
            )
    return labels, inputs, lengths


def extended(labels: Any, blank: int, like: Any) -> tuple[Any, Any]:
    """Labels with blanks between and around them, [N, 2S + 1], and where a path may skip the blank before."""
    items, count = labels.shape
    wide = labels.new_full((items, 2 * count + 1), blank)
    skip = like.detach().new_full(wide.shape, IMPOSSIBLE)
    if count:
        wide[:, 1::2] = labels
        changes = labels[:, 1:] != labels[:, :-1]
        skip[:, 3::2] = skip[:, 3::2].masked_fill(changes, 0.0)
    return wide, skip


def scores(log_probs: Any, wide: Any, skip: Any, inputs: Any, start: Any, step: int) -> Any:
    """[N, T, 2S + 1] of _ctc_scores, without its edge."""
    result = find_op("_ctc_scores")(*[t.detach().contiguous() for t in (log_probs, wide, skip, inputs, start)], step)
    return result.narrow(2, EDGE, wide.shape[1])


# --- the ops ----------------------------------------------------------------------------------------------------------


class CtcRows(Composite):
    """Minus the log likelihood of every item, and the forward scores it was read from; labels are extended already."""

    schema = (
        "_ctc_rows(Tensor log_probs, Tensor wide, Tensor skip, Tensor input_lengths, Tensor target_lengths, int blank,"
        " bool zero_infinity) -> (Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, log_probs, wide, skip, input_lengths, target_lengths, blank, zero_infinity):
        inputs, lengths = input_lengths, target_lengths
        alpha = scores(log_probs, wide, skip, inputs, inputs * 0, 1)
        items = alpha.shape[0]
        if not log_probs.shape[0]:
            ends = alpha.new_full((items, 2), IMPOSSIBLE)
        else:
            last = alpha.gather(
                1, (inputs - 1).clamp(min=0).reshape(-1, 1, 1).expand(items, 1, alpha.shape[2])
            ).squeeze(1)
            ends = last.gather(1, find_op("stack")([2 * lengths, (2 * lengths - 1).clamp(min=0)], 1))
            # Without labels there is one way to end; without time, none, unless there is nothing to say either.
            ends[:, 1] = ends[:, 1].masked_fill(lengths == 0, IMPOSSIBLE)
        loss = -ends.logsumexp(1)
        return loss.masked_fill((inputs == 0) & (lengths == 0), 0.0), alpha

    def vjp(self, g, log_probs, wide, input_lengths, target_lengths, blank, zero_infinity, result):
        if g[0] is None:
            return {}
        return {
            "log_probs": find_op("_ctc_rows_backward")(
                g[0], log_probs, wide, input_lengths, target_lengths, *result, blank, zero_infinity
            )
        }


class CtcRowsBackward(Composite):
    """Gradient of _ctc_rows: the probabilities, less how often each class is expected at each time."""

    schema = (
        "_ctc_rows_backward(Tensor grad, Tensor log_probs, Tensor wide, Tensor input_lengths, Tensor target_lengths,"
        " Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor"
    )
    function = method = out = False
    differentiable = False

    def compute(
        self, grad, log_probs, wide, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity
    ):
        inputs, lengths = input_lengths, target_lengths
        items, times, width = log_alpha.shape
        if not times or not items:
            return log_probs.new_zeros(log_probs.shape)
        beta = self.beta(log_probs, wide, inputs, lengths, blank)
        place = wide.unsqueeze(1).expand(items, times, width)
        by_item = log_probs.detach().transpose(0, 1)
        expected = (log_alpha + beta + neg_log_likelihood.reshape(-1, 1, 1) - by_item.gather(2, place)).exp()
        reached = counted(width, inputs) < (2 * lengths + 1).unsqueeze(1)
        expected = expected.masked_fill(reached.logical_not().unsqueeze(1), 0.0)
        result = (by_item.exp().scatter_add(2, place, -expected)) * grad.reshape(-1, 1, 1)
        silent = (counted(times, inputs) >= inputs.unsqueeze(1)).unsqueeze(2)
        # no path fits: PyTorch's gradient is NaN throughout
        hopeless = (neg_log_likelihood == float("inf")).reshape(-1, 1, 1)
        result, silent = (
            (result, silent | hopeless) if zero_infinity else (result.masked_fill(hopeless, float("nan")), silent)
        )
        return result.masked_fill(silent, 0.0).transpose(0, 1)

    def beta(self, log_probs: Any, wide: Any, inputs: Any, lengths: Any, blank: int) -> Any:
        """Scores of paths from each position to the end: forward scores of the reversed labels and times, reversed."""
        items, width = wide.shape
        times = log_probs.shape[0]
        column = counted(width, wide)
        mirrored = 2 * lengths.unsqueeze(1) - column            # position L - 1 - s, negative beyond the end
        inside = mirrored >= 0
        mirrored = mirrored.masked_fill(inside.logical_not(), 0)
        transposed = wide.gather(1, mirrored).masked_fill(inside.logical_not(), blank)
        labels = transposed[:, 1::2]
        skip = extended(labels, blank, log_probs)[1]
        result = scores(log_probs, transposed, skip, inputs, inputs - 1, -1)
        moment = (inputs.unsqueeze(1) - 1 - counted(times, wide)).clamp(min=0)
        result = result.gather(1, moment.unsqueeze(2).expand(items, times, width))
        return result.gather(2, mirrored.unsqueeze(1).expand(items, times, width))


class CtcLossRows(Composite):
    """Minus the log likelihood of every item, and the forward scores [N, T, 2S + 1] it was read from."""

    schema = (
        (
            "_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, bool"
            " zero_infinity=False) -> (Tensor, Tensor)"
        ),
        (
            "_ctc_loss.lengths(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int"
            " blank=0, bool zero_infinity=False) -> (Tensor, Tensor)"
        ),
    )
    method = out = False

    def compute(self, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        inputs, lengths = as_tensor(input_lengths, log_probs), as_tensor(target_lengths, log_probs)
        labels, inputs, lengths = prepared(log_probs, targets, inputs, lengths, blank)
        return find_op("_ctc_rows")(
            log_probs, *extended(labels, blank, log_probs), inputs, lengths, blank, zero_infinity
        )


class CtcLossBackward(Composite):
    """Gradient of _ctc_loss from its results."""

    schema = (
        (
            "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor"
            " target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) ->"
            " Tensor"
        ),
        (
            "_ctc_loss_backward.lengths(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[]"
            " target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) ->"
            " Tensor"
        ),
    )
    function = method = out = False
    differentiable = False

    def compute(
        self,
        grad,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        neg_log_likelihood,
        log_alpha,
        blank,
        zero_infinity,
    ):
        inputs, lengths = as_tensor(input_lengths, log_probs), as_tensor(target_lengths, log_probs)
        labels, inputs, lengths = prepared(log_probs, targets, inputs, lengths, blank)
        wide = extended(labels, blank, log_probs)[0]
        return find_op("_ctc_rows_backward")(
            grad, log_probs, wide, inputs, lengths, neg_log_likelihood, log_alpha, blank, zero_infinity
        )


def as_tensor(lengths: Any, like: Any) -> Any:
    """Lengths given as a list, as a tensor; a tensor stays where it is."""
    if isinstance(lengths, _C.Tensor):
        return lengths
    if not len(lengths):
        return like.detach().new_empty((0,), dtype=_C.int64)
    return find_op("stack")([like.detach().new_full((), n, dtype=_C.int64) for n in lengths])


REDUCTIONS = ("none", "mean", "sum")


class CtcLoss(Composite):
    """Minus the log likelihood of label sequences under per-time log probabilities, over all alignments."""

    schema = (
        (
            "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, str"
            " reduction='mean', bool zero_infinity=False) -> Tensor"
        ),
        (
            "ctc_loss.Lengths(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0,"
            " str reduction='mean', bool zero_infinity=False) -> Tensor"
        ),
        (
            "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int"
            " blank=0, int reduction=1, bool zero_infinity=False) -> Tensor"
        ),
        (
            "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0,"
            " int reduction=1, bool zero_infinity=False) -> Tensor"
        ),
    )
    aliases = ("nn.functional.ctc_loss",)
    method = out = False

    def compute(self, log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
        reduction = REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
        check_reduction("ctc_loss", reduction)
        if log_probs.ndim not in (2, 3):
            raise RuntimeError(f"ctc_loss: log_probs must be [T, N, C] or [T, C], got {log_probs.ndim} dims")
        batched = log_probs.ndim == 3
        inputs, lengths = as_tensor(input_lengths, log_probs), as_tensor(target_lengths, log_probs)
        if not batched:
            log_probs, inputs, lengths = log_probs.unsqueeze(1), inputs.reshape(1), lengths.reshape(1)
        loss = find_op("_ctc_loss")(log_probs, targets, inputs, lengths, blank, zero_infinity)[0]
        if zero_infinity:
            loss = loss.masked_fill(loss == float("inf"), 0.0)
        if reduction == "mean":
            return (loss / lengths.clamp(min=1).to(loss.device, loss.dtype)).mean()
        loss = reduced(loss, reduction)
        return loss if batched or reduction == "sum" else loss.squeeze(0)
