"""The core runs out of memory in C++: the interpreter gets a MemoryError, not the end of the process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# multinomial sums up its 2**24 weights in 128 MiB of its own.
PROGRAM = """
import resource, rushlight as torch
torch.multinomial(torch.ones(8, dtype=torch.float64), 2)
weights = torch.ones(1 << 24, dtype=torch.float64)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), resource.RLIM_INFINITY))
try:
    torch.multinomial(weights, 2, replacement=True)
except MemoryError:
    print("MemoryError")
print(torch.multinomial(torch.ones(8, dtype=torch.float64), 2).numel())   # and the generator's lock is free
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own size from /proc")
def test_memory_that_runs_out_in_the_core_is_a_memory_error() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["MemoryError", "2"]


def test_the_interpreter_enters_the_core_through_guards_only() -> None:
    """A new method that stands in its table as it is would let an exception through (boundary.h)."""
    method = re.compile(r'\{"\w+", (?!guarded)[^{}]*?, METH_')
    slot = re.compile(
        r"\{Py_(?:tp_call|tp_new|mp_subscript|mp_ass_subscript),"
        r" reinterpret_cast<void\*>\((?!guarded|PyVectorcall_Call)\w+\)"
    )
    found = [
        f"{path.name}: {hit}"
        for path in sorted(CSRC.rglob("*.cpp"))
        for rule in (method, slot)
        for hit in rule.findall(path.read_text())
    ]
    assert not found, "\n".join(found)
