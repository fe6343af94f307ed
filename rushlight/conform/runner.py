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
from .report import Area, Failure, Report

AREAS = (
    "ops", "dtypes", "gradients", "random", "memory", "copies", "streams", "errors", "serialization", "amp", "compile",
    "training", "performance",
)

Progress = Callable[[str, int, int, "Case | None"], None]


def check(chip: Chip, areas: Sequence[str] = AREAS, progress: Progress | None = None) -> Report:
    """Run all cases of the areas on a device. `progress(area, done, failed, case)` is told before each case,
    and of an area's end, with None in place of a case."""
    report = Report(chip.name, quick=chip.quick)
    with host_ops(chip, report.on_host):
        for area in areas:
            run_area(area, chip, report, progress)
    report.performance += chip.measured
    return report


def run_area(name: str, chip: Chip, report: Report, progress: Progress | None = None) -> None:
    """Run one area's cases and enter them into the report."""
    area = report.areas[name] = Area()
    start = time.perf_counter()
    for one in cases_of(name, chip):
        if progress is not None:
            progress(name, area.passed + area.failed + area.skipped, area.failed, one)
        run_case(one, chip, report)
    area.seconds = time.perf_counter() - start
    if progress is not None:
        progress(name, area.passed + area.failed + area.skipped, area.failed, None)


def run_case(one: Case, chip: Chip, report: Report) -> None:
    """Run a case and enter what came of it."""
    area = report.areas[one.area]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rl.manual_seed(0)
            one.run(chip)
    except Skip as reason:
        area.skip(one.name, str(reason))
    except Exception as error:
        if one.area == "performance":      # a table, never a failure
            area.skip(one.name, told(error))
            return
        area.failed += 1
        report.failures.append(Failure(one.area, one.name, told(error), one.repro(chip)))
    else:
        area.passed += 1


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
