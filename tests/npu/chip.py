"""The example chip, imported from its package's folder, and programs run on a machine of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "npu_package"
if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))

chip = pytest.importorskip("rushlight_npu")

MACHINE = chip.Machine(1 << 20)


def run(text: str, *arguments: int) -> chip.Machine:
    """The machine after a program."""
    MACHINE.run(chip.Program(chip.assemble(text + "\nhalt\n")), arguments)
    return MACHINE


def put(address: int, values: Sequence, kind: str) -> None:
    """Write to the machine's memory."""
    raw = np.array(values, kind).view(np.uint8)
    MACHINE.memory[address : address + len(raw)] = raw


def look(address: int, count: int, kind: str) -> list:
    """What is in the machine's memory."""
    size = np.dtype(kind).itemsize
    return MACHINE.memory[address : address + count * size].view(kind).tolist()
