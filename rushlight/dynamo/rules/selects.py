"""Small branches on elements of which both sides are computed: `if not fits.all(): x = x.sigmoid()`.

Enters: a branch on the truth of a tensor, or of a number that only elements tell. Where both sides only compute, and
meet again soon, both are captured, and what they left in variables or on the stack is chosen: tensors by `torch.where`,
numbers by `sym_ite` (`i = 1 if len(found) > 1 else 0`). Leaves: the frame, at the place where the sides meet. Refuses
(the branch then breaks the graph): sides that do anything else (write, call what may raise or draws random numbers,
change an object, require something of a number), tensors of different sizes or types, or with gradients (what was not
chosen must give none, and a zero times infinity is no zero), and results that would be one of the program's own tensors
if they leave the frame, are written to, or are asked whether they are that tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import _C
from ..._C import Tensor
from ...fake import FakeTensor
from ...op.composite import Composite
from ...op.factory import Factory
from ...op.fused import Fused
from ...op.pointwise import Pointwise
from ...op.reduction import Reduction
from ...op.registry import find_op
from ...op.view import View
from ...symbols import SymBool, SymFloat, SymInt, sym_int, sym_ite
from ..bytecode.resume import BreakPoint, needed
from ..record.breaks import GraphBreak, Raised, WithoutSelect
from ..record.hidden import is_hidden
from ..record.machine import Machine
from .control_flow import Surroundings
from .elements import element

if TYPE_CHECKING:
    from ..bytecode.instructions import Instruction
    from ..frames.frame import Frame

_MOST_OPS = 16
_MOST_INSTRUCTIONS = 80
_NUMBERS = (((bool, SymBool), bool), ((int, SymInt), int), ((float, SymFloat), float))
_GENERATORS = 0x20 | 0x80 | 0x200      # flags of code: generators, coroutines, and both
_NOWHERE: frozenset[int] = frozenset()
_STARTS = ("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_SMALL_INT",
           "BINARY", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "UNARY", "CALL", "KW_NAMES", "PRECALL", "PUSH_NULL",
           "STORE_FAST", "POP_TOP", "POP_JUMP", "JUMP_FORWARD", "COPY", "SWAP", "BUILD_TUPLE", "BUILD_SLICE", "NOP",
           "TO_BOOL", "NOT_TAKEN")


class Selected:
    """A tensor that is one of two."""

    def __init__(self, result: Tensor, sides: tuple[Tensor, Tensor], known: frozenset[int], place: Any) -> None:
        self.result, self.place = result, place
        # sides that the program had before: in a run the result is that very tensor, or shares its memory
        self.shared = [t for t in sides if id(t) in known or _memory(t) in known]
        self.versions = [t._version for t in (result, *self.shared)]

    def check(self, left: set[int]) -> None:
        """Refuse, now that it is known what the program does with it; `left` is the memory that leaves the frame."""
        if not self.shared:
            return
        if [t._version for t in (self.result, *self.shared)] != self.versions or _memory(self.result) in left:
            raise WithoutSelect(self.place)


def _memory(t: Tensor) -> int:
    return Tensor.untyped_storage(t)._cdata


def check(machine: Machine, outputs: list[Any]) -> None:
    """Refuse tensors that are one of two, where a program could tell; `outputs` are the nodes that leave the frame."""
    if machine.selected:
        values = [node.meta.get("example_value") for node in outputs]
        left = {_memory(t) for t in values if type(t) is FakeTensor}
        for one in machine.selected:
            one.check(left)


def _can_decide(machine: Machine, value: Any, place: Any) -> bool:
    """Whether a value may choose between two at a place of the program."""
    if place in machine.not_selected or machine.recorder is not machine.whole or machine.user_modes:
        return False
    if machine.has_classes or machine.recorder.fake_mode.calls is not None:
        return False      # inside of another choice, too: what that does is being watched
    if not isinstance(value, Tensor):
        condition = _condition(machine, value) if is_hidden(value) else None
        return is_hidden(condition) and condition.env.decide(condition.expression) is None \
            and set(condition.expression.names) <= set(machine.recorder.sizes.seen)
    if type(value) is not FakeTensor or type(value.numel()) is not int or value.numel() != 1:
        return False
    return not value.requires_grad and not value.is_inference()


def chosen(machine: Machine, value: Any, yes: Any, no: Any) -> Tensor | None:
    """`yes if value else no`, of tensors that the program has; None where that cannot be a choice."""
    frame = machine.frames[-1]
    place = frame.code, frame.at - 1
    if not _can_decide(machine, value, place):
        return None
    known = frozenset((id(yes), id(no)))
    try:
        return _Choice(machine, _condition(machine, value), known, place)(yes, no)
    except _Differ:
        return None


def _condition(machine: Machine, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value if isinstance(value, SymBool) else value != 0
    condition = machine.record(Tensor.ne, (value, 0), {})
    return machine.record(Tensor.reshape, (condition, ()), {}) if value.ndim else condition


def joined(frame: Frame, value: Any, at: int) -> bool:
    """Compute both sides of the jump at `at`, and go on where they meet; whether that was done."""
    machine = frame.machine
    place = frame.code, at
    if not _can_decide(machine, value, place):
        return False
    ends = _meeting(frame, at)
    if not ends:
        return False
    try:
        _join(frame, machine, value, at, ends)
    except (GraphBreak, Raised, _Differ) as found:
        raise WithoutSelect(place) from found
    return True


class _Differ(Exception):  # noqa: N818 - no error: the branch breaks the graph
    """The sides leave what cannot be chosen between."""


def _meeting(frame: Frame, at: int) -> frozenset[int]:
    """Where the two sides of a jump meet, if they do so soon and hold nothing but loads, stores and calls: one place,
    or returns (from 3.12 on, short ends of functions are there twice). None: they do not."""
    branches, one = frame.branches, frame.instructions[at]
    if one.target is None or not one.name.startswith("POP_JUMP") or not one.name.endswith(("_TRUE", "_FALSE")):
        return _NOWHERE
    sides = [branches.settled(at + 1), branches.settled(frame.place[id(one.target)])]
    reached = [_reached(frame, side, at + _MOST_INSTRUCTIONS) for side in sides]
    common = reached[0] & reached[1]
    if min(sides) <= at:
        return _NOWHERE
    ends = frozenset((min(common),)) if common else frozenset(
        i for i in reached[0] | reached[1] if _returns(frame, i, one))
    return ends if all(_comes_to(frame, side, ends) for side in sides) else _NOWHERE


def _returns(frame: Frame, i: int, jump: Instruction) -> bool:
    """Whether a function, and not a generator, returns here, with no block left since the jump."""
    one = frame.instructions[i]
    return one.name == "RETURN_VALUE" and not frame.code.co_flags & _GENERATORS and (
        one.handler is jump.handler or (one.handler is not None and jump.handler is not None
                                        and one.handler.target is jump.handler.target))


def _reached(frame: Frame, start: int, last: int) -> set[int]:
    todo, seen = [start], {start}
    while todo:
        for way in map(frame.branches.settled, frame.branches.ways(todo.pop())):
            if way not in seen and way <= last:
                seen.add(way)
                todo.append(way)
    return seen


def _comes_to(frame: Frame, start: int, ends: frozenset[int]) -> bool:
    """Whether all ways from here come to an end, through instructions that only compute."""
    todo, seen = [start], {start}
    last = max(ends, default=-1)
    while todo:
        i = todo.pop()
        if i in ends:
            continue
        one = frame.instructions[i]
        ways = [*map(frame.branches.settled, frame.branches.ways(i))]
        if not one.name.startswith(_STARTS) or one.name == "LOAD_FAST_AND_CLEAR" or not ways \
                or any(way <= i or way > last for way in ways):
            return False
        fresh = [way for way in ways if way not in seen]
        seen.update(fresh)
        todo += fresh
    return True


def _join(frame: Frame, machine: Machine, value: Any, at: int, ends: frozenset[int]) -> None:
    recorder = machine.recorder
    jump = frame.instructions[at]
    end = max(ends)
    for one in frame.instructions[at:end]:      # arguments are admitted once, whatever side reads them
        if one.name.startswith("LOAD_FAST"):
            frame.local(one.argval)
    before = _Before(machine)
    slots, stack = dict(frame.slots), list(frame.stack)
    known = frozenset((*map(id, (*recorder.kept, *slots.values(), *stack)),
                       *[_memory(t) for t in recorder.kept if type(t) is FakeTensor]))
    sides = []
    for start in (at + 1, frame.place[id(jump.target)]):
        frame.slots, frame.stack, frame.at = dict(slots), list(stack), start
        recorder.fake_mode.calls = []
        try:
            frame.run_until(ends)
            _check_ops(recorder.fake_mode.calls)
        finally:
            recorder.fake_mode.calls = None
        before.check(machine)
        sides.append((frame.slots, frame.stack))
    if not jump.name.endswith("_TRUE"):
        sides.reverse()      # the side for False first
    (no, no_stack), (yes, yes_stack) = sides
    choose = _Choice(machine, _condition(machine, value), known, (frame.code, at))
    live = needed(BreakPoint(frame.code, end, (), frozenset((*no, *yes))))
    free = frame.code.co_freevars
    frame.slots = {name: choose(yes.get(name, _Differ), no.get(name, _Differ))
                   for name in dict.fromkeys((*no, *yes)) if name in live or name in free}
    if len(yes_stack) != len(no_stack):
        raise _Differ
    frame.stack = [choose(a, b) for a, b in zip(yes_stack, no_stack, strict=True)]
    frame.at = end


class _Choice:
    """Values that are what one of two sides left."""

    def __init__(self, machine: Machine, condition: Any, known: frozenset[int], place: Any) -> None:
        self.machine, self.condition, self.known, self.place = machine, condition, known, place
        self.found: dict[tuple[int, int], tuple] = {}      # by what was chosen between, which is kept

    def __call__(self, yes: Any, no: Any) -> Any:
        if yes is no and yes is not _Differ:
            return yes
        if type(yes) is type(no) and type(yes) in (int, float, bool, str) and yes == no and str(yes) == str(no):
            return yes
        key = id(yes), id(no)
        if key not in self.found:
            self.found[key] = self.one_of(yes, no), yes, no
        return self.found[key][0]

    def one_of(self, yes: Any, no: Any) -> Any:
        if type(yes) is FakeTensor and type(no) is FakeTensor:
            return self.result(yes, no)
        if type(yes) is tuple and type(no) is tuple and len(yes) == len(no):
            if any(id(t) in self.known or self.machine.twin_of(t) is not None for t in (yes, no)):
                raise _Differ      # the program can tell it from others
            return tuple(map(self, yes, no))
        kinds = [next((kind for kinds, kind in _NUMBERS if type(x) in kinds), None) for x in (yes, no)]
        if kinds[0] is None or kinds[0] is not kinds[1]:
            raise _Differ
        machine = self.machine
        condition = element(machine, self.condition, "a number is chosen") if isinstance(self.condition, Tensor) \
            else self.condition
        return machine.native(sym_ite, (condition, yes, no))

    def as_tensor(self, device: Any) -> Tensor:
        """The condition, for tensors to be chosen by."""
        if isinstance(self.condition, Tensor):
            return self.condition
        number = self.machine.native(sym_int, (self.condition,))
        return self.machine.record(find_op("full"), ((), number), {"dtype": _C.bool, "device": device})

    def result(self, yes: FakeTensor, no: FakeTensor) -> Tensor:
        machine = self.machine
        device = self.condition.device if isinstance(self.condition, Tensor) else yes.device
        for t in (yes, no):
            if t.requires_grad or t.symbolic is not None or t.device != device or t.is_inference():
                raise _Differ
        if yes.dtype != no.dtype or yes.shape != no.shape or yes.stride() != no.stride():
            raise _Differ
        result = machine.record(find_op("where"), (self.as_tensor(device), yes, no), {})
        if result.stride() != yes.stride():
            raise _Differ
        machine.selected.append(Selected(result, (yes, no), self.known, self.place))
        return result


class _Before:
    """What the sides must leave as it is."""

    def __init__(self, machine: Machine) -> None:
        self.around = Surroundings(machine, [])
        on_stacks = {id(value) for frame in machine.frames for value in frame.stack}
        if any(isinstance(value, Iterator) and key not in on_stacks for key, value in self.around.kept.items()):
            raise _Differ
        self.tensors = [(t, None if t.is_inference() else t._version) for t in machine.recorder.kept
                        if isinstance(t, Tensor)]
        self.counts = self.counted(machine)
        self.drawn = _C.default_generator.get_state().tolist()

    def counted(self, machine: Machine) -> tuple[int, ...]:
        gradients = machine.gradients
        env = machine.recorder.env
        return (len(machine.checks), len(machine.locks.taken), 0 if env is None else len(env.deferred),
                len(gradients.changed), len(gradients.spent),
                len(machine.optimizer_steps.taken), len(machine.errors_on_break))

    def check(self, machine: Machine) -> None:
        self.around.check("a branch")
        if self.counted(machine) != self.counts or _C.default_generator.get_state().tolist() != self.drawn:
            raise _Differ
        if any(version is not None and t._version != version for t, version in self.tensors):
            raise _Differ


def _check_ops(overloads: list[Any]) -> None:
    """Only ops that raise for no elements, and draw nothing."""
    if len(overloads) > _MOST_OPS:
        raise _Differ
    for overload in overloads:
        definition = overload.definition
        is_safe = isinstance(definition, (Reduction, View, Fused, Factory, Composite)) or (
            isinstance(definition, Pointwise) and definition.divisor is None)
        if not is_safe or definition.batch == "random" or overload.inplace:
            raise _Differ
