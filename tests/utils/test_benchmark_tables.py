"""utils.benchmark beside PyTorch's: digits, units, tables with all their switches, pickles, block sizes, and what the
ready-made fuzzers draw. Stored answers are PyTorch 2.13's."""

from __future__ import annotations

import importlib
import math
import pickle
import random
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils import benchmark as ours


def times_of(module: ModuleType, seed: int) -> list[Any]:
    """Measurements of a table with gaps, replicates, spread, several environments, labels and thread counts."""
    r = random.Random(seed)
    environments = r.choice([[None], ["master"], ["master", "mine", "a"]])
    found = []
    for label in r.choice([["L"], ["L", "a longer label"]]):
        for row in ("add", "a longer name", "x"):
            for column in ("n=1", "n=1024", "d"):
                for env in environments:
                    for threads in r.choice([[1], [1, 4], [4, 1]]):
                        if r.random() < 0.2:
                            continue
                        for _ in range(r.randint(1, 2)):
                            base, spread = 10 ** r.uniform(-7, -3), r.choice([0.01, 0.05, 0.2, 0.6])
                            task = module.TaskSpec("a + b", "pass", label=label, sub_label=row, description=column,
                                                   env=env, num_threads=threads)
                            times = [base * (1 + spread * r.random()) for _ in range(r.randint(1, 9))]
                            found.append(module.Measurement(r.choice([1, 10, 1000]), times, task))
    return found


def table(module: ModuleType, results: list[Any], switches: int) -> str:
    made = module.Compare(results)
    if switches & 1:
        made.trim_significant_figures()
    if switches & 2:
        made.highlight_warnings()
    if switches >> 2:
        made.colorize(rowwise=switches >> 2 == 2)
    return str(made)


def test_tables_and_texts_equal_pytorchs() -> None:
    theirs = pytest.importorskip("torch.utils.benchmark")
    for seed in range(3):
        expected, got = times_of(theirs, seed), times_of(ours, seed)
        for a, b in zip(expected, got, strict=True):
            assert repr(b).splitlines()[1:] == repr(a).splitlines()[1:]
            assert (b.median, b.iqr, b.significant_figures, b.env) == (a.median, a.iqr, a.significant_figures, a.env)
        for switches in range(12):
            assert table(ours, got, switches) == table(theirs, expected, switches), (seed, switches)


STORED_TABLE = """\
[---------------------- ops ----------------------]
                          |       n=1       |  n=2
1 threads: ----------------------------------------
  (master)     add        |   1000          |  2000
               mul        |                 |  3200
  (my branch)  add        |  10000 (! 30%)  |  2000
4 threads: ----------------------------------------
  (master)     long name  |                 |   500

Times are in nanoseconds (ns).
(! XX%) Measurement has high variance, where XX is the IQR / median * 100.
"""


def test_a_table_looks_as_pytorchs_does() -> None:
    def cell(env: str, row: str, column: str, times: list[float], threads: int = 1) -> Any:
        task = ours.TaskSpec("x", "pass", label="ops", sub_label=row, description=column, env=env, num_threads=threads)
        return ours.Measurement(1, [t * 1e-6 for t in times], task)

    results = [
        cell("master", "add", "n=1", [1.1, 1.2, 1.1]),
        cell("master", "add", "n=2", [2.0] * 40),
        cell("master", "mul", "n=2", [3.25] * 40),
        cell("my branch", "add", "n=1", [8, 10, 13, 10, 17]),
        cell("my branch", "add", "n=2", [2.02] * 40),
        cell("master", "long name", "n=2", [0.5] * 40, 4),
    ]
    made = ours.Compare(results)
    made.trim_significant_figures()
    made.highlight_warnings()
    stripped = [line.rstrip() for line in str(made).splitlines()]
    assert stripped == [line.rstrip() for line in STORED_TABLE.splitlines()]
    made.colorize()
    assert "\033[92m\033[1m" in str(made)


