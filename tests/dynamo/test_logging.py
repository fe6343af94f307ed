"""Logs of the compile stack: which settings are understood, as PyTorch 2.13 answers (logging_settings.json, and PyTorch
itself where it is installed), and what is told of small programs. Processes of their own: settings are read at import.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import rushlight

HERE = Path(__file__).parent
ROOT = Path(rushlight.__file__).parent.parent
LINE = re.compile(r"(?P<level>[VIWEC])\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ (?P<place>\S+\.py:\d+)\]"
                  r"(?: \[(?P<frame>[\d/_!]+)\])?(?: \[__(?P<artifact>\w+)\])? ?(?P<text>.*)")
PROGRAM = """
    import rushlight as torch

    def inner(x):
        torch._dynamo.graph_break()
        return x + 1

    seen = [0]

    @torch.compile
    def f(x, n):
        y = inner((x * 2).relu())
        seen[0] = n
        return (y * n).sum()

    for n in (2, 3):
        x = torch.ones(4, 5, requires_grad=True)
        f(x, n).backward()
"""


EAGER = PROGRAM.replace("@torch.compile", "@torch.compile(backend='eager')")


def run(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_")}
    env = {**kept, "PYTHONPATH": str(ROOT), "RUSHLIGHT_NOTICE": "0", **variables}
    return subprocess.run([sys.executable, str(program)], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=120, check=False)


def lines_of(text: str) -> list[dict[str, str]]:
    """The lines of a log; every line has the prefix."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), next(line for line, one in zip(text.splitlines(), found, strict=True) if one is None)
    return [one.groupdict() for one in found if one is not None]


def told(artifact: str, lines: list[dict[str, Any]]) -> str:
    return "\n".join(f"[{one['frame']}] {one['text']}" for one in lines if one["artifact"] == artifact)


# --- settings ---------------------------------------------------------------------------------------------------------


def answers(*command: str) -> Any:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_")}
    done = subprocess.run([sys.executable, *command, str(HERE / "logging_settings.py")], capture_output=True, text=True,
                          timeout=120, check=True, env={**kept, "PYTHONPATH": str(ROOT)})
    return json.loads(done.stdout)


def test_settings_do_to_loggers_what_pytorch_says() -> None:
    expected = json.loads((HERE / "logging_settings.json").read_text())
    found = answers("-m", "rushlight", "run")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="asks PyTorch")
def test_the_answers_are_those_of_the_installed_pytorch() -> None:
    assert answers() == json.loads((HERE / "logging_settings.json").read_text())


@pytest.mark.parametrize(("setting", "said"), [
    ("nosuch", "Invalid log settings: nosuch"), ("help", "TORCH_LOGS Info"), ("+help", "loop_tiling"),
])
def test_names_that_nobody_knows_are_refused_at_import_with_those_that_are(
    setting: str, said: str, tmp_path: Path
) -> None:
    done = run("import rushlight", tmp_path, TORCH_LOGS=setting)
    assert done.returncode == 1 and "ValueError" in done.stderr and said in done.stderr
    assert "recompiles" in done.stderr and "dynamo" in done.stderr
    assert ("hierarchical_compile" in done.stderr) == (setting != "help")      # not one of those that help shows


def test_the_environment_counts_more_than_calls(tmp_path: Path) -> None:
    done = run("""
        import logging
        import rushlight as torch
        torch._logging.set_logs(dynamo=logging.ERROR)
        print(logging.getLogger("torch._dynamo").level, torch._logging._internal.log_state.artifact_names)
    """, tmp_path, TORCH_LOGS="+dynamo,guards")
    assert done.stdout.split("\n")[0] == "10 {'guards'}"
    assert [one["level"] for one in lines_of(done.stderr)] == ["W"] and "this call changes nothing" in done.stderr


# --- what is told -----------------------------------------------------------------------------------------------------

