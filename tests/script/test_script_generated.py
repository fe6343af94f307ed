"""Programs made at random from the grammar: a compiled program gives the value that Python gives, or is refused with
its lines; it never gives another value, and never fails otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.script.frontend.errors import CompileError, FrontendError
from rushlight.script.unit import Unit

SEEDS = range(40)
CALLS = ((3, -2, 1.5, True, "ab", [4, 1, 3]), (-7, 11, -0.25, False, "", []))


def _maker() -> object:
    spec = importlib.util.spec_from_file_location("program_maker", Path(__file__).with_name("program_maker.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> object:
    maker = _maker()
    path = tmp_path_factory.mktemp("made") / "made_programs.py"
    path.write_text("from typing import List\n\n\n" + "\n\n\n".join(maker.program(seed) for seed in SEEDS) + "\n")
    spec = importlib.util.spec_from_file_location("made_programs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _outcome(function: object, call: tuple) -> tuple[object, ...]:
    a, b, f, p, s, xs = call
    try:
        return ("value", function(a, b, f, p, s, list(xs)))
    except (AssertionError, IndexError, ValueError, ZeroDivisionError, RuntimeError) as error:
        return ("error", type(error).__name__ if not isinstance(error, RuntimeError) else "")


def test_made_programs_are_pythons_or_refused(programs: object) -> None:
    refused = 0
    for seed in SEEDS:
        function = getattr(programs, f"made{seed}")
        try:
            compiled = Unit().compile(function)
            compiled.ensure()
        except (CompileError, FrontendError) as error:
            assert "made_programs.py" in str(error)
            refused += 1
            continue
        for call in CALLS:
            expected, found = _outcome(function, call), _outcome(compiled, call)
            assert expected[0] == found[0], f"{seed}: {expected} {found}"
            if expected[0] == "value":
                assert repr(found) == repr(expected), f"{seed}: {expected} {found}"
    assert refused < len(SEEDS) // 4, "most of what the grammar makes compiles"


def test_a_tensor_program_made_of_the_same_parts(programs: object) -> None:
    """Loops over tensors hand values on as Python does."""
    def mixed(x: rl.Tensor, n: int):
        out = x
        for i in range(n):
            if i % 2 == 0:
                out = out + x[i % 2]
                continue
            if i > 6:
                break
            out = out * 2 - i
        return out, out.sum().item()

    x = rl.arange(6.0).reshape(2, 3)
    found, expected = Unit().compile(mixed)(x, 9), mixed(x, 9)
    assert rl.equal(found[0], expected[0]) and found[1] == expected[1]
