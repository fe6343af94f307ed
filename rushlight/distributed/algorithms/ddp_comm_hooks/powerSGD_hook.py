"""PowerSGD (Vogels, Karimireddy and Jaggi, 2019): gradients sent as products of two thin matrices.

A gradient M of n x m is sent as P = M Q (n x r) and Q' = M^T P (m x r), each averaged over the processes; P Q'^T is
what is used, and the difference is added to the next step's gradient, so that nothing is lost in the long run.
Gradients that would not get smaller (vectors, thin matrices) are averaged as they are.
"""

from __future__ import annotations

from typing import Any

from .... import _C
from ....futures import Future
from ....op import find_op
from ...collectives import all_reduce
from ...groups import resolve
from ...reducer import GradBucket
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
_randn, _qr, _cat = find_op("randn"), find_op("linalg_qr"), find_op("cat")


class PowerSGDState:
    """What the hook keeps between steps, and when it begins."""

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,   # noqa: N803
        min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0, compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
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
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = _C.Generator().manual_seed(random_seed)      # the same on every process
        self.iter = 0
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


def _is_worth_it(matrix: Any, rank: int, rate: float) -> bool:
    return matrix.dim() == 2 and sum(matrix.shape) * rank * rate < matrix.numel()


def _start(state: PowerSGDState, columns: int, rank: int, like: Any) -> Any:
    q = _randn((columns, rank), generator=state.generator, dtype=like.dtype)
    return _qr(q)[0]


def _mean_all(tensors: list[Any], group: Any) -> list[Any]:
    """The means of several tensors, sent as one."""
    if not tensors:
        return []
    flat = _cat([t.reshape(-1) for t in tensors]).div_(group.size())
    all_reduce(flat, group=group)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors)]


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:   # noqa: N802
    """The mean, approximately, in far fewer bytes."""
    group = resolve(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    buffer, index = bucket.buffer(), bucket.index()
    if state.use_error_feedback:
        if index in state.error_dict:
            buffer.add_(state.error_dict[index])
        before = buffer.clone()
    matrices, rest = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else gradient
        rank = min(state.matrix_approximation_rank, *matrix.shape) if matrix.dim() == 2 else 1
        is_matrix = _is_worth_it(matrix, rank, state.min_compression_rate)
        (matrices if is_matrix else rest).append(matrix)
    _count_elements(state, matrices, rest)
    for gradient, mean in zip(rest, _mean_all(rest, group)):
        gradient.copy_(mean)
    _approximate(state, index, matrices, group)
    if state.use_error_feedback:
        state.error_dict[index] = before.sub_(buffer)
        for gradient in rest:       # those were sent whole: nothing is owed
            _place(state.error_dict[index], buffer, gradient).zero_()
    state.maybe_increase_iter(bucket)
    future: Future = Future()
    future.set_result(buffer)
    return future


def _place(flat: Any, buffer: Any, view: Any) -> Any:
    start = view.storage_offset() - buffer.storage_offset()
    return flat[start : start + view.numel()]


def _count_elements(state: PowerSGDState, matrices: list[Any], rest: list[Any]) -> None:
    whole = sum(t.numel() for t in rest)
    rank = state.matrix_approximation_rank
    state.total_numel_before_compression += whole + sum(m.numel() for m in matrices)
    state.total_numel_after_compression += whole + sum(sum(m.shape) * min(rank, *m.shape) for m in matrices)


def _approximate(state: PowerSGDState, index: int, matrices: list[Any], group: Any) -> None:
    known = state.q_memory_dict.get(index) if state.warm_start else None
    if known is None:
        rank = state.matrix_approximation_rank
        known = [_start(state, m.shape[1], min(rank, *m.shape), m) for m in matrices]
    else:
        known = [_qr(q)[0] for q in known]
    left = [_qr(p)[0] for p in _mean_all([m @ q for m, q in zip(matrices, known)], group)]
    right = _mean_all([m.t() @ p for m, p in zip(matrices, left)], group)
    for matrix, p, q in zip(matrices, left, right):
        matrix.copy_(p @ q.t())
    if state.warm_start:
        state.p_memory_dict[index], state.q_memory_dict[index] = left, right


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:   # noqa: N802
    """The same for the whole bucket as one square matrix: faster, and less exact."""
    group = resolve(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    buffer, index = bucket.buffer(), bucket.index()
    side = int(buffer.numel() ** 0.5)
    side += side * side < buffer.numel()
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()].copy_(buffer)
    if state.use_error_feedback:
        if index in state.error_dict:
            square.add_(state.error_dict[index])
        before = square.clone()
    _approximate(state, index, [square.view(side, side)], group)
    if state.use_error_feedback:
        state.error_dict[index] = before.sub_(square)
    state.maybe_increase_iter(bucket)
    future: Future = Future()
    future.set_result(buffer.copy_(square[: buffer.numel()]))
    return future
