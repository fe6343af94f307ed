"""Running cases one after another; what each of them came to."""

from __future__ import annotations

import importlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import rushlight as rl

from .case import Case, Chip, Skip
from .report import Event, Report

AREAS = (
    "ops", "dtypes", "gradients", "random", "memory", "copies", "streams", "errors", "serialization", "amp", "compile",
    "training", "performance",
)

Progress = Callable[[Report, Event], None]


def check(chip: Chip, areas: Sequence[str] = AREAS, progress: Progress | None = None) -> Report:
    """Run all cases of the areas on a device. `progress(report, event)` is told what begins and what ends."""
    report = Report(chip.name, quick=chip.quick)
    for event in events(chip, areas):
        report.enter(event)
        if progress is not None:
            progress(report, event)
    return report


def events(chip: Chip, areas: Sequence[str] = AREAS, after: tuple[str, str] | None = None) -> Iterator[Event]:
    """What happens while the cases of the areas run, one after another; `after` is the case to go on behind."""
    on_host: Counter[str] = Counter()
    with host_ops(chip, on_host):
        for area in areas[areas.index(after[0]) if after else 0:]:
            yield Event("area", area)
            waiting = after is not None and after[0] == area
            for one in cases_of(area, chip):
                if not waiting:
                    yield Event("begin", area, one.name)
                    yield run_case(one, chip, on_host)
                elif after is not None and one.name == after[1]:
                    waiting = False


def run_case(one: Case, chip: Chip, on_host: Counter[str] | None = None) -> Event:
    """Run a case: what came of it."""
    on_host = Counter() if on_host is None else on_host
    before, rows = on_host.copy(), len(chip.measured)
    start = time.perf_counter()
    kind, message = outcome(one, chip)
    repro = one.repro(chip) if kind == "failed" else ""
    seconds = time.perf_counter() - start
    return Event(kind, one.area, one.name, message, repro, seconds, chip.measured[rows:], dict(on_host - before))


def outcome(one: Case, chip: Chip) -> tuple[str, str]:
    """("passed", ""), or ("failed" or "skipped", why)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rl.manual_seed(0)
            one.run(chip)
    except Skip as reason:
        return "skipped", str(reason)
    except (Exception, SystemExit) as error:
        return "skipped" if one.area == "performance" else "failed", told(error)     # figures are never a failure
    return "passed", ""


def told(error: BaseException) -> str:
    """An error as a report says it: what differed, or the class and text of what was raised."""
    text = str(error).strip()
    return text if type(error) is AssertionError and text else f"{type(error).__name__}: {text}".rstrip(": ")


@contextmanager
def host_ops(chip: Chip, counted: Counter[str]) -> Iterator[None]:
    """Count the ops that the device has no function for, which the host computes."""
    handler = chip.handler
    if handler is None:
        yield
        return
    before = handler.own_or_report, handler.fall_back

    def own_or_report(op: str, expected: bool = False) -> Callable | None:
        found = before[0](op, expected)
        if found is None and expected:
            counted[op] += 1
        return found

    def fall_back(op: str) -> None:
        before[1](op)
        counted[op] += 1

    handler.own_or_report, handler.fall_back = own_or_report, fall_back
    try:
        yield
    finally:
        del handler.own_or_report, handler.fall_back


def cases_of(area: str, chip: Chip) -> Iterator[Case]:
    """The cases of an area that concern this run, in the order of its file; those it makes itself come last."""
    module = importlib.import_module(f".{area}", __package__)
    yield from (one for one in written(module) if one.quick or not chip.quick)
    if hasattr(module, "cases"):
        yield from (one for one in module.cases(chip) if one.quick or not chip.quick)


def written(module: ModuleType) -> Iterator[Case]:
    """The cases that stand in a file."""
    return (value for value in list(vars(module).values()) if isinstance(value, Case))
