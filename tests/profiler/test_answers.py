"""The profiler answers as PyTorch 2.13's does: stored answers always, PyTorch itself where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from tests.profiler.cases import ANSWERS, CASES

STORED = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_pytorchs(name):
    assert json.loads(json.dumps(CASES[name](rushlight))) == STORED[name]


@pytest.mark.slow
def test_stored_answers_are_those_of_the_installed_pytorch():
    pytest.importorskip("torch")
    asked = ("schedules", "errors", "nesting", "flops", "traces")
    script = ("import json, torch; from tests.profiler.cases import CASES; "
              f"print('ANSWERS' + json.dumps({{n: CASES[n](torch) for n in {asked!r}}}))")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout.rpartition("ANSWERS")[2])
    assert answers == {name: STORED[name] for name in asked}
