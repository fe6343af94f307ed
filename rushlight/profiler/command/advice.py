"""What to do about a slow program, by rules.

Enters: ops, lines, shares and the calls of a run. Leaves: `Advice`, the most expensive first, each with what speaks for
it and the lines it is about; and a word for single lines. A rule says nothing where little time is at stake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .events import LOADER, Events, Kind
from .findings import DATA, MEMORY, OVERHEAD, Advice, OpRow
from .lines import Line
from .units import count_text, share_text, time_text
from .verdicts import Verdicts

WORTH = 0.04                 # of the wall clock: below that a rule is silent
MANY = 200                   # calls that are a loop
DENSE = 4                    # operations per byte of what no joining helps: products
SMALL_US = 20.0              # a call that is small
PLACES = 3
READS = ("aten::item", "aten::_local_scalar_dense", "aten::tolist", "aten::is_nonzero")
COPIES = ("aten::contiguous", "aten::clone", "aten::copy_", "aten::_to_copy", "aten::to")


@dataclass(frozen=True)
class Case:
    """What rules look at."""

    events: Events
    verdicts: Verdicts
    ops: tuple[OpRow, ...]
    lines: Sequence[Line]
    share: dict[str, float]
    wall_us: float

    def is_worth(self, us: float) -> bool:
        """Whether so much time is worth a word; kernels are made once, and count with the making of kernels only."""
        return us > WORTH * (self.wall_us - self.verdicts.making_ns / 1e3)

    def places(self, weight: Callable[[Line], float]) -> tuple[str, ...]:
        """The lines that something weighs most on."""
        weighed = sorted([(weight(line), line.place) for line in self.lines], reverse=True)
        most = weighed[0][0] if weighed else 0
        return tuple([place for w, place in weighed[:PLACES] if w > 0.1 * most and w > 0])


def data_waits(case: Case) -> Iterator[Advice]:
    """Batches that were not there when they were wanted."""
    us = case.share[DATA] * case.wall_us
    if not case.is_worth(us):
        return
    e = case.events
    alone = bool((e.named(f"{LOADER}#_SingleProcess")).any())
    how = (
        "the DataLoader has no workers, so each batch is made while the program waits. Give it num_workers="
        if alone
        else "its workers do not keep up. Give the DataLoader more num_workers, a larger prefetch_factor, or do less"
        " per example"
    )
    yield Advice(
        "data", "Fetch batches ahead", f"{share_text(case.share[DATA])} of the run waits for data: {how}"
        + ("2 or more, or do less per example." if alone else "."), us, case.places(lambda line: line.data),
    )


def small_ops(case: Case) -> Iterator[Advice]:
    """Many calls that do next to nothing each."""
    small = [row for row in case.ops if row.bound == OVERHEAD and row.us < SMALL_US * row.count]
    us, count = sum([row.us for row in small]), sum([row.count for row in small])
    names = {row.name for row in small}

    def weight(line: Line) -> float:
        return sum([n for name, (n, _) in line.ops.items() if name in names])

    around = [line.time - line.kernel - line.data - line.making for line in case.lines if weight(line) >= MANY]
    spent = max(us, sum(around) / 1e3)
    if count < 10 * MANY or not case.is_worth(spent):
        return
    yield Advice(
        "small-ops", "Join small ops",
        f"{count_text(count)} calls of small ops ({time_text(us / count)} each) cost more around the kernels than in"
        " them. Compile the function (torch.compile), or work on larger tensors instead of a loop in Python.",
        spent, case.places(weight),
    )


def memory_chains(case: Case) -> Iterator[Advice]:
    """Pointwise ops one after the other, each through memory."""
    rows = [row for row in case.ops if row.bound == MEMORY and (row.flops or 0) < DENSE * (row.bytes or 1)]
    us = sum([row.us for row in rows])
    if not case.is_worth(us / 3):
        return
    names = [row.name for row in rows]
    shown = ", ".join(names[:4])
    yield Advice(
        "memory", "Touch memory less often",
        f"{shown} wait for memory. torch.compile joins such ops into one kernel that reads and writes once; in-place"
        " forms and narrower types (bfloat16) move less, too.",
        us, case.places(lambda line: sum([t for name, (_, t) in line.ops.items() if name in names])),
    )


def double_precision(case: Case) -> Iterator[Advice]:
    """float64 in a program that may not have meant it."""
    e, verdicts = case.events, case.verdicts
    wide = np.asarray([is_double(call) for call in e.calls] or [False])
    plain = {name.partition("::")[2] for name in COPIES}
    moves = np.asarray([name.partition("::")[2] in plain for name in e.names] or [False])    # a conversion is the cure
    chosen = (e.inputs >= 0) & wide[np.maximum(e.inputs, 0)] & e.is_kind(Kind.OP, Kind.INNER) if len(e) else np.zeros(0)
    chosen = chosen & ~moves[e.name] if len(e) else chosen
    us = float(verdicts.own[chosen.astype(bool)].sum()) / 1e3 if len(e) else 0.0
    us = max(us, float(verdicts.kernel[inside(e, chosen)].sum()) / 1e3) if len(e) else us
    if not case.is_worth(us):
        return
    names = {e.names[k] for k in np.unique(e.name[verdicts.owner[chosen & (verdicts.owner >= 0)]])}
    yield Advice(
        "float64", "Compute in float32",
        "ops ran on float64 tensors: twice the bytes and half the arithmetic per second. If that is not on purpose,"
        " convert the data once (.float()); NumPy's arrays and Python's numbers are float64.",
        us, case.places(lambda line: sum([t for name, (_, t) in line.ops.items() if name in names])),
    )


def inside(events: Events, is_marked: np.ndarray) -> np.ndarray:
    """Events of the marked calls, kernels within them included."""
    return events.within(is_marked.astype(bool))


def is_double(call: tuple) -> bool:
    """Whether a call was given a tensor of float64 with more than a few elements."""

    def wide(a: object) -> bool:
        if isinstance(a, list):
            return str(a[2]).endswith(("float64", "complex128")) and len(a[0]) > 0
        return isinstance(a, tuple) and any(wide(x) for x in a)

    return any(wide(a) for a in call[2])


def reading_back(case: Case) -> Iterator[Advice]:
    """Numbers read out of tensors inside a loop."""
    rows = [row for row in case.ops if row.name in READS]
    count, us = sum([row.count for row in rows]), sum([row.us for row in rows])

    def weight(line: Line) -> float:
        return sum([n for name, (n, _) in line.ops.items() if name in READS])

    spent = max(us, sum([line.time for line in case.lines if weight(line) >= MANY]) / 1e3)
    if count < MANY or spent < 0.01 * case.wall_us:
        return
    yield Advice(
        "item", "Read numbers out of tensors once",
        f"{count_text(count)} numbers were read out of tensors (.item(), float(), bool()). Each waits until the tensor"
        " is there, on a GPU for everything before it. Keep a tensor and read it after the loop.",
        spent, case.places(weight),
    )


def copying(case: Case) -> Iterator[Advice]:
    """Elements moved to another order or type only."""
    rows = [row for row in case.ops if row.name in COPIES]
    us = sum([row.us for row in rows])
    if not case.is_worth(us):
        return
    names = {row.name for row in rows}
    yield Advice(
        "copies", "Copy less",
        f"{', '.join(sorted(names))} only move elements to another order, type or place. Keep tensors in the layout"
        " that the next op wants, convert once before the loop, and write into tensors that exist (out=, in-place).",
        us, case.places(lambda line: sum([t for name, (_, t) in line.ops.items() if name in names])),
    )


def making_kernels(case: Case) -> Iterator[Advice]:
    """Kernels and plans that were made while the program ran."""
    us = case.verdicts.making_ns / 1e3
    if us < WORTH * case.wall_us:
        return
    yield Advice(
        "compilation", "Wait for kernels once",
        f"{int(case.verdicts.makings.sum())} kernels and plans were made at their first call. Kernels stay on disk"
        " for the next run; a short run is mostly this. Measure after a first round, and keep shapes the same.",
        us, case.places(lambda line: line.making),
    )


def python_itself(case: Case) -> Iterator[Advice]:
    """Lines that run Python rather than ops."""
    slow = [
        line for line in case.lines
        if not line.calls and not line.data and case.is_worth((line.time - line.making) / 1e3)
    ]
    us = sum([line.time for line in slow]) / 1e3
    # A line that waits for threads which compute is not what is slow.
    if not slow or sum(case.verdicts.elsewhere().values()) / 1e3 > us / 2:
        return
    yield Advice(
        "python", "Look at Python itself",
        "these lines call no op: the time is the interpreter's, the file system's, or a wait. Move them out of the"
        " loop, or do their work with tensors.",
        us, tuple([line.place for line in slow[:PLACES]]),
    )


RULES = (
    data_waits, small_ops, memory_chains, double_precision, reading_back, copying, making_kernels, python_itself,
)


def advise(case: Case) -> tuple[Advice, ...]:
    """All that the rules say, the most expensive first."""
    return tuple(sorted([one for rule in RULES for one in rule(case)], key=lambda one: -one.us))


def for_line(line: Line, advice: Sequence[Advice]) -> str:
    """What to do about one line: what is said of it, or what its bound suggests."""
    return "; ".join([one.title for one in advice if line.place in one.places])
