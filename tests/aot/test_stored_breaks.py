"""Frames whose graphs break, kept on disk: a later process goes on behind the break as if it had captured it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight._dynamo.utils import counters
from rushlight.aot.graphs import cache as graph_cache
from rushlight.codegen.stored import graphs as stored_graphs
from tests.aot.programs import happened, run_elsewhere, run_program

pytestmark = pytest.mark.usefixtures("without_suppositions")

PROGRAM = """
import json, sys
import rushlight as rl
from rushlight._dynamo.utils import counters
from rushlight.aot.graphs import cache as graph_cache


class Net(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (rl.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        y = self.a(x).relu()
        rl._dynamo.graph_break()
        y = self.b(y)
        rl._dynamo.graph_break()
        n = y.shape[0]
        return self.c(y).sin() * 2, n


rl.manual_seed(SEED)
net, x = Net(), rl.randn(4, 8)
out, n = rl.compile(net)(x)
out.sum().backward()
parts = [n for n in ("dynamo.capture", "dynamo.interpreter", "fx.graph", "fake", "inductor.compile_fx", "aot.capture")
         if "rushlight." + n in sys.modules]
print(json.dumps({"frames": graph_cache.frame_counts, "graphs": graph_cache.counts, "parts": parts, "n": n,
                  "out": out.tolist(), "grads": [p.grad.double().sum().item() for p in net.parameters()],
                  "breaks": counters["graph_break"], "eager": net(x)[0].tolist()}))
""".replace("SEED", "0")


def same_results(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[name] == b[name] for name in ("n", "out", "grads", "breaks"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: Any) -> tuple[Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("breaks") / "cache"
    return folder, run_program(folder, PROGRAM)


def test_a_second_process_captures_nothing(first: Any) -> None:
    folder, cold = first
    assert cold["frames"] == {"missing": 3, "kept": 3} and len(cold["breaks"]) == 2
    warm = run_program(folder, PROGRAM)
    assert warm["frames"] == {"found": 3} and warm["graphs"] == {"found": 3} and warm["parts"] == []
    assert same_results(warm, cold)


def test_packed_caches_bring_them(first: Any, tmp_path: Any) -> None:
    folder, cold = first
    found = run_elsewhere(folder, PROGRAM, tmp_path)
    assert found["frames"] == {"found": 3} and found["parts"] == [] and same_results(found, cold)


# --- within one process -----------------------------------------------------------------------------------------------


def with_loop(x: Any, layers: Any) -> Any:
    seen = []
    for i, layer in enumerate(layers):
        x = layer(x)
        seen.append((i, x))
        if x.sum() > 1e9:
            break
    return x, seen


def with_block(x: Any) -> Any:
    y = x * 2
    with rl.no_grad():
        z = y.exp()
        n = int(z.sum().item() > 0)
        z = z + n
    return y + z


def with_try(x: Any) -> Any:
    try:
        y = x.cos()
        os.getpid()
        return y + 1
    except ValueError:
        return x


def helper(x: Any, by: float) -> Any:
    y = x.sin()
    if y.sum() > -1e9:
        os.getpid()
        return y * by
    return y


def calls_another(x: Any) -> Any:
    return helper(x + 1, 3.0) - helper(x + 2, 3.0)


def with_cell(x: Any) -> Any:
    scale = 2.0

    y = x * scale
    os.getpid()
    return [y * scale for _ in range(2)], scale > 0


def handed_on(x: Any, name: str, by: float) -> Any:
    y = x.sin()
    if y.sum() > -1e9:
        y = y + 1
    return y, name, by


LAYERS = [rl.nn.Linear(4, 4) for _ in range(2)]
CASES: dict[str, tuple[Callable, Callable[[], tuple]]] = {
    "a loop": (with_loop, lambda: (rl.ones(3, 4), LAYERS)),
    "a try block": (with_try, lambda: (rl.ones(3, 4),)),
    "a function that breaks": (calls_another, lambda: (rl.ones(3, 4),)),
    "a comprehension behind it": (with_cell, lambda: (rl.ones(3, 4),)),
    "arguments that are handed on": (handed_on, lambda: (rl.ones(3, 4), "name", 2.5)),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return rl.allclose(a, b) if isinstance(b, rl.Tensor) else a == b


@pytest.mark.parametrize("what", CASES)
def test_found_again(what: str, folder: Any) -> None:
    function, arguments = CASES[what]
    expected = function(*arguments())
    counters.clear()
    counts, result = happened(function, *arguments())
    assert counts["kept"] and "not kept" not in counts
    assert same(result, expected)
    reasons = Counter(counters["graph_break"])
    counters.clear()
    counts, result = happened(function, *arguments())
    assert set(counts) == {"found"} and same(result, expected) and counters["graph_break"] == reasons


def test_values_that_are_only_handed_on_may_be_others(folder: Any) -> None:
    happened(handed_on, rl.ones(3), "a", 1.0)
    graph_cache.frame_counts.clear()
    rl.compiler.reset()
    run = rl.compile(handed_on)
    assert run(rl.ones(3), "b", 2.0)[1:] == ("b", 2.0)
    assert graph_cache.frame_counts["found"] >= 1


def test_loops_are_compiled_once(folder: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(rl._dynamo.config, "error_on_recompile", True)
    run = rl.compile(with_loop)
    for _ in range(3):
        assert same(run(rl.ones(3, 4), LAYERS), with_loop(rl.ones(3, 4), LAYERS))


def test_the_other_way_on_is_captured(folder: Any) -> None:
    def signed(x: Any) -> Any:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y[1:] - 1

    assert happened(signed, rl.ones(3))[1].tolist() == [3, 3, 3]
    counts, result = happened(signed, -rl.ones(3))
    assert counts == {"found": 1, "missing": 1, "kept": 1} and result.tolist() == [-3, -3]
    assert happened(signed, -rl.ones(3))[0] == {"found": 2} == happened(signed, rl.ones(3))[0]


def test_writes_to_objects(folder: Any) -> None:
    def noted(x: Any, notes: list) -> Any:
        y = x * 2
        notes.append(len(notes))
        if y.sum() > 0:
            return y + 1
        return y

    for is_found in (False, True):
        notes: list[int] = []
        counts, result = happened(noted, rl.ones(3), notes)
        assert ("found" in counts) is is_found and notes == [0] and result.tolist() == [3, 3, 3]


def test_a_mode_that_is_on_at_the_break_is_not_kept(folder: Any) -> None:
    for _ in range(2):
        counts, result = happened(with_block, rl.ones(3))
        assert counts["not kept"] and rl.is_grad_enabled()
        rl.testing.assert_close(result, with_block(rl.ones(3)))


def frame_with_break(folder: Any) -> tuple[bytes, Any]:
    for name in stored_graphs.used():
        data = stored_graphs.read(name)
        if data is not None and data.get("stop") is not None:
            return name, data
    raise AssertionError("no frame with a break was kept")


@pytest.mark.parametrize("change", [
    lambda data: {**data, "stop": [10**6, *data["stop"][1:]]}, lambda data: {**data, "stop": [-1, *data["stop"][1:]]},
    lambda data: {**data, "stop": [0, *data["stop"][1:]]}, lambda data: {**data, "stop": []},
    lambda data: {**data, "stop": [*data["stop"][:3], "no such kind", "", ""]},
    lambda data: {**data, "left": [[], []]}, lambda data: {**data, "left": [[["iterator", ["exec", [], None]]], []]},
    lambda data: {**data, "left": ["method", [["object", 0], ["object", 0]]]},
])
def test_entries_that_say_something_else_are_made_again(change: Callable, folder: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(stored_graphs, "_used", {})
    _, before = happened(with_try, rl.ones(3, 4))
    name, data = frame_with_break(folder)
    assert stored_graphs.write_contents(name, json.dumps(change(data)).encode()) is None
    counts, after = happened(with_try, rl.ones(3, 4))
    assert counts["kept"] == 1 and rl.equal(before, after)
