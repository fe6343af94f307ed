"""The command `python -m rushlight learn`: chapters, stubs, checks, hints, solutions.

Enters: what the command line says. Leaves: texts on standard output and an exit status, 0 where all is well, 1 where
an answer is wrong, 2 where the question is: an unknown exercise, a file that cannot be read. What a file held before
a stub or a solution was written there is kept beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import catalogue, checker, progress
from .exercise import Chapter, Exercise


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `learn`, on its parser."""
    parser.add_argument("--json", action="store_true", help="the chapters and their exercises as JSON")
    parser.add_argument("--all", action="store_true", help="list every exercise, not chapters alone")
    parser.add_argument("--lang", default="en", choices=("en", "zh"), help="language of titles (%(default)s)")
    actions = parser.add_subparsers(dest="action")
    for name, says in (
        ("start", "write what an answer starts from"),
        ("check", "say whether an answer is right"),
        ("hint", "print a hint"),
        ("solution", "write a solution"),
    ):
        action = actions.add_parser(name, help=says, description=f"{says.capitalize()}.")
        action.add_argument("exercise", metavar="ID", help="the exercise: choosing.1, tensor_puzzles.5, …")
        if name == "check":
            action.add_argument("file", metavar="FILE", help="the answer")
        if name in ("start", "solution"):
            action.add_argument("--file", metavar="FILE", help="the file to write (standard output)")


def learn(chosen: argparse.Namespace) -> int:
    """What the command line asked for; its exit status."""
    if chosen.action is None:
        show_chapters(catalogue.chapters(), chosen)
        return 0
    try:
        exercise = catalogue.find(chosen.exercise)
        if chosen.action == "check":
            return check(exercise, Path(chosen.file))
        if chosen.action == "hint":
            print(" ".join(exercise.hint.split()))
            return 0
        return give(exercise.stub if chosen.action == "start" else exercise.solution, chosen.file, exercise)
    except (catalogue.UnknownExercise, OSError) as wrong:
        print(f"rushlight learn: {wrong}", file=sys.stderr)
        return 2


def show_chapters(chapters: list[Chapter], chosen: argparse.Namespace) -> None:
    """Every chapter, with what is solved of it; or all as JSON."""
    if chosen.json:
        listed = [
            {"slug": chapter.slug, "title": title(chapter, chosen.lang), "exercises": [
                {"id": exercise.id, "title": title(exercise, chosen.lang)} for exercise in chapter.exercises
            ]}
            for chapter in chapters
        ]
        print(json.dumps({"chapters": listed}, indent=1, ensure_ascii=False))
        return
    solved = progress.solved()
    waiting = [exercise for chapter in chapters for exercise in chapter.exercises if exercise.id not in solved]
    for chapter in chapters:
        done = sum(exercise.id in solved for exercise in chapter.exercises)
        print(f"{chapter.slug:25} {done:2} of {len(chapter.exercises):2}  {title(chapter, chosen.lang)}")
        for exercise in chapter.exercises if chosen.all else ():
            mark = "x" if exercise.id in solved else " "
            print(f"  [{mark}] {exercise.id:25} {title(exercise, chosen.lang)}")
    total = sum(len(chapter.exercises) for chapter in chapters)
    print(f"{total - len(waiting)} of {total} solved.")
    if waiting:
        print(f"Next: python -m rushlight learn start {waiting[0].id} --file answer.py")


def title(named: Chapter | Exercise, language: str) -> str:
    return named.title_zh if language == "zh" else named.title


def check(exercise: Exercise, path: Path) -> int:
    """The verdict on standard output, what the answer printed on the other."""
    if not path.is_file():
        raise OSError(f"expected a file with your answer, and there is none at {path}. "
                      f"Write one: rushlight learn start {exercise.id} --file {path}")
    with open(path, "rb") as file:
        text = file.read(checker.running.TEXT_LIMIT + 1)
    try:
        checker.running.decoded(text)
    except ValueError as wrong:
        print(f"{path} {wrong}. Save it as UTF-8: nothing was run.")
        return 1
    if len(text) > checker.running.TEXT_LIMIT:
        print(f"{path} is larger than {checker.running.TEXT_LIMIT} bytes. Nothing was run.")
        return 1
    verdict = checker.check(exercise, path)
    if verdict.printed.strip():
        print(f"Your file printed:\n{verdict.printed.rstrip()}", file=sys.stderr)
    print(verdict.message)
    if verdict.passed and (why := progress.add(exercise.id)) is not None:
        print(f"rushlight learn: the progress could not be kept: {why}", file=sys.stderr)
    return int(not verdict.passed)


def give(text: str, name: str | None, exercise: Exercise) -> int:
    """A text on standard output, or in a file whose own work is kept under another name."""
    if name is None:
        print(text, end="")
        return 0
    path = Path(name)
    if path.is_file() and path.read_bytes().strip() not in (b"", exercise.stub.strip().encode()):
        kept = next(new for number in range(1, 10_000) if not (new := path.with_name(f"{path.name}.{number}")).exists())
        path.rename(kept)
        print(f"what {path} held is now in {kept}")
    elif (path.exists() and not path.is_file()) or not path.parent.is_dir():
        raise OSError(f"--file: expected a file to write, in a folder that exists, got {path}")
    progress.write(path, text)
    print(f"wrote {path}; now: python -m rushlight learn check {exercise.id} {path}")
    return 0
