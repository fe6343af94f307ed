"""Functions through the script compiler: the graphs and the code that PyTorch 2.13 makes of them (answers.txt), and the
results that Python gives. Graphs are compared with values numbered in order of appearance."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import rushlight as rl
from rushlight.script.execute import Error
from rushlight.script.frontend.errors import CompileError, NotSupportedError
from rushlight.script.text.code_writer import CodeWriter
from rushlight.script.text.graph_reader import read_graph
from rushlight.script.unit import Function, Unit

ANSWERS = Path(__file__).with_name("answers.txt")


def _programs() -> ModuleType:
    """The programs under the name they had when PyTorch was asked: code says where functions come from."""
    spec = importlib.util.spec_from_file_location("progs", Path(__file__).with_name("script_programs.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = _programs()


def answers() -> dict[str, tuple[str, str]]:
    found = {}
    for part in ANSWERS.read_text().split("## ")[1:]:
        name, _, rest = part.partition("\n")
        graph, _, code = rest.partition("\n@@\n")
        found[name] = graph.strip(), code.strip()
    return found


def compiled(name: str) -> Function:
    return Unit().compile(getattr(programs, name))


def canonical(graph: object) -> str:
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    return re.sub(r" # .*", "", text).strip()


@pytest.mark.parametrize("name", sorted(answers()))
def test_graphs_and_code_are_pytorchs(name: str) -> None:
    graph, code = answers()[name]
    function = compiled(name)
    assert canonical(function.graph) == graph
    written = CodeWriter().function(name, function.graph, function.schema)
    assert written.strip() == code


@pytest.mark.parametrize("name", sorted(answers()))
def test_a_printed_graph_reads_back(name: str) -> None:
    graph = compiled(name).graph
    if not re.search(r"NamedTuple|Function", str(graph)):
        assert canonical(read_graph(str(graph))) == canonical(graph)


def numbers(*shape: int) -> rl.Tensor:
    return rl.arange(1.0, 1.0 + rl.Size(shape).numel()).reshape(shape)


CALLS = {
    "a01": [numbers(2, 3)], "a02": [numbers(2, 3), numbers(2, 3)], "a03": [numbers(2)], "a04": [numbers(2, 3)],
    "a05": [1, 4], "a06": [-3], "a08": [[1, 2, 3]], "a09": [[1, 3, 5, 7, 9]], "a10": [5], "a11": [9], "a12": [None],
    "a13": [{"z": 2}], "a15": [numbers(4, 3)], "a17": [numbers(4, 3)], "a18": [numbers(2)], "a19": [6],
    "a23": [numbers(2, 3)], "a24": [numbers(2, 3)], "a25": [2], "a26": [[numbers(2), numbers(2)]], "a27": [numbers(2)],
    "a28": [(1, numbers(2))], "a29": [numbers(2, 3)], "a30": [numbers(2)], "a31": [numbers(2, 2).long()],
    "a32": [True, False], "a33": [numbers(2, 2)], "a34": ["x"], "a36": [[3.0, 1.0, 2.0]], "a37": [], "a39": [10, 3],
    "a40": [numbers(2), False], "a41": [numbers(1)], "a42": [3], "a43": [[[1], [2, 3]]],
    "a44": [{"a": numbers(1), "bb": numbers(1)}], "a45": [3], "a46": [numbers(2, 3)], "a47": [numbers(2), 2],
    "a48": [numbers(2, 2)], "a49": ["s", 4], "a50": [numbers(2)],
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_are_pythons(name: str) -> None:
    def fresh() -> list:
        return [a.clone() if isinstance(a, rl.Tensor) else dict(a) if isinstance(a, dict) else a for a in CALLS[name]]

    expected, found = getattr(programs, name)(*fresh()), compiled(name)(*fresh())
    rl.testing.assert_close(found, expected) if isinstance(expected, rl.Tensor) else _same(found, expected)


def _same(found: object, expected: object) -> None:
    if isinstance(expected, rl.Tensor):
        assert rl.equal(found, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
    else:
        assert found == expected and type(found) is type(expected)


def test_refusals_say_what_and_where() -> None:
    with pytest.raises(NotSupportedError, match="keyword-only"):
        compiled("a16")
    with pytest.raises(CompileError) as refused:
        compiled("a20").ensure()
    said = str(refused.value)
    assert "aten::mul.Tensor(Tensor self, Tensor other)" in said and "instead found type 'str'" in said
    assert "script_programs.py" in said and "~" in said

    def closure(x):
        return [y for y in x if y]

    with pytest.raises(NotSupportedError, match="ifs are not supported"):
        Unit().compile(closure).ensure()

    def lambdas(x):
        return (lambda y: y)(x)

    with pytest.raises(NotSupportedError, match="Lambda"):
        Unit().compile(lambdas).ensure()


def test_errors_of_a_running_script_name_its_lines() -> None:
    with pytest.raises(Error, match="two"):
        compiled("a24")(numbers(3))
    with pytest.raises(Error) as raised:
        compiled("a25")(-1)
    assert "ValueError: neg" in str(raised.value) and "raise ValueError" in str(raised.value)
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'x'"):
        compiled("a10")("five")
