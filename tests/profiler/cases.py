"""Questions to a profiler whose answers do not depend on time: asked of PyTorch, stored, and asked of Rushlight.

`python -m tests.profiler.cases` (with PyTorch 2.13) writes answers.json anew. Each case is a function from a module
that is `torch` or `rushlight` to something JSON can hold.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers.json")
CASES: dict[str, Callable[[Any], Any]] = {}


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[function.__name__] = function
    return function


def _util(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.autograd.profiler_util")


def _prof(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.profiler")


def made_events(torch: Any, seed: int, count: int, device: bool = False, stacks: bool = False, shapes: bool = False,
                memory: bool = False, flops: bool = False, overloads: bool = False) -> Any:
    """Events made by hand, nested at random, the same for both."""
    util, draw = _util(torch), random.Random(seed)
    names = ["aten::add", "aten::linear", "autograd::engine::evaluate_function: AddmmBackward0", "label", "aten::mul",
             "a_name_that_is_so_long_that_no_column_of_the_table_can_hold_all_of_it_at_once", "ProfilerStep*"]
    device_type = importlib.import_module(f"{torch.__name__}.autograd").DeviceType
    events = []

    def make(start: float, end: float, depth: int) -> None:
        if len(events) >= count:
            return
        name = draw.choice(names)
        event = util.FunctionEvent(
            id=len(events), name=name, thread=draw.choice([1, 2]) if depth == 0 else 1, start_us=start, end_us=end,
            overload_name=draw.choice(["", "Tensor", "out"]) if overloads else "", fwd_thread=0,
            input_shapes=[[draw.randint(1, 4)] * draw.randint(0, 3) for _ in range(draw.randint(0, 3))]
            if shapes else [],
            stack=[f"file{i}.py({draw.randint(1, 99)}): function" * draw.choice([1, 3])
                   for i in range(draw.randint(0, 4))] if stacks else [],
            scope=draw.choice([0, 7]), use_device="cuda" if device else None,
            cpu_memory_usage=draw.choice([0, 12, -5000, 3 << 20, 5 << 30]) if memory else 0,
            device_memory_usage=draw.choice([0, 1 << 12]) if memory and device else 0,
            sequence_nr=draw.randint(-1, 5), flops=draw.choice([0, 0, 1200, 5 * 10**9]) if flops else 0,
            is_user_annotation=name in ("label", "ProfilerStep*"), trace_name=name,
        )
        if device and draw.random() < 0.5:
            event.append_kernel("kernel", 0, draw.randint(1, 50))
        events.append(event)
        at = start
        while depth < 4 and draw.random() < 0.7 and end - at > 8:
            length = draw.uniform(1, (end - at) / 2)
            make(at + 0.5, at + 0.5 + length, depth + 1)
            at += length + 1
        return

    at = 0.0
    while len(events) < count:
        length = draw.choice([900.0, 40000.0, 3e6])
        make(at, at + length, 0)
        at += length + 10
    if device:
        for i in range(4):
            events.append(util.FunctionEvent(
                id=1000 + i, name="volta_sgemm", thread=0, start_us=at + i * 20, end_us=at + i * 20 + 11,
                device_type=device_type.CUDA, use_device="cuda", input_shapes=[], stack=[], overload_name="", flops=0,
            ))
    found = util.EventList(events, use_device="cuda" if device else None, profile_memory=memory, with_flops=flops)
    found._build_tree()
    return found


KINDS = {
    "plain": {}, "shapes": {"shapes": True}, "memory": {"memory": True}, "flops": {"flops": True},
    "device": {"device": True, "memory": True}, "stacks": {"stacks": True}, "overloads": {"overloads": True},
    "all": {"shapes": True, "memory": True, "device": True, "overloads": True, "flops": True},
}


def _digest(table: str) -> list[str]:
    """A table, kept small: its headings, and a number that any other character would change."""
    lines = table.splitlines()
    headings = next(line for line in lines if "Name" in line)
    return [" ".join(headings.split()), hashlib.sha256(table.encode()).hexdigest()]


@case
def tables_of_averages(torch: Any) -> Any:
    options: list[dict[str, Any]] = [
        {}, {"sort_by": "cpu_time_total", "row_limit": 3}, {"sort_by": "self_cpu_time_total", "header": "heading"},
        {"sort_by": "count", "max_name_column_width": 20}, {"top_level_events_only": True, "row_limit": -1},
        {"max_name_column_width": None, "time_unit": "us"}, {"sort_by": "cpu_memory_usage", "time_unit": "s"},
        {"max_shapes_column_width": 10, "max_src_column_width": 12, "time_unit": "ms"},
        {"sort_by": "self_cuda_time_total"}, {"row_limit": 0},
    ]
    found = {}
    for name, kind in KINDS.items():
        events = made_events(torch, 7, 60, **kind)
        averages = events.key_averages(
            group_by_input_shapes="shapes" in kind, group_by_stack_n=2 if "stacks" in kind else 0,
            group_by_overload_name="overloads" in kind,
        )
        found[name] = [_digest(averages.table(**option)) for option in options]
    return found


@case
def tables_of_events(torch: Any) -> Any:
    return [made_events(torch, seed, 12, **kind).table(row_limit=9).splitlines()[:5]
            for seed, kind in enumerate(KINDS.values())]


@case
def averages(torch: Any) -> Any:
    found = []
    for seed, kind in enumerate(KINDS.values()):
        events = made_events(torch, seed, 80, **kind)
        for options in ({}, {"group_by_input_shapes": True}, {"group_by_stack_n": 1}, {"group_by_overload_name": True}):
            found.append([
                [event.key, event.count, round(event.cpu_time_total, 6), round(event.self_cpu_time_total, 6),
                 round(event.device_time_total, 6), round(event.self_device_time_total, 6), event.cpu_memory_usage,
                 event.self_cpu_memory_usage, event.flops, str(event.input_shapes), event.overload_name, event.stack,
                 event.cpu_parent is None, len(event.cpu_children), round(event.cpu_time, 6), event.cpu_time_str]
                for event in events.key_averages(**options)
            ])
        total = events.total_average()
        found.append([total.key, total.count, round(total.self_cpu_time_total, 6), total.cpu_memory_usage])
    return found


@case
def nesting(torch: Any) -> Any:
    found = []
    for seed in range(6):
        events = made_events(torch, seed, 50)
        found.append([[event.id, event.name, None if event.cpu_parent is None else event.cpu_parent.id,
                       [child.id for child in event.cpu_children]] for event in events])
    return found


@case
def shown(torch: Any) -> Any:
    events = made_events(torch, 3, 6, shapes=True, memory=True, device=True)
    return [repr(events[0]), repr(events.key_averages()[0]), str(events).splitlines()[:4]]


@case
def units(torch: Any) -> Any:
    util = _util(torch)
    times = [0, 0.5, 999.9994, 1000, 12345.678, 999999.9, 1e6, 7.5e9]
    sizes = [0, 1, 1023, 1024, 5000, -5000, 1 << 20, 3 << 30, -(1 << 30), 1 << 40]
    return [[util._format_time(time) for time in times], [util._format_memory(size) for size in sizes],
            [util._format_time_share(*pair) for pair in ((1, 3), (0, 0), (5, 5))]]


@case
def schedules(torch: Any) -> Any:
    prof, draw, found = _prof(torch), random.Random(5), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            given = {"wait": draw.randint(0, 3), "warmup": draw.randint(0, 3), "active": draw.randint(1, 4),
                     "repeat": draw.randint(0, 2), "skip_first": draw.randint(0, 4),
                     "skip_first_wait": draw.randint(0, 1)}
            action = prof.schedule(**given)
            found.append([given, "".join(str(action(step).value) for step in range(30))])
    return found


@case
def cycles(torch: Any) -> Any:
    """What is handed over when: the steps of each recording, and warnings."""
    prof, found = _prof(torch), []
    action = prof.ProfilerAction
    schedules = {
        "plain": None,
        "two": prof.schedule(wait=1, warmup=1, active=2, repeat=2),
        "skip": prof.schedule(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1),
        "wrong": lambda step: [action.RECORD, action.NONE, action.WARMUP, action.NONE][step % 4],
        "saves": lambda step: action.RECORD_AND_SAVE,
        "ends in warmup": prof.schedule(wait=0, warmup=9, active=1),
    }
    for name, schedule in schedules.items():
        for accumulate in (False, True):
            handed: list[Any] = []

            def ready(p: Any, handed: list[Any] = handed) -> None:
                names = [event.trace_name for event in p.events() if "Step" in event.name or event.name == "work"]
                handed.append([p.step_num, sorted(names)])

            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                with prof.profile(activities=[prof.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=ready,
                                  acc_events=accumulate) as p:
                    for _ in range(8):
                        with prof.record_function("work"):
                            torch.ones(2)
                        p.step()
            texts = [str(w.message) for w in seen if "Incorrect schedule" in str(w.message)]
            found.append([name, accumulate, handed, texts, p.step_num])
    return found


def _outcome(function: Callable[[], Any]) -> str:
    try:
        function()
    except BaseException as error:
        return type(error).__name__
    return "fine"


@case
def errors(torch: Any) -> Any:
    prof, autograd = _prof(torch), importlib.import_module(f"{torch.__name__}.autograd.profiler")
    config = importlib.import_module(f"{torch.__name__}")._C._profiler._ExperimentalConfig
    cpu = prof.ProfilerActivity.CPU

    def run(**options: Any) -> Any:
        with prof.profile(**options) as p:
            torch.ones(2)
        return p

    def enter_twice() -> None:
        p = autograd.profile()
        with p, p:
            pass

    done = run(activities=[cpu])
    stacked = run(activities=[cpu], with_stack=True)
    asked: dict[str, Callable[[], Any]] = {
        "no active step": lambda: prof.schedule(wait=1, warmup=1, active=0),
        "negative wait": lambda: prof.schedule(wait=-1, warmup=1, active=1),
        "negative warmup": lambda: prof.schedule(wait=1, warmup=-1, active=1),
        "negative repeat": lambda: prof.schedule(wait=1, warmup=1, active=1, repeat=-1),
        "negative skip": lambda: prof.schedule(wait=1, warmup=1, active=1, skip_first=-1),
        "missing": lambda: prof.schedule(wait=1),
        "positional": lambda: prof.schedule(1, 1, 1),
        "negative step": lambda: prof.schedule(wait=1, warmup=1, active=1)(-1),
        "activities of text": lambda: prof.profile(activities=["cpu"]),
        "one of text": lambda: prof.profile(activities=["cpu", cpu]),
        "no activities": lambda: prof.profile(activities=[]),
        "activity twice": lambda: prof.profile(activities=[cpu, cpu]),
        "unknown part": lambda: run(activities=[{cpu: ["nonsense"]}]),
        "positional activities": lambda: prof.profile([cpu]),
        "unknown argument": lambda: prof.profile(foo=1),
        "schedule stops the device": lambda: prof.profile(schedule=lambda step: prof.ProfilerAction.DEVICE_STOPPED),
        "events before": lambda: prof.profile().events(),
        "averages before": lambda: prof.profile().key_averages(),
        "trace before": lambda: prof.profile().export_chrome_trace("unused.json"),
        "stacks before": lambda: prof.profile().export_stacks("unused.txt"),
        "stop before": lambda: prof.profile().stop(),
        "toggle before": lambda: prof.profile().toggle_collection_dynamic(True, [cpu]),
        "timeline before": lambda: prof.profile().export_memory_timeline("unused.json"),
        "metadata": lambda: prof.profile().add_metadata("key", 1),
        "sort_by": lambda: done.key_averages().table(sort_by="nope"),
        "sort_by of a device": lambda: done.key_averages().table(sort_by="cuda_time_total"),
        "stacks without": lambda: done.export_stacks("unused.txt"),
        "timeline without": lambda: done.export_memory_timeline("unused.json"),
        "metric": lambda: stacked.export_stacks("unused.txt", "nope"),
        "grouping": lambda: done.key_averages(group_by_input_shapes=True),
        "unknown option": lambda: config(foo=1),
        "option of another type": lambda: config(verbose="yes"),
        "trace only": lambda: run(activities=[cpu], experimental_config=config(trace_only=True)).events(),
        "a device alone": lambda: autograd.profile(use_cpu=False),
        "nothing to watch": lambda: autograd.profile(use_cpu=False, use_kineto=True),
        "mtia": lambda: autograd.profile(use_device="mtia"),
        "another device": lambda: autograd.profile(use_device="foo"),
        "timeout": lambda: autograd.profile(post_processing_timeout_s=-1),
        "entered twice": enter_twice,
        "ranges without a device": lambda: autograd.emit_nvtx().__enter__(),
        "no such file": lambda: autograd.load_nvprof("/nonexistent/file"),
        "seen twice": lambda: [autograd.EnforceUnique().see(1)] + [u.see(1) for u in [autograd.EnforceUnique()] * 2],
        "tree not built": lambda: autograd.EventList([]).key_averages(),
        "handler": lambda: prof.tensorboard_trace_handler("/proc/nonsense")(done),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: _outcome(function) for name, function in asked.items()}


@case
def flops(torch: Any) -> Any:
    """Operations counted for a program, op by op: all that is counted, added up."""
    prof, functional = _prof(torch), torch.nn.functional
    a, b, c = torch.ones(3, 4), torch.ones(4, 5), torch.ones(2, 3, 4)
    image, weight = torch.ones(2, 4, 8, 8), torch.ones(6, 4, 3, 3)
    grouped, trained = torch.ones(6, 2, 3, 3), torch.ones(6, 4, requires_grad=True)
    asked: dict[str, Callable[[], Any]] = {
        "matmul": lambda: a @ b, "mm": lambda: torch.mm(a, b), "addmm": lambda: torch.addmm(torch.ones(3, 5), a, b),
        "bmm": lambda: torch.bmm(c, torch.ones(2, 4, 5)), "baddbmm": lambda: torch.baddbmm(
            torch.ones(2, 3, 5), c, torch.ones(2, 4, 5)), "stacked": lambda: torch.matmul(c, torch.ones(2, 4, 5)),
        "stack by matrix": lambda: torch.matmul(c, b), "by a vector": lambda: torch.mv(a, torch.ones(4)),
        "mul": lambda: a * a, "first operand": lambda: c * a, "second operand": lambda: a * c, "add": lambda: a + 1,
        "in place": lambda: a.clone().add_(a), "sub": lambda: a - a,
        "conv2d": lambda: functional.conv2d(image, weight), "conv2d of groups": lambda: functional.conv2d(
            image, grouped, stride=2, padding=1, groups=2, dilation=2),
        "conv2d padded by name": lambda: functional.conv2d(image, weight, padding="same"),
        "conv2d padded": lambda: functional.conv2d(image, weight, padding=(1, 2)),
        "one image": lambda: functional.conv2d(image[0], weight), "conv1d": lambda: functional.conv1d(
            torch.ones(2, 4, 8), torch.ones(6, 4, 3)),
        "linear": lambda: functional.linear(c, torch.ones(6, 4), torch.ones(6)),
        "out": lambda: torch.mm(a, b, out=torch.empty(3, 5)),
        "trained": lambda: functional.linear(a, trained).sum().backward(),
    }
    found = {}
    for name, function in asked.items():
        with prof.profile(activities=[prof.ProfilerActivity.CPU], with_flops=True) as p:
            function()
        found[name] = sum(event.flops for event in p.events())
    return found


@case
def step_counts(torch: Any) -> Any:
    tracker = type("Tracker", (importlib.import_module(f"{torch.__name__}.autograd.profiler").KinetoStepTracker,),
                   {"_current_step": 0, "_step_dict": {}})
    found: list[Any] = [tracker.current_step()]
    for who in ("a", "b", "a", "a", "c", "b"):
        found.append([tracker.increment_step(who), dict(tracker._step_dict)])
    return [*found, tracker.erase_step_count("a"), tracker.erase_step_count("nobody")]


@case
def traces(torch: Any) -> Any:
    """Of traces: which entries each kind of event has, what is at the top, how arrows and metadata stand."""
    import tempfile

    prof, found = _prof(torch), {}
    model = torch.nn.Linear(4, 3)
    x = torch.ones(2, 4)
    options = {"plain": {}, "shapes": {"record_shapes": True}, "memory": {"profile_memory": True},
               "stacks": {"with_stack": True}}
    for name, given in options.items():
        cpu = [prof.ProfilerActivity.CPU]
        with tempfile.TemporaryDirectory() as folder, prof.profile(activities=cpu, **given) as p:
            p.add_metadata("text", "value")
            p.add_metadata_json("numbers", "[1, 2]")
            with prof.record_function("label"):
                model(x).sum().backward()
            p.stop()
            p.export_chrome_trace(f"{folder}/trace.json")
            text = Path(f"{folder}/trace.json").read_text()
            p.current_action = prof.ProfilerAction.NONE
        trace = json.loads(text)
        kinds: dict[str, set[str]] = {}
        for event in trace["traceEvents"]:
            kind = f"{event['ph']} {event.get('cat', event['name'] if event['ph'] == 'M' else '')}"
            kinds.setdefault(kind, set()).update([*event, *(f"args.{key}" for key in event.get("args", ()))])
        arrows = [event["ph"] for event in trace["traceEvents"] if event.get("cat") == "fwdbwd"]
        entries = {kind: sorted(entries - {"args.finished"}) for kind, entries in sorted(kinds.items())}
        found[name] = [sorted(trace), entries, bool(arrows), arrows.count("s") == arrows.count("f"), trace["text"],
                       trace["numbers"], re.sub(r".*/", "", trace["traceName"])]
    return found


def main() -> None:
    import torch

    answers = {name: json.loads(json.dumps(function(torch))) for name, function in CASES.items()}
    ANSWERS.write_text(json.dumps(answers, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
