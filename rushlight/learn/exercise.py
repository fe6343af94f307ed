"""What an exercise is: a task, a solution, and inputs on which an answer must do what the solution does.

Enters: texts and a function that makes inputs. Leaves: frozen records, and the stub that a learner starts from, which
is the solution without its bodies. Refuses: a chapter without exercises.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

Probe = Callable[..., object]
Rule = Callable[[ast.Module, str, tuple[str, ...]], "str | None"]
WRITE_ME = 'raise NotImplementedError("write this")'


@dataclass(frozen=True)
class Exercise:
    """One task. `cases` makes the inputs anew each time it is called, since answers may change them.

    `probe(answer, *case)` says what is compared: by default what the last function of the solution returns. `asks` is
    how a case is told, with `{0}` for its first value. `needs` names exercises whose solutions an answer may use,
    `given` is text that runs before it. `rule(tree, entry, names of needed solutions)` reads an answer
    before it runs, and says why it may not.
    """

    title: str
    title_zh: str
    text: str
    solution: str
    hint: str
    cases: Callable[[], Sequence[tuple[Any, ...]]]
    probe: Probe | None = None
    asks: str = ""
    needs: tuple[str, ...] = ()
    given: str = ""
    rule: Rule | None = None
    tolerance: float = 1e-5
    id: str = ""

    @cached_property
    def entry(self) -> str:
        """The name that an answer must define: the last function or class of the solution."""
        tree = ast.parse(self.solution)
        return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)][-1]

    def ask(self, answer: ModuleType, case: tuple[Any, ...]) -> object:
        """What the answer makes of a case."""
        if self.probe is not None:
            return self.probe(answer, *case)
        return getattr(answer, self.entry)(*case)

    def ordered_cases(self) -> list[tuple[Any, ...]]:
        """All inputs, the smallest first."""
        return sorted(self.cases(), key=lambda case: len(repr(case)))

    @property
    def stub(self) -> str:
        """What a learner starts from: the task as a comment, signatures, no bodies."""
        lines = [f"{self.id}: {self.title}", "", *textwrap.wrap(" ".join(self.text.split()), 100)]
        if self.needs:
            lines += ["", f"Names of {', '.join(self.needs)} can be used as they are."]
        if self.given:
            lines += ["", f"Before it runs: {self.given}"]
        head = "\n".join(f"# {line}".rstrip() for line in lines)
        return f"{head}\n\n{without_bodies(self.solution)}"


@dataclass(frozen=True)
class Chapter:
    """A page of the book, or a set of puzzles, and its exercises."""

    slug: str
    title: str
    title_zh: str
    exercises: tuple[Exercise, ...]


def chapter(slug: str, title: str, title_zh: str, *exercises: Exercise) -> Chapter:
    """The exercises, numbered in their order; texts may be indented as the code around them is."""
    if not exercises:
        raise ValueError(f"chapter {slug}: expected exercises, got none")
    numbered = (
        replace(exercise, id=f"{slug}.{number}", solution=textwrap.dedent(exercise.solution).strip() + "\n")
        for number, exercise in enumerate(exercises, 1)
    )
    return Chapter(slug, title, title_zh, tuple(numbered))


def without_bodies(source: str) -> str:
    """Python text whose functions and methods keep their heads and docstrings only."""
    lines = source.splitlines()
    tree = ast.parse(source)
    functions = [
        node
        for top in tree.body
        for node in (top.body if isinstance(top, ast.ClassDef) else [top])
        if isinstance(node, ast.FunctionDef)
    ]
    for node in reversed(functions):
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        first = body[0].lineno if body else node.body[0].end_lineno + 1
        lines[first - 1 : node.end_lineno] = [" " * (node.col_offset + 4) + WRITE_ME]
    return "\n".join(lines) + "\n"
