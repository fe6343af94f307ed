"""Every conformance case: compiled, it does what it does as it is, and breaks only where it says so."""

from __future__ import annotations

import pytest
import rushlight as torch
from rushlight._dynamo.exc import Unsupported

from . import (
    cases_checks,
    cases_classes,
    cases_containers,
    cases_control,
    cases_control_flow,
    cases_edges,
    cases_functions,
    cases_gradients,
    cases_habits,
    cases_library,
    cases_modes,
    cases_numpy,
    cases_objects,
    cases_programs,
    cases_standard,
    cases_subclasses,
    harness,
)

assert cases_checks and cases_classes and cases_containers and cases_control and cases_control_flow and cases_edges \
    and cases_functions and cases_gradients and cases_habits and cases_library and cases_modes and cases_numpy \
    and cases_objects and cases_programs and cases_standard and cases_subclasses


def check(one: harness.Case, backend: str) -> None:
    """Three runs, each as the function itself; whole unless the case says that it breaks."""
    args, kwargs = harness.fresh(one)
    expected = harness.outcome(one.function, args, kwargs, one.observe)
    is_whole = not one.breaks and "exception" not in expected
    function = torch.compile(one.function, backend=backend, fullgraph=is_whole)
    for run in ("first", "second", "third"):
        args, kwargs = harness.fresh(one)
        now = harness.outcome(function, args, kwargs, one.observe)
        harness.assert_same(now, expected, run)


@pytest.mark.parametrize("one", harness.CASES, ids=lambda one: one.name.replace(" ", "_"))
def test_compiled_as_it_is(one: harness.Case) -> None:
    check(one, "eager")
    if one.breaks:
        whole = torch.compile(one.function, backend="eager", fullgraph=True)
        args, kwargs = harness.fresh(one)
        with pytest.raises(Unsupported):
            whole(*args, **kwargs)


# The rest of the way is tested by itself: a sample of the cases, and those about gradients.
WORDS = ("grad", "buffer", "backward", "leaf", "cond", "scan", "while_loop", "flex", "numpy", "mode", "class")
SAMPLE = [one for i, one in enumerate(harness.CASES) if i % 5 == 0 or any(word in one.name for word in WORDS)]


@pytest.mark.share(2)
@pytest.mark.parametrize("one", SAMPLE, ids=lambda one: one.name.replace(" ", "_"))
def test_compiled_by_the_inductor(one: harness.Case) -> None:
    check(one, "inductor")


def test_most_cases_do_not_break() -> None:
    counted = [one for one in harness.CASES if not one.is_refused]
    assert sum(not one.breaks for one in counted) >= 0.9 * len(counted)
