"""Every exercise: its solution passes, its stub fails, and so does what nearly is the solution."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.learn import catalogue, checker, running
from rushlight.learn.exercise import Exercise

ROOT = Path(__file__).resolve().parents[2]
BOOK = {
    "choosing", "compile", "torchscript", "fx", "lazy", "dynamo", "aotautograd", "dispatcher", "new_chip",
    "first_hour", "data_and_competition", "tensors_inside", "autograd_from_scratch", "extensions", "files",
    "performance", "distributed", "gpu", "quantization_and_pruning", "shipping", "mlir", "reading_the_source",
}  # fmt: skip
SETS = {"course": 25, "tensor_puzzles": 20, "autograd_puzzles": 10, "gpu_puzzles": 10}


def verdict(exercise: Exercise, text: str) -> bool:
    """Whether an answer is taken for right, in this process."""
    wanted = running.expected(exercise)
    records = list(running.records(exercise, text, "answer.py"))
    return checker.judge(exercise, wanted, checker.Run([*records, {"done": True, "left": []}], "", 0, False), 1.0)[0]


def test_every_chapter_of_the_book_has_three_exercises() -> None:
    sizes = {chapter.slug: len(chapter.exercises) for chapter in catalogue.chapters()}
    assert set(sizes) == BOOK | SETS.keys()
    assert all(sizes[slug] >= 3 for slug in BOOK)
    assert {slug: sizes[slug] for slug in SETS} == SETS


def test_texts_are_there_in_both_languages_for_titles() -> None:
    for chapter in catalogue.chapters():
        titles = [exercise.title for exercise in chapter.exercises]
        assert len(set(titles)) == len(titles)
        for exercise in chapter.exercises:
            assert all((exercise.title, exercise.title_zh, exercise.text, exercise.hint)), exercise.id
            assert len(exercise.cases()) >= 2, exercise.id


@pytest.mark.parametrize("slug", catalogue.SLUGS)
def test_solutions_pass_and_stubs_fail(slug: str) -> None:
    for exercise in catalogue.load(slug).exercises:
        values = running.expected(exercise)
        assert all("value" in record for record in values), (exercise.id, values)
        assert '{"object"' not in json.dumps(values) and '{"too"' not in json.dumps(values), exercise.id
        assert verdict(exercise, exercise.solution), exercise.id
        assert not verdict(exercise, exercise.stub), exercise.id
        compile(exercise.stub, exercise.id, "exec")


@pytest.mark.parametrize("slug", catalogue.SLUGS)
def test_solutions_give_the_same_twice(slug: str) -> None:
    for exercise in catalogue.load(slug).exercises:
        assert running.expected(exercise)[0].get("value") == running.expected(exercise)[0].get("value"), exercise.id


@pytest.mark.slow
def test_nearly_right_answers_are_refused() -> None:
    """Of each solution's mutants three quarters at least; of answers that return a constant or an argument, all."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.learn", "--json"],
        cwd=ROOT,
        env=dict(os.environ, RUSHLIGHT_NOTICE="0"),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    made, killed = (sum(score[name] for score in scores) for name in ("mutants", "killed"))
    print(f"{killed} of {made} mutants refused, {killed / made:.1%}")
    assert len(scores) > 100 and made > 8 * len(scores)
    assert [score["id"] for score in scores if score["killed"] < 0.75 * score["mutants"]] == []
    assert [score["id"] for score in scores if score["refused"] < score["hollow"]] == []
    assert killed > 0.95 * made


def test_the_course_learns() -> None:
    exercise = catalogue.find("course.25")
    losses, seen, other = running.expected(exercise)[-1]["value"]
    assert losses[-1] < 0.5 < losses[0] and seen >= 0.9 and other >= 0.8
