"""Parts of tensors by several indices at once: what Python reads and writes, in scripts; functions that only raise."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import jit

FORMS = ["..., 0, 1:", "..., 1:, 0", "..., None, 0", "..., 0, None", "..., 1:, None", "..., None, 1:", "0, ..., None",
         "None, ..., 1:, None, 0", "0, None, ..., ::2", "..., None", "None, 1", "i, ...", "i, ..., 0",
         "1:, i, ..., None",
         "0, i, 1:", "None, i", ":, None, i", "..., -1:, -1, None", "0, ..., 0, 0"]


@pytest.mark.parametrize("form", FORMS)
def test_parts_are_pythons(form) -> None:
    read = f"def read(x, i):\n    return x[{form}]\n"
    write = f"def write(x, i):\n    x = x.clone()\n    x[{form}] = 7\n    return x\n"
    space: dict = {}
    exec(read + write, space)
    unit = jit.CompilationUnit(read + write)
    x, i = rl.arange(24.0).view(2, 3, 4), rl.tensor([0, 1])
    for name in ("read", "write"):
        expected, got = space[name](x, i), getattr(unit, name)(x, i)
        assert got.shape == expected.shape and got.tolist() == expected.tolist()


@pytest.mark.parametrize("form", ["..., i", "..., i, :", "0, ..., i", "..., [0, 1]", "..., i, None"])
def test_tensors_behind_an_ellipsis_are_refused(form) -> None:
    with pytest.raises(RuntimeError, match="behind"):
        jit.CompilationUnit(f"def read(x, i):\n    return x[{form}]\n").read(rl.zeros(2, 3, 4), rl.tensor([0]))


def refuse(flag: bool, text: str) -> None:
    raise ValueError(text)


def unknown(flag: bool, text: str):
    raise ValueError(text)


def number(x: int) -> int:
    raise ValueError("no number")


def calls_refuse(x: int) -> int:
    if x > 3:
        refuse(True, "no")
    return x


def calls_unknown(x: int) -> int:
    if x > 3:
        unknown(True, "no")
    return x


def calls_number(x: int) -> int:
    if x > 3:
        x = number(x)
    return x


@pytest.mark.parametrize("function", [calls_refuse, calls_unknown, calls_number])
def test_a_function_that_only_raises_can_be_called_and_inlined(function) -> None:
    scripted = jit.script(function)
    assert scripted(1) == 1 and "CallFunction" not in str(scripted.inlined_graph)
    with pytest.raises(jit.Error, match="no"):
        scripted(5)
