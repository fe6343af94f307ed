"""Compare: measurements as tables, one per label, with a row per statement and a column per description.

Enters: measurements. Leaves: text; replicates of one task are merged. All times of a table are in one unit. Refuses:
what is no `Measurement`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

from .measurement import Measurement, ordered_unique, select_unit, single_log10, trim_sigfig, unit_to_english

BEST, GOOD, BAD, VERY_BAD, BOLD, END = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m", "\033[1m", "\033[0m"
BETWEEN = "  |  "
SPREAD_WIDTH = 7      # of " (! 12%)"
SAME = 100e-9         # seconds: times that differ by less are both the best

Key = tuple[int, "str | None", str]      # of a row: threads, environment, name


class Colorize(enum.Enum):
    """What a colour compares: nothing, the cells of a column, or those of a row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def coloured(text: str, value: float, best: float) -> str:
    """A cell in the colour that says how its time compares with the best one; plain between 1.1 and 2 times it."""
    if value <= best * 1.01 or value <= best + SAME:
        colour = BEST + BOLD
    elif value <= best * 1.1:
        colour = GOOD + BOLD
    elif value >= best * 5:
        colour = VERY_BAD + BOLD
    elif value >= best * 2:
        colour = BAD
    else:
        return text
    return colour + text + END * 2


class Column:
    """How the times of one description are written: as many digits as its largest and its least certain ones need."""

    def __init__(self, cells: Sequence[Measurement], scale: float, is_trimmed: bool, shows_spread: bool) -> None:
        self.scale, self.is_trimmed = scale, is_trimmed
        self.shows_spread = shows_spread and any(m.has_warnings for m in cells)
        digits = [math.ceil(single_log10(m.median / scale)) for m in cells]
        known = (max(m.significant_figures - d, 0) for m, d in zip(cells, digits, strict=True))
        self.decimals = min(known) if is_trimmed else 1
        # Of columns of times below a unit too (PyTorch reads the minus of their width as the sign of numbers).
        self.width = abs(max(digits) + self.decimals + (self.decimals > 0))

    def text(self, m: Measurement | None) -> str:
        """A measurement's cell; blanks as long as one where there is none."""
        spread = ""
        if m is None:
            number = " " * max(self.width, len(f"{1:.{self.decimals}f}"))
        else:
            value = m.median / self.scale
            value = trim_sigfig(value, m.significant_figures) if self.is_trimmed else value
            number = f"{value:>{self.width}.{self.decimals}f}"
            if self.shows_spread and m.has_warnings:
                spread = f" (! {m.iqr / m.median * 100:.0f}%)"
        return number + f"{spread:>{SPREAD_WIDTH}}" if self.shows_spread else number


class Table:
    """The measurements of one label, laid out."""

    def __init__(
        self, results: list[Measurement], colorize: Colorize, trim_significant_figures: bool, highlight_warnings: bool
    ) -> None:
        if len({m.label for m in results}) != 1:
            raise AssertionError("Table: expected results of one label")
        self.label, self.results, self._colorize = results[0].label, results, colorize
        self.time_unit, self.time_scale = select_unit(min(m.median for m in results))
        self.row_keys: list[Key] = sorted(
            ordered_unique((m.num_threads, m.env, m.as_row_name) for m in results),
            key=lambda key: (key[0], key[1] or ""),
        )
        self.column_keys = ordered_unique(m.description for m in results)
        self.cells = {((m.num_threads, m.env, m.as_row_name), m.description): m for m in results}
        self.columns = {
            c: Column(
                [m for (_, description), m in self.cells.items() if description == c],
                self.time_scale, trim_significant_figures, highlight_warnings,
            )
            for c in self.column_keys
        }
        self._notes_spread = highlight_warnings and any(m.has_warnings for m in results)

    def _names(self) -> list[str]:
        """What stands before each row: its environment where that is another than the row's before, and its name."""
        known = {key[1] for key in self.row_keys}
        environments = {e: e or "Unspecified env" for e in known} if len(known) > 1 else {}
        room = max(map(len, environments.values()), default=0) + 4
        names, last = [], (-1, "")
        for threads, env, name in self.row_keys:
            shown = f"({environments[env]})" if environments and (threads, env) != last else ""
            names.append("  " + shown.ljust(room) + name)
            last = (threads, env)
        return names

    def _best(self, row: Key, column: str | None) -> float:
        """The best time that a cell is compared with."""
        if self._colorize is Colorize.ROWWISE:
            return min(m.median for (r, _), m in self.cells.items() if r == row)
        return min(m.median for (r, c), m in self.cells.items() if c == column and r[0] == row[0])

    def render(self) -> str:
        """The text."""
        heads, names = [c or "" for c in self.column_keys], self._names()
        texts = [[self.columns[c].text(self.cells.get((row, c))) for c in self.column_keys] for row in self.row_keys]
        first = max(map(len, names))
        widths = [max(len(h), *(len(row[k]) for row in texts)) for k, h in enumerate(heads)]
        header = BETWEEN.join([" " * first, *(h.center(w) for h, w in zip(heads, widths, strict=True))])
        lines, threads = [f"[{f' {self.label or str()} '.center(len(header) - 2, '-')}]", header], None
        for row, name, cells in zip(self.row_keys, names, texts, strict=True):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(len(header), "-"))
            shown = [name.ljust(first)]
            for column, text, width in zip(self.column_keys, cells, widths, strict=True):
                centred, m = text.center(width), self.cells.get((row, column))
                is_plain = m is None or self._colorize is Colorize.NONE
                shown.append(centred if is_plain else coloured(centred, m.median, self._best(row, column)))
            lines.append(BETWEEN.join(shown))
        lines += ["", f"Times are in {unit_to_english(self.time_unit)}s ({self.time_unit})."]
        if self._notes_spread:
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([*lines, ""])


class Compare:
    """`print(Compare(measurements))`, or `.print()`."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements: all of them, or none where one is something else."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only digits to believe."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour cells by how they compare with the best of their column (or row)."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark cells whose times spread."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label, []).append(m)
        return "\n".join(
            Table(group, self._colorize, self._trim_significant_figures, self._highlight_warnings).render()
            for group in groups.values()
        )
