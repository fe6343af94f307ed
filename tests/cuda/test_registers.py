"""Every kernel can be launched with the threads that it is launched with: there are registers for all of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.codegen.nvptx.lower import ALWAYS_FIT
from tests.cuda.test_simulated_driver import driver, run  # noqa: F401 - a fixture

HERE = Path(__file__).parent
PTXAS = shutil.which("ptxas")
ALL_REGISTERS = 65536        # of a multiprocessor, from sm_80 on
PORTION = 8                  # a thread's registers are given out by so many


@pytest.fixture(scope="module")
def texts(driver, tmp_path_factory):  # noqa: F811
    """The kernels of models that were compiled and trained."""
    folder = tmp_path_factory.mktemp("kernels")
    environment = {
        **os.environ, "RUSHLIGHT_CUDA_DRIVER": str(driver), "RUSHLIGHT_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run([sys.executable, str(HERE / "compiled_models.py"), str(folder)], env=environment,
                          capture_output=True, text=True)
    # The driver refuses a launch of more threads than its kernel was compiled for, so all went well there.
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.ptx"))


def threads_of(text: str) -> int:
    """Threads of the largest block that a kernel is launched with; of small ones nothing is said."""
    said = re.search(r"^\.maxntid (\d+)", text, re.M)
    return int(said[1]) if said else ALWAYS_FIT


@pytest.mark.slow
def test_kernels_of_large_blocks_say_how_many_threads_those_have(texts):
    assert len(texts) > 40
    found = {path.name: threads_of(path.read_text()) for path in texts}
    assert set(found.values()) == {ALWAYS_FIT, 512}
    assert any("layer_norm_backward_sums" in name and threads == 512 for name, threads in found.items())


@pytest.mark.slow
@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
def test_there_are_registers_for_every_thread_of_every_kernel(texts, tmp_path):
    too_many, spilled = [], []
    for path in texts:
        done = subprocess.run([PTXAS, "-v", "-arch=sm_90", "-o", str(tmp_path / "out"), str(path)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        registers = int(re.search(r"Used (\d+) registers", done.stderr)[1])
        if -(-registers // PORTION) * PORTION * threads_of(path.read_text()) > ALL_REGISTERS:
            too_many.append((path.name, registers))
        if int(re.search(r"(\d+) bytes spill stores", done.stderr)[1]) > 64:
            spilled.append(path.name)
    assert not too_many
    assert not spilled       # beyond which narrower blocks are launched instead


def test_columns_that_need_more_registers_go_in_narrower_blocks(driver):  # noqa: F811
    run(driver, """
x = rl.empty(256, 65536, dtype=rl.bfloat16, device="cuda")
x.sum(0)
assert sim.simulated_grid(1) == 512 and b".maxntid 512" in sim.simulated_ptx()
sim.simulated_spilled(200)          # bytes of a thread of a large block
x.amax(0)
assert sim.simulated_grid(1) == 256 and b".maxntid" not in sim.simulated_ptx()
sim.simulated_spilled(16)
x.amin(0)
assert sim.simulated_grid(1) == 512
""")


def test_a_kernel_without_registers_is_named(driver):  # noqa: F811
    run(driver, """
x = rl.empty(4096, device="cuda")
x + x
sim.simulated_fault(701)
try:
    x + x
except RuntimeError as error:
    assert "add" in str(error) and "132 registers a thread" in str(error) and "threads a block" in str(error), error
else:
    raise SystemExit("the launch failed")
sim.simulated_fault(0)
x + x
""")
