"""`loss_parallel`: cross entropy of scores whose classes are spread over processes, without gathering them.

Within it, `cross_entropy` of scores cut along their classes takes three sums over the processes of that mesh dimension
(the largest score, the sum of exponentials, the score of the target) of one number a row each; the gradient stays where
the scores are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....fake import FakeTensor
from ... import _functional_collectives as functional
from .. import _dispatch
from .._dtensor_spec import DTensorSpec, TensorMeta
from .._utils import compute_local_shape_and_global_offset
from ..placement_types import Placement, Replicate, Shard

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Within, `cross_entropy` works on scores that are cut along their classes; plain targets and weights count as
    copies on every process. The backward pass must be within, too."""
    before = dict(_dispatch.special)
    _dispatch.special.update({"_cross_entropy_rows": _rows, "_cross_entropy_rows_backward": _rows_backward})
    try:
        with _dispatch.implicit_replication():
            yield
    finally:
        _dispatch.special.clear()
        _dispatch.special.update(before)


def _class_axis(scores: Any) -> int | None:
    """The mesh dimension that cuts the classes; None where none does."""
    found = [i for i, placement in enumerate(scores.placements) if placement == Shard(1)]
    if len(found) > 1:
        raise ValueError(f"loss_parallel: one mesh dimension may cut the classes, not several: {scores.placements}")
    return found[0] if found else None


def _beside(scores: Any, axis: int) -> tuple[Placement, ...]:
    """How a column of one number a row lies beside the scores."""
    return tuple(Replicate() if i == axis else placement for i, placement in enumerate(scores.placements))


def _local(tensor: Any, placements: tuple[Placement, ...]) -> Any:
    return _dispatch.moved_local(tensor, tensor._spec.but(placements=placements))


def _held(scores: Any, index: Any) -> tuple[Any, Any]:
    """(place of each row's target among the classes of this process, whether it is one of them)."""
    (_, count), (_, start) = compute_local_shape_and_global_offset(scores.shape, scores.device_mesh, scores.placements)
    here = (index >= start) & (index < start + count)
    return (index - start).clamp(0, max(count - 1, 0)), here


def _column(scores: Any, values: Any, axis: int) -> Any:
    """One number a row, distributed."""
    shape = (scores.shape[0], 1)
    spec = DTensorSpec(scores.device_mesh, _beside(scores, axis), TensorMeta(shape, (1, 1), values.dtype))
    return type(scores)(values, spec, requires_grad=False)


def _rows(bound: tuple, given: list[Any]) -> Any:
    """(-log softmax of the target, log of the sum of exponentials), each [rows, 1]."""
    scores, target = given
    axis = _class_axis(scores)
    if axis is None:
        return NotImplemented
    group = (scores.device_mesh, axis)
    local, index = scores._local_tensor, _local(target, _beside(scores, axis))
    wrong = (index < 0) | (index >= scores.shape[1])
    if not isinstance(index, FakeTensor) and bool(wrong.any()):
        bad = index.masked_select(wrong)[0].item()
        raise IndexError(f"cross_entropy: Target {bad} is out of bounds: expected 0 <= target < {scores.shape[1]}.")
    count = local.shape[1]
    top = local.amax(1, keepdim=True) if count else local.new_full((local.shape[0], 1), float("-inf"))
    top = functional.all_reduce(top, "max", group)
    total = functional.all_reduce((local - top).exp().sum(1, keepdim=True), "sum", group)
    lse = total.log() + top
    place, here = _held(scores, index)
    # in a graph, what is wrong is left for the op to find
    chosen = local.gather(1, place.masked_fill(wrong, count)) if count else local.new_zeros((local.shape[0], 1))
    chosen = functional.all_reduce(chosen.masked_fill(here.logical_not(), 0.0), "sum", group)
    return _column(scores, lse - chosen, axis), _column(scores, lse, axis)


def _rows_backward(bound: tuple, given: list[Any]) -> Any:
    """The softmax of this process's classes, less one at the target, times the row's gradient."""
    grad, scores, target, lse = given
    axis = _class_axis(scores)
    if axis is None:
        return NotImplemented
    beside = _beside(scores, axis)
    g, index, total = (_local(t, beside) for t in (grad, target, lse))
    place, here = _held(scores, index)
    result = (scores._local_tensor - total).exp()
    if result.shape[1]:
        result = result.scatter_add(1, place, here.logical_not().to(result.dtype) - 1.0)
    return type(scores)(result * g, scores._spec, requires_grad=False)
