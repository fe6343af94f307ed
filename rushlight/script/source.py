"""Where something stands in a program's text: sources, ranges of them, and how an error shows one.

Enters: text, the file it came from, the line at which it begins there. Leaves: `Range`s that print as
`file.py:14:8` and as the lines around them with carets below, through every inlined call.
"""

from __future__ import annotations

from typing import NamedTuple

CONTEXT = 2          # lines shown above and below


class Source:
    """The text of one function, class or archive member."""

    def __init__(self, text: str, filename: str | None = None, first_line: int = 0, function: str = "") -> None:
        self.text, self.filename, self.first_line = text, filename, first_line
        self.function = function         # whose text it is
        self.starts = [0]
        for at, character in enumerate(text):
            if character == "\n":
                self.starts.append(at + 1)

    def line_of(self, offset: int) -> int:
        """The line, from 0 on, that holds a character."""
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle - 1)
        return low

    def offset_of(self, line: int, column: int) -> int:
        return self.starts[line] + column


class Range(NamedTuple):
    """Characters `start` to `end` of a source."""

    source: Source
    start: int
    end: int
    called_from: Range | None = None      # the call that was inlined

    def file_line_column(self) -> tuple[str, int, int] | None:
        """As tracebacks count: lines from 1, columns from 0; None for text of no file."""
        if self.source.filename is None:
            return None
        line = self.source.line_of(self.start)
        return self.source.filename, self.source.first_line + line, self.start - self.source.starts[line]

    def __str__(self) -> str:
        place = self.file_line_column()
        return f"{place[0]}:{place[1]}:{place[2]}" if place else ""

    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def highlight(self, *, running: bool = False) -> str:
        """The lines around it, those that it covers underlined; where it comes from first, with the name of the
        function where that is `running`."""
        source = self.source
        first, last = source.line_of(self.start), source.line_of(max(self.start, self.end - 1))
        lines = source.text.rstrip("\n").split("\n")
        shown: list[str] = []
        for number in range(max(0, first - CONTEXT), min(len(lines), last + CONTEXT + 1)):
            shown.append(lines[number])
            if first <= number <= last:
                begin = max(self.start, source.starts[number]) - source.starts[number]
                end = min(self.end - source.starts[number], len(lines[number]))
                text = lines[number]
                begin = max(begin, len(text) - len(text.lstrip()))
                mark = "~" * max(1, end - begin) + (" <--- HERE" if number == last else "")
                shown.append(" " * begin + mark)
        place = self.file_line_column()
        head = f'  File "{place[0]}", line {place[1]}' if place else "  Serialized"
        head += f", in {source.function}" if running and place and source.function else ""
        return head + "\n" + "\n".join(shown) + "\n"
