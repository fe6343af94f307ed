"""PowerSGD (Vogels, Karimireddy and Jaggi, 2019): gradients sent as products of two thin matrices.

A gradient M of n x m is sent as P = M Q (n x r) and Q' = M^T P (m x r), each averaged over the processes; P Q'^T is
what is used, and the difference is added to the next step's gradient, so that nothing is lost in the long run.
Gradients that would not get smaller (vectors, thin matrices) are averaged as they are.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from .... import _C
from ....futures import Future
from ....op import find_op
from ...collectives import all_reduce
from ...groups import resolve
from ...reducer import GradBucket
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
_randn, _qr, _cat, _stack = find_op("randn"), find_op("linalg_qr"), find_op("cat"), find_op("stack")
_log = logging.getLogger("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
_SEEDS = 1_000_000_000


class PowerSGDState:
    """What the hook keeps between steps, and when it begins.

    Arguments:
        process_group: which processes; None for all
        matrix_approximation_rank: the width of the thin matrices
        start_powerSGD_iter: how many steps send gradients whole
        min_compression_rate: a gradient is approximated if that makes it this many times smaller
        use_error_feedback: whether what an approximation lost is added to the next gradient
        warm_start: whether a step begins with the thin matrices of the last
        orthogonalization_epsilon: added to the lengths that columns are divided by (ranks 1 and 2)
        random_seed: of the first thin matrices, the same in all processes
        compression_stats_logging_frequency: after how many steps the rate is logged
        batch_tensors_with_same_shape: whether gradients of one shape are multiplied together
    """

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,   # noqa: N803
        min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0, compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        import numpy as np  # loaded with the first call that needs it

        if matrix_approximation_rank < 1:
            raise ValueError(
                f"PowerSGDState: matrix_approximation_rank must be positive, got {matrix_approximation_rank}"
            )
        if start_powerSGD_iter <= 1 and (use_error_feedback or warm_start):
            raise ValueError(
                f"PowerSGDState: with error feedback or warm start, start_powerSGD_iter must be at least 2 (the first "
                f"step makes the buckets), got {start_powerSGD_iter}"
            )
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = np.random.RandomState(random_seed)       # the same on every process
        self.iter = self.next_stats_report = 0
        self.error_dict: dict[int, Any] = {}
        self.p_memory_dict: dict[int, list[Any]] = {}
        self.q_memory_dict: dict[int, list[Any]] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """The last bucket of a pass ends a step."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """(rate, elements before, elements sent) so far."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def _report(self, bucket: GradBucket) -> None:
        if bucket.is_last() and self.iter >= self.next_stats_report:
            rate, before, after = self.compression_stats()
            _log.info("PowerSGD: step %s: %s elements sent as %s, %.3g times fewer", self.iter, before, after, rate)
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, process_group=None)     # a group cannot be saved: it becomes all processes


def _rank_of(state: PowerSGDState, rows: int, columns: int) -> int:
    return min(rows, columns, state.matrix_approximation_rank)


def _orthogonal(matrices: Any, epsilon: float) -> Any:
    """Orthonormal columns of the same span, for each matrix of a batch."""
    if matrices.shape[2] > 2 and matrices.dtype not in (_C.float16, _C.bfloat16):
        return _qr(matrices)[0]
    done: list[Any] = []        # two columns or a half dtype: one by one, each made orthogonal to those before
    for i in range(matrices.shape[2]):
        column = matrices[:, :, i : i + 1]
        for earlier in done:
            column = column - (earlier * column).sum(1, keepdim=True) * earlier
        done.append(column / (column.norm(dim=1, keepdim=True) + epsilon))
    return _cat(done, 2)


def _first(state: PowerSGDState, shapes: list[tuple[int, ...]], like: Any) -> list[Any]:
    """The thin matrices that a bucket begins with; the program's own random numbers stay as they are."""
    generator = _C.Generator().manual_seed(int(state.rng.randint(_SEEDS)))
    return [_randn(shape, generator=generator, dtype=like.dtype).to(like.device) for shape in shapes]


