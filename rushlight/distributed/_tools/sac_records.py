"""What is known of a module for selective checkpointing: its ops, their costs, and the order to recompute them in."""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class OpRecord:
    """One call: its cost, its number, its results' storages, (itself, first writer) of one that writes in place."""

    func: Any
    time_taken: float
    memory_used: int
    curr_idx: int
    output_ids: tuple[int, ...]
    inplace_info: tuple[int, ...]
    is_view_like: bool
    is_rand_op: bool


@dataclass
class ModuleRecord:
    """The calls of a module that has parts, from a number on."""

    start_idx: int
    force_store_random: bool
    sac_metadata: list[OpRecord]


@dataclass
class SACStats:
    """A module's ops by number: names, milliseconds, bytes; which are views, random, saved for backward, in place."""

    func_names: list[str]
    runtimes: list[float]
    memory: list[int]
    view_like_ops: list[int]
    rand_ops: list[int]
    saved_autograd_ops: list[int]
    inplace_ops: list[tuple[int, int]]
    force_store_random: bool


class MSPS(NamedTuple):
    """A candidate for recomputation: the ops' names, the first one's number, bytes, milliseconds, and their ratio."""

    func_names: set[str]
    op_idx: int
    memory: int
    runtime: float
    msps: float


@dataclass
class SACTradeOffStats:
    """Time of recomputation over memory given up, and the pieces of lines fitted to it."""

    n_segments: int
    slopes: list[float]
    intercepts: list[float]
    fit_breaks: list[float]
    tradeoff_curve: OrderedDict[float, float]
    sac_memory: int
    sac_runtime: float


@dataclass
class SACGreedyOrderMeta:
    """Ops always recomputed and always stored, those that go together, and the candidates, best first."""

    recomputed_ops: set[int]
    stored_ops: set[int]
    inplace_op_groups: dict[int, set[int]]
    random_ops_group: dict[int, set[int]]
    msps_meta: list[MSPS]

    def together(self, op_idx: int) -> set[int]:
        """The ops that are stored or recomputed with this one."""
        return {op_idx, *self.inplace_op_groups.get(op_idx, ()), *self.random_ops_group.get(op_idx, ())}


def greedy_order(stats: SACStats) -> SACGreedyOrderMeta:
    """Which ops to recompute first: those that free most memory per time. Ops on one storage go together, random ones
    too, for they draw from one generator; views are always recomputed."""
    heads = dict(stats.inplace_ops)
    groups: dict[int, set[int]] = {}
    for op, head in heads.items():
        groups.setdefault(head, {head}).add(op)
    random_ops = set(stats.rand_ops)
    random_head = min(random_ops, default=-1)
    random_group = {random_head: random_ops} if random_ops else {}
    # a group that begins with a write has its first value from elsewhere: it cannot be computed again
    stored = {head for head in groups if head in heads}
    if stats.force_store_random:
        stored |= {random_head} if random_ops else set()
        stored |= {head for head, group in groups.items() if group & random_ops}
    recomputed = set(stats.view_like_ops)
    plain = set(range(len(stats.memory))) - recomputed - stored - set(heads) - random_ops
    candidates = plain | (set(groups) - stored) | ({random_head} - stored if random_ops else set())
    found = SACGreedyOrderMeta(recomputed, stored, groups, random_group, [])
    for op in candidates:
        ops = found.together(op)
        memory, runtime = sum(stats.memory[i] for i in ops), sum(stats.runtimes[i] for i in ops)
        ratio = memory / runtime if runtime > 0 else sys.float_info.max
        found.msps_meta.append(MSPS({stats.func_names[i] for i in ops}, op, memory, runtime, ratio))
    found.msps_meta.sort(key=lambda each: each.msps, reverse=True)
    return found