# what a line of each artifact must have, of PROGRAM
EXPECTED = {
    "guards": r"\[0/0_1\] \+- TENSOR: x: Tensor float32\[4, 5\] on cpu, requires grad .*program.py:12 in f",
    "verbose_guards": r"\[0/0_1\] TENSOR of x, made at .*program.py:12 in f",
    "graph_breaks": r"\[0/0\] Graph break in user code at .*program.py:5\n.*Reason: .*graph_break.*\n(.*\n)*.*"
                    r"File .*program.py.*, line 12, in f\n.*\n.*line 5, in inner",
    "recompiles_verbose": r"\[\d/1\] Recompiling function torch_dynamo_resume_in_f_at_12 in .*program.py:12\n.*\n.*"
                          r"guard 0 failures:\n.*- \d/0: n == 2, got 3 .*program.py",
    "graph": r"call_function  relu +torch.relu +\(mul,\)",
    "graph_code": r"\[0/0_1\] +# File: .*program.py:12 in f, code: y = inner.*\n.* mul: \"f32\[4, 5\]",
    "graph_sizes": r"\[0/0_1\] relu: \(4, 5\)",
    "trace_source": r"\[0/0\] TRACE starts_line .*program.py:12 in f\n.*y = inner",
    "trace_call": r"\[0/0\] TRACE FX call mul from .*program.py:12 in f\n.*\n.* \^\^\^\^\^",
    "trace_bytecode": r"\[0/0\] TRACE BINARY_OP .*\[(.*, )?Tensor\(\[4, 5\]\), 2\]",
    "bytecode": r"\[0/0\] ORIGINAL BYTECODE f .*program.py line 10(.|\n)*\[0/0_1\] MODIFIED BYTECODE f",
    "side_effects": r"\[\d/0\] Mutating object of type list \(source name: seen\)",
    "pre_grad_graphs": r"===== BEFORE PRE GRAD =====\n.*class f",
    "aot_joint_graph": r"\[0/0_1\]  ===== Joint graph 0 =====\n.*\n.*tangents_1",
    "aot_graphs": r"===== Forward graph 0 =====(.|\n)*===== Backward graph 0 =====(.|\n)*relu_vjp",
    "post_grad_graphs": r"\[0/0_1\]  ===== AFTER POST GRAD =====",
    "ir_pre_fusion": r"mul: points of mul\n.*mul.reads = \[arg0: float32\[4, 5\]\]",
    "ir_post_fusion": r"kernel 0: points \[4, 5\]\n.*mul: points",
    "fusion": r"fused into kernel 0: mul, relu(.|\n)*cannot fuse sum",
    "schedule": r"\[0/0_1\] 0: points\[mul, relu\] \[4, 5\]",
    "compute_dependencies": r"1 fold\[sum\]: \[0\]",
    "loop_ordering": r"mul_relu over \[4, 5\] to f32",
    "loop_tiling": r"nest mul_relu\(",
    "output_code": r"def call\(arg0\):\n.*= new\(float32, \[4, 5\]\)\n.*mul_relu_\w+\(arg0, (.|\n)*"
                   r"define void @mul_relu\(",
    "kernel_code": r"Kernel mul_relu_\w+:\n(.|\n)*define void @mul_relu\(",
    "inductor_metrics": r"num_bytes_accessed: 160 ",
    "overlap": r"order of kernels: \[0\]",
    "cudagraph_static_inputs": r"static input idxs: \[",
    "caching": r"\[0/0_1\] a graph is not kept\n.*to be shown",
    "trace_shape_events": r"record create_symbol\(6, '.*shape.*|record create_symbol\(3, 'n'\) = s0",
}


def test_every_artifact_tells_what_happens(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path, TORCH_LOGS=",".join(EXPECTED), RUSHLIGHT_GRAPH_CACHE="1")
    lines = lines_of(done.stderr)
    for artifact, pattern in EXPECTED.items():
        assert re.search(pattern, told(artifact, lines)), f"{artifact}: {told(artifact, lines)[:2000]}"
    assert {one["artifact"] for one in lines} == EXPECTED.keys()      # nothing but what was asked for


def test_a_later_process_tells_the_same_though_graphs_are_on_disk(tmp_path: Path) -> None:
    assert not run(PROGRAM, tmp_path, RUSHLIGHT_GRAPH_CACHE="1").stderr
    lines = lines_of(run(PROGRAM, tmp_path, TORCH_LOGS="graph_code,output_code", RUSHLIGHT_GRAPH_CACHE="1").stderr)
    assert len(told("graph_code", lines).splitlines()) > 10 and "define void" in told("output_code", lines)


