"""The sweep over the everyday surface: its cases are named once and name what exists, and it reports both sides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import rushlight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import sweep  # noqa: E402


def test_cases_are_expressions_over_operands_that_are_used() -> None:
    cases = sweep.cases()
    assert len(cases) > 800
    names = set()
    for case in cases:
        names.update(compile(case, case, "eval").co_names)
    assert names >= sweep.OPERANDS.keys() | {"torch", "F"}


def test_reports_ratios_and_what_one_side_lacks(capsys, tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    threads = [(library, library.get_num_threads()) for library in (torch, rushlight)]
    monkeypatch.setattr(sweep, "CASES", "row.sum(); row.no_such_method()")
    monkeypatch.setattr(sweep, "SAMPLE", 1e-5)
    try:
        sweep.main(["row.", "--rounds", "2", "--json", str(tmp_path / "times.json")])
    finally:
        for library, count in threads:
            library.set_num_threads(count)
    said = capsys.readouterr().out
    assert "failed row.no_such_method(): AttributeError" in said and "1 cases, geometric mean" in said
    (row,) = json.loads((tmp_path / "times.json").read_text())
    assert row["case"] == "row.sum()" and row["ratio"] == pytest.approx(row["torch"] / row["rushlight"])
