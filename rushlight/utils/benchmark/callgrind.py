"""Instructions counted by callgrind, by function: what was counted, and how counts are compared.

Enters: counts, as `Timer.collect_callgrind` brings them. Leaves: sums, differences, shorter names, printed forms.
Refuses: mixing counts that include callees with those that do not, and globals that cannot go to another process.
"""

from __future__ import annotations

import enum
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...base import late
from ...tensors.printing import get_printoptions
from .measurement import TaskSpec

# Python's look-ups of names in dictionaries take a number of instructions that depends on addresses.
NOISY = re.compile(r"dictobject\.c:(?:lookdict_unicode|unicodekeys_lookup_)")
# Where something was built says nothing of what it does: (what is cut from the front of a function, what stays).
_PREFIXES = tuple(
    (re.compile(pattern), kept)
    for pattern, kept in (
        (r"^.+build/\.\./", "build/../"),
        (r"^.+/build/aten/", "build/aten/"),
        (r"^.+/csrc/", "csrc/"),
        (r"^.+/Python/", "Python/"),
        (r"^.+/Objects/", "Objects/"),
        (r"\s\[.+\]$", ""),
    )
)
SHOWN_ROWS, LEAST_NAME = 9, 40


class FunctionCount(NamedTuple):
    """How many instructions a function ran."""

    count: int  # type: ignore[assignment]
    function: str


@dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Counts of functions, the largest first: added, subtracted, filtered, renamed and sliced like a tuple."""

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self) -> Iterator[FunctionCount]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> FunctionCount | FunctionCounts:
        found = self._data[item]
        return FunctionCounts(found, self.inclusive, truncate_rows=False) if isinstance(item, slice) else found

    def __repr__(self) -> str:
        # A sign takes room in front of the others too.
        width = max((len(str(c)) + (c < 0) for c, _ in self), default=0)
        room = max((self._linewidth or get_printoptions()["linewidth"]) - width - 4, LEAST_NAME)
        lines = []
        for c, name in self:
            if len(name) > room:
                left = (room - 5) // 2
                name = f"{name[:left]} ... {name[left + 5 - room:]}"
            lines.append(f"  {c:>{width}}  {name}")
        if self.truncate_rows and len(lines) > 2 * SHOWN_ROWS:
            lines[SHOWN_ROWS:-SHOWN_ROWS] = ["...".rjust(width + 2)]
        total = [] if self.inclusive else ["", f"Total: {self.sum()}"]
        return "\n".join([object.__repr__(self), *lines, *total])

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._joined(other, operator.pos)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._joined(other, operator.neg)

    def __mul__(self, other: float) -> FunctionCounts:
        return self._made(((int(c * other), name) for c, name in self), self.inclusive)

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """Counts under the names `map_fn` gives; those that get one name are added."""
        return self._made(((c, map_fn(name)) for c, name in self), self.inclusive)

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """The counts of functions for whose names `filter_fn` holds."""
        return FunctionCounts(tuple(each for each in self if filter_fn(each.function)), self.inclusive)

    def sum(self) -> int:
        """All counts together."""
        return sum(c for c, _ in self)

    def denoise(self) -> FunctionCounts:
        """Without the functions of Python whose counts change from run to run: look-ups of names."""
        return self.filter(lambda name: NOISY.search(name) is None)

    def _joined(self, other: FunctionCounts, sign: Callable[[int], int]) -> FunctionCounts:
        if self.inclusive != other.inclusive:
            raise AssertionError("FunctionCounts: counts with and without callees cannot be joined")
        return self._made([*self, *((sign(c), name) for c, name in other)], self.inclusive)

    @staticmethod
    def _made(counts: Iterable[tuple[int, str]], inclusive: bool) -> FunctionCounts:
        found: dict[str, int] = {}
        for c, name in counts:
            found[name] = found.get(name, 0) + c
        return FunctionCounts(
            tuple(sorted((FunctionCount(c, name) for name, c in found.items() if c), reverse=True)), inclusive
        )


def _standardized(counts: FunctionCounts) -> FunctionCounts:
    def short(name: str) -> str:
        for pattern, kept in _PREFIXES:
            name = pattern.sub(kept, name)
        return name

    return counts.transform(short)


@dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """What callgrind counted of a statement, and of an empty one as the baseline."""

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None

    def __repr__(self) -> str:
        base, threads = self.baseline_exclusive_stats, self.task_spec.num_threads
        gap = " " * 15
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"{' ' * 27}All{' ' * 10}Noisy symbols removed",
            f"    Instructions: {self.counts():>12}{gap}{self.counts(denoise=True):>12}",
            f"    Baseline:     {base.sum():>12}{gap}{base.denoise().sum():>12}",
            f"{self.number_per_run} runs per measurement, {threads} thread{'s' * (threads > 1)}",
        ]
        if not self.built_with_debug_symbols:
            lines.append(
                "Warning: Rushlight's core was not built with debug symbols:\n"
                "         files and lines of its functions may be missing."
            )
        return "\n".join(lines)

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Counts by function; `inclusive`: with what each called."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """All instructions; `denoise`: without those of noisy functions."""
        return (self.stmt_exclusive_stats.denoise() if denoise else self.stmt_exclusive_stats).sum()

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """By how much each function's count exceeds that in `other`."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """With names that do not say where things were built, so that two builds can be compared."""
        names = (
            "baseline_inclusive_stats", "baseline_exclusive_stats", "stmt_inclusive_stats", "stmt_exclusive_stats"
        )
        # The file that callgrind wrote has the names as they were.
        return replace(
            self, **{name: _standardized(getattr(self, name)) for name in names}, stmt_callgrind_out=None
        )


class Serialization(enum.Enum):
    """How a global goes to the process that is counted."""

    PICKLE = 0
    TORCH = 1


_PLAIN = (str, bytes, bool, int, float, complex)


class CopyIfCallgrind:
    """A global that may be replaced by a copy in the process that is counted; `setup` runs there before it is read.
    Refuses what is neither a plain value nor a module."""

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        if isinstance(value, _PLAIN):
            self.serialization = Serialization.PICKLE
        elif isinstance(value, late.provided("module hooks").Module):
            self.serialization = Serialization.TORCH
        else:
            known = textwrap.indent("\n".join([t.__name__ for t in _PLAIN] + ["Module"]), "  ")
            raise ValueError(
                f"Unsupported type: {type(value)}\n`collect_callgrind` restricts globals to the following types:\n"
                f"{known}"
            )
        self.value, self.setup = value, setup

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:
        """Globals with the values themselves."""
        return {name: v.value if isinstance(v, CopyIfCallgrind) else v for name, v in globals.items()}
