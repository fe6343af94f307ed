"""Traces: the graphs, the code and the warnings that PyTorch 2.13 makes of the programs in trace_programs.py
(trace_answers.txt; `python tests/script/test_traces.py` with PyTorch writes it), results on the example and on inputs
of other sizes, and what is refused. Graphs are compared with values numbered in order of appearance."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ANSWERS = Path(__file__).with_name("trace_answers.txt")


def programs_with(torch: Any) -> ModuleType:
    """The programs, as `torch` runs them, under the name they had when PyTorch was asked."""
    spec = importlib.util.spec_from_file_location("trace_programs", Path(__file__).with_name("trace_programs.py"))
    module = importlib.util.module_from_spec(spec)
    module.torch, module.nn, module.F = torch, torch.nn, torch.nn.functional
    sys.modules["trace_programs"] = module
    spec.loader.exec_module(module)
    return module


def canonical(graph: object) -> str:
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    text = re.sub(r"___torch_mangle_\d+\.", "", re.sub(r" # .*", "", text))
    return re.sub(r"requires_grad=(\d), device=cpu", r"g\1", text).strip()


def traced(torch: Any, programs: ModuleType, name: str) -> tuple[Any, Any, list[str]]:
    """What was traced, its trace, and the places of the program that were warned about."""
    made, inputs, _, options = programs.PROGRAMS[name]
    options = dict(options)
    program = made() if options.pop("model", False) else made
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trace = torch.jit.trace(program, inputs, **options)
    found = {f"{w.lineno}: {str(w.message)[:30]}" for w in told
             if w.category.__name__ == "TracerWarning" and w.filename.endswith("trace_programs.py")}
    return program, trace, sorted(found)


def texts(torch: Any, programs: ModuleType, name: str) -> list[str]:
    """Warnings, graph and code of a trace, then those of the modules in it."""
    _, trace, told = traced(torch, programs, name)
    found = ["\n".join(told), canonical(trace.graph), trace.code.strip()]
    for path, module in trace.named_modules() if hasattr(trace, "named_modules") else ():
        if path and path.count(".") == 0 and module._c._has_method("forward"):
            found += [f"{path}\n{canonical(module.graph)}", module.code.strip()]
    return [re.sub(r"___torch_mangle_\d+\.", "", text) for text in found]


def answers() -> dict[str, list[str]]:
    parts = [part.partition("\n") for part in re.split(r"^## ", ANSWERS.read_text(), flags=re.M)[1:]]
    return {name: [text.strip("\n") for text in rest.split("\n@@\n")] for name, _, rest in parts}


@pytest.fixture(scope="module")
def torch() -> Any:
    return importlib.import_module("rushlight")


@pytest.fixture(scope="module")
def programs(torch: Any) -> ModuleType:
    return programs_with(torch)


@pytest.mark.parametrize("name", sorted(answers()) if ANSWERS.exists() else [])
def test_graphs_code_and_warnings_are_pytorchs(torch: Any, programs: ModuleType, name: str) -> None:
    assert texts(torch, programs, name) == answers()[name]


@pytest.mark.parametrize("name", ["shapes_in_views", "shape_arithmetic", "index_with_tensors", "pools", "resizing",
                                  "norms", "heads", "net", "convnet", "lstm", "transformer", "scripted_call"])
def test_traces_hold_for_inputs_of_other_sizes(torch: Any, programs: ModuleType, name: str) -> None:
    program, trace, _ = traced(torch, programs, name)
    for inputs in programs.PROGRAMS[name][2]:
        for mine, theirs in zip(leaves(trace(*inputs)), leaves(program(*inputs)), strict=True):
            torch.testing.assert_close(mine, theirs)


def leaves(held: Any) -> list[Any]:
    return [leaf for item in held for leaf in leaves(item)] if isinstance(held, (tuple, list)) else [held]


def test_state_is_shared_and_changed(torch: Any) -> None:
    layer = torch.nn.BatchNorm1d(3)
    trace = torch.jit.trace(layer, torch.randn(4, 3))
    before, count = layer.running_mean.clone(), int(layer.num_batches_tracked)
    trace(torch.randn(4, 3))
    assert bool((before != layer.running_mean).any()) and int(layer.num_batches_tracked) == count + 1
    assert next(trace.parameters()) is layer.weight


def test_numbers_count_for_numbers(torch: Any) -> None:
    trace = torch.jit.trace(lambda x: x * 2.5 + 1, torch.arange(3))
    assert trace(torch.arange(3)).dtype is torch.float32


def test_hooks_belong_to_the_caller(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3))
    net[0].register_forward_hook(lambda module, given, result: result * 2)
    trace = torch.jit.trace(net, torch.ones(2, 3))
    assert "mul" in trace.code and "mul" not in getattr(trace, "0").code
    torch.testing.assert_close(trace(torch.ones(4, 3)), net(torch.ones(4, 3)))


def test_methods_and_keywords(torch: Any) -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x - y

        def other(self, x: Any) -> Any:
            return x * 2

    x = torch.ones(2)
    trace = torch.jit.trace_module(Two(), {"forward": (x, x), "other": x})
    assert trace.other(x).tolist() == [2.0, 2.0]
    by_name = torch.jit.trace(Two(), example_kwarg_inputs={"y": x, "x": x * 3})
    assert by_name(y=x, x=x * 5).tolist() == by_name(x * 5, x).tolist() == [4.0, 4.0]
    with pytest.raises(AttributeError, match="trace_module"):
        torch.jit.trace(Two().other, x)


def test_what_is_refused(torch: Any) -> None:
    x, weight = torch.ones(2), torch.ones(2, requires_grad=True)
    for words, function, inputs in (
        ("strict=False", lambda x: {"a": x}, x), ("didn't return", lambda x: None, x),
        ("Only tensors", lambda x: 3, x), ("cannot be traced", lambda x, n: x, (x, 3)),
        ("requires grad", lambda x: x + weight, x),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch.jit.trace(function, inputs)


def test_runs_that_differ_are_refused(torch: Any) -> None:
    calls: list[int] = []

    def changing(x: Any) -> Any:
        calls.append(1)
        return x + 1 if len(calls) % 2 else x.relu()

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed"):
        torch.jit.trace(changing, torch.ones(2))
    with pytest.warns(torch.jit.TracerWarning, match="nondeterministic"):
        torch.jit.trace(lambda x: x + torch.rand(2), torch.ones(2))


def test_tracing_is_known_while_it_lasts(torch: Any) -> None:
    seen = []
    torch.jit.trace(lambda x: seen.append(torch.jit.is_tracing()) or x + 1, torch.ones(2), check_trace=False)
    assert seen == [True] and not torch.jit.is_tracing()
    with pytest.raises(ZeroDivisionError):
        torch.jit.trace(lambda x: x + 1 // 0, torch.ones(2))
    assert not torch.jit.is_tracing() and torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


if __name__ == "__main__":
    reference = importlib.import_module("torch")
    loaded = programs_with(reference)
    rows = [f"## {name}\n" + "\n@@\n".join(texts(reference, loaded, name)) for name in loaded.PROGRAMS]
    ANSWERS.write_text("\n".join(rows) + "\n")
