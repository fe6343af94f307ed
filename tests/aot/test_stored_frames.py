"""Captured frames that are kept on disk: found again by the same program over like objects, and by no other."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache
from rushlight.codegen.stored import graphs as stored_graphs
from tests.aot.programs import FOUND, MADE, NOT_KEPT, happened, run_elsewhere, run_program

PROGRAM = """
import json, sys
import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache


def network(width):
    class Block(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = rl.nn.BatchNorm1d(width), rl.nn.Linear(width, width)

        def forward(self, x):
            return x + self.linear(self.norm(x)).relu() / width

    return rl.nn.Sequential(Block(), rl.nn.Dropout(0.5), Block())


rl.manual_seed(0)
model, x = network(8), rl.randn(4, 8)
run = rl.compile(model, fullgraph=True)
loss = run(x).square().sum()
loss.backward()
parts = [n for n in ("dynamo.capture", "dynamo.interpreter", "fx.graph", "fake", "inductor.compile_fx")
         if "rushlight." + n in sys.modules]
print(json.dumps({"frames": graph_cache.frame_counts, "graphs": graph_cache.counts, "loss": loss.item(),
                  "grads": [p.grad.double().sum().item() for p in model.parameters()],
                  "mean": model[0].norm.running_mean.tolist(), "parts": parts}))
"""


def same_results(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[name] == b[name] for name in ("loss", "grads", "mean"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: Any) -> tuple[Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("frames") / "cache"
    return folder, run_program(folder, PROGRAM)


def test_a_second_process_captures_nothing(first: Any) -> None:
    folder, cold = first
    assert cold["frames"] == {"missing": 1, "kept": 1}
    warm = run_program(folder, PROGRAM)
    assert warm["frames"] == {"found": 1} and warm["graphs"] == {"found": 1}
    assert warm["parts"] == []      # nothing was interpreted: the modules that do so were not loaded
    assert same_results(warm, cold)


def test_another_program_of_the_same_name(first: Any) -> None:
    folder, cold = first
    other = run_program(folder, PROGRAM.replace("relu() / width", "relu() * width"))
    assert other["frames"] == {"missing": 1, "kept": 1} and other["loss"] != cold["loss"]
    assert same_results(run_program(folder, PROGRAM), cold)


def test_packed_caches_bring_frames(first: Any, tmp_path: Any) -> None:
    folder, cold = first
    found = run_elsewhere(folder, PROGRAM, tmp_path)
    assert found["frames"] == {"found": 1} and found["parts"] == [] and same_results(found, cold)


@pytest.mark.slow
def test_processes_at_once(tmp_path: Any) -> None:
    results: list[Any] = []
    several = [threading.Thread(target=lambda: results.append(run_program(tmp_path / "cache", PROGRAM)))
               for _ in range(2)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert len(results) == 2 and same_results(*results)
    assert run_program(tmp_path / "cache", PROGRAM)["frames"] == {"found": 1}


# --- within one process -----------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path_factory: Any, monkeypatch: Any, keeping: None) -> None:
    """One folder for tests that need the same kernels."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "shared_frames"))


SOURCE = """
import rushlight as rl
SCALE = 2.0

def helper(x, by=1.0):
    return x * by

def made_with(number):
    def inner(x):
        return x + number
    return inner

inner = made_with(3)

class Base(rl.nn.Module):
    def forward(self, x):
        return x.sin()

class Config:
    power = 2

class Net(Base):
    def __init__(self):
        super().__init__()
        self.linear = rl.nn.Linear(4, 4)
        self.sizes = [1, 2]

    @property
    def half(self):
        return 0.5

    def forward(self, x):
        x = helper(super().forward(x)) * SCALE * self.half
        return inner(self.linear(x)) ** Config.power + self.sizes[1]

rl.manual_seed(0)
net = Net()
"""
CHANGES = {
    "a method": ("x = helper(", "x = 3 * helper("),
    "a method of a base class": ("x.sin()", "x.cos()"),
    "a function": ("x * by", "x / by + 1"),
    "a default": ("by=1.0", "by=2.0"),
    "a global": ("SCALE = 2.0", "SCALE = 3.0"),
    "a closure": ("made_with(3)", "made_with(4)"),
    "a class attribute": ("power = 2", "power = 3"),
    "a property": ("return 0.5", "return 0.25"),
    "a list": ("[1, 2]", "[1, 5]"),
    "a module": ("Linear(4, 4)", "Linear(4, 4, bias=False)"),
}


def program(source: str) -> Any:
    """The module of a program, run anew."""
    scope: dict[str, Any] = {"__name__": "program_of_frames"}
    exec(source, scope)
    return scope["net"]


@pytest.mark.parametrize("what", CHANGES)
def test_another(what: str, shared: Any) -> None:
    x = rl.randn(2, 4)
    happened(program(SOURCE), x)
    net = program(SOURCE)
    counts, result = happened(net, x)
    assert counts == FOUND
    rl.testing.assert_close(result, net(x))
    assert CHANGES[what][0] in SOURCE
    net = program(SOURCE.replace(*CHANGES[what]))
    counts, result = happened(net, x)
    assert counts == MADE, f"another program, with {what} changed, must not find it"
    rl.testing.assert_close(result, net(x))


def test_objects_that_differ(shared: Any) -> None:
    x = rl.randn(2, 4)
    happened(program(SOURCE), x)
    frozen = program(SOURCE)
    frozen.linear.weight.requires_grad_(False)
    hooked = program(SOURCE)
    hooked.linear.register_forward_hook(lambda module, args, output: output * 7)
    own = program(SOURCE)
    own.linear.forward = lambda x: x * 7
    for net in (frozen, hooked, own):
        counts, result = happened(net, x)
        assert "found" not in counts
        rl.testing.assert_close(result, net(x))


def test_functions_put_into_our_classes(shared: Any, monkeypatch: Any) -> None:
    x = rl.randn(2, 4)
    happened(program(SOURCE), x)
    assert happened(program(SOURCE), x)[0] == FOUND
    monkeypatch.setattr(rl.nn.Linear, "forward", lambda self, x: x * 5)
    net = program(SOURCE)
    counts, result = happened(net, x)
    assert "found" not in counts
    rl.testing.assert_close(result, net(x))


def test_classes_that_look_alike_are_told_apart(folder: Any) -> None:
    def made_with(number: int) -> Any:
        class Plus(rl.nn.Module):
            def forward(self, x: Any) -> Any:
                return x + number

        return Plus()

    def both(a: Any, b: Any, x: Any) -> Any:
        return a(x) * 10 + b(x)

    for a, b in ((1, 2), (2, 1), (1, 1)):
        counts, result = happened(both, made_with(a), made_with(b), rl.zeros(2))
        assert counts == NOT_KEPT and result.tolist() == [a * 10 + b] * 2


def test_what_is_returned(folder: Any) -> None:
    def several(x: Any, name: str) -> Any:
        y = x * 2
        return {"y": y, "again": [y, (x, None, 3, name)], 4: y + 1, "empty": ()}

    for expected in (MADE, FOUND):
        x = rl.ones(3)
        counts, result = happened(several, x, "n")
        assert counts == expected
        assert list(result) == ["y", "again", 4, "empty"] and result["again"][0] is result["y"]
        assert result["again"][1][0] is x and result["again"][1][1:] == (None, 3, "n") and result["empty"] == ()
        assert result["y"].tolist() == [2, 2, 2] and result[4].tolist() == [3, 3, 3]


def test_sizes_that_vary_become_symbols(folder: Any) -> None:
    def wave(x: Any) -> Any:
        return x.sin().sum()

    for found in (1, 2):
        happened(wave, rl.ones(4))
        run = rl.compile(wave)
        graph_cache.frame_counts.clear()
        for n in (4, 5, 6, 7):
            rl.testing.assert_close(run(rl.ones(n)), wave(rl.ones(n)))
        assert graph_cache.frame_counts["found"] == found
        assert len(run.on_miss.__self__.trees) == 2      # the second serves the other three


def test_a_frame_that_was_found_is_guarded(shared: Any) -> None:
    net, x = program(SOURCE), rl.randn(2, 4)
    happened(net, x)
    net = program(SOURCE)
    run = rl.compile(net)
    graph_cache.frame_counts.clear()
    run(x)
    assert graph_cache.frame_counts == FOUND
    net.sizes[1] = 9
    rl.testing.assert_close(run(x), net(x))
    net.linear = rl.nn.Linear(4, 4)
    rl.testing.assert_close(run(x), net(x))


def test_the_graph_is_there_when_it_is_needed(folder: Any) -> None:
    def loss(x: Any) -> Any:
        return (x.exp() * x[0]).sum()

    happened(loss, rl.ones(3, 2, requires_grad=True))      # forward only: nobody made a backward
    x, wanted = (rl.ones(3, 2, requires_grad=True) for _ in range(2))
    counts, result = happened(loss, x)
    assert counts == FOUND
    result.backward()
    loss(wanted).backward()
    rl.testing.assert_close(x.grad, wanted.grad)


def test_inputs_that_share_memory_later(folder: Any) -> None:
    def write(x: Any, y: Any) -> Any:
        x.mul_(2)
        return x + y

    happened(write, rl.ones(4), rl.ones(4))
    rl.compiler.reset()
    graph_cache.frame_counts.clear()
    run = rl.compile(write)
    assert run(rl.ones(4), rl.ones(4)).tolist() == [3] * 4 and graph_cache.frame_counts == FOUND
    memory = rl.ones(4)
    assert run(memory.view(4), memory.view(4)).tolist() == [4] * 4


# --- what is not kept -------------------------------------------------------------------------------------------------


class Counting(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls


def test_frames_that_change_objects(folder: Any) -> None:
    for expected in (MADE, FOUND):
        net = Counting()
        counts, result = happened(net, rl.zeros(2))
        assert counts == expected and net.calls == 1 and result.tolist() == [1, 1]


def test_what_is_read_before_it_is_changed(folder: Any) -> None:
    def exchanged(x: Any, held: dict, names: list) -> Any:
        before, held["x"] = held["x"], x + 1
        names.append(before)
        names[0] = held
        return before, [before, names]

    for expected in (MADE, FOUND):
        old, x = rl.ones(2), rl.zeros(2)
        held, names = {"x": old, "gone": 1}, [None, 3]
        counts, (before, [again, all_names]) = happened(exchanged, x, held, names)
        assert counts == expected and before is old and again is old and all_names is names
        assert held["x"].tolist() == [1, 1] and len(names) == 3 and names[0] is held and names[2] is old


def test_a_step_of_training(folder: Any) -> None:
    def train(net: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    found = []
    for expected in (MADE, FOUND):
        rl.manual_seed(0)
        net = rl.nn.Linear(3, 3)
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        counts, loss = happened(train, net, optimizer, rl.ones(2, 3))
        assert counts == expected
        found.append((loss.item(), net.weight.tolist(), loss.requires_grad))
    assert found[0] == found[1]


def test_what_is_said_is_said_again(folder: Any, capsys: Any) -> None:
    def says(x: Any) -> Any:
        print("said", x.shape[0], sep=":")
        return x * 2

    for expected in (MADE, FOUND):
        counts, result = happened(says, rl.ones(2))
        assert counts == expected and capsys.readouterr().out == "said:2\n" and result.tolist() == [2, 2]


def test_the_environment_may_be_another(folder: Any, monkeypatch: Any) -> None:
    def looks(x: Any) -> Any:
        return x + (1 if os.environ.get("FRAMES_TEST") == "1" else 2)

    monkeypatch.setenv("FRAMES_TEST", "1")
    happened(looks, rl.zeros(2))
    monkeypatch.setenv("FRAMES_TEST", "2")
    counts, result = happened(looks, rl.zeros(2))
    assert "found" not in counts and result.tolist() == [2, 2]


def test_results_that_are_taken_for_constants(folder: Any) -> None:
    state = [1]

    @rl.compiler.assume_constant_result
    def number() -> int:
        return state[0]

    for n in (1, 2):
        state[0] = n
        counts, result = happened(lambda x: x + number(), rl.zeros(2))
        assert "found" not in counts and result.tolist() == [n, n]


# --- what is on disk --------------------------------------------------------------------------------------------------


def wave(x: Any) -> Any:
    return (x.sin() * 2.0).sum(0)


def frame_file(folder: Any) -> Any:
    (path,) = [p for p in folder.iterdir() if p.read_bytes().startswith(stored_graphs.MAGIC) and b'"rows"' in
               p.read_bytes()]
    return path


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:-1], lambda data: data[:40], lambda data: b"PK" + data,
    lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
])
def test_damaged_entries_are_made_again(damage: Callable, folder: Any) -> None:
    _, before = happened(wave, rl.ones(3, 4))
    path = frame_file(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    counts, after = happened(wave, rl.ones(3, 4))
    assert counts == MADE and rl.equal(before, after) and path.read_bytes() == whole


@pytest.mark.parametrize("change", [
    lambda data: None, lambda data: [], lambda data: {},
    lambda data: {**data, "rows": []}, lambda data: {**data, "rows": [["Local", None, "other"]] * 9},
    lambda data: {**data, "inputs": [0, 0, 0, 99]}, lambda data: {**data, "left": ["call", "os.system"]},
    lambda data: {**data, "guards": [["no such guard", 0, None, 0]]},
    lambda data: {**data, "graph": {**data["graph"], "nodes": [["call", ["named", "os", "system"], ["tuple"]]]}},
])
def test_entries_that_say_something_else_are_made_again(change: Callable, folder: Any) -> None:
    _, before = happened(wave, rl.ones(3, 4))
    path = frame_file(folder)
    (name,) = [n for n in stored_graphs.used() if stored_graphs.key_by(n).hex() == path.name]
    contents = json.dumps(change(stored_graphs.read(name))).encode()
    assert stored_graphs.write_contents(name, contents) is None
    counts, after = happened(wave, rl.ones(3, 4))
    assert counts == MADE and rl.equal(before, after)


@pytest.mark.parametrize("target", [
    ["named", "os", "system"], ["named", "builtins", "exec"], ["named", "subprocess", "run"], ["op", "no such op"],
    ["named", "rushlight.compat.run", "main"], ["named", "rushlight.base.late", "os.system"],
    ["named", "rushlight.base.late", "importlib"], ["method", "", "join"], ["function"], ["no such kind"], [[]],
])
def test_graphs_call_nothing_but_ops(target: Any, folder: Any) -> None:
    from rushlight.aot.graphs.data import StoredModule

    nodes = [["input"], ["call", target, ["tuple", ["node", 0]], ["dict"]], ["output", ["tuple", ["node", 1]]]]
    with pytest.raises((ValueError, LookupError, TypeError)):
        _ = StoredModule(nodes, {}).module
