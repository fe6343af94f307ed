"""Does a text say things in a given order? `FileCheck`.

Enters: checks, added one after the other by methods or read from comments (`# CHECK-NEXT: ...`), and a text. Leaves:
nothing, or a RuntimeError with the check that failed and the place in the text. Refuses: check comments it cannot read,
and running without checks. The kinds of checks are those of LLVM's tool of the same name, as PyTorch has them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

_COMMENT = re.compile(
    r"^\s*#\s*CHECK(?P<kind>-SOURCE-HIGHLIGHTED|-COUNT-EXACTLY-\d+|-COUNT-\d+|-NEXT|-SAME|-NOT|-DAG|-REGEX)?:"
    r" ?(?P<text>.*)$"
)


class Check(NamedTuple):
    """One expectation: its kind as it is written in comments, what to look for, and how often."""

    kind: str
    text: str
    count: int = 1
    exactly: bool = False

    def __str__(self) -> str:
        label = {"CHECK-COUNT": f"CHECK-COUNT-{'EXACTLY-' if self.exactly else ''}{self.count}"}.get(
            self.kind, self.kind
        )
        return f"{label}: {self.text}"


class FileCheck:
    """Checks a text from top to bottom: each check looks behind what the one before it found."""

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def _add(self, kind: str, text: str, **options: Any) -> Self:
        self._checks.append(Check(kind, text, **options))
        return self

    def check(self, test_string: str) -> Self:
        """`test_string` comes up."""
        return self._add("CHECK", test_string)

    def check_not(self, test_string: str) -> Self:
        """It does not come up between the matches of the checks around this one."""
        return self._add("CHECK-NOT", test_string)

    def check_same(self, test_string: str) -> Self:
        """It comes up on the line of the previous match."""
        return self._add("CHECK-SAME", test_string)

    def check_next(self, test_string: str) -> Self:
        """It comes up on the line after the previous match."""
        return self._add("CHECK-NEXT", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> Self:
        """It comes up `count` times; if `exactly`, not once more before the next match."""
        return self._add("CHECK-COUNT", test_string, count=count, exactly=exactly)

    def check_dag(self, test_string: str) -> Self:
        """It comes up, in any order with the dag checks next to this one."""
        return self._add("CHECK-DAG", test_string)

    def check_regex(self, test_string: str) -> Self:
        """The regular expression matches."""
        return self._add("CHECK-REGEX", test_string)

    def check_source_highlighted(self, test_string: str) -> Self:
        """It comes up with tildes under it, and only under it."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", test_string)

    def run(self, *texts: Any) -> None:
        """Check a text; given two, read the checks from comments in the first and check the second."""
        if len(texts) not in (1, 2):
            raise TypeError(f"run: expected a text, or a file of checks and a text, got {len(texts)} arguments.")
        if len(texts) == 2:
            self._read(str(texts[0]))
        if not self._checks:
            raise RuntimeError("FileCheck: there is no check to run. Add some with check().")
        text = str(texts[-1])
        end, waiting = 0, []
        for group in self._groups():
            if group[0].kind == "CHECK-NOT":
                waiting = group
                continue
            start, stop = self._match(group, text, end)
            self._refuse(waiting, text, end, start)
            first = group[0]
            waiting = [Check("CHECK-NOT", first.text)] if first.kind == "CHECK-COUNT" and first.exactly else []
            end = stop
        self._refuse(waiting, text, end, len(text))

    def _read(self, source: str) -> None:
        for line in source.splitlines():
            found = _COMMENT.match(line)
            if found is None:
                if re.match(r"^\s*#\s*CHECK", line):
                    raise RuntimeError(f"Could not parse check at:\n{line}\nCheck for bad input.")
                continue
            kind, text = found["kind"] or "", found["text"].strip()
            if kind.startswith("-COUNT"):
                self.check_count(text, int(kind.rpartition("-")[2]), exactly="EXACTLY" in kind)
            else:
                self._add(f"CHECK{kind}", text)

    def _groups(self) -> list[list[Check]]:
        """Neighbouring dag checks, and neighbouring not checks, are looked for together."""
        groups: list[list[Check]] = []
        for check in self._checks:
            if groups and check.kind in ("CHECK-NOT", "CHECK-DAG") and groups[-1][0].kind == check.kind:
                groups[-1].append(check)
            else:
                groups.append([check])
        return groups

    def _match(self, group: list[Check], text: str, end: int) -> tuple[int, int]:
        """Where the group's first match begins and its last one ends."""
        check = group[0]
        if check.kind == "CHECK-DAG":
            spans = [self._find(each, text, end) for each in group]
            return min(a for a, _ in spans), max(b for _, b in spans)
        if check.kind == "CHECK-COUNT":
            start, stop = end, end
            for turn in range(check.count):
                found = self._find(check, text, stop)
                start, stop = (found[0] if turn == 0 else start), found[1]
            return start, stop
        span = self._find(check, text, end)
        if check.kind in ("CHECK-SAME", "CHECK-NEXT"):
            breaks = text.count("\n", end, span[0])
            if breaks != (check.kind == "CHECK-NEXT"):
                where = "the next line" if check.kind == "CHECK-NEXT" else "the same line"
                found = f'Expected to find "{check.text}" on {where}, but it is {breaks} lines below'
                raise RuntimeError(f"{found}\n{_marked(text, *span)}\nFrom {check}\n")
        return span

    @staticmethod
    def _find(check: Check, text: str, start: int) -> tuple[int, int]:
        if check.kind == "CHECK-REGEX":
            found = re.compile(check.text).search(text, start)
            if found:
                return found.span()
            raise RuntimeError(
                f'Expected to find regex "{check.text}" but did not find it\nSearched string:\n{text[start:]}\nFrom'
                f" {check}\n"
            )
        place = text.find(check.text, start)
        if check.kind == "CHECK-SOURCE-HIGHLIGHTED":
            while place >= 0 and not _is_highlighted(text, place, len(check.text)):
                place = text.find(check.text, place + 1)
            if place < 0:
                raise RuntimeError(
                    f'Expected to find "{check.text}" highlighted but it is not.\n{text[start:]}\nFrom {check}\n'
                )
        if place < 0:
            raise RuntimeError(
                f'Expected to find "{check.text}" but did not find it\nSearched string:\n{text[start:]}\nFrom {check}\n'
            )
        return place, place + len(check.text)

    @staticmethod
    def _refuse(checks: list[Check], text: str, start: int, end: int) -> None:
        for check in checks:
            place = text.find(check.text, start, end)
            if place >= 0:
                shown = _marked(text, place, place + len(check.text))
                raise RuntimeError(f'Expected to not find "{check.text}" but found it\n{shown}\nFrom {check}\n')


def _is_highlighted(text: str, place: int, length: int) -> bool:
    """Whether the line below has tildes under this stretch and none right beside it."""
    column = place - (text.rfind("\n", 0, place) + 1)
    line_end = text.find("\n", place)
    if line_end < 0:
        return False
    below = text[line_end + 1 :].partition("\n")[0]
    beside = (below[column - 1 : column] if column else "") + below[column + length : column + length + 1]
    return below[column : column + length] == "~" * length and "~" not in beside


def _marked(text: str, start: int, end: int) -> str:
    """The text with tildes under a stretch of it."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    mark = " " * (start - line_start) + "~" * max(1, min(end, line_end) - start) + " <--- HERE"
    return f"{text[:line_end]}\n{mark}{text[line_end:]}"
