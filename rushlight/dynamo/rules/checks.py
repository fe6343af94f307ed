"""Branches on elements that only check: `if (x < 0).any(): raise`, `assert t`, `if var < eps: warnings.warn(...)`.

Enters: a branch on the truth of a tensor while a frame is captured. Where one side raises or warns (branches.py),
capture goes along the other, and the graph gets one more result: the number of the first check that failed, or 0. (Of
numbers that only elements tell, `n = int(t)`, the graph checks itself, and raises.) Leaves: code around the graph that
looks at it before anything else is done. If a check failed, or the graph raised, the tensors that the graph wrote to
and the generators are put back, and the frame runs as it is, with the arguments it got: it raises or warns as it always
did. A check that fails twice in a row, or often, breaks the graph from then on.

Other branches on elements that can neither be computed both ways (selects.py) nor kept as numbers go the way that they
go in the call at hand (trials.py), which is checked in the same manner; and so do questions that ops ask about sizes
from elements.

Refuses (the branch then breaks the graph): frames in whose graph something cannot be put back: the history of a tensor
that was written to, much memory, what other processes were sent; frames that take locks.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import _C
from ..._C import Tensor
from ...autograd import grad_mode
from ...base import show
from ...fake import FakeTensor
from ...loops.record import Record
from ...symbols import SymBool
from ..bytecode.instructions import Handler
from ..record.breaks import WithoutChecks, WithoutSupposing
from ..record.counting import counters
from ..record.hidden import is_hidden
from ..record.machine import Machine
from ..record.thread_modes import set_modes

if TYPE_CHECKING:
    from ...fx.graph import Graph
    from ..bytecode.emitter import Emitter
    from ..frames.frame import Frame
    from ..values.sources import Source

_MOST = 1 << 16        # checks of one frame: the number of one is this less its place
_LARGEST = 1 << 20     # elements that are copied in case a check fails
_MOST_FAILURES = 4     # and one of so many calls: such branches do more than check
_MOST_TIMES = 4        # that one branch is supposed to go some way: loops may differ in each call
_SENT = ("c10d", "distributed")


class Check(Record):
    """One branch."""

    code: types.CodeType
    at: int                  # the place of the jump among its instructions
    is_true: bool            # the truth that the graph goes on with
    location: str            # the user's line

    def __str__(self) -> str:
        return f"assumed {self.is_true} at {self.location}"


# --- capture ----------------------------------------------------------------------------------------------------------


def assumed(machine: Machine, frame: Frame, value: Any, at: int) -> bool | None:
    """The truth of a tensor, or of a number that only elements tell, that the jump at `at` goes by, where it only
    checks: a check is recorded."""
    if not _may_check(machine, (frame.code, at)):
        return None
    return _checked(machine, value, frame.branches.usual(at, machine.is_fullgraph), (frame.code, at))


def supposed(machine: Machine, value: Any, code: types.CodeType, at: int) -> bool | None:
    """The truth of such a value in the call at hand, where nothing else can be done with it: the graph is for calls
    that go the same way, which it checks. Whole graphs are for all calls: nothing is supposed in them."""
    place = code, at
    if machine.trial is None or machine.is_fullgraph or machine.is_error_on_break() or not _may_check(machine, place):
        return None
    if machine.recorder.fake_mode.calls is not None:
        return None      # on one side of a choice: nothing says that the program goes there
    times = machine.supposed[place] = machine.supposed.get(place, 0) + 1
    if times > _MOST_TIMES:
        raise WithoutSupposing(place)
    return _checked(machine, value, machine.trial.truth(value), place)


def _may_check(machine: Machine, place: tuple[types.CodeType, int]) -> bool:
    if machine.unsure is None or place in machine.unsure or len(machine.checks) + 1 >= _MOST:
        return False
    # inside of a function that a transform or a loop calls, what is computed is not of the graph
    return machine.recorder is machine.whole and not machine.user_modes


def _checked(machine: Machine, value: Any, truth: bool | None, place: tuple[types.CodeType, int]) -> bool | None:
    if truth is None or not (_record if isinstance(value, Tensor) else _require)(machine, value, truth):
        return None
    machine.checks.append(Check(*place, truth, machine.location()))
    return truth


def _require(machine: Machine, value: Any, usual: bool) -> bool:
    """Let the graph itself raise where a number is not as assumed; whether it can."""
    condition = value if isinstance(value, SymBool) else value != 0
    if not is_hidden(condition) or condition.env.decide(condition.expression) is not None:
        return False
    wanted = condition if usual else condition.__sym_not__()
    recorder = machine.recorder
    if not isinstance(wanted, SymBool) or not set(wanted.expression.names) <= set(recorder.sizes.seen):
        return False
    formula = wanted.expression      # before it is known to hold
    if not wanted.expect_true():
        return False
    recorder.note_check(formula, RuntimeError, "a branch goes the other way")
    return True


def _record(machine: Machine, value: Tensor, usual: bool) -> bool:
    """The number of the first check that failed: the largest, since numbers go down."""
    if not isinstance(value, FakeTensor) or (machine.has_classes and machine.overrides((value,), {})):
        return False
    if type(value.numel()) is not int or value.numel() != 1:
        return False
    failed = machine.record(Tensor.eq if usual else Tensor.ne, (value, 0), {})
    number = machine.record(Tensor.mul, (failed, _MOST - len(machine.checks)), {})
    if failed.ndim:
        number = machine.record(Tensor.reshape, (number, ()), {})
    if machine.failed is not None:
        if number.device != machine.failed.device:
            number = machine.record(Tensor.to, (number, machine.failed.device), {})
        number = machine.record(Tensor.maximum, (machine.failed, number), {})
    machine.failed = number
    return True


# --- the code ---------------------------------------------------------------------------------------------------------


def written(machine: Machine, graph: Graph, inputs: Sequence[tuple[Source, Any]]) -> list[Source]:
    """The inputs that a graph writes to: they have to be put back where a check fails."""
    if machine.locks.taken:
        raise WithoutChecks
    for node in graph.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and is_sent(node.target)):
            raise WithoutChecks
    found, elements = [], 0
    memory = machine.whole.memory_written()
    for node, (source, real) in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
        if not isinstance(real, Tensor):
            continue
        fake = node.meta["example_value"]
        if type(fake) is not FakeTensor or fake.requires_grad != real.requires_grad:
            raise WithoutChecks
        if Tensor.untyped_storage(fake)._cdata not in memory:
            continue
        elements += real.numel()
        if elements > _LARGEST or (real.requires_grad and not real.is_leaf):
            raise WithoutChecks
        found.append(source)
    return found


def is_sent(target: Any) -> bool:
    """Whether a call of a graph may be seen by other processes."""
    named = f"{getattr(target, '__module__', '')} {target}"
    return any(word in named for word in _SENT)


class Checked:
    """The checks of one captured frame, and what happens when one fails."""

    def __init__(self, checks: Sequence[Check], function: types.FunctionType, devices: Sequence[Any], modes: Any,
                 place: int | None) -> None:
        # `place`: of the number among the results of the graph; None: the graph raises, and has no such number
        self.checks, self.devices, self.modes, self.place = tuple(checks), tuple(devices), modes, place
        self.in_a_row = self.failures = self.passes = 0
        self.distrust: Callable[[set[tuple[types.CodeType, int]]], None] | None = None
        self.as_it_is = _C.CompiledCallable(function, _never)
        self.as_it_is.as_is = True

    def write(self, emitter: Emitter, results: str, load_written: Callable[[], int], call: Callable[[], None]) -> None:
        """Write `call`, which leaves the results of the graph in a local, and what looks at them."""
        saved = emitter.fresh_local("saved")
        emitter.load_const(self.save)
        emitter.call(load_written())
        emitter.store_local(saved)
        emitter.load_const(None)
        emitter.store_local(results)
        caught, failed, passed = emitter.label(), emitter.label(), emitter.label()
        outer, emitter.handler = emitter.handler, Handler(caught, 0, False)
        call()
        if self.place is not None:
            emitter.load_local(results)
            emitter.load_const(self.place)
            emitter.subscr()
            emitter.jump_if(True, failed)
        emitter.handler = outer
        emitter.load_const(self.passed)
        emitter.call(0)
        emitter.pop()
        emitter.jump(passed)
        self._write_caught(emitter, caught)
        emitter.place(failed)
        emitter.load_const(self.failed)
        emitter.load_local(results)
        emitter.load_local(saved)
        emitter.call(2)
        emitter.pop()
        emitter.load_const(_C.tail_call)
        emitter.load_const(self.as_it_is)
        for name in emitter.parameters:
            emitter.load_local(name)
        emitter.call(1 + len(emitter.parameters))
        emitter.return_value()
        emitter.place(passed)

    @staticmethod
    def _write_caught(emitter: Emitter, caught: Any) -> None:
        """What the graph raised is forgotten: the program may never get there. Interruptions are passed on."""
        passed_on = emitter.label()
        emitter.place(caught)
        emitter.emit("PUSH_EXC_INFO")
        emitter.load_const(Exception)
        emitter.emit("CHECK_EXC_MATCH")
        emitter.jump_if(False, passed_on)
        emitter.pop()
        emitter.emit("POP_EXCEPT")
        forgotten = emitter.label()
        emitter.jump(forgotten)
        emitter.place(passed_on)
        emitter.swap(2)
        emitter.emit("POP_EXCEPT")
        emitter.emit("RERAISE", 0, 0)
        emitter.place(forgotten)

    # --- running ------------------------------------------------------------------------------------------------------

    def save(self, *tensors: Tensor) -> tuple:
        """What the graph changes, as it is before."""
        with grad_mode.no_grad():
            copies = [(t, t.clone()) for t in tensors]
        return [(g, g.get_state()) for g in self.generators()], copies

    def generators(self) -> list[Any]:
        return [_C.default_generator, *[_C.device_generator(d) for d in self.devices]]

    def passed(self) -> None:
        self.in_a_row = 0
        self.passes += 1

    def failed(self, results: Any, saved: tuple) -> None:
        """Put everything back: the frame runs as it is."""
        states, copies = saved
        if results is None:      # an exception left the graph
            set_modes(self.modes)
        for generator, state in states:
            generator.set_state(state)
        for t, copy in copies:
            t.data.copy_(copy)
        which = self.checks if results is None else (self.checks[_MOST - int(results[self.place])],)
        said = f"{'the graph raised, which' if results is None else 'not as'} {which[0]}"
        if show.is_shown("breaks"):
            show.show("breaks", self.as_it_is.function.__qualname__, f"runs as it is: {said}")
        counters["checks_failed"][said] += 1
        self.in_a_row += 1
        self.failures += 1
        is_often = self.failures > _MOST_FAILURES and self.failures * _MOST_FAILURES > self.passes
        if (self.in_a_row > 1 or is_often) and self.distrust is not None:
            self.distrust({(one.code, one.at) for one in which})


def _never(*args: Any) -> None:
    raise AssertionError("a frame that runs as it is was to be compiled")
