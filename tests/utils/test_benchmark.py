"""utils.benchmark: measurements, tables, and inputs drawn as PyTorch draws them."""

from __future__ import annotations

import pickle

import pytest

import rushlight as rl
from rushlight.utils.benchmark import (
    Compare,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    ParameterAlias,
    Timer,
    select_unit,
    trim_sigfig,
)
from rushlight.utils.benchmark.measurement import TaskSpec


def measurement(times, number=10, **spec):
    return Measurement(
        number, [t * number for t in times], TaskSpec(stmt=spec.pop("stmt", "x + y"), setup="pass", **spec)
    )


def test_timer_measures_a_statement():
    x = rl.ones(4)
    timer = Timer("x + x", globals={"x": x}, label="add", sub_label="small", description="n=4")
    once = timer.timeit(20)
    assert once.number_per_run == 20
    assert len(once.raw_times) == 1
    assert once.median > 0
    many = timer.blocked_autorange(min_run_time=0.01)
    assert sum(many.raw_times) >= 0.01
    assert many.title == "add: small"
    assert timer.adaptive_autorange(threshold=10.0, max_run_time=0.2).median > 0
    assert pickle.loads(pickle.dumps(once)).times == once.times


def test_timer_has_torch_and_its_threads():
    assert Timer("torch.add(x, 1)", setup="x = torch.ones(2)").timeit(3).median > 0
    before = rl.get_num_threads()
    Timer("assert torch.get_num_threads() == 1", num_threads=1).timeit(2)
    assert rl.get_num_threads() == before


def test_what_is_refused():
    with pytest.raises(ValueError, match="Invalid language"):
        Timer("x", language="cobol")
    with pytest.raises(ValueError, match="global_setup"):
        Timer("x", global_setup="#include")
    with pytest.raises(ValueError, match="repeats"):
        Timer("pass").collect_callgrind(repeats=0)
    with pytest.raises(ValueError, match="Measurement"):
        Compare([1])


def test_statistics_equal_pytorchs():
    torch = pytest.importorskip("torch")
    theirs_of = pytest.importorskip("torch.utils.benchmark")
    times = [1.0e-6, 1.1e-6, 1.3e-6, 0.9e-6, 5e-6, 1.05e-6]
    mine = measurement(times, label="l", num_threads=2)
    theirs = theirs_of.Measurement(
        10, [t * 10 for t in times], theirs_of.TaskSpec(stmt="x + y", setup="pass", label="l", num_threads=2)
    )
    for name in ("median", "mean", "iqr"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-6)
    assert mine.significant_figures == theirs.significant_figures
    assert mine.has_warnings == theirs.has_warnings
    assert repr(mine).splitlines()[1:] == repr(theirs).splitlines()[1:]
    for t in (3e-9, 4.2e-7, 1e-5, 0.3, 20.0):
        assert select_unit(t) == theirs_of.select_unit(t)
    assert trim_sigfig(3.14159, 2) == pytest.approx(theirs_of.trim_sigfig(3.14159, 2))
    assert torch is not None


def test_merge_joins_replicates():
    merged = Measurement.merge([measurement([1e-6]), measurement([2e-6]), measurement([3e-6], stmt="other")])
    assert [m.times for m in merged] == [pytest.approx([1e-6, 2e-6]), pytest.approx([3e-6])]


def test_table_has_rows_and_columns():
    cells = [
        measurement([t * 1e-6], label="ops", sub_label=row, description=column)
        for row, column, t in (("add", "n=1", 1), ("add", "n=2", 2), ("mul", "n=1", 3))
    ]
    table = Compare(cells)
    lines = str(table).splitlines()
    assert "ops" in lines[0]
    assert [part.strip() for part in lines[1].split("|")] == ["", "n=1", "n=2"]
    assert lines[2].startswith("1 threads: ---")
    assert [part.strip() for part in lines[3].split("|")] == ["add", "1.0", "2.0"]
    assert [part.strip() for part in lines[4].split("|")] == ["mul", "3.0", ""]
    assert "Times are in microseconds (us)." in lines
    table.colorize()
    table.trim_significant_figures()
    table.highlight_warnings()
    assert "\033[" in str(table)


def fuzzer(space, module, seed=3):
    return module.Fuzzer(
        parameters=[module.FuzzedParameter("k0", 4, 64, "loguniform"), module.FuzzedParameter("k1", 4, 64, "uniform"),
                    module.FuzzedParameter("s", 1, 2, "uniform", strict=True)],
        tensors=[module.FuzzedTensor("x", ("k0", "k1"), steps=("s",), min_elements=30, probability_contiguous=0.5)],
        seed=seed,
    )


def test_fuzzer_draws_what_pytorch_draws():
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.utils.benchmark")
    import torch

    from rushlight.utils import benchmark as mine

    drawn, expected = list(fuzzer(rl, mine).take(6)), list(fuzzer(torch, theirs).take(6))
    assert [p for _, _, p in drawn] == [p for _, _, p in expected]
    for (a, _, _), (b, _, _) in zip(drawn, expected, strict=True):
        assert a["x"].stride() == b["x"].stride()
        assert a["x"].tolist() == b["x"].tolist()


def test_fuzzer_draws_from_given_shares():
    shares = [
        FuzzedParameter("a", 2, 9, "uniform"),
        FuzzedParameter("b", distribution={1: 0.5, ParameterAlias("a"): 0.5}),
    ]
    drawn = [p for _, _, p in Fuzzer(shares, [], seed=1).take(50)]
    assert all(p["b"] in (1, p["a"]) for p in drawn)
    assert len({p["b"] == 1 for p in drawn}) == 2


def test_fuzzer_refuses_the_impossible():
    with pytest.raises(ValueError, match="Duplicate names"):
        Fuzzer([FuzzedParameter("x", 1, 2, "uniform")], [FuzzedTensor("x", (2,))])
    with pytest.raises(ValueError, match="Failed to generate"):
        list(Fuzzer([], [FuzzedTensor("x", (2,), min_elements=3)], seed=0).take(1))
    loop = [
        FuzzedParameter("a", distribution={ParameterAlias("b"): 1.0}),
        FuzzedParameter("b", distribution={ParameterAlias("a"): 1.0}),
    ]
    with pytest.raises(ValueError, match="cycle"):
        list(Fuzzer(loop, [], seed=0).take(1))