def test_colours_change_where_pytorchs_do() -> None:
    from rushlight.utils.benchmark.compare import BAD, BEST, GOOD, VERY_BAD, coloured

    first = {1.005: BEST, 1.05: GOOD, 1.15: "x", 1.95: "x", 2.05: BAD, 4.9: BAD, 5.1: VERY_BAD}
    for share, colour in first.items():
        assert coloured("x", share * 1e-3, 1e-3).startswith(colour), share
    assert coloured("x", 150e-9, 60e-9).startswith(BEST)      # a tenth of a microsecond is nothing
    theirs = pytest.importorskip("torch.utils.benchmark.utils.compare")
    for share in (*first, 1.0101, 1.101, 1.999):
        assert coloured("x", share * 1e-3, 1e-3) == theirs._Row.color_segment("x", share * 1e-3, 1e-3)


def test_units_and_digits_equal_pytorchs() -> None:
    assert [ours.select_unit(t)[0] for t in (9.9999999e-7, 1e-6, 1e-3, 0.999, 1.0)] == ["us", "us", "ms", "ms", "s"]
    # float32, as in PyTorch: the digits that are shown
    assert ours.trim_sigfig(3.14159, 2) == 3.1000001430511475
    assert ours.trim_sigfig(123456, 3) == 123000.0
    with pytest.raises(AssertionError):
        ours.trim_sigfig(3.0, 1.5)
    theirs = pytest.importorskip("torch.utils.benchmark")
    r = random.Random(0)
    for k in range(400):
        t = 10 ** r.uniform(-9.5, 1.2)
        t = float(f"{t:.0e}") if k % 5 == 0 else t
        assert ours.select_unit(t) == theirs.select_unit(t)
        assert ours.trim_sigfig(t * 1e6, k % 5 + 1) == theirs.trim_sigfig(t * 1e6, k % 5 + 1)


def test_pickles_go_both_ways() -> None:
    theirs = pytest.importorskip("torch.utils.benchmark")
    task = {"stmt": "x", "setup": "pass", "label": "l", "num_threads": 3}
    mine = ours.Measurement(2, [2e-6, 4e-6, 6e-6], ours.TaskSpec(**task), {"n": 1})
    other = theirs.Measurement(2, [2e-6, 4e-6, 6e-6], theirs.TaskSpec(**task), {"n": 1})
    assert other.median == mine.median      # its statistics are in its state now
    there = pickle.dumps(mine, 2).replace(b"rushlight.utils", b"torch.utils")
    here = pickle.dumps(other, 2).replace(b"torch.utils", b"rushlight.utils")
    assert pickle.loads(there) == other
    assert pickle.loads(there).median == other.median
    assert pickle.loads(here) == mine
    assert pickle.loads(here).label == "l"


class Clock:
    """Times of a statement that takes `cost` seconds, drawn with noise: what `Timer` times through, without running."""

    cost = {"cheap": 4e-6, "dear": 2e-5, "none": 8e-9}

    def __init__(self, stmt: str, setup: str, timer: Any, globals: dict[str, Any]) -> None:
        self.each, self.state = self.cost[stmt], random.Random(stmt)

    def timeit(self, number: int) -> float:
        return max(self.state.gauss(self.each * number, self.each * number * 0.05) + self.state.gauss(2e-7, 1e-8), 5e-9)


def test_blocks_are_as_long_and_as_many_as_pytorchs() -> None:
    def measured(module: ModuleType) -> list[Any]:
        timer = type("Timed", (module.Timer,), {"_timer_cls": Clock})
        found = [timer(stmt).blocked_autorange(min_run_time=2) for stmt in Clock.cost]
        found += [timer(stmt).adaptive_autorange() for stmt in Clock.cost]
        return [(m.number_per_run, m.raw_times) for m in found]

    got = measured(ours)
    assert [number for number, _ in got] == [1000, 1000, 1000000, 1000, 1000, 1000000]
    theirs = pytest.importorskip("torch.utils.benchmark")
    assert got == measured(theirs)


FUZZERS = {"unary": "UnaryOpFuzzer", "binary": "BinaryOpFuzzer", "spectral": "SpectralOpFuzzer",
           "sparse_unary": "UnaryOpSparseFuzzer", "sparse_binary": "BinaryOpSparseFuzzer"}
