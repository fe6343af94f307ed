"""Passes over graphs: the texts that PyTorch 2.13 makes (passes_answers.txt), and results that no pass changes, however
memory is shared (aliasing_programs.py)."""

from __future__ import annotations

import importlib.util
import linecache
import random
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.script.execute import Program
from rushlight.script.ir import Graph
from rushlight.script.unit import Unit

HERE = Path(__file__)


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE.with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs, aliasing = _loaded("pass_programs"), _loaded("aliasing_programs")


def answers() -> dict[str, str]:
    parts = HERE.with_name("passes_answers.txt").read_text().split("## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def canonical(graph: Graph) -> str:
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    return re.sub(r" # .*", "", text).strip()


def graph_of(source: str | Callable[..., Any]) -> Graph:
    return rl._C.parse_ir(source) if isinstance(source, str) else Unit().compile(source).graph


@pytest.mark.parametrize("name", sorted(answers()))
def test_graphs_after_passes_are_pytorchs(name: str) -> None:
    source, passes = programs.CASES[name]
    graph = graph_of(source)
    for each in passes:
        if isinstance(each, tuple):
            rl._C._jit_pass_custom_pattern_based_rewrite_graph(each[1], each[2], graph)
        else:
            getattr(rl._C, each)(graph)
        graph.lint()
    assert canonical(graph) == answers()[name]


PASSES = ("cse", "dce_graph", "dce", "constant_propagation", "constant_pooling", "peephole", "loop_unrolling",
          "constant_loop_unrolling", "remove_mutation", "peephole_list_idioms")


def compiled(text: str, name: str) -> Callable[..., Any]:
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"torch": rl}
    exec(compile(text, name, "exec"), space)  # noqa: S102 - a program of this test
    return space["program"]


def results(function: Callable[..., Any], flag: bool, turns: int) -> list[rl.Tensor] | str:
    x, y = rl.arange(4.0).reshape(2, 2), rl.arange(4.0).reshape(2, 2) + 1
    try:
        found = function(x, y, flag, turns)
    except (IndexError, RuntimeError):
        return "raises"
    return [*(value.clone() for value in found), x, y]


