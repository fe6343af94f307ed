"""Running passes in an order that meets constraints, until nothing changes.

Enters: passes (callables that return a PassResult) and constraints (functions of two passes: may the first come before
the second?). Leaves: the module after all of them, repeated up to `steps` times. Refuses: constraints that no order
meets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ....nn import Module
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Constraint = Callable[[Callable, Callable], bool]


def pass_result_wrapper(fn: Callable | None) -> Callable | None:
    """A pass that returns a module, or changes its argument in place, as one that returns a PassResult."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm: Module) -> PassResult | None:
        result = fn(gm)
        return result if isinstance(result, PassResult) else PassResult(gm if result is None else result, True)

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Constraint:
    """The constraint that `this` comes before `that`."""
    return lambda a, b: a != that or b != this


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Callable]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} and {b} at"
                    f" index {j} in pass list."
                )


def _topological_sort_passes(passes: list[Callable], constraints: list[Constraint]) -> list[Callable]:
    """The passes in an order that meets the constraints, otherwise as they were given."""
    if not constraints:
        return passes
    must_wait_for = {
        a: [b for b in passes if b != a and not all(allows(a, b) for allows in constraints)] for a in passes
    }
    ordered: list[Callable] = []
    waiting = list(passes)
    while waiting:
        ready = next((p for p in waiting if all(b in ordered for b in must_wait_for[p])), None)
        if ready is None:
            raise RuntimeError(f"Circular dependency detected within the following passes: {waiting}")
        ordered.append(ready)
        waiting.remove(ready)
    return ordered


def _name_of(fn: Callable) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


class PassManager:
    """Passes in order. Call it with a module."""

    def __init__(self, passes: list[Callable] | None = None, constraints: list[Constraint] | None = None,
                 steps: int | None = None, run_checks_after_each_pass: bool = False,
                 suppress_check_failures: bool = False) -> None:
        self.passes: list[Callable] = passes or []
        self.constraints: list[Constraint] = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Callable) -> None:
        """Append a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint on the order."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise unless the passes stand in an order that meets all constraints."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that meets all constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Check modules with this function, first of all and after every pass if so configured."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager: a check takes one argument, the module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """Raise if a module is not as it should be. Replaced by `add_checks`."""

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        ever_modified = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                module, changed = self._run_pass(i, fn, module)
                modified |= changed
            ever_modified |= modified
            if not modified:
                break
        return PassResult(module, ever_modified)

    def _run_pass(self, at: int, fn: Callable, module: Module) -> tuple[Any, bool]:
        try:
            result = fn(module)
            if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                raise TypeError(
                    f"The result of the pass {_name_of(fn)} should be type PassResult. Please wrap it with"
                    " pass_result_wrapper()"
                )
            if isinstance(result.graph_module, GraphModule):
                result.graph_module.recompile()
            if self.run_checks_after_each_pass:
                self.check(result.graph_module)
        except Exception as failure:
            before = [_name_of(p) for p in self.passes[:at]]
            raise Exception(  # noqa: TRY002
                f"An error occurred when running the '{_name_of(fn)}' pass after the following passes: {before}"
            ) from failure
        return result.graph_module, result.modified
