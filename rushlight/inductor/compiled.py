"""Compiled graphs as they run: a plan, what is computed before it, and how calls reach them.

Enters: a `Description`, made by compiling a graph or found on disk. Leaves: `Compiled`, called with a list of tensors
of the layouts it was made for; it returns a list. Knows nothing of how graphs are compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _C
from ..devices import handlers
from ..op.step import Step


@dataclass(frozen=True)
class PlanParts:
    """A plan as the core takes it."""

    num_inputs: int
    slots: tuple[tuple, ...]
    steps: tuple[Step, ...]

    def plan(self, device: Any) -> Any:
        return _C.Plan(self.num_inputs, device, list(self.slots), list(self.steps), False)


@dataclass(frozen=True)
class Description:
    """Everything that a compiled graph is: its plan, and how a call's inputs and results belong to it."""

    device: Any
    main: PlanParts
    outputs: tuple[Any, ...]             # of each output, the number of the plan's result; (value,) for others
    used: tuple[int, ...]                # the inputs that are tensors
    constants: tuple[Any, ...] = ()      # tensors that the graph holds
    calls: tuple[str, ...] = ()          # ops that run in Python
    labels: tuple[str, ...] = ()         # what each step belongs to
    writes: bool = False                 # to inputs of which callers do not know it
    before: PlanParts | None = None      # what is computed from static inputs alone
    static: tuple[int, ...] = ()         # those
    taken: tuple[int, ...] = ()          # which of its results the plan takes
    updated: tuple[int, ...] = ()        # inputs that get their new values, which callers count as a write


class Compiled:
    """A compiled graph. `plan` is what runs; `calls` names ops that run in Python between its kernels.

    What depends on static inputs alone (packed weights, folded statistics) is computed by `preparation` and kept until
    one of them is another tensor or was written to.
    """

    def __init__(self, description: Description) -> None:
        self.description, self.device = description, description.device
        self.plan, self.steps = description.main.plan(description.device), description.main.steps
        self.calls, self.labels, self.writes = description.calls, description.labels, description.writes
        self.updated = description.updated
        self.outputs, self.constants, self.used = description.outputs, description.constants, description.used
        self.is_plain = list(description.outputs) == list(range(len(description.outputs)))
        self.preparation: Any = None
        if description.before is not None:
            self.preparation, self.static = description.before.plan(description.device), description.static
            self.taken, self.seen, self.kept = description.taken, None, ()

    is_new = True            # not called yet
    report: Any = None       # what was written to the debug folder, until the first call's times are in it
    follower: Any = None     # weak: told the inputs and results of a rehearsal

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run(self.arguments(inputs))

    def rehearse(self, arguments: Sequence[Any]) -> None:
        """Have the kernels of the first call made, several at a time. While they are, whoever follows may have its own
        made: a backward."""
        self.is_new = False
        if self.device.type in ("cpu", "meta") or self.calls or self.writes:
            return
        results: list[Any] = []
        handlers[self.device.type].rehearse(lambda: results.append(self.plan(*arguments)))
        follow = None if self.follower is None else self.follower()
        if results and follow is not None:
            follow(dict(zip(self.used, arguments, strict=False)), self.ordered(results[0]))

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Results from what `arguments` says the plan is called with."""
        if self.is_new:
            self.rehearse(arguments)
        if self.report is None:
            results = self.plan(*arguments)
        else:
            results, taken = self.plan.timed(*arguments)
            self.report, before = None, self.report
            before.add_times(taken)
        return self.ordered(results)

    def ordered(self, results: Sequence[Any]) -> list[Any]:
        """The plan's results as the graph returns them."""
        if self.is_plain:
            return list(results[: len(self.outputs)])
        return [results[k] if type(k) is int else k[0] for k in self.outputs]

    def arguments(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What the plan is called with."""
        given = inputs if len(self.used) == len(inputs) else [inputs[k] for k in self.used]
        if self.preparation is None:
            return (*given, *self.constants) if self.constants else given
        now = [(given[k], given[k]._version, given[k].data_ptr()) for k in self.static]
        seen = self.seen
        if seen is None or any(a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(seen, now, strict=True)):
            results = self.preparation(*given, *self.constants)
            self.kept, self.seen = tuple([results[k] for k in self.taken]), now
            self.memory = [given[k].detach() for k in self.static]      # what `t.data = other` leaves must not return
        return (*given, *self.constants, *self.kept)

    @property
    def prepared_bytes(self) -> int:
        """Memory that packed weights and the like take, once they were computed by a call from Python."""
        return 0 if self.preparation is None else sum([t.numel() * t.element_size() for t in self.kept])

    @property
    def native_parts(self) -> tuple | None:
        """(plan, inputs it reads, constants, preparation, static inputs, what of it is kept, where results come from):
        what the core needs to run the graph by itself; None where a first call is rehearsed or timed."""
        if self.report is not None or self.device.type not in ("cpu", "meta"):
            return None
        order = () if self.is_plain else self.outputs
        if self.preparation is None:
            return self.plan, self.used, self.constants, None, (), (), order
        return self.plan, self.used, self.constants, self.preparation, self.static, self.taken, order

    def times(self, inputs: Sequence[Any]) -> list[tuple[str, int]]:
        """What each step belongs to, and the nanoseconds it took in one run."""
        _, taken = self.plan.timed(*self.arguments(inputs))
        return list(zip(self.labels, taken, strict=True))
