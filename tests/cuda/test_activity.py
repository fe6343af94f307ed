"""What CUDA units did, on a driver and a CUPTI without a device behind them: records become rows that belong to ops.
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

HEAD = """
import ctypes, os, struct, threading, warnings
import rushlight as rl
from rushlight import _C, _extras
from rushlight.devices.cuda import libraries
libraries.places = lambda names: []
from rushlight.profiler import cupti
x = rl.ones(64, 64, device="cuda")
y = x + 1
y = x * 2
def recorded(work, **given):
    recorder = cupti.DeviceRecorder(**given)
    _extras.profile_start(0)
    work()
    rl.cuda.synchronize()
    recording = _extras.profile_stop()
    recorder.stop(recording)
    names, column = recording["names"], memoryview(recording["columns"]["name"]).cast("q")
    return recording["device"], lambda event: names[column[event.row]] if event.row >= 0 else None
def both():
    x + 1
    x * 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("libraries")
    for name in ("driver", "cupti"):
        command = [CC, "-shared", "-fPIC", "-O1", "-o", str(made / f"{name}.so"), str(HERE / f"simulated_{name}.c"),
                   "-lpthread", "-ldl"]
        subprocess.run(command, check=True)
    return made


def run(folder, program: str, **environment: str) -> str:
    given = {**os.environ, "RUSHLIGHT_CUDA_DRIVER": str(folder / "driver.so"),
             "RUSHLIGHT_CUPTI_LIBRARY": str(folder / "cupti.so"), **environment}
    done = subprocess.run([sys.executable, "-c", HEAD + program], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_belong_to_the_ops_that_launched_them(folder):
    run(folder, """
before = _extras.profile_now()
events, op = recorded(lambda: [both() for _ in range(8)])
kernels = [e for e in events if e.category == "kernel"]
assert [op(e) for e in kernels] == ["aten::add", "aten::mul"] * 8
calls = [e for e in events if e.category == "cuda_driver"]
assert {e.name for e in calls} >= {"cuLaunchKernel", "cuStreamSynchronize"}     # cuCtxGetDevice is no event
assert all(e.device == -1 and e.stream == threading.get_native_id() for e in calls)
assert all(before < e.begin <= e.end < _extras.profile_now() + 10**7 for e in events)
assert calls[-1].name == "cuStreamSynchronize" and op(calls[-1]) is None      # behind the last op
launches = {e.args["correlation"]: e for e in calls}
for kernel in kernels:
    call = launches[kernel.args["correlation"]]
    assert op(call) == op(kernel) and call.end <= kernel.begin and kernel.end - kernel.begin == 10000
first = kernels[0]
assert (first.name, first.device, first.stream) == ("kernel(float*, int)", 0, 7)
assert first.args["grid"] == [2, 1, 1] and first.args["block"] == [128, 1, 1], first.args
assert first.args["registers per thread"] == 40 and first.args["shared memory"] == 1536
assert first.args["blocks per SM"] == round(2 / 132, 6)
assert any("graph id" in e.args for e in kernels) and "graph id" not in first.args     # later ones go as graphs
""")


def test_who_asked_for_what_the_queue_launched(folder):
    run(folder, """
_C.cuda_queue(True)
driver = ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_DRIVER"])
driver.simulated_slow(200)      # so that launches wait, and are made in batches
events, op = recorded(lambda: [both() for _ in range(40)])
kernels = [e for e in events if e.category == "kernel"]
assert len(kernels) == 80
main = threading.get_native_id()
others = [e for e in events if e.category == "cuda_driver" and e.stream != main]
assert others and all(e.row == -1 for e in others)      # the queue's own thread: no op runs there
batches = {e.args["correlation"] for e in others if e.name == "cuGraphLaunch"}
held = [[op(e) for e in kernels if e.args["correlation"] == number] for number in batches]
assert max(map(len, held)) > 4, held
assert all(a != b for names in held for a, b in zip(names, names[1:]))      # add and mul take turns within each
assert sorted(op(e) for e in kernels) == ["aten::add"] * 40 + ["aten::mul"] * 40
""")


def test_labels_span_what_was_launched_within(folder):
    run(folder, """
def work():
    both()
    handle = _extras.record_begin("mine", None, 4)
    both()
    both()
    _extras.record_end(handle)
events, op = recorded(work)
label, = [e for e in events if e.category == "gpu_user_annotation"]
inside = [e for e in events if e.category == "kernel"][2:]
assert (label.name, label.device, label.stream) == ("mine", 0, 7) and op(label) == "mine"
assert (label.begin, label.end) == (inside[0].begin, inside[-1].end)
""")


def test_copies_waits_and_threads(folder):
    run(folder, """
def work():
    there = x.cpu()
    thread = threading.Thread(target=both)
    thread.start()
    thread.join()
events, op = recorded(work, waits=True)
copy, = [e for e in events if e.category == "gpu_memcpy"]
assert copy.name == "Memcpy DtoH (Device -> Pageable)" and copy.args["bytes"] == 64 * 64 * 4 and copy.row >= 0
waits = [e for e in events if e.category == "cuda_sync"]
assert waits and {e.name for e in waits} == {"Stream Sync"}
kernels = [e for e in events if e.category == "kernel"]
assert len(kernels) == 2 and all(e.row == -1 for e in kernels)      # that thread is not recorded
assert len({e.stream for e in events if e.category == "cuda_driver"}) == 2
events, op = recorded(both)
assert not any(e.category == "cuda_sync" for e in events)
""")


def test_records_made_by_hand(folder):
    run(folder, """
library = ctypes.CDLL(os.environ["RUSHLIGHT_CUPTI_LIBRARY"])
def record(size, **fields):
    data = bytearray(size)
    for place, (form, value) in fields.items():
        struct.pack_into(form, data, int(place[1:]), value)
    library.simulated_record(bytes(data))
def work():
    t = _extras.profile_now()
    span = lambda at: {f"_{at}": ("<Q", t), f"_{at + 8}": ("<Q", t + 4000)}
    fill = {"_0": ("<i", 2), "_4": ("<I", 1), "_8": ("<Q", 8000), **span(16), "_36": ("<I", 3), "_40": ("<I", 9),
            "_44": ("<I", 700), "_50": ("<H", 3)}
    record(88, **fill)
    record(96, _0=("<i", 22), _4=("<B", 10), _5=("<B", 3), _6=("<B", 3), _8=("<Q", 4000), **span(16), _32=("<I", 1),
           _40=("<I", 9), _44=("<I", 1), _52=("<I", 0), _60=("<I", 701))
    record(40, _0=("<i", 5), _4=("<I", 1), **span(8), _28=("<I", threading.get_native_id()), _32=("<I", 700))
    record(56, _0=("<i", 17), _4=("<i", 5 << 16), _16=("<I", 1234), **span(24))
    record(56, _0=("<i", 38), _4=("<i", 4), **span(8), _24=("<I", 5), _28=("<I", 3), _32=("<I", 2**32 - 1),
           _36=("<I", 2**32 - 1))
    record(208, _0=("<i", 10), _16=("<Q", 0), _24=("<Q", 0))      # never ran: it has no times
    record(40, _0=("<i", 5), _4=("<I", 1), _8=("<Q", t), _16=("<Q", t - 5))
events, op = recorded(work, waits=True)
found = {e.category: e for e in events if e.name not in ("cuStreamSynchronize", "Stream Sync")}
assert len([e for e in events if e.name not in ("cuStreamSynchronize", "Stream Sync")]) == 5
fill = found["gpu_memset"]
assert (fill.name, fill.stream, fill.end - fill.begin) == ("Memset (Device)", 9, 4000)
assert fill.args["bytes"] == 8000 and fill.args["memory bandwidth (GB/s)"] == 2.0 and fill.args["context"] == 3
between = found["gpu_memcpy"]
assert between.name == "Memcpy PtoP (Device -> Device)" and between.device == 1
assert (between.args["fromDevice"], between.args["toDevice"], between.args["correlation"]) == (1, 0, 701)
call = found["cuda_runtime"]
assert call.name == "cudaLaunchKernel" and call.args == {"cbid": 1, "correlation": 700}
assert found["overhead"].name == "Lazy Function Loading" and found["overhead"].stream == 1234
assert found["cuda_sync"].name == "Context Sync" and found["cuda_sync"].stream == -1
""")


def test_without_cupti_events_of_the_driver_time_launches(folder):
    run(folder, """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    events, op = recorded(lambda: (both(), x.cpu()))
assert any("CUPTI" in str(one.message) and "pip install nvidia-cuda-cupti" in str(one.message) for one in told)
kernels = [e for e in events if e.category == "kernel"]
assert [op(e) for e in kernels] == ["aten::add", "aten::mul"] and [e.name for e in kernels] == ["add", "mul"]
assert all(e.args["measured by"] == "driver events" for e in kernels)
assert all(e.end - e.begin == 10**6 for e in kernels)      # the simulated driver's events are a millisecond apart
copy, = [e for e in events if e.category == "gpu_memcpy"]
assert copy.name == "Memcpy DtoH" and copy.args["bytes"] == 64 * 64 * 4
events, op = recorded(lambda: None)
assert not events
assert (x + 1).device.type == "cuda"
""", RUSHLIGHT_CUPTI_LIBRARY="/nowhere.so")


def test_a_cupti_that_refuses_is_named(folder):
    run(folder, """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    recorded(both)
assert any("it does not start" in str(one.message) for one in told), [str(one.message) for one in told]
""", SIMULATED_CUPTI="7")
    run(folder, """
cupti.version()
library = ctypes.CDLL(os.environ["RUSHLIGHT_CUPTI_LIBRARY"])
library.simulated_cupti_fails(5)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    events, op = recorded(both)
assert any("not privileged" in str(one.message) for one in told)
assert not any(library.simulated_enabled(kind) for kind in range(64))      # half a start is none
assert [op(e) for e in events if e.category == "kernel"] == ["aten::add", "aten::mul"]
library.simulated_cupti_fails(-1)
events, op = recorded(both)
assert all("measured by" not in e.args for e in events) and len(events) >= 4
""")


def test_device_memory_is_recorded(folder):
    run(folder, """
_extras.profile_start(2)
held = rl.empty(1 << 20, device="cuda")
size = held.untyped_storage().nbytes()
address = held.data_ptr()
del held
recording = _extras.profile_stop()
columns = {name: memoryview(held).cast("q").tolist() for name, held in recording["columns"].items()}
memory = [at for at, kind in enumerate(columns["kind"]) if kind == 7 and columns["address"][at] == address]
assert [columns["value"][at] for at in memory] == [size, -size]
assert columns["total"][memory[0]] - columns["total"][memory[1]] == size
""")


def test_a_whole_profile(folder, tmp_path):
    run(folder, f"""
import json
from rushlight.profiler import ProfilerActivity, profile, record_function, supported_activities
assert ProfilerActivity.CUDA in supported_activities()
def work():
    with record_function("mine"):
        both()
    (x * 2).cpu()
work()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as found:
    work()
rows = {{row.key: row for row in found.key_averages() if row.cpu_time_total}}
assert rows["aten::add"].self_device_time_total == 10 and rows["aten::mul"].device_time_total == 20
assert rows["mine"].self_device_time_total == 0 and rows["mine"].device_time_total == 20      # not its own span
assert rows["aten::add"].device_memory_usage == 64 * 64 * 4
table = found.key_averages().table(sort_by="cuda_time_total")
assert all(word in table for word in ("Self CUDA", "CUDA total", "Self CUDA Mem", "kernel(float*, int)"))
path = {str(tmp_path / "trace.json")!r}
found.export_chrome_trace(path)
with open(path) as handle:
    trace = json.load(handle)
assert trace["cupti_version"] == 28 and trace["deviceProperties"][0]["numSms"] == 132
of = lambda category: [e for e in trace["traceEvents"] if e.get("cat") == category]
ops = {{e["args"]["External id"]: e["name"] for e in of("cpu_op")}}
assert [ops[e["args"]["External id"]] for e in of("kernel")] == ["aten::add", "aten::mul", "aten::mul"]
assert {{e["args"]["correlation"] for e in of("kernel")}} <= {{e["id"] for e in of("ac2g") if e["ph"] == "s"}}
label, = of("gpu_user_annotation")
assert label["pid"] == 0 and label["tid"] == 7 and label["name"] == "mine"
assert any(e["args"]["Device Type"] == 1 for e in of("cpu_instant_event"))
""")
