"""Every example that `help` of an op shows runs and prints what it says; shares of explained arguments do not fall."""

from __future__ import annotations

import doctest
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from benchmarks import help_shares
from rushlight.op import definitions, load_all
from rushlight.op.help import parse

ROOT = Path(__file__).resolve().parents[2]
SPACES = {"": rl, "nn.functional": rl.nn.functional, "linalg": rl.linalg, "fft": rl.fft, "special": rl.special,
          "Tensor": rl.Tensor}
FILES = sorted(ROOT.glob("rushlight/definitions/*/help.txt"))
BARS = {"layers": (0.95, 0.9), "nn.functional": (0.9, 0.9), "linalg": (0.9, 0.9), "optimizers": (0.9, 0.9),
        "torch.*": (0.75, 0.9), "entries": (1.0, 0.9)}


def ops_of(family: str) -> dict[str, Any]:
    """The public ops whose first definition is in a folder of definitions, by their spelling."""
    load_all()
    found = {}
    for space, module in SPACES.items():
        for name in dir(module):
            op = None if name.startswith("_") else getattr(module, name, None)
            if isinstance(op, rl.op.registry._C.Op):
                home = type(op.overload_list[0].definition).__module__
                if home.startswith(f"rushlight.definitions.{family}."):
                    found[f"{space}.{name}".lstrip(".")] = op
    return found


def failures(texts: dict[str, str]) -> list[str]:
    """What the examples of these docstrings do other than they say. Equal ones run once."""
    said: list[str] = []
    parser, runner, seen = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False), set()
    for name, text in texts.items():
        test = parser.get_doctest(text, {"rl": rl}, name, None, None)
        key = tuple(example.source for example in test.examples)
        if key and key not in seen:
            seen.add(key)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runner.run(test, out=said.append)
    return said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_examples_of_ops_print_what_they_say(file: Path) -> None:
    wrong = failures({name: op.__doc__ or "" for name, op in ops_of(file.parent.name).items()})
    assert not wrong, "".join(wrong)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_what_is_described_exists(file: Path) -> None:
    load_all()
    for name, entry in parse(file.read_text(encoding="utf-8")).items():
        classes = definitions.get(name) or definitions.get(name.removesuffix("_"))
        assert name == "*" or classes, f"{file}: there is no op {name}"
        known = {p for cls in classes or () for text in rl.op.registry.schemas_of(cls) for p in _names(text)}
        unknown = [argument for argument in entry.arguments if name != "*" and argument not in known]
        assert not unknown, f"{file}: {name} has no arguments {unknown}, but {sorted(known)}"


def _names(schema: str) -> set[str]:
    from rushlight.op.schema import parse as parsed

    return {p.name for p in parsed(schema).params} | {"out"}


@pytest.mark.parametrize("group", [name for name in BARS if name not in ("layers",)])
def test_examples_of_functions_and_classes_print_what_they_say(group: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    values = {name: value for name, value in help_shares.groups()[group].items()
              if not isinstance(value, rl.op.registry._C.Op)}
    wrong = failures({name: value.__doc__ or "" for name, value in values.items()})
    assert not wrong, "".join(wrong)


@pytest.mark.parametrize("group", BARS)
def test_enough_is_explained(group: str) -> None:
    row, (examples, arguments) = help_shares.shares()[group], BARS[group]
    assert row["examples"] >= examples * row["names"], row["bare"]
    assert row["explained"] >= arguments * row["arguments"], row["unexplained"]


def test_forms_and_other_names_are_shown_as_they_are_called() -> None:
    assert ".abs_()" in rl.abs_.__doc__ and "written into its first argument" in rl.abs_.__doc__
    assert "rl.special.expit(" in rl.special.expit.__doc__ and "Another name of `sigmoid`" in rl.special.expit.__doc__
    assert rl.add.__doc__.startswith("add(Tensor") and "    alpha: `other` is multiplied by it" in rl.add.__doc__


def test_help_costs_nothing_until_it_is_asked_for() -> None:
    code = "import sys, rushlight as rl; rl.add(rl.ones(2), 1); print('rushlight.op.help' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_a_custom_op_keeps_its_own_words() -> None:
    @rl.library.custom_op("helped::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        """Two of it."""
        return x + x

    assert twice.__doc__ == "Two of it."
