"""Planning how often small numbers occur, on devices that load written kernels (codegen/nvptx/counts.py), and on hosts
where there are few.

Enters: a tensor of numbers, and how many of them are asked for. Leaves: whether a kernel serves, and its schedule: the
results are cleared, then blocks count portions of the tensor in memory of their own, and add up; on hosts one pass
counts.
"""

from __future__ import annotations

from typing import Any

from ...codegen.nvptx.counts import ROOMS, STEP, counting
from ...codegen.schedule.forms.launch import Launch, Schedule
from ...codegen.schedule.forms.loops import clear_launch
from ...devices import handlers
from ...loops.expr import cast, const, ge, load, lt, var
from ...loops.nest import Assign, For, If, Local, Nest, Store, operands, rows

COUNTING = 1056     # blocks that keep a unit busy
MOST = 1 << 31      # elements that written kernels can count


def has_counts(t: Any, bins: int) -> bool:
    """Whether `_count_numbers` serves so many numbers there."""
    handler = handlers.get(t.device.type)
    return handler is not None and handler.loads_written and 0 < bins <= ROOMS[-1] and 0 < t.numel() < MOST


def counts_schedule(code: str, length: int, bins: int) -> Schedule:
    """How often each number from 0 up to `bins` occurs among `length` of a type."""
    room = next(n for n in ROOMS if n >= bins)
    portion = -(-length // (COUNTING * STEP)) * STEP
    key, params = ("count", code, room), (length, portion, bins)
    counts = Launch(key, lambda: counting(code, room), (0, 1), params, -(-length // portion), 1)
    return Schedule((clear_launch("i64", (bins,), 1), counts))


def few_counts_nest(code: str, weight: str = "") -> Nest:
    """How often each number from 0 on occurs, one by one, or the sum of its weights; others are not counted."""
    zero, at, length, out = const(0, "i64"), var("at"), var("length"), 2 if weight else 1
    kind = weight or "i64"
    amount = load(1, var("j"), weight) if weight else const(1, "i64")
    clear = For("k", zero, length, (Store(out, var("k"), const(0, kind)),))
    once = If(ge(at, zero) & lt(at, length), (Store(out, at, load(out, at, kind) + amount),))
    walk = For("j", zero, var("numel"), (Assign("at", cast(load(0, var("j"), code), "i64")), once))
    reads = [code, weight] if weight else [code]
    return Nest("few_counts", operands(reads, [kind]), ("numel", "length"), rows(Local("at", zero), clear, walk))


def few_counts_schedule(code: str, numel: int, length: int, weight: str = "") -> Schedule:
    """How often each number from 0 up to `length` occurs among a few of a type, or the sums of their weights."""
    which = (0, 1, 2) if weight else (0, 1)
    return Schedule((Launch((code, weight), lambda: few_counts_nest(code, weight), which, (numel, length), 1, 1),))
