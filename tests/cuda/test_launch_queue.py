"""How launches reach the driver: small ones that follow each other through graphs of one, or by a thread of their own
(RUSHLIGHT_CUDA_QUEUE=1), always in the order in which they were asked for, and before whatever comes after them. One
process each, on a driver without a device whose launches take a while."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")

HEAD = """
import ctypes, os, threading, time
import rushlight as rl
from rushlight.devices.cuda import libraries
libraries.places = lambda names: []
sim = ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_DRIVER"])
for name in ("simulated_count", "simulated_seen", "simulated_nodes_set"):
    getattr(sim, name).restype = ctypes.c_long
sim.simulated_first.restype = ctypes.c_uint64
def launches(): return sim.simulated_count(3)
x = rl.empty(4, 4, device="cuda")
y = x + x                      # compiled, and launched
rl.cuda.synchronize()
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    path = tmp_path_factory.mktemp("driver") / "libsimulated.so"
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "simulated_driver.c")], check=True)
    return path


def run(driver, program: str, queue: str = "1", status: int = 0) -> str:
    environment = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(driver), "RUSHLIGHT_CUDA_QUEUE": queue}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_ops_do_not_wait_for_the_driver(driver):
    program = """
sim.simulated_slow(5000)
start = time.perf_counter()
for _ in range(20):
    y = x + x
print(time.perf_counter() - start)
"""
    assert float(run(driver, program)) < 0.09 < float(run(driver, program, queue="0"))


@pytest.mark.parametrize("queue", ["0", "1"])
def test_launches_keep_their_order_and_arguments(driver, queue):
    run(driver, queue=queue, program="""
tensors = [rl.empty(4, 4, device="cuda") for _ in range(3000)]
places = [t.data_ptr() for t in tensors]
before = launches()
sim.simulated_slow(1)
for t in tensors:              # more than the queue has room for
    y = t + x
rl.cuda.synchronize()
assert launches() == before + 3000
assert [sim.simulated_first(before + k) for k in range(3000)] == places
assert sim.simulated_nodes_set() > 2000, "small launches go through graphs"
""")


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "call",
    [
        "rl.cuda.synchronize()",
        "y.cpu()",
        "y.copy_(rl.empty(4, 4))",
        "rl.cuda.Event().record()",
        "rl.cuda.current_stream().query()",
        "rl.cuda.current_stream().wait_stream(rl.cuda.Stream())",
        "y.untyped_storage().data_ptr(); look()",
        "y.data_ptr(); look()",
        "y.__cuda_array_interface__; look()",
        "y.__dlpack__(); look()",
        "rl.cuda.current_stream().cuda_stream; look()",
        "graph = rl.cuda.CUDAGraph(); graph.capture_begin(); graph.capture_end()",
        "rl.cuda.mem_get_info(); look()",
        "rl.cuda.empty_cache(); look()",
    ],
)
def test_what_follows_comes_after_all_launches(driver, call):
    run(driver, f"""
look = lambda: sim.cuEventRecord(None, None)
graph = rl.cuda.CUDAGraph()
rl.cuda.synchronize()
before = launches()
sim.simulated_slow(2000)
for _ in range(12):
    y = x + x
assert launches() < before + 12, "nothing was queued"
{call}
assert sim.simulated_seen() == before + 12, (sim.simulated_seen() - before)
""")


def test_only_rows_of_small_launches_go_through_graphs(driver):
    run(driver, queue="0", program="""
large = rl.empty(1 << 20, device="cuda")
z = large + large
for _ in range(8):
    y = x + x
assert sim.simulated_nodes_set() == 0
for _ in range(20):            # the unit is busy with large ones: they start early
    z = large + large
    y = x + x
assert sim.simulated_nodes_set() == 0
for _ in range(20):
    y = x + x
before = sim.simulated_nodes_set()
assert before >= 10
for _ in range(20):            # so it is with other libraries' work
    rl.cuda.current_stream().cuda_stream
    y = x + x
assert sim.simulated_nodes_set() == before
""")


def test_captures_hold_no_graphs(driver):
    run(driver, queue="0", program="""
for _ in range(20):
    y = x + x
before = sim.simulated_nodes_set()
graph = rl.cuda.CUDAGraph()
with rl.cuda.graph(graph):
    for _ in range(20):
        y = x + x
assert sim.simulated_nodes_set() == before
""")


def test_the_first_kernel_finds_its_compiler_imported(driver, tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(driver), "RUSHLIGHT_CACHE": str(tmp_path)}
    program = """
import sys, os, threading
import rushlight as rl
x = rl.empty(4, device="cuda")
if len(os.sched_getaffinity(0)) > 1:
    child = os.fork()                  # waits: modules are not half imported in it
    if not child:
        os._exit(0 if "llvmlite.binding" in sys.modules and (rl.ones(3) + 1).sum() == 6 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not any(thread.name == "cuda ahead" for thread in threading.enumerate())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_lone_ops_are_launched_at_once(driver):
    run(driver, """
before = launches()
for k in range(5):
    y = x + x
    assert launches() == before + k + 1
    rl.cuda.synchronize()
""")


def test_work_is_captured_whole(driver):
    run(driver, """
sim.simulated_slow(2000)
before = launches()
graph = rl.cuda.CUDAGraph()
with rl.cuda.graph(graph):
    for _ in range(10):
        y = x + x
    z = y * 2
assert sim.simulated_seen() == before + 11
graph.replay()
""")


def test_failed_launches_are_reported(driver):
    run(driver, """
sim.simulated_slow(2000)
for _ in range(10):
    y = x + x
sim.simulated_fault(700)
try:
    for _ in range(3000):
        y = x + x
    rl.cuda.synchronize()
except rl.AcceleratorError as error:
    assert "illegal memory access" in str(error), error
else:
    raise SystemExit("the fault must be reported")
""")


def test_threads_queue_side_by_side(driver):
    run(driver, """
sim.simulated_slow(5)
before = launches()
def work():
    for _ in range(500):
        y = x + x
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
rl.cuda.synchronize()
assert launches() == before + 2000
""")


def test_forked_children_are_told(driver):
    run(driver, """
sim.simulated_slow(1000)
for _ in range(20):
    y = x + x
child = os.fork()
if not child:
    try:
        x + x
    except RuntimeError as error:
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
before = launches()
rl.cuda.synchronize()
y = x + x
""")


def test_a_process_ends_with_launches_queued(driver):
    run(driver, """
sim.simulated_slow(3000)
for _ in range(30):
    y = x + x
""")


def test_the_thread_sleeps_and_wakes(driver):
    run(driver, """
before = launches()
for k in range(4):
    time.sleep(0.2)
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1, "the thread spins"
    for _ in range(10):
        y = x + x
    rl.cuda.synchronize()
    assert launches() == before + 10 * (k + 1)
""")