def are_equal(a: list[rl.Tensor] | str, b: list[rl.Tensor] | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(rl.equal(one, other) for one, other in zip(a, b, strict=True))


def assert_passes_keep(text: str, name: str, orders: list[tuple[str, ...]]) -> None:
    function = compiled(text, name)
    graph = Unit().compile(function).graph
    calls = [(True, 2), (False, 0)]
    expected = [results(function, *call) for call in calls]
    for order in orders:
        changed = graph.copy()
        for each in order:
            getattr(rl._C, f"_jit_pass_{each}")(changed)
            changed.lint()
        run = Program(changed).run
        for call, wanted in zip(calls, expected, strict=True):
            assert are_equal(results(run, *call), wanted), f"{order} on\n{text}"


@pytest.mark.parametrize("seed", range(10))
def test_no_pass_changes_results(seed: int) -> None:
    shuffled = random.Random(seed).sample(PASSES, len(PASSES))
    assert_passes_keep(aliasing.program(seed), f"<aliasing {seed}>", [*((each,) for each in PASSES), tuple(shuffled)])


WRITTEN = {
    "equal expressions around a write through a view": """
        a = x * 3
        x.view([4]).add_(1)
        b = x * 3
        return (a - b, y)""",
    "a list read before and after what it holds is written": """
        held = [x, y]
        a = torch.stack(held).sum(0)
        x.add_(1)
        b = torch.stack(held).sum(0)
        return (a - b, y)""",
    "an element of a list, written": """
        z = x + 1
        held = [z]
        held[0].add_(1)
        return (z, z * 2)""",
    "a length before and after a list grows through another name": """
        held = [x]
        other = held
        n = len(held)
        other.append(y)
        return (x * n, x * len(held))""",
    "constants that are written are not computed before": """
        a = torch.zeros([2, 2])
        b = torch.zeros([2, 2])
        if flag:
            a.add_(1)
        return (a + x, b + x)""",
    "what a turn wrote, the next one reads": """
        a = x * 1
        b = a
        for i in range(n):
            c = a * 2
            b.add_(1)
            b = a
            a = c
        return (a, b)""",
    "a loop whose variable becomes another tensor": """
        a = x + 1
        b = y + 1
        for i in range(n):
            a.add_(1)
            a = b
        return (b, b * 2)""",
    "what was appended, written through the list": """
        z = x + 1
        held = [y]
        held.append(z)
        a = z * 2
        held[1].add_(1)
        b = z * 2
        return (a - b, y)""",
    "a sum with nothing, written": """
        a = x + 0
        a.add_(1)
        return (x * 2, a * 3)""",
    "what one turn writes, the turn after the next adds": """
        a = x + 1
        b = y + 1
        for i in range(n):
            a = a + b
            t = y * 2
            t.add_(1)
            b = t
        return (a, a)""",
    "an error is a result too": """
        if n == 0:
            raise RuntimeError("none")
        return (x * n, y)""",
    "a sum of lists of which one grew": """
        held = [x]
        other = [y]
        other.append(x)
        both = held + other
        return (torch.stack(both).sum(0), y)""",
    "a tensor and its view come out of a branch": """
        if flag:
            a = x + 1
            b = a.t()
        else:
            a = x + 2
            b = y
        a.add_(1)
        return (a, b)""",
    "a loop that is left early": """
        a = x
        for i in range(3):
            a = a + i
            if i == n:
                break
        return (a, a)""",
    "a branch that writes what both name": """
        a = x + 0
        if flag:
            b = a
        else:
            b = y
        b.add_(1)
        return (a, b)""",
    "a dict's value, written": """
        z = x + 1
        d = {"k": z}
        a = d["k"] * 2
        d["k"].zero_()
        return (a, z, d["k"] * 2)""",
    "memory that a list's slice shares": """
        held = [x + 1, y + 1]
        part = held[1:]
        a = part[0] * 2
        held[1].fill_(7)
        return (a - part[0] * 2, held[0])""",
    "views in a list": """
        z = x + 1
        parts = torch.unbind(z)
        parts[0].zero_()
        return (z, parts[1])""",
    "a tuple that holds what is written": """
        z = x + 1
        pair = (z, y)
        a = pair[0] * 2
        z.add_(1)
        return (a - pair[0] * 2, y)""",
    "a list that is replaced under two names": """
        held = [x, y]
        both = [held, held]
        both[0][1] = x + 5
        return (held[1], both[1][1])""",
}


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_no_pass_changes_what_is_written_through_other_names(name: str) -> None:
    text = "def program(x, y, flag: bool, n: int):" + WRITTEN[name].replace("\n        ", "\n    ") + "\n"
    assert_passes_keep(text, f"<{name}>", [*((each,) for each in PASSES), PASSES, PASSES[::-1]])


def test_a_pattern_whose_inputs_are_written_in_between_is_left_alone() -> None:
    text = """graph(%a : Tensor, %b : Tensor, %c : Tensor):
  %one : int = prim::Constant[value=1]()
  %m : Tensor = aten::mm(%a, %b)
  {}
  %r : Tensor = aten::add(%m, %c, %one)
  return (%r)"""
    pattern = """graph(%a, %b, %c):
  %m : Tensor = aten::mm(%a, %b)
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::add(%m, %c, %one)
  return (%r)"""
    replacement = """graph(%a, %b, %c):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::addmm(%c, %a, %b, %one, %one)
  return (%r)"""
    for line, is_found in (("%z : Tensor = aten::relu(%b)", True), ("%z : Tensor = aten::zero_(%b)", False)):
        graph = rl._C.parse_ir(text.format(line))
        rl._C._jit_pass_custom_pattern_based_rewrite_graph(pattern, replacement, graph)
        graph.lint()
        assert ("aten::addmm" in str(graph)) == is_found
        a, b, c = rl.ones(2, 2), rl.ones(2, 2), rl.ones(2, 2)
        assert rl.equal(Program(graph).run(a, b, c), rl.full([2, 2], 3.0))


def test_tuples_that_loops_carry_are_taken_apart() -> None:
    text = """def program(x, y, flag: bool, n: int):
    pair = (x, y)
    for i in range(n):
        pair = (pair[1] + i, pair[0])
    if flag:
        pair = (pair[1], pair[0])
    return pair
"""
    function = compiled(text, "<tuples>")
    graph = Unit().compile(function).graph.copy()
    rl._C._jit_pass_lower_all_tuples(graph)
    graph.lint()
    assert "Tuple" not in str(graph) and len(graph.outputs()) == 2
    for call in ((True, 3), (False, 2)):
        assert are_equal(results(Program(graph).run, *call), results(function, *call))


def test_what_ran_beside_may_have_written() -> None:
    text = """def bump(t):
    return t.add_(1)


def program(x, y, flag: bool, n: int):
    a = x * 3
    future = torch.jit.fork(bump, x)
    torch.jit.wait(future)
    b = x * 3
    return (a - b, y)
"""
    assert_passes_keep(text, "<beside>", [("cse",), PASSES])
    called = text.replace("torch.jit.fork(bump, x)", "bump(x)").replace("    torch.jit.wait(future)\n", "")
    assert_passes_keep(called, "<called>", [("cse",), PASSES])


def test_attributes_that_are_set_are_read_again() -> None:
    class Counter(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 1

        def forward(self, x):
            before = self.count
            self.count = before + 1
            return x * before + self.count

    scripted = rl.jit.script(Counter())
    for each in PASSES:
        getattr(rl._C, f"_jit_pass_{each}")(scripted.graph)
    assert [scripted(rl.ones(1)).item() for _ in range(2)] == [3.0, 5.0]


def test_a_counted_loop_that_may_stop_is_not_written_out() -> None:
    graph = rl._C.parse_ir("""graph(%x : int, %go : bool):
  %three : int = prim::Constant[value=3]()
  %r : int = prim::Loop(%three, %go, %x)
    block0(%i : int, %y : int):
      %z : int = aten::add(%y, %i)
      %next : bool = aten::lt(%z, %three)
      -> (%next, %z)
  return (%r)""")
    for each in ("constant_loop_unrolling", "loop_unrolling"):
        assert not getattr(rl._C, f"_jit_pass_{each}")(graph)
    assert [Program(graph).run(x, go) for x, go in ((0, True), (0, False), (5, True))] == [3, 0, 5]
