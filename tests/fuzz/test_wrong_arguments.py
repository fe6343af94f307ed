"""No wrong argument kills the process, hangs it, or brings out an error that only our own bugs raise.

The calls are those of `python -m tests.fuzz`: valid ones from PyTorch's op records with one or two arguments made
wrong. A finding names the number of its call, and `python -m tests.fuzz --start NUMBER --calls 1` makes it again.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.fuzz.watch import fuzz


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_many_calls(seed: int) -> None:
    """Every tensor's memory is guarded."""
    assert fuzz(seed, start=0, stop=3_000, processes=1, extra=["--guard"], patience=60.0) == []


def test_a_kernel_that_leaves_its_memory_dies() -> None:
    """The guard is what makes silent reads and writes past the end visible:
    it must work for the others to mean anything."""
    program = (
        "import ctypes, rushlight as rl; rl._C.guard_memory({}); x = rl.ones(1024); ctypes.memset(x.data_ptr() + 4096,"
        " 1, 1); print('alive')"
    )
    codes = [
        subprocess.run([sys.executable, "-c", program.format(on)], capture_output=True).returncode
        for on in (False, True)
    ]
    assert codes[0] == 0 and codes[1] < 0


@pytest.mark.slow
def test_a_death_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies in call 3 is reported with that number, and the calls after it are still made."""
    monkeypatch.setenv("RUSHLIGHT_FUZZ_DIE_AT", "3")
    findings = fuzz(seed=3, start=0, stop=6, processes=1, extra=[], patience=60.0)
    assert len(findings) == 1 and findings[0].startswith("died 3 (SIGSEGV)")
