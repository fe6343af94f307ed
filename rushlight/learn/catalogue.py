"""Which exercises there are: the chapters of the book, then the four sets.

Enters: an id such as `choosing.1`. Leaves: the exercise; only the file that holds it is loaded. Refuses: an unknown
id, with those nearest to it.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from types import ModuleType

from .exercise import Chapter, Exercise

SLUGS = (
    "choosing", "compile", "torchscript", "fx", "lazy", "dynamo", "aotautograd", "dispatcher", "new_chip",
    "first_hour", "data_and_competition", "tensors_inside", "autograd_from_scratch", "extensions", "files",
    "performance", "distributed", "gpu", "quantization_and_pruning", "shipping", "mlir", "reading_the_source",
    "course", "tensor_puzzles", "autograd_puzzles", "gpu_puzzles",
)  # fmt: skip


class UnknownExercise(LookupError):  # noqa: N818 - a question, not a fault
    """No exercise has this id."""


@cache
def load(slug: str) -> Chapter:
    """A chapter by its slug."""
    return import_module(f".exercises.{slug}", __package__).CHAPTER


def chapters() -> list[Chapter]:
    return [load(slug) for slug in SLUGS]


def find(name: str) -> Exercise:
    """The exercise of an id."""
    slug = name.rpartition(".")[0]
    for exercise in load(slug).exercises if slug in SLUGS else ():
        if exercise.id == name:
            return exercise
    raise UnknownExercise(f"there is no exercise {name[:80]!r}. The nearest are {', '.join(nearest(name[:80]))}.")


def nearest(name: str) -> list[str]:
    """Ids that look like `name`: of the chapter it names, or of any."""
    ids = [exercise.id for chapter in chapters() for exercise in chapter.exercises]
    slug, _, number = name.lower().replace("/", ".").rpartition(".")
    alike = difflib.get_close_matches(slug or number, SLUGS, n=1, cutoff=0.6)
    if not alike:
        return difflib.get_close_matches(name, ids, n=3, cutoff=0.0)
    of_chapter = [one for one in ids if one.startswith(f"{alike[0]}.")]
    wanted = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1
    return sorted(of_chapter, key=lambda one: abs(int(one.rpartition(".")[2]) - wanted))[:3]


def run_solution(exercise: Exercise, module: ModuleType) -> None:
    """Define in `module` what an exercise's solution defines, after those it needs itself."""
    provide(exercise, module)
    exec(compile(exercise.solution, f"<solution {exercise.id}>", "exec"), module.__dict__)


def provide(exercise: Exercise, module: ModuleType) -> None:
    """Define in `module` what an answer may use: what the exercise gives, and the solutions it needs."""
    exec(compile(exercise.given, f"<given to {exercise.id}>", "exec"), module.__dict__)
    for name in needed(exercise):
        exec(compile(find(name).solution, f"<solution {name}>", "exec"), module.__dict__)


def needed(exercise: Exercise) -> list[str]:
    """Ids of all solutions that an exercise builds on, those first that others need."""
    found: list[str] = []
    for name in exercise.needs:
        found += [one for one in (*needed(find(name)), name) if one not in found]
    return found
