"""What the tours (`life_of_*.py`) print with: headings, excerpts, and a place to watch the code generator from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from rushlight import codegen
from rushlight.loops.nest import Nest


def heading(number: int, title: str, *explanation: str) -> None:
    """The number and title of a step, and a few lines that say what happens in it."""
    print(f"\n{number}. {title}\n{'=' * (len(title) + 3)}")
    say(*explanation)


def say(*explanation: str) -> None:
    """Sentences, broken into lines."""
    print(textwrap.fill(" ".join(explanation), 110))


def excerpt(text: str, *words: str, lines: int = 12) -> str:
    """A few lines of `text`, from the first one that contains one of `words`."""
    all_lines = textwrap.dedent(text).strip("\n").rstrip().splitlines()
    start = next((i for i, line in enumerate(all_lines) if any(word in line for word in words)), 0)
    shown = all_lines[start : start + lines]
    left = len(all_lines) - len(shown)
    return "\n".join("    " + line for line in shown) + (f"\n    ... and {left} more lines" if left else "")


@contextmanager
def asked_nests() -> Iterator[list[Nest]]:
    """The loop nests that the code generator is asked for meanwhile, seen by standing in front of it."""
    asked: list[Nest] = []
    original = codegen.compile

    def watch(nest: Nest) -> object:
        asked.append(nest)
        return original(nest)

    codegen.compile = watch
    try:
        yield asked
    finally:
        codegen.compile = original
