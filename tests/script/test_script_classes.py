"""Classes of scripts and what stands beside them: dataclasses, named tuples, enums, interfaces, `with`, units of text,
overloads, ignored functions, values between Python and scripts. Each program of class_programs.txt prints graphs and
results; class_answers.txt holds what PyTorch 2.13 prints. Refusals are compared by class, and say certain words."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

import pytest

import rushlight

HERE = Path(__file__).parent
PRELUDE = """import collections
import dataclasses
import enum
import math
from dataclasses import dataclass, field
from enum import Enum
from typing import *

import torch
from torch import Tensor


def gc(f):
    print(f.graph)


"""


def sections(name: str) -> dict[str, str]:
    parts = (HERE / name).read_text().split("### ")[1:]
    return {head.strip(): body for head, _, body in (part.partition("\n") for part in parts)}


PROGRAMS, ANSWERS = sections("class_programs.txt"), sections("class_answers.txt")
SAYS = {name: re.findall(r"# says: (.*)", text) for name, text in PROGRAMS.items()}


def canonical(text: str) -> str:
    """Without places and addresses, values numbered as they appear."""
    names: dict[str, str] = {}
    text = re.sub(r" # .*:\d+:\d+$", "", text, flags=re.M)
    text = re.sub(r" \(of Python compilation unit at: 0x[0-9a-f]+\)", "", text)
    text = re.sub(r"0x[0-9a-f]+", "0x", text).replace("rushlight.bfloat16", "torch.bfloat16")
    return re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), text)


def outcome(name: str, folder: Path, torch: object) -> tuple[str, str]:
    """What a program prints and, if it is refused, the class; and the words of the refusal."""
    path = folder / f"m_{name}.py"
    path.write_text(PRELUDE + PROGRAMS[name])
    spec = importlib.util.spec_from_file_location(f"m_{name}", path)
    module = importlib.util.module_from_spec(spec)
    printed, said = io.StringIO(), ""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setitem(sys.modules, f"m_{name}", module)
        patch.setitem(sys.modules, "torch", torch)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            said = str(error)
            print("RAISED", next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"))
    return canonical(printed.getvalue()).strip(), said


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_a_program_prints_is_pytorchs(name: str, tmp_path: Path) -> None:
    printed, said = outcome(name, tmp_path, rushlight)
    assert printed == ANSWERS[name].strip()
    for words in SAYS[name]:
        assert words in said


@pytest.mark.slow       # importing PyTorch takes most of it
def test_the_answers_are_pytorchs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", minversion="2.13")
    if torch is rushlight:
        pytest.skip("torch is served from here")
    for name in sorted(PROGRAMS)[::3]:
        printed, said = outcome(name, tmp_path, torch)
        assert printed == ANSWERS[name].strip(), name
        for words in SAYS[name]:
            assert words in said, name


@rushlight.jit.script
class Counted:
    def __init__(self, n: int):
        self.n = n

    def is_like(self, other) -> bool:
        return isinstance(other, self.__class__)

    def is_like_itself(self) -> bool:
        return isinstance(self, self.__class__)


def test_the_class_of_a_value_is_a_type():
    def asked(n: int) -> tuple[bool, bool]:
        return Counted(n).is_like(rushlight.ones(1)), Counted(n).is_like_itself()

    assert rushlight.jit.script(asked)(3) == (False, True)
