"""What a program asks of `profiler.profile`: whole recordings, whole files, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from rushlight._C._profiler import _ExperimentalConfig, _RecordFunctionFast

import rushlight as torch
from rushlight import profiler
from rushlight.autograd import profiler as autograd_profiler, profiler_util
from rushlight.profiler import ProfilerActivity, device_events, profile, record_function

CPU = ProfilerActivity.CPU


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def recorded(function, **options):
    with profile(activities=[CPU], **options) as prof:
        function()
    return prof


def names_of(prof):
    """The ops of the program; what was planned for the first time is not of interest."""
    return [event.name for event in prof.events() if event.name.startswith("aten::")]


def trace_of(prof, folder, name="trace.json"):
    prof.export_chrome_trace(str(folder / name))
    text = (folder / name).read_bytes()
    return json.loads(gzip.decompress(text) if name.endswith(".gz") else text)


def test_events_nest_in_the_trace_and_backward_follows_forward(model, tmp_path):
    x = torch.ones(3, 8)
    trace = trace_of(recorded(lambda: model(x).sum().backward(), with_stack=True), tmp_path)
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms" and trace["with_stack"] == 1
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    assert {e["pid"] for e in spans} == {os.getpid()} and {e["tid"] for e in spans} == {threading.get_native_id()}
    open_ends: list[float] = []
    for event in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
        while open_ends and event["ts"] >= open_ends[-1] - 1e-3:
            open_ends.pop()
        assert not open_ends or event["ts"] + event["dur"] <= open_ends[-1] + 2e-3, event["name"]
        open_ends.append(event["ts"] + event["dur"])
    arrows = [e for e in trace["traceEvents"] if e.get("cat") == "fwdbwd"]
    starts = {e["id"]: e["ts"] for e in arrows if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in arrows if e["ph"] == "f"}
    assert starts and starts.keys() == ends.keys() and all(starts[i] < ends[i] for i in starts)
    by_time = {(e["ts"], e["cat"]): e["name"] for e in spans}
    assert {by_time[ts, "cpu_op"] for ts in ends.values()} >= {"SumBackward0", "ReluBackward0"}
    assert len({e["args"]["Ev Idx"] for e in spans}) == len(spans)


def test_a_trace_is_written_again_compressed_and_with_metadata(tmp_path):
    prof = recorded(lambda: torch.ones(2) + 1)
    prof.add_metadata("quoted", 'a "word"')
    first, second = trace_of(prof, tmp_path), trace_of(prof, tmp_path, "trace.json.gz")
    assert first["quoted"] == second["quoted"] == 'a "word"'
    assert [e for e in first["traceEvents"] if e["ph"] == "X"] == [e for e in second["traceEvents"] if e["ph"] == "X"]


def test_what_a_program_calls_json_may_be_none(tmp_path):
    prof = recorded(lambda: torch.ones(2))
    prof.add_metadata_json("broken", "{no json")
    assert trace_of(prof, tmp_path)["broken"] == "{no json"


def test_a_missing_folder_is_an_error_that_names_the_file():
    with pytest.raises(FileNotFoundError, match=r"/nonexistent/trace\.json"):
        recorded(lambda: torch.ones(2)).export_chrome_trace("/nonexistent/trace.json")


def test_a_full_disk_leaves_what_was_there(tmp_path):
    prof = recorded(lambda: [torch.ones(2) for _ in range(2000)])
    (tmp_path / "trace.json").write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(OSError):
            prof.export_chrome_trace(str(tmp_path / "trace.json"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (tmp_path / "trace.json").read_text() == "before" and os.listdir(tmp_path) == ["trace.json"]


def test_a_profiler_inside_another_is_refused_and_the_next_is_clean():
    with pytest.raises(RuntimeError), profile(activities=[CPU]) as outer:
        torch.ones(2)
        with profile(activities=[CPU]):
            pass
    assert names_of(outer) == ["aten::ones"]
    assert names_of(recorded(lambda: torch.zeros(2))) == ["aten::zeros"]


def test_an_error_inside_keeps_what_was_recorded():
    handed = []
    with pytest.raises(KeyError), profile(activities=[CPU], on_trace_ready=handed.append) as prof:
        torch.ones(2)
        raise KeyError
    assert handed == [prof] and names_of(prof) == ["aten::ones"]
    assert not torch._C._autograd._profiler_enabled()


def test_collection_pauses():
    with profile(activities=[CPU]) as prof:
        torch.ones(2)
        prof.toggle_collection_dynamic(False, [CPU])
        torch.zeros(2)
        prof.toggle_collection_dynamic(True, [CPU])
        torch.full((2,), 3.0)
    names = [e.name for e in prof.events()]
    assert "aten::ones" in names and "aten::full" in names and "aten::zeros" not in names


def test_started_twice_records_from_the_second_start():
    prof = profile(activities=[CPU])
    prof.start()
    torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.start()
    torch.zeros(2)
    prof.stop()
    assert names_of(prof) == ["aten::zeros"]


def test_names_of_traces():
    names = iter(["first", "second"])
    with profile(activities=[CPU], schedule=lambda step: profiler.ProfilerAction.RECORD_AND_SAVE,
                 custom_trace_id_callback=lambda: next(names)) as prof:
        assert prof.get_trace_id() == "first"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prof.step()
        assert prof.get_trace_id() == "second"
    assert re.fullmatch("[0-9A-F]{32}", recorded(lambda: None).profiler.trace_id)


def test_tensorboards_files(tmp_path):
    prof = recorded(lambda: torch.ones(2))
    for given, pattern in (({}, rf".+_{os.getpid()}\.\d+\.pt\.trace\.json"),
                           ({"worker_name": "me", "use_gzip": True}, r"me\.\d+\.pt\.trace\.json\.gz")):
        folder = tmp_path / str(len(given))
        profiler.tensorboard_trace_handler(str(folder), **given)(prof)
        assert [re.fullmatch(pattern, name) is not None for name in os.listdir(folder)] == [True]


def test_averages_are_those_of_the_events(model):
    def step():
        with record_function("label"):
            model(torch.ones(3, 8)).sum().backward()

    with profile(activities=[CPU], record_shapes=True, profile_memory=True, with_flops=True) as prof:
        step()
        step()
    for options in ({}, {"group_by_input_shapes": True}, {"group_by_overload_name": True}):
        quick = prof.profiler._source.averages(*(options.get(name, False) for name in (
            "group_by_input_shapes", "group_by_stack_n", "group_by_overload_name")))
        slow = profiler_util.EventList(prof.events(), profile_memory=True, with_flops=True)
        slow._tree_built = True
        for one, other in zip(quick, slow.key_averages(**options), strict=True):
            assert (one.key, one.count, one.flops, one.cpu_memory_usage, one.self_cpu_memory_usage, one.scope) == (
                other.key, other.count, other.flops, other.cpu_memory_usage, other.self_cpu_memory_usage, other.scope)
            assert one.cpu_time_total == pytest.approx(other.cpu_time_total)
            assert one.self_cpu_time_total == pytest.approx(other.self_cpu_time_total)
            assert str(one.input_shapes) == str(other.input_shapes)


def test_own_times_add_up_to_the_whole(model):
    prof = recorded(lambda: model(torch.ones(3, 8)).sum().backward())
    roots = [e for e in prof.events() if e.cpu_parent is None]
    total = sum(e.cpu_time_total for e in roots)
    assert prof.profiler.self_cpu_time_total == pytest.approx(total)
    assert sum(e.self_cpu_time_total for e in prof.key_averages()) == pytest.approx(total)


def test_memory_of_an_op_and_of_none():
    kept = []
    with profile(activities=[CPU], profile_memory=True) as prof:
        kept.append(torch.ones(1000))
        kept.clear()
    events = prof.events()
    assert [e.cpu_memory_usage for e in events if e.name == "aten::ones"] == [4000]
    assert sum(e.cpu_memory_usage for e in events if e.name == "[memory]") == -4000
    assert "CPU Mem" in prof.key_averages().table()


def test_the_memory_timeline(tmp_path):
    layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
    optimizer, x = torch.optim.Adam(layers.parameters()), torch.ones(50, 64)
    size = sum(p.numel() * 4 for p in layers.parameters())

    def steps():
        for _ in range(2):
            layers(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    prof = recorded(steps, record_shapes=True, profile_memory=True, with_stack=True)
    with pytest.warns(FutureWarning):
        prof.export_memory_timeline(str(tmp_path / "m.json"), "cpu")
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    most = [max(row[i] for row in sizes) for i in range(9)]
    assert times == sorted(times) and size <= most[1] < 2 * size and most[6] == size   # parameters: others live too
    assert 2 * size <= most[2] <= 2 * size + 64 and most[5] >= 50 * (128 + 128) * 4       # state, activations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("m.json.gz", "m.raw.json.gz", "m.html"):
            prof.export_memory_timeline(str(tmp_path / name), "cpu")
    assert json.loads(gzip.decompress((tmp_path / "m.json.gz").read_bytes())) == [times, sizes]
    raw = json.loads(gzip.decompress((tmp_path / "m.raw.json.gz").read_bytes()))
    assert {action for _, action, _, _ in raw} == {1, 2, 4} and sum(row[2] for row in raw) == sum(sizes[-1])
    page = (tmp_path / "m.html").read_text()
    assert "<svg" in page and "PARAMETER" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_an_execution_trace(model, tmp_path):
    observer = profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "graph.json"))
    with profile(activities=[CPU], execution_trace_observer=observer), record_function("label"):
        assert observer.is_registered and observer.is_running()
        model(torch.ones(3, 8)).sum().backward()
    assert not observer.is_registered and not observer.is_running()
    graph = json.loads((tmp_path / "graph.json").read_text())
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert graph["schema"].startswith("1.1.1-chakra") and len(nodes) == len(graph["nodes"])
    product = next(node for node in nodes.values() if node["name"] == "aten::addmm")
    assert nodes[product["ctrl_deps"]]["name"] == "label"
    assert product["inputs"]["shapes"][:3] == [[16], [3, 8], [8, 16]] and product["outputs"]["shapes"] == [[3, 16]]
    assert product["inputs"]["types"][:3] == ["Tensor(float)"] * 3 and product["inputs"]["values"][3:] == [1, 1]
    relu = next(node for node in nodes.values() if node["name"] == "aten::relu")
    assert relu["inputs"]["values"][0][1] == product["outputs"]["values"][0][1]      # the same storage
    assert {attr["name"] for attr in relu["attrs"]} >= {"rf_id", "seq_id", "scope", "tid", "op_schema"}


def test_an_execution_trace_by_the_environment(tmp_path):
    code = ("import rushlight as torch\nfrom rushlight.profiler import profile\n"
            "with profile() as p: torch.ones(2) + 1\nprint(p.execution_trace_observer.get_output_file_path())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "ENABLE_PYTORCH_EXECUTION_TRACE": "1", "TMPDIR": str(tmp_path)})
    names = [node["name"] for node in json.loads(Path(done.stdout.strip()).read_text())["nodes"]]
    assert "aten::add" in names


def test_what_a_device_did_stands_with_the_op_that_asked(tmp_path):
    prof = recorded(lambda: torch.ones(4) + 1)
    source = prof.profiler._source
    row = next(i for i, n in enumerate(source.log.name) if source.log.names[n] == "aten::add")
    begin, end = source.log.begin[row], source.log.end[row]
    log = source.log
    recording = {"columns": log.raw, "names": list(log.names), "inputs": log.input_records, "threads": log.threads,
                 "base": log.base}
    native = log.threads[0][0]
    device_events.add_device_events(recording, [
        ("add_kernel", 0, 7, end + 500, end + 3500, "kernel", row, {"correlation": 5, "grid": [1, 1, 1]}),
        ("cudaLaunchKernel", -1, native, begin + 1, begin + 2, "cuda_runtime", row, {"correlation": 5}),
    ])
    made = type(source)(type(log)(recording), use_device="cuda")
    add = next(e for e in made.events() if e.name == "aten::add")
    assert add.device_time_total == 3.0 and [k.name for k in add.kernels] == ["add_kernel"]
    assert [child.name for child in add.cpu_children][-1] == "cudaLaunchKernel"
    kernel = next(e for e in made.events() if e.name == "add_kernel")
    assert kernel.device_type == torch._C._autograd.DeviceType.CUDA and kernel.event_metadata.grid == [1, 1, 1]
    averages = {e.key: e for e in made.averages()}
    assert averages["add_kernel"].self_device_time_total == 3.0 == averages["aten::add"].self_device_time_total
    table = made.averages().table(sort_by="self_cuda_time_total")
    assert "Self CUDA" in table and "Self CUDA time total: 3.000us" in table
    with pytest.raises(ValueError, match="category"):
        device_events.add_device_events(recording, [("x", 0, 0, 0, 1, "nonsense", -1, {})])


def test_labels_by_other_names():
    with profile(activities=[CPU]) as prof:
        with _RecordFunctionFast("fast"):
            torch.ones(2)
        handle = torch.autograd._record_function_with_args_enter("entered")
        torch.autograd._record_function_with_args_exit(handle)
    kinds = {e.name: e.is_user_annotation for e in prof.events()}
    assert kinds["fast"] is False and kinds["entered"] is True
    with pytest.raises(TypeError):
        _RecordFunctionFast(1)


def test_stacks_by_event_where_they_are_asked_for(model, tmp_path):
    plain = recorded(lambda: model(torch.ones(3, 8)), with_stack=True)
    assert "Source Location" not in plain.key_averages(group_by_stack_n=2).table()      # as in PyTorch
    prof = recorded(lambda: model(torch.ones(3, 8)).sum().backward(), with_stack=True,
                    experimental_config=_ExperimentalConfig(verbose=True))
    relu = next(e for e in prof.events() if e.name == "aten::relu")
    assert "nn.Module: ReLU_0" in relu.stack and "nn.Module: Sequential_0" in relu.stack
    assert next(e for e in prof.events() if e.name == "ReluBackward0").stack == relu.stack
    assert "Source Location" in prof.key_averages(group_by_stack_n=2).table()
    for one in (plain, prof):
        one.export_stacks(str(tmp_path / "s.txt"))
        lines = (tmp_path / "s.txt").read_text().splitlines()
        assert lines and all(re.fullmatch(r"[^ ]+ \d+", line) for line in lines)


def test_nvprofs_files(tmp_path):
    path = str(tmp_path / "trace.prof")
    with sqlite3.connect(path) as file:
        file.executescript("""
            CREATE TABLE StringTable(_id_, value);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER(id, name, timestamp);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(_id_, cbid, start, end, correlationId);
            CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(name, start, end, correlationId);
            INSERT INTO StringTable VALUES (1, 'add'), (2, '_Z3mulii');
            INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES (10, 2, 200), (10, 0, 300), (11, 1, 50), (11, 0, 90);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 211, 210, 220, 77);
            INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES ('k', 400, 450, 77);
        """)
    events = autograd_profiler.load_nvprof(path)
    assert (events[0].name, events[0].time_range.elapsed_us()) == ("add", 40)
    assert events[1].name in ("mul(int, int)", "_Z3mulii") and [k.duration for k in events[1].kernels] == [50]


def test_ranges_for_vtune_open_and_close():
    from rushlight.profiler import itt

    with autograd_profiler.emit_itt(record_shapes=True) as emitter, record_function("label"):
        torch.ones(2) + 1
    assert itt.range_push("outer") == 0 and itt.range_pop() == 0
    with pytest.raises(RuntimeError):
        emitter.__enter__()


def test_older_names_warn():
    event = recorded(lambda: torch.ones(2)).events()[0]
    with pytest.warns(FutureWarning):
        assert event.cuda_time_total == 0


def test_partial_results_when_time_is_up():
    prof = recorded(lambda: torch.ones(2), post_processing_timeout_s=0.0)
    assert list(prof.events()) == []


@pytest.mark.parametrize("option", [{"profiler_metrics": ["x"]}, {"capture_overload_names": True},
                                    {"record_python_gc_info": True}, {"custom_profiler_config": "x"}])
def test_options_that_are_not_built_are_refused(option):
    config = _ExperimentalConfig(**option)
    with pytest.raises(NotImplementedError, match=next(iter(option))):
        torch.profiler.profile(experimental_config=config)