def test_levels_turn_artifacts_on_but_for_those_that_only_names_do(tmp_path: Path) -> None:
    lines = lines_of(run(PROGRAM, tmp_path, TORCH_LOGS="+dynamo,aot,inductor").stderr)
    found = {one["artifact"] for one in lines}
    assert {"guards", "recompiles", "graph_breaks", "graph", "graph_code", "trace_source", "aot_graphs"} <= found
    assert not found & {"bytecode", "verbose_guards", "output_code", "kernel_code", "post_grad_graphs", "schedule"}
    plain = [f"{one['level']} [{one['frame']}] {one['text']}" for one in lines if one["artifact"] is None]
    said = "\n".join(plain)
    for pattern in (r"V \[0/0\] torchdynamo start compiling f .*program.py:10, stack",
                    r"I \[0/0\] Step 1: torchdynamo start tracing f .*program.py:10",
                    r"I \[0/0_1\] Step 2: calling compiler function inductor",
                    r"I \[0/0_1\] Step 3: torchinductor compiling FORWARDS graph 0",
                    r"I \[0/0\] Step 3: torchinductor compiling BACKWARDS graph 0",
                    r"I \[\d/1\] create_symbol s0 = 3 for n \[2, int_oo\]",
                    r"I \[None\] TorchDynamo attempted to trace the following frames: \[\n.*\* f .*program.py:10",
                    r"I \[None\] TorchDynamo compilation metrics:\n(.*\n)*.*_compile.compile_inner +\d"):
        assert re.search(pattern, said), pattern


def test_programs_that_set_levels_themselves_hear_as_much(tmp_path: Path) -> None:
    done = run("import logging\nlogging.getLogger('torch._dynamo').setLevel(logging.INFO)\n" + textwrap.dedent(EAGER),
               tmp_path)
    texts = [one["text"] for one in lines_of(done.stderr)]
    assert any(text.startswith("Step 1: torchdynamo start tracing f") for text in texts)
    assert not any("GUARDS" in text for text in texts)


def test_what_has_no_part_here_says_so_once(tmp_path: Path) -> None:
    done = run("""
        import rushlight as torch
        for _ in range(2):
            torch._logging.set_logs(ddp_graphs=True, hierarchical_compile=True, modules={"cache": 20})
    """, tmp_path)
    lines = lines_of(done.stderr)
    assert [one["text"].partition(":")[0] for one in lines] == ["cache", "ddp_graphs", "hierarchical_compile"]
    assert all("nothing is told of this here" in one["text"] for one in lines)


def test_other_logs(tmp_path: Path) -> None:
    lines = lines_of(run("""
        import rushlight as torch
        torch._logging.set_logs(autograd=10, export=20)
        (torch.ones(3, requires_grad=True).exp() * 2).sum().backward()
        torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
        torch._logging.set_logs()
        torch.ones(3, requires_grad=True).sum().backward()
    """, tmp_path).stderr)
    nodes = [one["text"].split()[1] for one in lines if one["text"].startswith("Executing")]
    assert nodes == ["SumBackward0", "MulBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"]
    assert any(one["text"].startswith("exported Linear: ") for one in lines)


# --- where it goes ----------------------------------------------------------------------------------------------------


def test_files_and_formats(tmp_path: Path) -> None:
    done = run(EAGER, tmp_path, TORCH_LOGS="recompiles", TORCH_LOGS_OUT=str(tmp_path / "log.txt"))
    assert done.stderr == (tmp_path / "log.txt").read_text() and "Recompiling" in done.stderr
    short = run(EAGER, tmp_path, TORCH_LOGS="recompiles", TORCH_LOGS_FORMAT="short").stderr
    assert short.startswith("DEBUG:torch._dynamo.guards.__recompiles:Recompiling function ")
    own = run(EAGER, tmp_path, TORCH_LOGS="recompiles", TORCH_LOGS_FORMAT="%(levelname)s %(lineno)d").stderr
    assert re.fullmatch(r"(DEBUG \d+\n)+", own)
    some = run(EAGER, tmp_path, TORCH_LOGS="guards", TORCH_LOGS_TRACE_ID_FILTER="[0/0_1], [1/0]").stderr
    assert {one["frame"] for one in lines_of("\n".join(filter(None, some.splitlines())))} == {"0/0_1"}


