"""Device memory and events in several processes, on a driver without a device behind it: memory is shared memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cuda.test_simulated_driver import CC, driver

pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
__all__ = ["driver"]

HEAD = """
import ctypes, os, pickle
import rushlight as rl
import rushlight.multiprocessing as mp
from rushlight.devices.cuda import ipc, libraries
libraries.places = lambda names: []
sim = ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_DRIVER"])
sim.simulated_opened.restype = ctypes.c_long
"""


def run(driver, folder, program: str, **environment: str) -> None:
    (folder / "program.py").write_text(HEAD + program)
    given = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(driver), **environment}
    command = [sys.executable, str(folder / "program.py")]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tensors_are_shared(driver, tmp_path):
    run(driver, tmp_path, """
def child(inbox, outbox):
    x, view, parameter, nothing = inbox.get()
    assert str(x.device) == "cuda:0" and x.tolist() == list(range(10)) and sim.simulated_opened() == 1
    assert view.storage_offset() == 1 and view.tolist() == [1, 2, 3] and nothing.shape == (0, 3)
    assert type(parameter) is rl.nn.Parameter and parameter.requires_grad and parameter.tolist() == [4.0, 5.0]
    x.copy_(rl.arange(10) * 2)
    assert view.tolist() == [2, 4, 6]                      # of the same memory
    outbox.put("written")
    assert inbox.get() == "go"
    del x, view, parameter
    assert sim.simulated_opened() == 0                      # all was given back
    outbox.put("done")
    assert inbox.get() == "end"

if __name__ == "__main__":
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    x = rl.arange(10).cuda()
    parameter = rl.nn.Parameter(rl.tensor([4.0, 5.0]).cuda())
    inbox.put((x, x[1:4], parameter, rl.empty(0, 3, device="cuda")))
    assert outbox.get(timeout=60) == "written"
    assert x.tolist() == [k * 2 for k in range(10)]
    del x, parameter
    rl.cuda.ipc_collect()
    assert rl.cuda.memory_allocated() > 0                   # kept for the other process
    inbox.put("go")
    assert outbox.get(timeout=60) == "done"
    rl.cuda.ipc_collect()
    assert rl.cuda.memory_allocated() == 0 and not ipc.ledger().held
    inbox.put("end")
    process.join(60)
    assert process.exitcode == 0
""")


def test_what_comes_back_is_the_same_storage(driver, tmp_path):
    run(driver, tmp_path, """
from multiprocessing.reduction import ForkingPickler
x = rl.arange(10).cuda()
y = pickle.loads(bytes(ForkingPickler.dumps(x[2:])))
assert y.data_ptr() == x[2:].data_ptr() and sim.simulated_opened() == 0
path = ipc.ledger().path
assert os.path.exists(path)
try:
    ipc.receive(0, os.getpid() + 1, "/dev/shm/nobody", 0, b"", 0, 8, b"")
except RuntimeError as error:
    assert "has ended" in str(error)
else:
    raise SystemExit("no such process")
try:
    ForkingPickler.dumps((x.float().requires_grad_() * 2))
except RuntimeError as error:
    assert "detach" in str(error)
else:
    raise SystemExit("graphs stay")
""")


def test_memory_that_has_no_name_elsewhere_is_refused(driver, tmp_path):
    run(driver, tmp_path, """
from multiprocessing.reduction import ForkingPickler
try:
    ForkingPickler.dumps(rl.ones(5, device="cuda"))
except RuntimeError as error:
    assert "expandable" in str(error) and "cpu()" in str(error)
else:
    raise SystemExit("not shared")
""", PYTORCH_ALLOC_CONF="expandable_segments:True")


def test_events_are_shared(driver, tmp_path):
    run(driver, tmp_path, """
event = rl.cuda.Event(interprocess=True)
event.record()
again = pickle.loads(pickle.dumps(event))
assert again.ipc_handle() == event.ipc_handle() == rl.cuda.Event.from_ipc_handle(0, event.ipc_handle()).ipc_handle()
stream = rl.cuda.Stream()
stream.wait_event(again)
again.wait()
again.synchronize()
assert again.query() and stream.record_event(event) is event
for wrong, kind in ((lambda: rl.cuda.Event(interprocess=True, enable_timing=True), RuntimeError),
                    (lambda: rl.cuda.Event().ipc_handle(), RuntimeError),
                    (lambda: pickle.dumps(rl.cuda.Event()), TypeError)):
    try:
        wrong()
    except kind as error:
        assert "interprocess" in str(error) or "processes" in str(error), error
    else:
        raise SystemExit("must be refused")
""")
