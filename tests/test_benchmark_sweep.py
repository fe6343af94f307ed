"""The sweep: its cases are named once and name what exists, draws are the same every time and stay within limits, and
it reports both sides."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest

import rushlight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import sweep, sweep_cases  # noqa: E402


def test_cases_are_expressions_over_operands_that_are_used() -> None:
    cases = sweep.cases()
    assert len(cases) > 2000
    names = set()
    for case in cases:
        names.update(compile(case.code, case.code, "eval").co_names)
        names.update(re.findall(r"\b[A-Z]\b", case.needs()))
    assert names >= sweep_cases.OPERANDS.keys() | sweep_cases.SIZES.keys() | {"torch", "F", "infer", "train"}


def test_draws_are_the_same_for_a_seed_and_within_limits() -> None:
    one = sweep.Case("unary", "x.exp()", 2)
    draws = [list(one.draws(seed)) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    assert {draw.type for draw in draws[0]} > {"float32"} and {draw.layout for draw in draws[0]} > {"plain"}
    for draw in draws[0]:
        assert draw.sizes["R"] * draw.sizes["C"] <= sweep_cases.LIMITS["RC"]
        assert all(low <= draw.sizes[name] <= high for name, (_, low, high) in sweep_cases.SIZES.items())
    sizes = [math.log2(draw.sizes["N"]) for draw in draws[0]]
    assert min(sizes) < 8 and max(sizes) > 14       # of all magnitudes
    (middle,) = sweep.Case("unary", "x.exp()").draws(0)
    assert middle.sizes["R"] == 512 and middle.type == "float32"
    assert one.title(middle) == "x.exp()  [R=512 C=512 float32 plain]"


@pytest.mark.parametrize("layout", ["plain", "turned", "strided"])
def test_layouts_hold_the_same_numbers(layout: str) -> None:
    names = sweep.Draw({"R": 3, "C": 5}, layout=layout, pictured="channels last").names(rushlight)
    given = rushlight.arange(15.).reshape(3, 5)
    laid = names["laid"](given)
    assert laid.tolist() == given.tolist()
    assert laid.stride() == {"plain": (5, 1), "turned": (1, 3), "strided": (10, 2)}[layout]
    assert names["pictured"](rushlight.ones(2, 3, 4, 5)).stride() == (60, 1, 15, 3)


def test_reports_ratios_and_what_one_side_lacks(capsys, tmp_path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    threads = [(library, library.get_num_threads()) for library in (torch, rushlight)]
    monkeypatch.setattr(sweep, "TABLES", {})
    monkeypatch.setattr(sweep, "STATEMENTS", {"one": "row.sum(); row.no_such_method(); x.view(-1)", "two": "x.exp()"})
    monkeypatch.setattr(sweep, "SAMPLE", 1e-5)
    chosen = ["--family", "one", "--draws", "1", "--rounds", "1", "--no-floor", "--below", "inf"]
    try:
        sweep.main([*chosen, "--json", str(tmp_path / "times.json")])
    finally:
        for library, count in threads:
            library.set_num_threads(count)
    said = capsys.readouterr().out
    assert "failed row.no_such_method() (1): Refused" in said and "2 cases, geometric mean" in said
    row, view = json.loads((tmp_path / "times.json").read_text())
    assert row["case"].startswith("row.sum()  [C=") and row["ratio"] == pytest.approx(row["torch"] / row["rushlight"])
    assert "turned" not in view["case"]             # PyTorch has no view of those: drawn again
