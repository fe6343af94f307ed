"""One graph for many sizes: plans whose numbers are computed for each call.

Enters: a graph whose inputs have symbolic sizes, or are numbers, and the arguments of calls. Leaves: results. The graph
is compiled at the first call, with Extents (op/extents.py) in the place of the sizes that are symbols: whatever the
compiler decides by a size is written down as a condition, and a call that does not meet the conditions of any plan so
far gets one of its own. Refuses nothing: what cannot be traced is compiled for the sizes of each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..base.assertions import CheckFailed
from ..op.extents import Extent, Trace, Untraceable
from . import settings

MOST_REGISTERS = 50_000      # of one graph; instructions name them in 16 bits, and constants come on top
PATIENCE = 5_000_000
MOST_PLANS = 16              # for many sizes each; the one used last comes first
MOST_SHAPES = 64             # plans for the sizes of one call


def varies(example: Any) -> bool:
    """Whether an example input is one number, or a tensor, of many."""
    if isinstance(example, _C.Tensor):
        return any(type(n) is not int for n in (*example.shape, *example.stride()))
    # None: a number of which tracing kept no example
    return not isinstance(example, (int, float, complex, bool, str, bytes, _C.dtype, _C.device))


class Sized:
    """A graph compiled for many sizes. Called as `Compiled` is."""

    def __init__(self, graph_module: Any, examples: Sequence[Any], compile: Callable[..., Any]) -> None:
        self.graph_module, self.compile = graph_module, compile
        self.examples = [[*x.shape, *x.stride()] if isinstance(x, _C.Tensor) and varies(x) else None for x in examples]
        self.plans: list[Member] = []
        self.exact: dict[tuple, Any] = {}
        self.compilations = 0
        self.on_plan: Callable[[], None] | None = None      # told of each plan that is added
        self.settings = settings.current()       # as they are now: graphs are compiled when they are called

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        for k, plan in enumerate(self.plans):
            result = plan(inputs)
            if result is NotImplemented:     # a kernel found a bad index: a plan for these sizes says which
                return self.for_these(inputs)(inputs)
            if result is not None:
                if k:
                    self.plans.insert(0, self.plans.pop(k))
                return result
        plan = self.member(inputs)
        result = None if plan is None else plan(inputs)
        if result is None or result is NotImplemented:
            return self.for_these(inputs)(inputs)
        self.plans.insert(0, plan)
        del self.plans[MOST_PLANS:]
        if self.on_plan is not None:
            self.on_plan()
        return result

    def member(self, inputs: Sequence[Any]) -> Member | None:
        """A plan for the sizes of this call and many others; None where sizes cannot stand for others."""
        trace = Trace(MOST_REGISTERS, PATIENCE)
        which = tuple([k for k, x in enumerate(inputs) if self.examples[k] is not None])
        numbers = tuple([k for k, x in enumerate(inputs) if type(x) is int])
        given = {k: list(map(trace.given, [*inputs[k].shape, *inputs[k].stride()])) for k in which}
        geometries: list[Any] = [None] * len(inputs)
        for k in numbers:
            geometries[k] = trace.given(inputs[k])
        try:
            first: dict[str, Extent] = {}
            for k in which:
                rank, seen = len(given[k]) // 2, self.examples[k]
                geometries[k] = (
                    [size(seen[d], given[k][d], first, f"size {d} of input {k}") for d in range(rank)],
                    [stride(seen[d], given[k][d]) for d in range(rank, 2 * rank)],
                )
            self.compilations += 1
            with settings.applied(self.settings):
                result = self.compile(self.graph_module, inputs, geometries, first)
            given = {k for k, x in enumerate(inputs) if isinstance(x, _C.Tensor)} | set(numbers)
            others = [(k, x) for k, x in enumerate(inputs) if k not in given]
            return Member(result, which, numbers, others, (trace.num_given, *trace.program()))
        except Untraceable:
            return None
        finally:
            trace.open = False

    def for_these(self, inputs: Sequence[Any]) -> Any:
        """The graph compiled for the sizes of one call."""
        key = tuple([(tuple(x.shape), x.stride()) if isinstance(x, _C.Tensor) else (type(x), x) for x in inputs])
        found = self.exact.get(key)
        if found is None:
            if len(self.exact) >= MOST_SHAPES:
                self.exact.clear()
            self.compilations += 1
            symbols = {
                repr(n): own
                for seen, x in zip(self.examples, inputs, strict=True)
                if seen is not None
                for n, own in zip(seen, x.shape, strict=False)
                if type(n) is not int
            }
            with settings.applied(self.settings):
                found = self.exact[key] = self.compile(self.graph_module, inputs, [], symbols)
        return found

    @property
    def calls(self) -> tuple[str, ...]:
        """Ops that run in Python, in the plan used last."""
        return self.plans[0].compiled.calls if self.plans else ()


def size(seen: Any, given: Extent, first: dict[str, Extent], where: str) -> Any:
    """What a size of an input is to the graph: itself where tracing fixed it, one Extent for each symbol."""
    same = seen if type(seen) is int else first.setdefault(repr(seen), given)
    if same is given or given.trace.compare("==", given, same):
        return same
    wanted = seen if type(seen) is int else f"{same.hint}, as other sizes that are {seen} here"
    error = RuntimeError if type(seen) is int else CheckFailed
    raise error(f"inductor: the graph was traced for {where} of {wanted}, got {given.hint}. Trace it for that.")


def stride(seen: Any, given: Extent) -> Any:
    """A stride: the number that tracing saw, if it is that; ops hold for others too."""
    return seen if type(seen) is int and given.trace.compare("==", given, seen) else given


class Member:
    """A plan for many sizes of a graph, and how a call's numbers reach it."""

    def __init__(self, compiled: Any, which: Sequence[int], numbers: Sequence[int], others: Sequence[tuple[int, Any]],
                 program: tuple[int, Sequence[int], Sequence[int]]) -> None:
        """`which` inputs have sizes that vary, `numbers` are numbers that do, `others` must be what they are; `program`
        computes the plan's numbers: see `Trace.program`."""
        self.compiled, self.inputs, self.numbers, self.program = compiled, tuple(which), tuple(numbers), program
        self.which = tuple([compiled.used.index(k) for k in which])
        self.others = [(k, type(x), x) for k, x in others]
        self.is_shown = [isinstance(k, tuple) and isinstance(k[0], _C.Extent) for k in compiled.outputs]
        self.shown = tuple([
            k[0].register for k, is_shown in zip(compiled.outputs, self.is_shown, strict=True) if is_shown
        ])
        num_given, constants, words = program
        compiled.plan.generalize(num_given, list(constants), list(words))

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """The results; None where the plan does not hold for these inputs."""
        for k, kind, x in self.others:
            if type(inputs[k]) is not kind or inputs[k] != x:
                return None
        compiled = self.compiled
        numbers = tuple([inputs[k] for k in self.numbers])
        if any(type(n) is not int for n in numbers):
            return None
        answer = compiled.plan.sized(compiled.arguments(inputs), self.which, numbers, self.shown)
        if answer is None or answer is NotImplemented:
            return answer
        results, told = answer[0], iter(answer[1])
        return [
            next(told) if is_shown else results[k] if type(k) is int else k[0]
            for k, is_shown in zip(compiled.outputs, self.is_shown, strict=True)
        ]
