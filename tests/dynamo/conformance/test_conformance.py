"""Every conformance case: compiled, it does what it does as it is, and breaks only where it says so."""

from __future__ import annotations

import pytest
import rushlight as torch
from rushlight._dynamo.exc import Unsupported

from . import cases_classes, cases_containers, cases_control, cases_edges, cases_functions, harness

assert cases_classes and cases_containers and cases_control and cases_edges and cases_functions


@pytest.mark.parametrize("one", harness.CASES, ids=lambda one: one.name.replace(" ", "_"))
def test_compiled_as_it_is(one: harness.Case) -> None:
    args, kwargs = harness.fresh(one)
    expected = harness.outcome(one.function, args, kwargs, one.observe)
    is_whole = not one.breaks and "exception" not in expected
    function = torch.compile(one.function, backend="eager", fullgraph=is_whole)
    for run in ("first", "second", "third"):
        args, kwargs = harness.fresh(one)
        now = harness.outcome(function, args, kwargs, one.observe)
        harness.assert_same(now, expected, run)
    if one.breaks:
        whole = torch.compile(one.function, backend="eager", fullgraph=True)
        args, kwargs = harness.fresh(one)
        with pytest.raises(Unsupported):
            whole(*args, **kwargs)


def test_most_cases_do_not_break() -> None:
    assert sum(not one.breaks for one in harness.CASES) >= 0.85 * len(harness.CASES)