def _sum_all(tensors: list[Any], group: Any) -> list[Any]:
    """The sums of several tensors, sent as one."""
    if not tensors:
        return []
    flat = _cat([t.reshape(-1) for t in tensors])
    all_reduce(flat, group=group)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors)]


def _approximate(state: PowerSGDState, index: int, batches: list[Any], group: Any, epsilon: float) -> list[Any]:
    """What all processes' matrices come to, in thin ones: [b, n, m] each."""
    known = state.q_memory_dict.get(index) if state.warm_start else None
    if known is None:
        shapes = [(b.shape[0], b.shape[2], _rank_of(state, *b.shape[1:])) for b in batches]
        known = _first(state, shapes, batches[0]) if batches else []
    known = [_orthogonal(q, epsilon) for q in known]
    left = [_orthogonal(p, epsilon) for p in _sum_all([b @ q for b, q in zip(batches, known)], group)]
    right = [
        q.div_(group.size()) for q in _sum_all([b.transpose(1, 2) @ p for b, p in zip(batches, left)], group)
    ]
    if state.warm_start:
        state.p_memory_dict[index], state.q_memory_dict[index] = left, right
    return [p @ q.transpose(1, 2) for p, q in zip(left, right)]


def _batched(state: PowerSGDState, matrices: list[Any]) -> list[list[Any]]:
    """Matrices that are multiplied together: those of one shape, or each alone."""
    by_shape: dict[tuple[int, ...], list[Any]] = {}
    for matrix in matrices:
        by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
    if state.batch_tensors_with_same_shape:
        return list(by_shape.values())
    return [[matrix] for same in by_shape.values() for matrix in same]


def _with_feedback(state: PowerSGDState, index: int, flat: Any, approximate: Callable[[], None]) -> None:
    """Replace what is in `flat`, and keep the difference for the next step."""
    if not state.use_error_feedback:
        approximate()
        return
    if index in state.error_dict:
        flat.add_(state.error_dict[index])
    before = flat.clone()
    approximate()
    state.error_dict[index] = before.sub_(flat)


def _done(state: PowerSGDState, bucket: GradBucket, flat: Any) -> Future:
    state.maybe_increase_iter(bucket)
    future: Future = Future()
    future.set_result(flat)
    return future


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:   # noqa: N802
    """The mean, approximately, in far fewer bytes."""
    group = resolve(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    matrices, rest = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() else gradient.view(1, 1)
        thin = sum(matrix.shape) * _rank_of(state, *matrix.shape)
        is_worth_it = thin * state.min_compression_rate < matrix.numel()
        (matrices if is_worth_it else rest).append(matrix)
        state.total_numel_before_compression += matrix.numel()
        state.total_numel_after_compression += thin if is_worth_it else matrix.numel()
    state._report(bucket)

    def approximate() -> None:
        for gradient, total in zip(rest, _sum_all(rest, group)):
            gradient.copy_(total.div_(group.size()))
        batches = _batched(state, matrices)
        stacked = [_stack(batch) if len(batch) > 1 else batch[0].unsqueeze(0) for batch in batches]
        approximations = _approximate(state, bucket.index(), stacked, group, state.orthogonalization_epsilon)
        for batch, results in zip(batches, approximations):
            for matrix, result in zip(batch, results):
                matrix.copy_(result)

    _with_feedback(state, bucket.index(), bucket.buffer(), approximate)
    return _done(state, bucket, bucket.buffer())


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:   # noqa: N802
    """The same for the whole bucket as one square matrix: faster, and less exact."""
    group = resolve(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    buffer = bucket.buffer()
    side = math.isqrt(buffer.numel() - 1) + 1
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += 2 * side * _rank_of(state, side, side)
    state._report(bucket)
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()].copy_(buffer)

    def approximate() -> None:
        square.copy_(_approximate(state, bucket.index(), [square.view(1, side, side)], group, 0)[0].view(-1))

    _with_feedback(state, bucket.index(), square, approximate)
    return _done(state, bucket, buffer.copy_(square[: buffer.numel()]))