# What PyTorch's draw for seed 7: sizes of the first draw, and the sum of all its parameters.
STORED_DRAWS: dict[str, tuple[list[int], float]] = {
    "unary": ([126, 149, 33], 3285758856.0),
    "binary": ([17, 23, 6301], 1254723655.0),
    "spectral": ([2160, 80, 96], 17567.0),
    "sparse_unary": ([18, 39, 16384], 3241692571.05),
    "sparse_binary": ([29, 17, 16], 1834183540.05),
}


def drawn(package: str, name: str, **kwargs: Any) -> Iterator[Any]:
    module = importlib.import_module(f"{package}.utils.benchmark.op_fuzzers.{name}")
    return getattr(module, FUZZERS[name])(seed=7, **kwargs).take(2)


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """A tensor's properties without what names the package."""
    return {k: list(v) if k in ("order", "shape", "steps") else str(v).rpartition(".")[2] for k, v in facts.items()}


@pytest.mark.parametrize("name", FUZZERS)
def test_fuzzers_of_ops_draw_what_pytorchs_draw(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    got = list(drawn("rushlight", name))
    assert ([got[0][2][f"k{i}"] for i in range(3)], math.fsum(got[0][2].values())) == STORED_DRAWS[name]
    pytest.importorskip("torch")
    # 2.13 refuses distributions that sum to one, which all of these do: its check is the wrong way round
    from torch.utils.benchmark.utils.fuzzer import FuzzedParameter

    monkeypatch.setattr(FuzzedParameter, "_check_distribution", lambda self, given: given)
    for mine, theirs in zip(got, drawn("torch", name), strict=True):
        assert mine[2] == theirs[2]
        for key, expected in theirs[0].items():
            assert plain(mine[1][key]) == plain(theirs[1][key])
            parts = [(t._indices(), t._values()) if t.is_sparse else (t,) for t in (mine[0][key], expected)]
            for a, b in zip(*parts, strict=True):
                assert a.shape == tuple(b.shape)
                assert a.reshape(-1)[:99].tolist() == b.reshape(-1)[:99].tolist()
            if not expected.is_sparse:
                assert tuple(mine[0][key].stride()) == expected.stride()


def test_distributions_that_are_none_are_refused() -> None:
    with pytest.raises(AssertionError, match="not normalized"):
        ours.FuzzedParameter("a", distribution={1: 0.5, 2: 0.2})
    with pytest.raises(AssertionError, match="negative"):
        ours.FuzzedParameter("a", distribution={1: 1.5, 2: -0.5})
    with pytest.raises(AssertionError, match="minval"):
        ours.FuzzedParameter("a", 3, distribution={1: 1.0})
    with pytest.raises(AssertionError, match="Unknown distribution: normal"):
        ours.FuzzedParameter("a", 3, 4, "normal")


def test_examples_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    examples = "rushlight.utils.benchmark.examples"
    monkeypatch.setattr("sys.argv", ["compare", "--quick"])
    importlib.import_module(f"{examples}.compare").main()
    said = capsys.readouterr().out
    assert "(severe_regression)" in said
    assert re.search(r"\[-+ add -+\]", said)
    words = ["x", "--samples", "1", "--bench", "rfft", "--min-run-time", "0.001", "--threads", "1"]
    monkeypatch.setattr("sys.argv", words)
    importlib.import_module(f"{examples}.spectral_ops_fuzz_test").main()
    assert "rfft_cpu" in capsys.readouterr().out


def test_compilation_is_timed() -> None:
    from rushlight.utils.benchmark.utils.compile import benchmark_compile

    model = rl.nn.Linear(3, 3)
    compiling, running = benchmark_compile(model, rl.ones(2, 3), 3, "inductor")
    assert compiling > running
    assert benchmark_compile(model, rl.ones(2, 3), 3)[0] is None
    optimizer = rl.optim.SGD(model.parameters(), 0.1)
    before = model.weight.tolist()
    assert benchmark_compile(model, rl.ones(2, 3), 3, "inductor", optimizer=optimizer, loss_fn=rl.sum)[1] is not None
    assert model.weight.tolist() != before
    assert benchmark_compile(model, rl.ones(2, 3), 3, "no such backend") == (None, None)
