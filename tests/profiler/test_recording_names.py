"""Names, arguments and numbers of the program's calls, as PyTorch's profiler shows them: stored answers for calls that
programs write, and PyTorch itself over its op records."""

from __future__ import annotations

import json

import pytest

import rushlight as rl
from tests.profiler.calls import DIFFERS, answers, expressions, world
from tests.profiler.recorded import SHAPES, record, top

ANSWERS = answers()


def events_of(expression):
    names = world(rl)
    code = compile(expression, expression, "eval")
    eval(code, names)  # noqa: S307 - rows of tests/profiler/calls.py; plans are made
    names = world(rl)
    return top(record(lambda: eval(code, names), SHAPES))  # noqa: S307


def test_every_call_has_an_answer():
    assert set(expressions()) == set(ANSWERS)
    assert set(DIFFERS) <= set(ANSWERS)


@pytest.mark.parametrize("expression", [e for e in expressions() if e not in DIFFERS])
def test_calls_are_shown_as_pytorch_shows_them(expression):
    got = [[e.name, *(e.inputs or (None,) * 4), e.sequence >= 0] for e in events_of(expression)]
    assert json.loads(json.dumps(got)) == ANSWERS[expression]


@pytest.mark.parametrize("expression", DIFFERS)
def test_calls_that_take_other_steps_say_so(expression):
    shown = [e.name for e in events_of(expression)]
    assert shown == DIFFERS[expression]
    assert shown != [event[0] for event in ANSWERS[expression]], "it is the same now: take it out of the list"
