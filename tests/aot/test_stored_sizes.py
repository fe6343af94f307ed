"""Frames and graphs whose sizes are symbols, kept on disk: a later process serves many sizes and compiles nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache
from rushlight.codegen.stored import graphs as stored_graphs
from rushlight.symbols import ShapeEnv, stored
from tests.aot.programs import FOUND, MADE, happened, run_elsewhere, run_program

PROGRAM = """
import json, sys
import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache

rl.manual_seed(0)
net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4))

def program(x):
    return net(x).reshape(-1) * x.shape[0], x.shape[0] + 1

run, sizes = rl.compile(program), [3, 4, 5]
out = []
for n in sizes:
    y, m = run(rl.ones(n, 8) * 0.1)
    y.sum().backward()
    out.append((round(y.sum().item(), 4), m, round(program(rl.ones(n, 8) * 0.1)[0].sum().item(), 4)))
parts = [n for n in ("dynamo.capture", "dynamo.interpreter", "fx.graph", "fake", "inductor.compile_fx", "aot.capture")
         if "rushlight." + n in sys.modules]
print(json.dumps({"frames": graph_cache.frame_counts, "graphs": graph_cache.counts, "parts": parts, "out": out,
                  "grads": [p.grad.double().sum().item() for p in net.parameters()]}))
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: Any) -> tuple[Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("sizes") / "cache"
    return folder, run_program(folder, PROGRAM)


def is_right(told: dict[str, Any], sizes: list[int]) -> bool:
    return [m for _, m, _ in told["out"]] == [n + 1 for n in sizes] and all(
        abs(a - b) < 1e-3 for a, _, b in told["out"])


def test_a_second_process_captures_nothing(first: Any) -> None:
    folder, cold = first
    assert cold["frames"] == {"missing": 2, "kept": 2} and is_right(cold, [3, 4, 5])
    warm = run_program(folder, PROGRAM)
    assert warm["frames"] == {"found": 2} == warm["graphs"] and warm["parts"] == []
    assert warm["out"] == cold["out"] and warm["grads"] == cold["grads"]


def test_other_sizes_find_it_too(first: Any) -> None:
    folder, _ = first
    other = run_program(folder, PROGRAM.replace("[3, 4, 5]", "[3, 9, 200]"))      # which may need plans of their own
    assert other["frames"] == {"found": 2} and other["graphs"]["found"] == 2 and is_right(other, [3, 9, 200])
    assert not {"dynamo.capture", "dynamo.interpreter"} & {*other["parts"]}
    again = run_program(folder, PROGRAM.replace("[3, 4, 5]", "[3, 9, 200]"))      # and these are kept too
    assert again["graphs"] == {"found": 2} and again["parts"] == [] and is_right(again, [3, 9, 200])
    assert run_program(folder, PROGRAM)["parts"] == []


def test_packed_caches_bring_them(first: Any, tmp_path: Any) -> None:
    folder, cold = first
    found = run_elsewhere(folder, PROGRAM, tmp_path)
    assert found["frames"] == {"found": 2} and found["parts"] == [] and found["out"] == cold["out"]


# --- within one process -----------------------------------------------------------------------------------------------


def halves(x: Any, by: int) -> Any:
    a, b = x[: x.shape[0] // 2], x[x.shape[0] // 2 :]
    return (a.sum() - b.sum()) * by, x.shape[0] % 3


def test_conditions_are_checked_again(folder: Any) -> None:
    """Sizes and numbers that the plan, or the graph, does not hold for get others."""
    expected = MADE
    for _ in range(2):
        counts, result = happened(halves, rl.arange(6.0), 5, dynamic=True)
        assert counts == expected and (result[0].item(), result[1]) == (-45.0, 0)
        run = rl.compile(halves, dynamic=True)
        for n, by in ((8, 3), (7, 2), (2, 5), (1, 4), (0, 3), (64, 1), (5, 0)):
            x = rl.arange(float(n))
            got, wanted = run(x, by), halves(x, by)
            assert rl.equal(got[0], wanted[0]) and got[1] == wanted[1]
        expected = FOUND


def test_what_was_assumed_of_sizes(folder: Any) -> None:
    def short(x: Any) -> Any:
        return x + 1 if x.shape[0] < 10 else x - 1

    counts, _ = happened(short, rl.zeros(4), dynamic=True)
    assert counts == MADE
    counts, result = happened(short, rl.zeros(12), dynamic=True)
    assert "found" not in counts and result.tolist() == [-1] * 12
    counts, result = happened(short, rl.zeros(9), dynamic=True)
    assert result.tolist() == [1] * 9


def test_sizes_that_are_equal(folder: Any) -> None:
    def product(x: Any, y: Any) -> Any:
        return x @ y

    for expected in (MADE, FOUND):
        counts, result = happened(product, rl.ones(4, 6), rl.ones(6, 3), dynamic=True)
        assert counts == expected and result.tolist() == [[6.0] * 3] * 4
    assert happened(product, rl.ones(4, 4), rl.ones(4, 4), dynamic=True)[1].tolist() == [[4.0] * 4] * 4
    run = rl.compile(product, dynamic=True)
    assert run(rl.ones(2, 6), rl.ones(6, 5)).shape == (2, 5)
    with pytest.raises(RuntimeError):
        run(rl.ones(2, 6), rl.ones(5, 5))


def test_a_bad_index_is_named(folder: Any) -> None:
    def look(table: Any, i: Any) -> Any:
        return table[i] * 2

    for _ in range(2):
        run = rl.compile(look, dynamic=True)
        assert run(rl.ones(5, 2), rl.tensor([0, 4])).tolist() == [[2, 2], [2, 2]]
        with pytest.raises(IndexError):
            run(rl.ones(4, 2), rl.tensor([0, 4]))
        rl.compiler.reset()


def test_breaks_with_sizes(folder: Any) -> None:
    def broken(x: Any) -> Any:
        y = x * x.shape[0]
        rl._dynamo.graph_break()
        return y.reshape(x.shape[0] * 2, -1)

    for is_found in (False, True):
        rl.compiler.reset()
        graph_cache.frame_counts.clear()
        run = rl.compile(broken, dynamic=True)
        for n in (3, 5):
            rl.testing.assert_close(run(rl.ones(n, 4)), broken(rl.ones(n, 4)))
        assert ("missing" not in graph_cache.frame_counts) is is_found


# --- what is on disk --------------------------------------------------------------------------------------------------


def scaled(x: Any) -> Any:
    return x.sum(0) * x.shape[0]


def entries(part: str) -> list[tuple[bytes, Any]]:
    found = [(name, stored_graphs.read(name)) for name in stored_graphs.used()]
    return [(name, data) for name, data in found if data is not None and part in data]


@pytest.mark.parametrize("part, change", [
    ("rows", lambda data: {**data, "guards": [g if g[0] != "symbolic" else [*g[:2], [g[2][0], "", ["s0"]], g[3]]
                                              for g in data["guards"]]}),
    ("rows", lambda data: {**data, "graph": {**data["graph"], "dims": []}}),
    ("sizes", lambda data: {**data, "sizes": [{"guards": [[["truth", "system", []], ""]]}, []]}),
    ("sizes", lambda data: {**data, "sizes": [{**data["sizes"][0], "inputs": []}, []]}),
    ("sizes", lambda data: {**data, "plan": {"plans": [{}]}}),
    ("sizes", lambda data: {**data, "plan": {"plans": [{**data["plan"]["plans"][0], "program": [9, [1], [99] * 3]}]}}),
])
def test_entries_that_say_something_else_are_made_again(part: str, change: Callable, folder: Any, monkeypatch: Any
                                                         ) -> None:
    monkeypatch.setattr(stored_graphs, "_used", {})
    _, before = happened(scaled, rl.ones(3, 4), dynamic=True)
    for name, data in entries(part):
        assert stored_graphs.write_contents(name, json.dumps(change(data)).encode()) is None
    counts, after = happened(scaled, rl.ones(3, 4), dynamic=True)
    assert counts == MADE and rl.equal(before, after)


def test_formulas_are_the_same_again() -> None:
    env = ShapeEnv()
    s, t = (env.create_symbol(n, name) for n, name in ((6, "a"), (10, "b")))
    assert s * 2 < t * 3 and s % 2 == 0
    for f in (s, s * t + 4 - t // 3, s % 5, s * s * t, s < t, (s + 1) / t, s // (t - 1)):
        told = json.loads(json.dumps(stored.described(f.expression)))
        assert stored.restored(told) is f.expression or repr(stored.restored(told)) == repr(f.expression)
    again = stored.restored_env(json.loads(json.dumps(stored.described_env(env))))
    for values in ({"s0": 6, "s1": 10}, {"s0": 8, "s1": 4}, {"s0": 7, "s1": 10}, {"s0": 1, "s1": 10}):
        assert again.holds_for(values) == env.holds_for(values)


@pytest.mark.parametrize("told", [["sum", [[1, [[["system", ["sum", []]], 1]]]]], ["truth", "import"], ["real", "open"],
                                  ["code", ""], []])
def test_only_known_operations(told: Any) -> None:
    with pytest.raises((ValueError, LookupError)):
        stored.restored(told)


def test_symbols_of_elements_are_not_kept() -> None:
    env = ShapeEnv()
    env.create_unbacked_symint()
    with pytest.raises(ValueError, match="elements"):
        stored.described_env(env)
