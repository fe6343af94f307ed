"""Names of modules and files by pattern: `*` is within one part, `**` over any number of parts."""

from __future__ import annotations

import re
from collections.abc import Iterable

GlobPattern = str | Iterable[str]


class GlobGroup:
    """What matches one of `include` and none of `exclude`."""

    def __init__(self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = ".") -> None:
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.separator = separator
        self.include, self.exclude = self._compiled(include), self._compiled(exclude)

    def __repr__(self) -> str:
        return self._dbg

    __str__ = __repr__

    def matches(self, candidate: str) -> bool:
        """Whether a name is in the group."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(
            p.fullmatch(candidate) for p in self.exclude
        )

    def _compiled(self, patterns: GlobPattern) -> list[re.Pattern[str]]:
        return [self._pattern(p) for p in ([patterns] if isinstance(patterns, str) else patterns)]

    def _pattern(self, text: str) -> re.Pattern[str]:
        sign, result = re.escape(self.separator), ""
        for part in text.split(self.separator):
            if "**" in part and part != "**":
                raise ValueError(f"GlobGroup: expected ** to stand alone between separators, got {part!r} in {text!r}")
            result += (
                f"({sign}[^{sign}]+)*"
                if part == "**"
                else sign + f"[^{sign}]*".join(re.escape(p) for p in part.split("*"))
            )
        return re.compile(result)
