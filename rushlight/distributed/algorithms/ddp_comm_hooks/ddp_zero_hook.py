"""Hooks that make the steps of a `ZeroRedundancyOptimizer` while later buckets are still being reduced.

A bucket that has been reduced is stepped by the process (or processes) that its parameters belong to, and sent to the
others. As in PyTorch, the first two passes (three with static_graph) change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import _C
from ....futures import Future
from ...reducer import GradBucket

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]
Hook = Callable[[Any, GradBucket], Future]


class _Overlap:
    """What one model and its optimizer have under way in this pass."""

    def __init__(self, ddp: Any, zero: Any, shards_buckets: bool) -> None:
        self.ddp, self.zero, self.shards_buckets = ddp, zero, shards_buckets
        self.idle_passes = 3 if ddp.static_graph else 2
        self.passes = 0
        self.owners: list[list[tuple[int, list[Any]]]] = []
        self.waiting: list[tuple[GradBucket, Future]] = []
        self.works: list[Any] = []

    def is_idle(self, bucket: GradBucket) -> bool:
        """Whether this pass only shows what the buckets are."""
        idle = self.passes < self.idle_passes
        if bucket.is_last():
            self.passes += 1
            if idle and self.passes == self.idle_passes:
                buckets = [list(b.parameters) for b in self.ddp.reducer.buckets]
                self.owners = _owners(buckets, self.zero.world_size, self.shards_buckets)
                self.zero._take_bucket_shares(buckets, self.owners)
        return idle

    def step(self, bucket: GradBucket, future: Future) -> None:
        """The bucket's own part of the optimizer's step; then its parameters are on their way."""
        value = future.wait()
        flat = value[0] if isinstance(value, (list, tuple)) else value
        sizes = [p.numel() for p in bucket.parameters()]
        gradients = {id(p): g.view(p.shape) for p, g in zip(bucket.parameters(), flat.split(sizes))}
        for rank, params in self.owners[bucket.index()]:
            if rank == self.zero.rank:
                self.zero._step_only(params, gradients)
            self.works.append(self.zero._send([p.detach() for p in params], rank, in_background=True))

    def finish(self) -> None:
        """All parameters have arrived before the backward pass returns."""
        for work in self.works:
            work.wait()
        self.works = []


def _owners(buckets: list[list[Any]], processes: int, shards: bool) -> list[list[tuple[int, list[Any]]]]:
    if not shards:
        return [[(i % processes, params)] for i, params in enumerate(buckets)]
    limit = sum(p.numel() for params in buckets for p in params) / processes
    filled = [0] * processes
    owners: list[list[tuple[int, list[Any]]]] = [[] for _ in buckets]
    for i, params in sorted(enumerate(buckets), key=lambda item: sum(p.numel() for p in item[1])):
        for part in _parts(params, limit):
            taken = {rank for rank, _ in owners[i]}
            rank = min((r for r in range(processes) if r not in taken), key=lambda r: filled[r])
            owners[i].append((rank, part))
            filled[rank] += sum(p.numel() for p in part)
    return owners


def _parts(params: list[Any], limit: float) -> list[list[Any]]:
    parts: list[list[Any]] = [[]]
    for p in params:
        if parts[-1] and sum(q.numel() for q in parts[-1]) + p.numel() >= limit:
            parts.append([])
        parts[-1].append(p)
    return parts


def _made(hook: Hook, ddp: Any, zero: Any, shards_buckets: bool, steps_at_once: bool) -> Hook:
    if not zero._overlap_with_ddp:
        raise ValueError("hook_with_zero_step: the ZeroRedundancyOptimizer must be made with overlap_with_ddp=True")
    overlap = _Overlap(ddp, zero, shards_buckets)

    def reduce_and_step(state: Any, bucket: GradBucket) -> Future:
        future = hook(state, bucket)
        if overlap.is_idle(bucket):
            return future
        overlap.waiting.append((bucket, future))
        # One bucket stays under way while the one before it is stepped; or all wait for the last.
        ready = overlap.waiting if bucket.is_last() else overlap.waiting[:-1] if steps_at_once else []
        for earlier in list(ready):
            overlap.step(*earlier)
            overlap.waiting.remove(earlier)
        if bucket.is_last():
            _C.queue_callback(overlap.finish)
        return future

    return reduce_and_step


def hook_with_zero_step(hook: Hook, ddp: Any, zero: Any, shard_buckets: bool = False) -> Hook:
    """`hook`, and the optimizer's steps once the last bucket has been begun.

    With `shard_buckets` a bucket may belong to several processes, so that their shares are more even."""
    return _made(hook, ddp, zero, shard_buckets, steps_at_once=False)


def hook_with_zero_step_interleaved(hook: Hook, ddp: Any, zero: Any, shard_buckets: bool = False) -> Hook:
    """`hook`, and the optimizer's step of each bucket while the next one is reduced."""
    return _made(hook, ddp, zero, shard_buckets, steps_at_once=True)
