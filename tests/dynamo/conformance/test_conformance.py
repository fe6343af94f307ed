"""Every conformance case: captured, it does what it does as it is, and breaks only where it says so."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from rushlight.dynamo.capture import Refused, Settings, capture
from rushlight.dynamo.guards import GuardTree

from . import cases_classes, cases_containers, cases_control, cases_edges, cases_functions, harness

assert cases_classes and cases_containers and cases_control and cases_edges and cases_functions


class Broke(Exception):
    """The graph ended before the function did."""


def captured(function: Callable) -> Callable:
    """A function that captures its frame, keeps the code, and runs it where its guards hold."""
    entries: list[tuple[GuardTree, Callable]] = []
    cells = function.__closure__ or ()

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = list(bound.arguments.values())
        for tree, code in entries:
            if tree.check(given, function.__globals__, cells):
                return code(*given)
        try:
            made = capture(function.__code__, dict(bound.arguments), function.__globals__, cells,
                           Settings(lambda graph, inputs: graph.forward))  # fmt: skip
        except Refused as reason:
            raise Broke(str(reason)) from reason
        if made.break_at is not None:
            raise Broke(str(made.break_at.reason))
        tree = GuardTree(made.guards, list(bound.arguments), function.__code__.co_freevars)
        failed = tree.explain(given, function.__globals__, cells)
        assert failed is None, f"a guard does not hold where it was made: {failed[1]}"
        entries.append((tree, made.emitter.function(function.__globals__, cells)))
        return entries[-1][1](*given)

    return call


@pytest.mark.parametrize("one", harness.CASES, ids=lambda one: one.name.replace(" ", "_"))
def test_captured_as_it_is(one: harness.Case) -> None:
    args, kwargs = harness.fresh(one)
    expected = harness.outcome(one.function, args, kwargs, one.observe)
    function = captured(one.function)
    for run in ("first", "second"):
        args, kwargs = harness.fresh(one)
        now = harness.outcome(function, args, kwargs, one.observe)
        if now.get("exception", (None,))[0] is Broke:
            assert one.breaks or "exception" in expected, now["exception"][1]
            return
        harness.assert_same(now, expected, run)
    assert not one.breaks, "the case says that it breaks, and does not"