def records(folder: Path) -> list[tuple[dict[str, Any], str]]:
    """What a reader of traces (tlparse) finds: metadata and payloads, whose digests must be right."""
    (path,) = folder.glob("dedicated_log_torch_trace_*.log")
    found: list[tuple[dict[str, Any], list[str]]] = []
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            found[-1][1].append(line[1:])
        else:
            match = LINE.fullmatch(line)
            assert match is not None, line
            found.append((json.loads(match["text"]), []))
    for metadata, payload in found:
        digest = hashlib.md5("\n".join(payload).encode(), usedforsecurity=False).hexdigest()
        assert metadata.get("has_payload") == (digest if payload else None), metadata
    return [(metadata, "\n".join(payload)) for metadata, payload in found]


def test_the_trace_is_one_json_record_a_line(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    assert not done.stderr
    found = records(tmp_path / "trace")
    files = dict(metadata["str"][::-1] for metadata, _ in found if "str" in metadata)
    by_name: dict[str, list[Any]] = {}
    for metadata, payload in found:
        name = next(iter(metadata))
        by_name.setdefault(metadata["artifact"]["name"] if name == "artifact" else name, []).append((metadata, payload))
    first = by_name["dynamo_start"][0][0]
    (frame,) = first["dynamo_start"]["stack"]
    assert (first["frame_id"], first["frame_compile_id"], first["attempt"]) == (0, 0, 0)
    assert frame["name"] == "f" and frame["line"] == 10 and files[frame["filename"]].endswith("program.py")
    graph, code = by_name["dynamo_output_graph"][0]
    assert graph["dynamo_output_graph"]["sizes"]["relu"] == [4, 5] and graph["attempt"] == 1 and "relu" in code
    assert json.loads(by_name["torch_version"][0][1])["pytorch_version"] == rushlight.__version__
    assert "n == 2, got 3" in json.loads(by_name["recompile_reasons"][0][1])[0]
    assert "Graph break in user code" in by_name["dynamo_graph_break_reason"][0][1]
    assert "define void" in by_name["inductor_output_code"][0][1]
    assert "TENSOR: x" in by_name["dynamo_cpp_guards_str"][0][1]
    assert {"aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "inductor_post_grad_graph",
            "inductor_pre_grad_graph", "dynamo_side_effects", "create_symbol"} <= by_name.keys()
    measured = by_name["compilation_metrics"][0][0]["compilation_metrics"]
    assert measured["compile_id"] == "0/0" and measured["graph_op_count"] == 2 and measured["guard_count"] > 1


def test_a_folder_for_every_graph(tmp_path: Path) -> None:
    done = run(PROGRAM, tmp_path, TORCH_COMPILE_DEBUG="1")
    assert not done.stderr
    (folder,) = (tmp_path / "torch_compile_debug").glob("run_*")
    graphs = sorted(path.name for path in (folder / "torchinductor").iterdir())
    assert graphs[:2] == ["model__0_backward_0", "model__0_forward_0"] and len(graphs) > 3
    for name in graphs:
        inside = {path.name for path in (folder / "torchinductor" / name).iterdir()}
        assert inside == {"fx_graph_readable.py", "fx_graph_transformed.py", "ir_pre_fusion.txt", "ir_post_fusion.txt",
                          "output_code.py"}
    text = (folder / "torchinductor" / "model__0_forward_0" / "output_code.py").read_text()
    compile(text, "output_code.py", "exec")
    assert "define void @mul_relu(" in text
    assert records(tmp_path / "torch_compile_debug" / "tlparse")


# --- names that libraries use -----------------------------------------------------------------------------------------


def test_nothing_is_loaded_or_told_while_nobody_asks(tmp_path: Path) -> None:
    done = run(EAGER + """
    import sys
    loaded = [name for name in sys.modules if name.startswith("rushlight._logging")]
    print(loaded, torch._dynamo.utils.counters["frames"])
    """, tmp_path)
    assert done.stdout.startswith("[] Counter({'total': ") and not done.stderr


def test_texts_are_made_when_they_are_shown(tmp_path: Path) -> None:
    done = run("""
        import logging, warnings
        import rushlight as torch
        from rushlight._logging import (LazyString, getArtifactLogger, hide_warnings, set_logs, trace_structured,
                                        warning_once)
        from rushlight._logging._internal import register_artifact, trace_log

        log = getArtifactLogger("some.place", "guards")
        made = []
        text = LazyString(lambda x: made.append(x) or f"text {x}", 3)
        log.debug("%s", text)
        assert not made
        set_logs(guards=True)
        logging.getLogger("some").addHandler(logging.StreamHandler())
        log.debug("%s", text)
        assert made == [3]
        for _ in range(3):
            warning_once(logging.getLogger("torch"), "once %s", "only")
        register_artifact("ours", "of a library", log_format="<%(message)s>")
        set_logs(modules={"ours": True})
        getArtifactLogger("torch.place", "ours").debug("told")
        with hide_warnings(lambda message, *rest: "hidden" not in str(message)):
            warnings.warn("hidden")
        trace_structured("x", lambda: made.append("never"))
        assert made == [3]
        for bad in ({"name": "rank"}, {"name": "x", "metadata_fn": {}}, {"name": "x", "payload_fn": ""}):
            try:
                trace_structured(**bad)
            except AssertionError:
                continue
            raise SystemExit("expected a refusal")
        try:
            getArtifactLogger("some.place", "nosuch")
        except ValueError as error:
            assert "not registered" in str(error)

        class Held(logging.Handler):
            def emit(self, record):
                made.append(record)

        trace_log.addHandler(Held())
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert [next(iter(r.metadata)) for r in made[1:]] [:2] == ["str", "dynamo_start"]
    """, tmp_path)
    assert not done.returncode, done.stderr
    assert done.stderr.splitlines()[0] == "text 3"
    assert sum("once only" in line for line in done.stderr.splitlines()) == 1
    assert "<told>" in done.stderr.splitlines() and "hidden" not in done.stderr


def test_what_compilations_took() -> None:
    from rushlight._dynamo.utils import compilation_time_metrics, compile_times

    before = {name: list(taken) for name, taken in compilation_time_metrics.items()}
    compilation_time_metrics.clear()
    run_it = rushlight.compile(lambda x: x + 1, backend="eager")
    run_it(rushlight.ones(2))
    run_it(rushlight.ones(2, 2))
    names, rows = compile_times("csv")
    assert {name: len(row.split(", ")) for name, row in zip(names, rows, strict=True)} == {
        "_compile.compile_inner": 2, "OutputGraph.call_user_compiler": 2}
    _, (added,) = zip(*[row for row in zip(*compile_times("csv", aggregate=True), strict=True)
                        if row[0] == "_compile.compile_inner"], strict=True)
    assert float(added) == pytest.approx(sum(compilation_time_metrics["_compile.compile_inner"]), abs=1e-5)
    assert re.search(r"_compile.compile_inner +\d+\.\d{4}, \d+\.\d{4}", compile_times())
    compilation_time_metrics.update(before)


def test_compiled_autograd_tells_its_graphs(tmp_path: Path) -> None:
    lines = lines_of(run("""
        import rushlight as torch
        weight = torch.ones(3, requires_grad=True)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            (weight.exp() * 2).sum().backward()
    """, tmp_path, TORCH_LOGS="compiled_autograd,compiled_autograd_verbose").stderr)
    assert re.search(r"\[!0\]  ===== Compiled autograd graph =====", told("compiled_autograd", lines))
    assert "SumBackward0, MulBackward0, ExpBackward0" in told("compiled_autograd_verbose", lines)


def test_what_measuring_found(tmp_path: Path) -> None:
    lines = lines_of(run("""
        import rushlight as torch
        conv = torch.nn.Conv2d(8, 8, 3).eval()
        with torch.no_grad():
            torch.compile(conv, mode="max-autotune")(torch.ones(1, 8, 12, 12))
    """, tmp_path, TORCH_LOGS="benchmarking,autotuning,cudagraphs,perf_hints", RUSHLIGHT_CACHE=str(tmp_path)).stderr)
    assert re.search(r"convolution, .*: \d+ ns", told("benchmarking", lines))
    assert re.search(r"convolution of .* is the fastest", told("autotuning", lines))
    assert "skipping cudagraphs due to cpu device" in told("cudagraphs", lines)
    assert "skipping cudagraphs due to cpu device" in told("perf_hints", lines)
