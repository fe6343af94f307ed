"""PyTorch's op records, called in both libraries under their profilers: the same events at the top, with the same
names, sizes, types and strides. `records_differ.txt` lists the records that take other steps here."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

import rushlight as rl  # noqa: E402
from tests.parity.checks import NotApplicable, _copied, main_dtype, spread  # noqa: E402
from tests.parity.convert import Missing, function, thing  # noqa: E402
from tests.parity.records import RECORDS, seed_cpu  # noqa: E402
from tests.profiler.calls import FIELDS  # noqa: E402
from tests.profiler.recorded import SHAPES, record, top  # noqa: E402

PARTS, QUICK = 16, 4
DIFFERS = {line.partition(" ")[0]: line.partition(" ")[2].strip()
           for line in (Path(__file__).parent / "records_differ.txt").read_text().splitlines()
           if line and not line.startswith("#")}


@cache
def calls(part):
    """(title, function, sample) of every PARTS-th record."""
    found = []
    for title in sorted(RECORDS)[part::PARTS]:
        try:
            dtype = main_dtype(RECORDS[title])
        except NotApplicable:
            continue
        seed_cpu(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in spread(RECORDS[title].sample_inputs("cpu", dtype, requires_grad=False), 1):
                found.append((title, RECORDS[title].op, sample))
    return found


def shown_by_torch(part):
    """The events at the top of each call, in one profile."""
    from torch.profiler import ProfilerActivity, profile, record_function

    ran, copies = set(), [_copied(sample) for *_, sample in calls(part)]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (title, call, _), fresh in zip(calls(part), copies, strict=True):
            seed_cpu(3)
            with record_function(f"record {title}"), contextlib.suppress(AssertionError, RuntimeError):
                call(fresh.input, *fresh.args, **fresh.kwargs)
                ran.add(title)
    with tempfile.TemporaryDirectory() as folder:
        watched.export_chrome_trace(os.path.join(folder, "trace.json"))
        with open(os.path.join(folder, "trace.json")) as file:
            events = [e for e in json.load(file)["traceEvents"]
                      if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    shown, label, end, last = {}, None, -1.0, -1.0
    for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        if e["name"].startswith("record "):
            label, end, last = e["name"].removeprefix("record "), e["ts"], e["ts"] + e["dur"]
            shown[label] = []
        elif end <= e["ts"] < last:
            end = e["ts"] + e["dur"]
            given = e.get("args", {})
            shown[label].append([e["name"], *map(given.get, FIELDS[:3])])
    return {title: events for title, events in shown.items() if title in ran}


def shown_by_us(call, sample):
    call, fresh, memo = function(call), _copied(sample), {}
    args, kwargs = thing((fresh.input, *fresh.args), memo), thing(fresh.kwargs, memo)
    rl.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        events = top(record(lambda: call(*args, **kwargs), SHAPES))
    return json.loads(json.dumps([[e.name, *(e.inputs or (None,) * 3)[:3]] for e in events]))


@pytest.mark.parametrize("part", [pytest.param(p, marks=[pytest.mark.slow] * (p >= QUICK)) for p in range(PARTS)])
def test_records_are_shown_as_pytorch_shows_them(part):
    wanted, differing = shown_by_torch(part), {}
    for title, call, sample in calls(part):
        if title not in wanted:
            continue
        try:
            got = shown_by_us(call, sample)
        except Missing:
            continue
        if [e[0] for e in got] != [e[0] for e in wanted[title]]:
            differing[title] = "names"
        elif got != wanted[title]:
            differing[title] = "arguments"
    known = {title: DIFFERS[title] for title, *_ in calls(part) if title in DIFFERS}
    assert differing == known
