"""Compare: measurements as tables, one per label, with a row per statement and a column per description.

Enters: measurements. Leaves: text; replicates of one task are merged. All times of a table are in one unit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

BEST, GOOD, BAD, VERY_BAD, BOLD, END = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m", "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """What a colour compares: nothing, the cells of a column, or those of a row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """`print(Compare(measurements))`, or `.print()`."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
            self._results.append(r)

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
        merged = Measurement.merge(self._results)
        tables = [
            self._table(label, [m for m in merged if m.label == label])
            for label in ordered_unique(m.label for m in merged)
        ]
        return "\n".join(tables)

    def _table(self, label: str | None, group: list[Measurement]) -> str:
        unit, scale = select_unit(min(m.median for m in group))
        columns = ordered_unique(m.description for m in group)
        rows = ordered_unique((m.num_threads, m.env, m.as_row_name) for m in group)
        cells = {((m.num_threads, m.env, m.as_row_name), m.description): m for m in group}
        shown = {key: self._text(m, scale) for key, m in cells.items()}
        names = {row: self._row_name(row, rows) for row in rows}
        first = max([len(text) for text in names.values()] + [0]) + 6
        widths = {c: max([len(str(c or ""))] + [len(shown[r, c]) for r in rows if (r, c) in shown]) for c in columns}
        header = " " * first + "".join(f"  |  {c or '':^{widths[c]}}" for c in columns)
        lines, threads = [f"[{f' {label or group[0].stmt} ':-^{max(len(header) - 2, 4)}}]", header], None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(len(header), "-"))
            lines.append(
                f"      {names[row]:<{first - 6}}"
                + "".join("  |  " + self._cell(row, c, rows, columns, cells, shown, widths[c]) for c in columns)
            )
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _row_name(self, row: tuple, rows: list[tuple]) -> str:
        many_environments = len({env for _, env, _ in rows}) > 1
        return f"({row[1]})  {row[2]}" if many_environments else row[2].replace("\n", "; ")

    def _text(self, m: Measurement, scale: float) -> str:
        value = m.median / scale
        if self._trim_significant_figures:
            value = trim_sigfig(value, m.significant_figures)
        text = (
            f"{value:.1f}"
            if not self._trim_significant_figures or value < 10**m.significant_figures
            else f"{value:.0f}"
        )
        if self._highlight_warnings and m.has_warnings:
            text += f" (! {m.iqr / m.median * 100:.0f}%)"
        return text

    def _cell(
        self, row: tuple, column: str | None, rows: list, columns: list, cells: dict, shown: dict, width: int
    ) -> str:
        if (row, column) not in cells:
            return " " * width
        text = shown[row, column].rjust(width)
        if self._colorize is Colorize.NONE:
            return text
        keys = (
            [(row, c) for c in columns]
            if self._colorize is Colorize.ROWWISE
            else [(r, column) for r in rows if r[0] == row[0]]
        )
        best, value = min(cells[k].median for k in keys if k in cells), cells[row, column].median
        colour = (
            BEST + BOLD if value <= best * 1.02 else GOOD if value <= best * 1.1 else BAD if value > best * 1.5 else ""
        )
        return f"{VERY_BAD + BOLD if value > best * 2 else colour}{text}{END if colour or value > best * 2 else ''}"
