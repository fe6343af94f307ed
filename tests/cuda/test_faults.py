"""What goes wrong with a driver or a device: a clear error, and a process that goes on. One process each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.test_simulated_driver import CC, driver, run

pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
__all__ = ["driver"]

ASKS = """
import rushlight as rl
assert not rl.cuda.is_available() and rl.cuda.device_count() == 0 and rl.cuda.memory_allocated() == 0
asks = [
    lambda: rl.empty(1, device="cuda"), lambda: rl.ones(2).cuda(), lambda: rl.nn.Linear(2, 2).to("cuda"),
    lambda: rl.cuda.init(), lambda: rl.cuda.get_device_name(), lambda: rl.cuda.synchronize(),
]
for ask in asks:
    try:
        ask()
    except AssertionError as error:
        assert isinstance(error, RuntimeError) and FIRST in str(error) and WHY in str(error), error
    else:
        raise SystemExit("there is no device")
for ask in (rl.cuda.Stream, lambda: rl.Generator("cuda")):
    try:
        ask()
    except RuntimeError as error:
        assert WHY in str(error), error
    else:
        raise SystemExit("there is no device")
assert rl.ones(3).sum() == 3 and rl.cuda.manual_seed_all(1) is None
"""


def ask_in_vain(path: Path | str, why: str, **environment: str) -> None:
    given = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(path), **environment}
    first = "No CUDA GPUs are available" if why.startswith("the driver") else "Torch not compiled with CUDA enabled"
    program = f"WHY, FIRST = {why!r}, {first!r}\n{ASKS}"
    done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_driver(tmp_path):
    ask_in_vain(tmp_path / "libnothing.so", "libnothing.so: cannot open")


def test_a_driver_that_is_no_library(tmp_path):
    (tmp_path / "libtext.so").write_text("not a library")
    ask_in_vain(tmp_path / "libtext.so", "libtext.so")


def test_a_driver_that_is_too_old(tmp_path):
    source, library = tmp_path / "old.c", tmp_path / "libold.so"
    source.write_text("int cuInit(unsigned f) { return f; }\nint cuDeviceGetCount(int *n) { return !(*n = 1); }")
    subprocess.run([CC, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    ask_in_vain(library, "too old")


def test_a_driver_without_a_device(driver):
    ask_in_vain(driver, "the driver knows no device", SIMULATED_UNITS="0")


def test_a_driver_that_does_not_start(driver):
    ask_in_vain(driver, "the driver does not start", SIMULATED_START="803")


FAULTY = """
x = rl.ones(5, device="cuda")
doubled = x * 2
model = rl.nn.Linear(5, 5).cuda()
sim.simulated_fault(CODE)

def fails(call):
    try:
        call()
    except rl.AcceleratorError as error:
        assert isinstance(error, RuntimeError) and not isinstance(error, rl.OutOfMemoryError)
        assert WORDS in str(error), error
    else:
        raise SystemExit("nothing was raised")
"""


def test_an_illegal_access_says_that_the_memory_is_lost(driver):
    run(driver, "CODE, WORDS = 700, 'lost to this process'\n" + FAULTY + """
fails(lambda: x * 2)                                            # a kernel that is there
fails(lambda: x.cosh())                                         # one that is new
for wait in (rl.cuda.synchronize, x.cpu, x.tolist, lambda: repr(x), lambda: x[0].item(), lambda: bool(x[0])):
    fails(wait)
fails(lambda: rl.ones(3).cuda())
fails(lambda: rl.compile(lambda a: a.sin() + 1)(x))
fails(lambda: model(x).sum().backward())
assert rl.ones(3).sum() == 3 and rl.compile(lambda a: a.sin() + 1)(rl.zeros(2)).tolist() == [1, 1]
del x, doubled, model                                           # and the process ends as others do
""")


def test_kernels_that_the_driver_cannot_read_name_its_version(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))        # where no kernel is yet
    run(driver, "CODE, WORDS = 222, 'driver is of CUDA 13.9'\n" + FAULTY + """
fails(lambda: x.cosh())
sim.simulated_fault(0)
x.cosh()                                                        # nothing is kept of the failure
assert x.cpu().shape == (5,)
""")


def test_a_launch_that_fails_leaves_the_device_usable(driver):
    run(driver, "CODE, WORDS = 701, 'launch'\n" + FAULTY + """
before = rl.cuda.memory_allocated()
fails(lambda: x * 2)
assert rl.cuda.memory_allocated() == before                     # what was allocated for the result is free again
sim.simulated_fault(0)
assert (x * 2).cpu().shape == (5,)
""")


def test_units_that_are_not_there(driver):
    run(driver, """
def error_of(ask):
    try:
        ask()
    except Exception as error:
        assert "there is no device 5" in str(error) or "does not exist" in str(error) or "the last" in str(error)
        return type(error)

for ask in (lambda: rl.cuda.Stream(device=5), lambda: rl.cuda.synchronize(5), lambda: rl.cuda.mem_get_info(5),
            lambda: rl.cuda.memory_allocated(5), lambda: rl.empty(1, device="cuda:5"), lambda: rl.cuda.set_device(5)):
    assert error_of(ask) is rl.AcceleratorError
net = rl.nn.Linear(2, 2).cuda()
for ask in (lambda: rl.cuda.get_device_name(5), lambda: rl.cuda.get_device_properties(5),
            lambda: rl.cuda.get_device_capability(5), lambda: rl.nn.DataParallel(net, device_ids=[0, 5])):
    assert error_of(ask) is AssertionError
assert (rl.ones(3, device="cuda") * 2).shape == (3,)
""")


def test_a_full_device_says_so_in_words_that_programs_look_for(driver):
    run(driver, """
held = rl.empty(1 << 20, device="cuda")
try:
    rl.empty(1 << 40, dtype=rl.uint8, device="cuda")
except rl.cuda.OutOfMemoryError as error:
    assert str(error).startswith("CUDA out of memory. ") and "4.0 MiB" in str(error), error
""")


def test_what_a_capture_could_not_do_is_said(driver):
    run(driver, """
x, g = rl.ones(3, device="cuda"), rl.cuda.CUDAGraph()
sim.simulated_capture_fails(1)
try:
    with rl.cuda.graph(g):
        raise ValueError("mine")
except ValueError as error:
    assert str(error) == "mine"
try:
    with rl.cuda.graph(g):
        x * 2
except rl.AcceleratorError as error:
    assert "cuStreamEndCapture" in str(error)
else:
    raise SystemExit("the capture failed")
sim.simulated_capture_fails(0)
with rl.cuda.graph(g):
    x * 2
g.replay()
""")
