"""Stacks as programs read them: traces with frames, `stack` of events, collapsed stacks, paths of modules.

The tree of a program's frames, modules and labels is compared with PyTorch's for the same file: `stack_answers.txt`
holds PyTorch 2.13's, made again and compared too where PyTorch is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import rushlight

try:
    import torch
except ImportError:
    torch = None

FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "stack_answers.txt"


def program() -> Any:
    spec = importlib.util.spec_from_file_location("stack_program", FOLDER / "stack_program.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def profiled(torch: Any, **options: Any) -> Any:
    """A profile of the second run of the program."""
    profiler = importlib.import_module(torch.__name__ + ".profiler")
    code = program()
    net, function = code.make(torch), code.scale(torch)
    code.main(torch, net, function)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], **options) as found:
        code.main(torch, net, function)
    return found


def events_of(profile: Any, folder: Path) -> list[dict[str, Any]]:
    path = folder / "trace.json"
    profile.export_chrome_trace(str(path))
    return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]


def tree_of(events: list[dict[str, Any]]) -> list[str]:
    """The program's frames, modules and labels, each line as far in as there are such around it."""
    kinds = ("python_function", "cpu_op", "user_annotation")
    events = [event for event in events if event["cat"] in kinds]
    events.sort(key=lambda event: (event["tid"], event["ts"], -event["dur"]))
    lines, around = [], []
    for event in events:
        end = event["ts"] + event["dur"]
        while around and (around[-1][0] != event["tid"] or end > around[-1][1] + 1e-3):
            around.pop()
        name = re.sub(r"^.*stack_program\.py\(", "(", event["name"])
        is_frame = event["cat"] == "python_function" and name.startswith(("(", "nn.Module: "))
        is_shown = (is_frame and "<listcomp>" not in name) or event["cat"] == "user_annotation"
        if is_shown:
            lines.append("  " * sum(shown for _, _, shown in around) + name)
        around.append((event["tid"], end, is_shown))
    return lines


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[dict[str, Any]]]:
    verbose = rushlight._C._profiler._ExperimentalConfig(verbose=True)
    profile = profiled(rushlight, with_stack=True, with_modules=True, experimental_config=verbose)
    return profile, events_of(profile, tmp_path_factory.mktemp("ours"))


def test_program_has_pytorchs_tree(stacked: Any) -> None:
    assert tree_of(stacked[1]) == ANSWERS.read_text().splitlines()


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_answers_are_pytorchs(tmp_path: Path) -> None:
    assert tree_of(events_of(profiled(torch, with_stack=True), tmp_path)) == ANSWERS.read_text().splitlines()


def test_numbers_of_frames_make_the_tree(stacked: Any) -> None:
    frames = [event for event in stacked[1] if event["cat"] == "python_function"]
    by_number = {event["args"]["Python id"]: event for event in frames}
    assert sorted(by_number) == list(range(1, len(frames) + 1))
    for event in frames:
        above = event["args"]["Python parent id"]
        if above is None:
            continue
        around = by_number[above]
        assert above < event["args"]["Python id"] and around["tid"] == event["tid"]
        assert around["ts"] <= event["ts"] + 1e-3
        assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 2e-3
    assert [event for event in frames if event["args"]["Python parent id"] is None]
    modules = {event["name"]: event["args"].get("Python module id") for event in frames}
    assert modules["nn.Module: Block_1"] == 1 and modules["nn.Module: Net_0"] == 0
    assert all(number is None for name, number in modules.items() if not name.startswith("nn.Module"))


def test_calls_say_which_module_they_are_of(stacked: Any, tmp_path: Path) -> None:
    for events in (stacked[1], events_of(profiled(rushlight, with_modules=True), tmp_path)):
        paths = {event["args"].get("Module Hierarchy") for event in events if event["name"] == "aten::linear"}
        assert paths == {"TOP(Net)::forward.blocks.0(Block)::forward.lift(Linear)::forward.",
                         "TOP(Net)::forward.blocks.1(Block)::forward.lift(Linear)::forward.",
                         "TOP(Net)::forward.head(Sequential)::forward.0(Linear)::forward."}
        outside = [event for event in events if event["name"] == "aten::full"]
        assert outside and not [event for event in outside if "Module Hierarchy" in event["args"]]
    assert not [event for event in events if event["cat"] == "python_function"]      # modules alone show no frames


def test_events_have_stacks(stacked: Any) -> None:
    events = stacked[0].events()
    sigmoid = next(event for event in events if event.name == "aten::sigmoid")
    shown = [re.sub(r"^.*stack_program\.py\(\d+\): ", "", entry) for entry in sigmoid.stack]
    assert shown[:6] == ["gate", "forward", "nn.Module: Block_0", "forward", "nn.Module: Net_0", "train"]
    node = next(event for event in events if event.name == "SigmoidBackward0")
    assert node.stack[0].endswith(": gate")      # where its forward call stood
    engine = next(event for event in events if event.name.endswith("evaluate_function: SigmoidBackward0"))
    assert engine.stack[0].startswith("<built-in method backward of")
    assert [event for event in events if event.is_python_function and event.name.endswith(": factorial")]


def test_averages_by_stack(stacked: Any) -> None:
    groups = stacked[0].key_averages(group_by_stack_n=1)
    found = [group for group in groups if group.key == "aten::ones"]
    places = {group.stack[0].rpartition(": ")[2] for group in found}
    assert {"factorial", "raises", "later", "main"} <= places
    assert sum(group.count for group in found) == sum(event.name == "aten::ones" for event in stacked[0].events())
    assert "Source Location" in groups.table()
    assert "Source Location" not in stacked[0].key_averages().table()


def test_collapsed_stacks(stacked: Any, tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    stacked[0].export_stacks(str(path), "self_cpu_time_total")
    lines = path.read_text().splitlines()
    assert lines
    for line in lines:
        stack, _, weight = line.rpartition(" ")
        assert int(weight) > 0 and stack and " " not in stack and "\t" not in stack
    assert [line for line in lines if ":_train;nn.Module:_Net_0;" in line]
    stacked[0].export_stacks(str(path), "self_cuda_time_total")
    assert path.read_text() == ""      # nothing ran there
    with pytest.raises(ValueError, match="metric should be one of"):
        stacked[0].export_stacks(str(path), "cpu")


def test_stacks_need_to_be_recorded(tmp_path: Path) -> None:
    profile = profiled(rushlight)
    with pytest.raises(AssertionError, match="with_stack"):
        profile.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    assert not (tmp_path / "stacks.txt").exists()
