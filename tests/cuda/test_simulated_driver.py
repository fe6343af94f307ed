"""The CUDA device on a driver without a device behind it: what goes to the driver, and what its answers become.
One process each."""

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


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    path = tmp_path_factory.mktemp("driver") / "libsimulated.so"
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "simulated_driver.c")], check=True)
    return path


def run(driver, program: str) -> str:
    # Real libraries know no simulated device.
    head = (
        "import ctypes, warnings\nimport rushlight as rl\n"
        "from rushlight.devices.cuda import libraries\nlibraries.places = lambda names: []\n"
        "F = rl.nn.functional\nwarnings.simplefilter('error')\nsim ="
        f" ctypes.CDLL({str(driver)!r})\nsim.simulated_count.restype = ctypes.c_long\nsim.simulated_ptx.restype ="
        " ctypes.c_char_p\nALLOCATIONS, FREES, COPIES, LAUNCHES, MODULES, MADE, DESTROYED, STREAMS = range(8)\ncount ="
        " sim.simulated_count\n"
    )
    environment = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(driver)}
    done = subprocess.run([sys.executable, "-c", head + program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_questions(driver):
    run(driver, """
assert rl.accelerator.is_available() and rl.cuda.is_available() and rl.cuda.device_count() == 2
assert rl.cuda.get_device_name(1) == "Simulated 1" and rl.cuda.get_device_capability() == (9, 0)
assert rl.cuda.get_device_properties().multi_processor_count == 132
assert rl.cuda.current_device() == 0
with rl.cuda.device(1):
    assert rl.cuda.current_device() == 1 and rl.empty(2, device="cuda").device.index == 1
assert rl.cuda.current_device() == 0
for ask in (lambda: rl.empty(1, device="cuda:2"), lambda: rl.cuda.set_device(2), lambda: rl.ones(1).cuda(5),
            rl.cuda.device(3).__enter__):
    try:
        ask()
    except rl.AcceleratorError as error:
        assert "2 units" in str(error)
    else:
        raise SystemExit("cuda:2 must not exist")
assert rl.cuda.current_device() == 0
x = rl.arange(6.0).cuda()
class Array:
    __cuda_array_interface__ = x.__cuda_array_interface__
assert rl.as_tensor(Array(), device="cuda").data_ptr() == rl.as_tensor(Array()).data_ptr() == x.data_ptr()
assert rl.tensor(Array()).data_ptr() != x.data_ptr()
""")


def test_copies_come_back(driver):
    run(driver, """
x = rl.arange(24.0).reshape(2, 3, 4)
y = x.cuda()
assert y.is_cuda and str(y.device) == "cuda:0" and (y.cpu() == x).all()
assert (x.to("cuda:1").to("cuda:0").cpu() == x).all()
assert "device='cuda:0'" in repr(rl.zeros(2).cuda())
""")


def test_a_number_is_a_gpu(driver):
    run(driver, """
x = rl.ones(2)
assert str(x.to(1).device) == str(x.to(1, rl.float64).device) == str(x.to(device=1).device) == "cuda:1"
assert str(rl.empty(2, device=1).device) == str(rl.tensor([1.0], device=1).device) == str(rl.device(1)) == "cuda:1"
assert str(next(rl.nn.Linear(2, 2).to(0).parameters()).device) == "cuda:0"
assert rl.cuda.current_stream().cuda_stream == rl.cuda.default_stream().cuda_stream != rl.cuda.Stream().cuda_stream
for wrong in (lambda: x.to(-1), lambda: rl.device(-1), lambda: x.to(True), lambda: rl.empty(2, device=300)):
    try:
        wrong()
    except (RuntimeError, TypeError):
        continue
    raise SystemExit("no such device")
""")


def test_memory_is_kept_and_given_back(driver):
    run(driver, """
x = [rl.empty(1000, device="cuda") for _ in range(10)]
assert count(ALLOCATIONS) == 1 and rl.cuda.memory_allocated() >= 40000 and rl.cuda.memory_reserved() == 2 << 20
del x
assert rl.cuda.memory_allocated() == 0
rl.cuda.empty_cache()
assert count(FREES) == 1 and rl.cuda.memory_reserved() == 0
try:
    rl.empty(1 << 40, dtype=rl.uint8, device="cuda")
except rl.OutOfMemoryError as error:
    assert "out of memory" in str(error)
rl.empty(10, device="cuda")
""")


def test_pinned_memory(driver):
    run(driver, """
x = rl.arange(12.0).reshape(3, 4)
p = x.pin_memory()
assert p.is_pinned() and not x.is_pinned() and (p == x).all() and p.pin_memory() is p
assert x.t().pin_memory().stride() == x.t().stride()
y = p.to("cuda", non_blocking=True)
q = rl.empty(3, 4, pin_memory=True)
q.copy_(y, non_blocking=True)
rl.cuda.synchronize()
assert (q == x).all()
made = [rl.zeros(5, pin_memory=True, requires_grad=True), rl.randn(5, pin_memory=True), rl.tensor([1], pin_memory=True),
        rl.zeros_like(x, pin_memory=True), rl.arange(4, pin_memory=True), q, rl.rand_like(x, pin_memory=True),
        rl.empty(2, 3, 4, 5, memory_format=rl.channels_last, pin_memory=True)]
assert all(t.is_pinned() for t in made) and made[0].requires_grad and made[-1].stride(1) == 1
assert rl.empty(3, requires_grad=True).requires_grad and not rl.empty(3, requires_grad=True).is_pinned()
before = rl.cuda.host_memory_stats()["segments.current"]
del p, q
rl.empty(12, pin_memory=True)
assert rl.cuda.host_memory_stats()["segments.current"] == before
made.clear()
for batch in rl.utils.data.DataLoader(rl.arange(8.0), batch_size=4, pin_memory=True):
    assert batch.is_pinned()
try:
    y.pin_memory()
except RuntimeError as error:
    assert "dense CPU" in str(error)
else:
    raise SystemExit("a device's memory is not pinned")
""")


def test_memory_is_shown(driver, tmp_path):
    run(driver, f"""
import pickle
x = rl.empty(1000, device="cuda")
segment, = rl.cuda.memory_snapshot()
assert segment["total_size"] == 2 << 20 and segment["allocated_size"] == 4096 and segment["segment_type"] == "small"
assert [b["state"] for b in segment["blocks"]] == ["active_allocated", "inactive"]
assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
rl.cuda._record_memory_history()
def mine():
    return rl.empty(1 << 22, device="cuda")
y = mine()
block, = [b for s in rl.cuda.memory_snapshot() for b in s["blocks"] if b["size"] == 1 << 24]
assert block["frames"][0]["name"] == "mine", block
del y
trace = rl.cuda._snapshot()["device_traces"][0]
assert [t["action"] for t in trace] == ["segment_alloc", "alloc", "free_requested", "free_completed"], trace
assert all(t["frames"][0]["name"] == "mine" for t in trace)
rl.cuda._dump_snapshot({str(tmp_path / "m.pickle")!r})
with open({str(tmp_path / "m.pickle")!r}, "rb") as handle:
    assert set(pickle.load(handle)) >= {{"segments", "device_traces"}}
assert rl.cuda.memory_page().count("<div>") == 2
rl.cuda._record_memory_history(None)
rl.empty(9, device="cuda")
assert len(rl.cuda._snapshot()["device_traces"][0]) == 4
""")


def test_who_watches_is_told_when_a_unit_is_full(driver, tmp_path):
    run(driver, f"""
import pickle
seen = []
def watch(unit, asked, total, free):
    seen.append((unit, asked, total, free))
    rl.cuda.memory._dump_snapshot({str(tmp_path / "full.pickle")!r})
def fails(*numbers):
    raise ValueError("mine")
rl._C._cuda_attach_out_of_memory_observer(watch)
rl._C._cuda_attach_out_of_memory_observer(fails)
try:
    rl._C._cuda_attach_out_of_memory_observer(3)
except TypeError as error:
    assert "int" in str(error)
else:
    raise SystemExit("3 cannot be called")
rl.cuda.memory._record_memory_history(skip_actions=["segment_alloc"])
held = rl.empty(1 << 28, dtype=rl.uint8, device="cuda")
def greedy():
    return rl.empty(1 << 30, dtype=rl.uint8, device="cuda")
try:
    greedy()
except rl.OutOfMemoryError as error:
    assert "1.00 GiB" in str(error)
else:
    raise SystemExit("so much is not there")
assert seen == [(0, 1 << 30, 1 << 30, (1 << 30) - (1 << 28))], seen
with open({str(tmp_path / "full.pickle")!r}, "rb") as handle:
    trace = pickle.load(handle)["device_traces"][0]
assert [t["action"] for t in trace] == ["alloc", "oom"], trace
assert trace[1]["size"] == 1 << 30 and trace[1]["device_free"] == (1 << 30) - (1 << 28) and "addr" not in trace[1]
assert trace[1]["frames"][0]["name"] == "greedy", trace[1]["frames"][:2]
rl.cuda.memory._record_memory_history(None)
rl.cuda.memory._record_memory_history(True, trace_alloc_max_entries=1)
small = rl.empty(5, device="cuda"), rl.empty(5, device="cuda")
assert [t["action"] for t in rl.cuda.memory._snapshot()["device_traces"][0]] == ["alloc"]
rl.cuda.memory._record_memory_history(False)
""")


def test_a_share_of_the_memory_is_kept_and_holders_are_named(driver):
    run(driver, """
x = [rl.empty(1 << 20, device="cuda") for _ in range(3)]
rl.cuda.set_per_process_memory_fraction(0.1)
assert rl.cuda.get_per_process_memory_fraction() == 0.1
try:
    rl.empty(1 << 28, device="cuda")
except rl.OutOfMemoryError as error:
    assert "may hold" in str(error) and "3 x 4.0 MiB" in str(error), error
else:
    raise SystemExit("more than the share was given")
rl.cuda.set_per_process_memory_fraction(1.0)
for bad in (2.0, -0.5):
    try:
        rl.cuda.set_per_process_memory_fraction(bad)
    except ValueError:
        continue
    raise SystemExit("no such share")
""")


def test_waits_are_reported(driver):
    run(driver, """
x = rl.ones(3).cuda()
rl.cuda.set_sync_debug_mode("error")
for wait in (lambda: x.cpu(), lambda: x[0].item(), lambda: x.tolist()):
    try:
        wait()
    except RuntimeError as error:
        assert "synchronizing" in str(error)
    else:
        raise SystemExit("a wait went unseen")
rl.cuda.synchronize()
rl.cuda.set_sync_debug_mode("warn")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    x.cpu()
assert len(seen) == 1
rl.cuda.set_sync_debug_mode(0)
x.cpu()
""")


def test_arrays_are_shared(driver):
    run(driver, """
x = rl.arange(6.0).reshape(2, 3).cuda()
shown = x.t().__cuda_array_interface__
assert shown["shape"] == (3, 2) and shown["strides"] == (4, 12) and shown["data"][0] == x.data_ptr()
assert not hasattr(rl.ones(2), "__cuda_array_interface__")
class Array:
    __cuda_array_interface__ = shown
y = rl.asarray(Array())
assert y.data_ptr() == x.data_ptr() and y.stride() == (1, 3) and y.device == x.device
z = rl.from_dlpack(x)
assert z.data_ptr() == x.data_ptr() and x.__dlpack_device__() == (2, 0)
stream = rl.cuda.current_stream()
assert isinstance(stream, rl.cuda.Stream) and stream.cuda_stream == 0
""")


def test_a_forked_process_says_why_it_has_no_device(driver):
    out = run(driver, """
import os
rl.ones(3).cuda()
warnings.simplefilter("ignore")
child = os.fork()
if not child:
    try:
        rl.ones(3).cuda()
    except RuntimeError as error:
        print(error, rl.cuda._is_in_bad_fork(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert not rl.cuda._is_in_bad_fork() and rl.ones(3).cuda().shape == (3,)
""")
    assert "forked" in out and "spawn" in out and "True" in out


def test_autocast_and_scaler_know_the_device(driver):
    run(driver, """
layer = rl.nn.Linear(4, 4).cuda()
with rl.autocast("cuda", dtype=rl.float16):
    y = layer(rl.ones(2, 4).cuda())
    assert y.exp().dtype is rl.float32 and y.softmax(-1).dtype is rl.float32 and y.relu().dtype is rl.float16
    assert y.sum(dtype=rl.float16).dtype is rl.float16 and rl.cat([y, y.float()]).dtype is rl.float32
    assert F.linear(rl.ones(2, 4), rl.ones(3, 4)).dtype is rl.float32          # the CPU's region is another
    try:
        F.binary_cross_entropy(y.sigmoid(), y.sigmoid().detach())
    except RuntimeError as error:
        assert "unsafe" in str(error)
    else:
        raise SystemExit("probabilities in halves were taken")
assert y.dtype is rl.float16
assert rl.amp.GradScaler("cuda").is_enabled()
""")


def test_recurrent_layers_compute_in_the_lower_type(driver):
    """On CUDA all of a layer is cast; on the host only its products are."""
    run(driver, """
for kind in ("LSTM", "GRU", "RNN"):
    for device, lower in (("cuda", rl.float16), ("cpu", rl.float32 if kind == "GRU" else rl.bfloat16)):
        layer = getattr(rl.nn, kind)(4, 6, num_layers=2, bidirectional=True, device=device)
        cell = getattr(rl.nn, kind + "Cell")(4, 6, device=device)
        x = rl.randn(3, 2, 4, device=device)
        with rl.autocast(device):
            (y, state), next_state = layer(x), cell(x[0])
        found = [y, *(state if kind == "LSTM" else [state]), *(next_state if kind == "LSTM" else [next_state])]
        if kind == "LSTM" and device == "cpu":      # a cell's products are cast, a layer whole
            found = found[:3]
        assert all(t.dtype is lower for t in found), (kind, device, [t.dtype for t in found])
with rl.autocast("cuda", dtype=rl.bfloat16):                    # as in PyTorch: networks in float16, cells as asked
    assert rl.nn.LSTM(4, 6, device="cuda")(rl.randn(3, 2, 4, device="cuda"))[0].dtype is rl.float16
    assert rl.nn.GRUCell(4, 6, device="cuda")(rl.randn(3, 4, device="cuda")).dtype is rl.bfloat16
""")


def test_kernels_have_variants_by_geometry(driver):
    run(driver, """
x = rl.empty(64, 128, device="cuda")
x + x
assert count(MODULES) == 1 and count(LAUNCHES) == 1 and b"ld.global.v4" in sim.simulated_ptx()
rl.empty(32, 64, device="cuda") + rl.empty(32, 64, device="cuda")
assert count(MODULES) == 1 and count(LAUNCHES) == 2
x.t() + rl.empty(128, 64, device="cuda")
assert count(MODULES) >= 2
x + 1
x[:, :127] + x[:, :127]
x[0] + x
rl.empty(4, 2, 3, 2, 2, 2, 2, 2, device="cuda")[..., :1].transpose(0, 1) + 1
""")


def test_streams_and_events(driver):
    run(driver, """
x = rl.empty(1000, device="cuda")
side, start, end = rl.cuda.Stream(), rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
start.record()
side.wait_stream(rl.cuda.current_stream())
with rl.cuda.stream(side):
    assert rl.cuda.current_stream() == side
    y = x + 1
    x.record_stream(side)
end.record(side)
end.synchronize()
assert end.query() and start.elapsed_time(end) > 0 and side.query()
del x, y, start, end
rl.cuda.synchronize()
""")


def test_rows_that_registers_do_not_hold_are_read_again(driver):
    run(driver, """
x = rl.empty(64, 5000, dtype=rl.float64, device="cuda")
F.softmax(x, -1)
assert sim.simulated_grid(1) > 256
sim.simulated_most_threads(256)          # of a kernel with many registers
F.layer_norm(x, (5000,))
assert 32 <= sim.simulated_grid(1) <= 256
""")


def test_what_runs_on_the_host_is_said(driver):
    run(driver, """
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    rl.linalg.inv(rl.eye(3).cuda())
assert "linalg_inv: device 'cuda' has no implementation" in str(told[0].message)
""")


def test_a_model_runs_through(driver):
    run(driver, """
for make in (lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9), rl.optim.AdamW):
    net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4)).cuda()
    optimizer = make(net.parameters())
    F.cross_entropy(net(rl.randn(32, 8).cuda()), rl.zeros(32, dtype=rl.int64).cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
""")


def test_a_block_ends_with_its_share(driver):
    """Heavy kernels take one vector per thread: the loop over what is left must stop at the block's end,
    not at the tensor's."""
    run(driver, """
F.gelu(rl.empty(1 << 16, dtype=rl.bfloat16, device="cuda"))
assert b"min.s32" in sim.simulated_ptx()
""")


def test_graphs_are_captured_on_streams_of_their_own(driver):
    run(driver, """
x = rl.empty(8, 8, device="cuda")
g, h = rl.cuda.CUDAGraph(), rl.cuda.CUDAGraph()
outside = rl.cuda.current_stream()
with rl.cuda.graph(g):
    assert rl.cuda.is_current_stream_capturing() and rl.cuda.current_stream() != outside
    y = x * 2
assert not rl.cuda.is_current_stream_capturing() and rl.cuda.current_stream() == outside
before = count(LAUNCHES)
g.replay()
assert count(LAUNCHES) == before + 1000
with rl.cuda.graph(h, pool=g.pool()):
    z = y + 1
assert h.pool() == g.pool() != rl.cuda.graph_pool_handle()
address = y.data_ptr()
del y
rl.cuda.empty_cache()
assert rl.empty(8, 8, device="cuda").data_ptr() != address      # the graph may write there at any time
for wrong in (lambda: g.capture_end(), lambda: rl.cuda.CUDAGraph().replay(), lambda: g.capture_begin()):
    try:
        wrong()
    except RuntimeError:
        continue
    raise SystemExit("must not work")
""")


def test_generators_belong_to_units(driver):
    run(driver, """
rl.manual_seed(5)
first, second = rl.cuda.default_generators
assert first.initial_seed() == second.initial_seed() == 5 and str(second.device) == "cuda:1"
rl.rand(1000, device="cuda")
state = rl.cuda.get_rng_state()
rl.randn(3, device="cuda")
rl.nn.functional.dropout(rl.empty(12, device="cuda"), 0.5)
assert (first.get_offset(), second.get_offset()) == (12, 0) and state.shape == (16,)
rl.cuda.set_rng_state(state)
assert first.get_offset() == 4
own = rl.Generator(device="cuda").manual_seed(2)
rl.rand(3, device="cuda", generator=own)
assert own.get_offset() == 4 and own.clone_state().get_offset() == 4
""")


def test_small_compiled_graphs_are_replayed_while_nobody_holds_their_results(driver):
    run(driver, """
net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16)).cuda()
x = rl.ones(4, 8).cuda()
called = rl.compile(net)

def replays(f):
    before = count(LAUNCHES)
    made = f()
    return made, (count(LAUNCHES) - before) // 1000      # the simulated driver counts a graph as a thousand

def step():
    loss().backward()
    for p in net.parameters():
        p.grad = None

def loss():
    return (called(x) * 2).square().mean()

found = [replays(step)[1] for _ in range(20)]
assert found[:3] == [0, 0, 0] and found[-1] == 2, found
kept, times = replays(lambda: called(x))
assert times == 1
other, times = replays(lambda: called(x))
assert times == 0 and other.data_ptr() != kept.data_ptr()      # what is held stays as it is
del kept, other
assert replays(lambda: called(x))[1] == 1
moved = [rl.ones(4, 8).cuda() for _ in range(4)]
assert replays(lambda: called(moved[0]))[1] == 0      # at another address
for t in moved * 4:
    called(t)
assert replays(lambda: called(moved[0]))[1] == 1      # copied, since it moves
with rl.cuda.stream(rl.cuda.Stream()):
    assert replays(lambda: called(x))[1] == 0
""")


def test_gradients_are_what_a_replay_made_until_they_are_dropped(driver):
    run(driver, """
net = rl.nn.Linear(8, 16).cuda()
x = rl.ones(4, 8).cuda()
called = rl.compile(net)

def step(drops):
    before = count(LAUNCHES)
    if drops:
        net.zero_grad()
    called(x).backward(rl.ones(4, 16).cuda())
    return divmod(count(LAUNCHES) - before, 1000)

for _ in range(20):
    replays, others = step(True)
assert replays == 2 and others == 1, (replays, others)       # the ones; no copies of two gradients
first = net.weight.grad
assert step(False)[0] == 1 and net.weight.grad is first       # held: the backward runs, and adds to it
for _ in range(3):
    step(False)
del first
step(True)
assert step(True) == (2, 3)                                   # gradients that add up get memory of their own
""")


def test_the_first_call_names_its_kernels_before_it_launches_any(driver):
    run(driver, """
from rushlight.devices.cuda import kernels
begun = []
old = kernels.Variants.begin
def begin(self, unit, key):
    begun.append((self.nest.name, count(LAUNCHES)))
    old(self, unit, key)
kernels.Variants.begin = begin
x = rl.ones(40, 64).cuda()
called = rl.compile(lambda x: (F.gelu(x) * 3, F.softmax(x.sin(), -1), x.sum(0)))
before = count(LAUNCHES)
called(x)
assert len(begun) >= 2 and {at for _, at in begun} == {before}, begun
assert count(LAUNCHES) > before and count(MODULES) >= len(begun)
assert "griddepcontrol.wait" in sim.simulated_ptx().decode()      # kernels are started early here
""")


def test_running_sums_of_a_second_size_are_written_kernels_too(driver):
    run(driver, """
for shape in ((1 << 20,), (1 << 22,), (3, 50257), (7, 9001), (64, 1000), (9, 1000)):
    x = rl.empty(shape, device="cuda")
    x.cumsum(-1)
    assert b"scan_tiles" in sim.simulated_ptx(), shape      # the last kernel that was loaded
    rows, length = x.numel() // x.shape[-1], x.shape[-1]
    tiles = sim.simulated_grid(0) // rows
    assert sim.simulated_grid(0) == rows * tiles and (tiles == 1) == (length <= 2048), (shape, tiles)
    if tiles > 1:
        each = -(-length // tiles)
        assert each <= 2048 and -(-length // 2048) == tiles, (shape, tiles)
""")


def test_a_backward_is_compiled_while_the_forward_is(driver):
    run(driver, """
from rushlight.devices.cuda import kernels
asked = []
old = kernels.Variants.prepared
def prepared(self, unit, key, stored):
    asked.append(self.entry())
    return old(self, unit, key, stored)
kernels.Variants.prepared = prepared
net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4)).cuda()
called, x = rl.compile(net), rl.randn(32, 8).cuda()
launches = count(LAUNCHES)
y = called(x)
launches, forward = count(LAUNCHES) - launches, list(asked)
y.backward(y.detach())
assert any("backward" in name for name in forward) and asked == forward, (forward, asked)
assert launches < len(forward), launches      # nothing of the backward ran
assert all(p.grad is not None for p in net.parameters())
table, index = rl.randn(9, 4).cuda().requires_grad_(), rl.zeros(6, dtype=rl.int64).cuda()
y = rl.compile(lambda: F.embedding(index, table).tanh())()      # checks indices, so it is never replayed
forward = list(asked)
y.backward(y.detach())
assert asked == forward, (forward, asked)
""")


def test_libraries_are_opened_while_a_program_is_captured(driver):
    run(driver, """
import time
from rushlight.devices.cuda import libraries
opened = []
libraries.open_ahead = lambda: opened.append(1)
assert rl.cuda.is_available()
rl.compile(lambda x: x * 2)(rl.ones(3))
assert not opened                                 # nothing is on the device
x = rl.ones(3).cuda()
rl.compile(lambda x: x * 3)(x)
rl.compile(lambda x: x * 4)(x)
while not opened:
    time.sleep(0.01)                              # by a thread
assert opened == [1]
""")


def test_graphs_that_check_indices_are_not_replayed_by_themselves(driver):
    run(driver, """
table, index = rl.ones(10, 4).cuda(), rl.zeros(3, dtype=rl.int64).cuda()

def replays(f):
    for _ in range(5):
        f()
    before = count(LAUNCHES)
    f()
    return (count(LAUNCHES) - before) // 1000

look = lambda: table[index] * 2
assert replays(rl.compile(look)) == 0
assert replays(rl.compile(look, mode="reduce-overhead")) == 1
assert replays(rl.compile(lambda: rl.rand_like(table) + 1)) == 1
""")


def test_an_optimizer_updates_many_parameters_with_one_launch(driver):
    run(driver, """
params = [rl.nn.Parameter(rl.zeros(n, 4, device="cuda")) for n in (1, 7, 300)]
params.append(rl.nn.Parameter(rl.zeros(8, 4, 3, 3, device="cuda").to(memory_format=rl.channels_last)))
for make in (rl.optim.AdamW, lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9)):
    optimizer = make(params)
    for _ in range(2):
        for p in params:
            p.grad = rl.zeros_like(p)
        launches, versions = count(LAUNCHES), [p._version for p in params]
        optimizer.step()
    assert count(LAUNCHES) == launches + 1
    assert [p._version for p in params] == [v + 1 for v in versions]
    for state in optimizer.state.values():
        assert state.get("step", 2) == 2, state
assert optimizer.state[params[0]]["momentum_buffer"].shape == (1, 4)
params[1].grad = rl.zeros(4, 7, device="cuda").t()      # lies otherwise: alone
launches = count(LAUNCHES)
optimizer.step()
assert count(LAUNCHES) > launches + 1
optimizer = rl.optim.AdamW(params)
for _ in range(2):                                      # one has seen fewer gradients: numbers of its own
    for p in params:
        p.grad = rl.zeros_like(p)
    optimizer.step()
    params[2].grad = None
    optimizer.step()
assert [int(optimizer.state[p]["step"]) for p in params] == [4, 4, 2, 4]
""")


def test_cubins_are_kept_on_disk(driver, tmp_path):
    program = """
import os
sim.simulated_compiled.restype = ctypes.c_long
x = rl.empty(64, 128, device="cuda")
x + x
F.softmax(x, -1)
print(sim.simulated_compiled())
"""
    cache = f"import os\nos.environ['RUSHLIGHT_CACHE'] = {str(tmp_path)!r}\n"
    assert int(run(driver, cache + program)) >= 2
    assert int(run(driver, cache + program)) == 0
    damaged = [path for path in tmp_path.iterdir() if path.read_bytes().startswith(b"RLCUBIN")]
    assert len(damaged) >= 2
    damaged[0].write_bytes(damaged[0].read_bytes()[:-7])
    damaged[1].write_bytes(b"RLCUBIN1\nnothing of use")
    assert int(run(driver, cache + program)) == 2       # those two, and no others
    assert int(run(driver, cache + program)) == 0


def test_memory_pools(driver):
    run(driver, """
outside = rl.empty(1000, device="cuda")
pool, other = rl.cuda.MemPool(), rl.cuda.MemPool()
assert pool.id != other.id and pool.use_count() == 1
with rl.cuda.use_mem_pool(pool):
    assert pool.use_count() == 2
    x = rl.empty(1000, device="cuda")
    with rl.cuda.use_mem_pool(other):
        y = rl.empty(1000, device="cuda")
    z = rl.empty(1000, device="cuda")
address = x.data_ptr()
assert count(ALLOCATIONS) == 3 and len(pool.snapshot()) == len(other.snapshot()) == 1
assert z.data_ptr() - address < 2 << 20 < abs(y.data_ptr() - address)
del x, z
rl.cuda.empty_cache()
assert rl.empty(1000, device="cuda").data_ptr() != address and len(pool.snapshot()) == 1
with rl.cuda.use_mem_pool(pool):
    assert abs(rl.empty(1000, device="cuda").data_ptr() - address) < 2 << 20      # its memory serves its own tensors
with rl.cuda.use_mem_pool(pool, device=1):
    assert rl.empty(1000, device="cuda:0").data_ptr() != address
freed = count(FREES)
del pool
assert count(FREES) == freed + 1
del other
assert count(FREES) == freed + 1 and y.shape == (1000,)             # y is still there
del y
rl.cuda.empty_cache()
assert count(FREES) >= freed + 2
for wrong in (lambda: rl.cuda.MemPool("native"), lambda: rl.cuda.use_mem_pool(3).__enter__()):
    try:
        wrong()
    except TypeError:
        continue
    raise SystemExit("must be refused")
""")


def test_memory_of_somebody_elses(driver, tmp_path):
    source = tmp_path / "own.c"
    source.write_text("""#include <stdlib.h>
int taken, given;
void* take(size_t n, int unit, void* stream) { return taken++, n > 1 << 26 ? 0 : malloc(n); }
void give(void* at, size_t n, int unit, void* stream) { given++, free(at); }
""")
    library = tmp_path / "own.so"
    subprocess.run([CC, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    run(driver, f"""
own = rl.cuda.CUDAPluggableAllocator({str(library)!r}, "take", "give")
counts = ctypes.CDLL({str(library)!r})
number = lambda name: ctypes.c_int.in_dll(counts, name).value
pool = rl.cuda.MemPool(own.allocator())
before = count(ALLOCATIONS)
with rl.cuda.use_mem_pool(pool):
    x = rl.ones(100).cuda()
assert number("taken") == 1 and count(ALLOCATIONS) == before and (x.cpu() == 1).all()
try:
    with rl.cuda.use_mem_pool(pool):
        rl.empty(1 << 28, device="cuda")
except rl.OutOfMemoryError:
    pass
else:
    raise SystemExit("there was no memory")
del x, pool
assert number("given") == 1
""")


def test_streams_of_somebody_elses(driver):
    run(driver, """
theirs = rl.cuda.ExternalStream(0x1234)
assert theirs.cuda_stream == 0x1234 and rl.cuda.get_stream_from_external(0x1234) == theirs
with rl.cuda.stream(theirs):
    assert rl.cuda.current_stream() == theirs and rl.cuda.current_stream().cuda_stream == 0x1234
    rl.empty(10, device="cuda") + 1
assert rl.cuda.ExternalStream(0) == rl.cuda.default_stream()
""")


def test_graphs_take_memory_of_pools(driver):
    run(driver, """
pool = rl.cuda.MemPool()
x = rl.empty(1 << 20, device="cuda")
g, h = rl.cuda.CUDAGraph(), rl.cuda.CUDAGraph()
with rl.cuda.graph(g, pool=pool.id):
    y = x * 2
assert g.pool() == pool.id and [s["allocated_size"] for s in pool.snapshot()] == [4 << 20]
shared = rl.cuda.graph_pool_handle()
with rl.cuda.graph(h, pool=shared):
    z = x * 2
assert h.pool() == shared != pool.id and rl.cuda.CUDAGraph().pool() == (0, 0)
assert rl.empty(4, device="cuda").shape == (4,) and len(pool.snapshot()) == 1
""")


def test_marks_for_profilers(driver):
    run(driver, """
from rushlight.cuda import nvtx
assert nvtx.range_push("a") == -2 and nvtx.range_pop() == -2 and nvtx.mark("b") is None     # nobody listens
nvtx.range_end(nvtx.range_start("c"))
with nvtx.range("step {}", 3):
    pass
@nvtx.range("called")
def f(): return 7
assert f() == 7
with rl.cuda.profiler.profile():
    pass
assert sim.simulated_profiled() == 2
runtime = rl.cuda.cudart()
runtime.cudaProfilerStart()
assert sim.simulated_profiled() == 3 and runtime.cudaMemGetInfo(0) == rl.cuda.mem_get_info(0)
try:
    rl.cuda.check_error(2)
except rl.cuda.CudaError as error:
    assert "out of memory (2)" in str(error)
else:
    raise SystemExit("2 is an error")
rl.cuda.check_error(0)
""")


def test_scans_of_short_rows_are_one_launch_and_dropout_draws_once(driver):
    run(driver, """
x = rl.empty(4096, 128, device="cuda")
for scan in (x.cumsum, x.cumprod, x.cummax, x.cummin, x.logcumsumexp):
    before = count(LAUNCHES)
    scan(-1)
    assert count(LAUNCHES) == before + 1, scan
qkv = [rl.empty(2, 3, 64, 64, device="cuda").requires_grad_() for _ in range(3)]
attend = lambda *given: F.scaled_dot_product_attention(*given, dropout_p=0.3)
for call in (attend, rl.compile(attend, fullgraph=True)):
    before = rl.cuda.default_generators[0].get_offset()
    call(*qkv).sum().backward()
    assert rl.cuda.default_generators[0].get_offset() == before + 2 * 3 * 64 * 64
""")
