"""The language of scripts against PyTorch 2.13, by stored answers: graphs, code, results, errors of running programs
and refusals."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rushlight.script.text.code_writer import CodeWriter
from rushlight.script.unit import Unit

HERE = Path(__file__).parent


def _loaded(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


asked = _loaded("language_answers", "language_answers.py")
programs = _loaded("progs", "language_programs.py")
ANSWERS: dict[str, dict[str, Any]] = json.loads(asked.ANSWERS.read_text())
TAKEN = [name for name, answer in ANSWERS.items() if "refused" not in answer]
REFUSED = [name for name, answer in ANSWERS.items() if "refused" in answer]
# Where only a part of PyTorch's sentence is said here, the rest in words of our own: the class is the same.
OWN_WORDS = {
    "c10": "Python builtin <class 'reversed'>", "e139 ([1],)": "8 is not in list",
    "x136 (3, 4)": "1 positional argument(s)", "x14": "Type mismatch: x is set to type int",
    "x18": "Variable 'y' previously had type int", "x31": "Tuple index out of range: 5, of a tuple of length 2",
    "x37": "Return value was annotated as having type str and is actually of type int",
    "x39": "Previous return statement returned a value of type int, this one returns a value of type str",
    "x43": "function 'rec' is called recursively", "x51": "python value of type 'list' cannot be used as a value",
    "x98": "Python builtin <built-in function open>", "x121": "cannot statically infer",
    "x130": "Mutable default parameters are not supported: parameter x",
    "x132": "Expected a default value of type int", "x159": "List type annotation `List[int]` did not match",
}


def compiled(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Unit().compile(getattr(programs, name)).ensure()


@pytest.mark.parametrize("name", TAKEN)
def test_what_pytorch_takes_is_taken(name: str) -> None:
    answer, function = ANSWERS[name], compiled(name)
    assert asked.canonical(function.graph).split("\n") == answer["graph"]
    assert CodeWriter().function(name, function.graph, function.schema).strip().split("\n") == answer["code"]
    for call, expected in zip(programs.CASES[name], answer["runs"], strict=True):
        if not expected.startswith("error: "):
            assert asked.shown(function(*asked.arguments(call))) == expected
            continue
        with pytest.raises(RuntimeError) as raised:
            function(*asked.arguments(call))
        said = str(raised.value)
        assert OWN_WORDS.get(f"{name} {call}", expected.removeprefix("error: ")) in said
        assert ("Traceback of TorchScript" in said and "language_programs.py" in said) or "Declaration" in said


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    answer = ANSWERS[name]
    with pytest.raises(Exception) as refused:
        compiled(name)
    assert answer["refused"] in [kind.__name__ for kind in type(refused.value).__mro__]
    assert OWN_WORDS.get(name, answer["said"].rstrip(":")) in str(refused.value)


def test_an_error_of_an_inlined_call_shows_every_line_on_the_way() -> None:
    with pytest.raises(RuntimeError) as raised:
        compiled("b1")([1, 2], 5)
    said = str(raised.value)
    for line in ("return outer_idx(xs, i)", "y = inner_idx(xs, i)", "return xs[i]"):
        assert line in said


def test_a_refusal_in_a_called_function_names_the_way_there() -> None:
    with pytest.raises(RuntimeError, match="'bad_helper' is being compiled since it was called from 'x46'"):
        compiled("x46")
