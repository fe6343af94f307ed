"""The ablation: its table names what exists, what it turns off is off and on again after, and no row can lie."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

import rushlight as rl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import ablation, ablation_paths, ablation_worker  # noqa: E402
from benchmarks.harness import Session  # noqa: E402


def path_of(name: str) -> ablation_paths.Path:
    return next(path for path in ablation_paths.PATHS if path.name == name)


@pytest.mark.parametrize("path", ablation_paths.PATHS, ids=lambda path: path.name)
def test_the_table_names_what_exists(path: ablation_paths.Path) -> None:
    """Modules and functions move: a place that is not there any more fails here, not in the middle of a long run."""
    assert ablation_paths.freed(path) >= 0 and path.cases
    with ablation_worker.in_state(path, is_on=False):
        pass


def test_names_are_told_apart() -> None:
    names = [path.name for path in ablation_paths.PATHS]
    assert len(set(names)) == len(names)
    for path in ablation_paths.PATHS:
        assert len({case.name for case in path.cases}) == len(path.cases), path.name


def test_a_path_is_off_inside_and_on_again_after() -> None:
    path, x = path_of("order: few first"), rl.randn(64, 250)
    with ablation_worker.in_state(path, is_on=False) as witness:
        without = x.topk(3)
        assert witness.count == 0
    other = rl.randn(64, 251)     # of another plan
    with ablation_worker.in_state(path, is_on=True) as witness:
        other.topk(3)
        assert witness.count > 0
    assert rl.equal(without[0], x.sort(1, descending=True)[0][:, :3])


def test_measures_and_says_so() -> None:
    """A run of one path, in processes of its own: a gain by numbers, or the reason why there is none."""
    session = Session(rounds=1, threads=1, at_least=0.001, clock="cpu", only="order: few first", quick=True)
    (section,) = ablation.run(session)
    row = next(line for line in section.notes if line.startswith("| order: few first"))
    assert row.split("|")[3].strip() == "1" and row.split("|")[5].strip() in ("keep", "goes")
    assert any("with, " in line and "without: " in line for line in section.notes)


@pytest.mark.parametrize(
    ("on", "off", "said"),
    [
        ({"taken": False, "numbers": [1.0]}, {"taken": False, "numbers": [1.0]}, "not taken"),
        ({"taken": True, "numbers": [1.0]}, {"taken": True, "numbers": [1.0]}, "taken though off"),
        ({"taken": True, "numbers": [1.0, 2.0]}, {"taken": False, "numbers": [1.0, 2.1]}, "results differ"),
        ({"taken": True, "numbers": [1.0]}, {"taken": False, "numbers": [1.0, 2.0]}, "results differ"),
        ({"taken": True, "numbers": [1.0]}, {"taken": False, "numbers": [math.nan]}, "results differ"),
        ({"error": "RuntimeError: no"}, {"taken": False, "numbers": []}, "fails on: RuntimeError: no"),
        ({"taken": True, "numbers": [1.0, math.nan]}, {"taken": False, "numbers": [1.00001, math.nan]}, ""),
    ],
)
def test_a_row_counts_only_if_it_is_about_the_path(on: dict, off: dict, said: str) -> None:
    case = ablation_paths.PathCase("a case", "x")
    assert ablation.problem_of(case, {"on": on, "off": off}) == said


def test_verdicts() -> None:
    def gain(*ratios: float, problem: str = "") -> ablation.Gain:
        return ablation.Gain("", {"on": [1.0] * len(ratios), "off": list(ratios)}, problem)

    assert ablation.verdict([gain(1.02, 1.05), gain(1.3, 1.2)]) == "keep"
    assert ablation.verdict([gain(1.02, 1.05), gain(0.8)]) == "goes"
    assert ablation.verdict([gain(problem="not taken")]) == "not on this processor"
    assert ablation.verdict([gain(problem="results differ"), gain(problem="not taken")]) == "not measured"
