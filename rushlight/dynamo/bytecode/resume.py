"""Graph breaks: running one instruction as it is, and going on behind it in a function of its own.

Enters: a `BreakPoint` (a code object, the place of an instruction, what is on the stack and which variables are bound),
and an emitter that has written code leaving the frame as it was there. Leaves: code that runs the instruction and
returns a tail call of a resume function for each way on. A resume function is the rest of the original code: its
parameters are the stack and the variables that are still read, its first instructions put the stack back and jump.

With and try blocks need no entering again: what a `with` block needs is on the stack, and handlers belong to
instructions. The breaking instruction keeps its handler too, in the emitted code, which therefore carries the handlers
of the original behind it. Refuses (`CannotResume`): frames in the middle of handling an exception, and generators.
"""

from __future__ import annotations

import opcode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType
from typing import Any

from ... import _C
from .emitter import Emitter
from .instructions import (
    NOWHERE,
    SPECIAL_METHODS,
    VERSION,
    Handler,
    Instruction,
    Positions,
    assemble,
    decode,
    falls_through,
    liveness,
    reachable,
    stack_effect,
)

_READS_ALL = frozenset(("locals", "vars", "eval", "exec", "dir"))
_SEES_LIVES = frozenset(("weakref", "ref", "proxy", "finalize", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet",
                         "WeakMethod"))
_GENERATORS = 0x20 | 0x80 | 0x200      # flags of code: generators, coroutines, and both
_NOT_ALONE = frozenset(("YIELD_VALUE", "SEND", "RERAISE", "WITH_EXCEPT_START", "CLEANUP_THROW", "END_SEND",
                        "RETURN_GENERATOR", "GET_AWAITABLE", "KW_NAMES", "PRECALL"))

_ENTER_NO_FRAMES = frozenset(name for name in opcode.opmap if name.startswith(
    ("POP_JUMP", "JUMP", "RETURN", "LOAD_FAST", "STORE_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "STORE_DEREF", "COPY",
     "SWAP", "POP_TOP", "NOP", "LOAD_CONST", "IS_OP")))

_PLAIN = frozenset(name for name in opcode.opmap if name.startswith(
    ("LOAD_FAST", "STORE_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "RETURN", "RESUME", "COPY_FREE_VARS", "NOP", "POP_TOP",
     "SWAP", "COPY", "PUSH_NULL", "BUILD_TUPLE", "JUMP_FORWARD", "LOAD_DEREF", "MAKE_CELL")))


class CannotResume(Exception):  # noqa: N818 - the frame runs as it is
    """No function can go on from here."""


@dataclass(frozen=True, slots=True)
class BreakPoint:
    """Where a frame stands: before instruction `at` (its place in `decode(code)`).

    `stack` says of each stack item, the bottom first, whether it is a value (False: NULL). `bound` are the variables
    that have a value; for variables of own cells that value is the cell.
    """

    code: CodeType
    at: int
    stack: tuple[bool, ...]
    bound: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Program:
    """An original code object, as resume functions need it."""

    instructions: list[Instruction]
    live: list[frozenset[str]]
    place: dict[int, int]
    is_handling: list[bool]      # in the middle of an except or finally block that an exception led into


@cache
def _program(code: CodeType) -> _Program:
    instructions = decode(code)
    live = liveness(instructions)
    reads = _READS_ALL | _SEES_LIVES      # what nothing refers to any more is seen to be gone: variables stay
    if any(one.argval in reads for one in instructions if one.name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")):
        everything = frozenset((*code.co_varnames, *code.co_cellvars))
        live = [everything] * len(instructions)
    elif "__class__" in code.co_freevars and code.co_argcount:     # super() reads the first argument by its place
        live = [names | {code.co_varnames[0]} for names in live]
    place = {id(one): i for i, one in enumerate(instructions)}
    return _Program(instructions, live, place, _handling(instructions, place))


def _handling(instructions: Sequence[Instruction], place: dict[int, int]) -> list[bool]:
    """For each instruction, whether an exception is being handled when it runs."""
    depth: dict[int, int] = {0: 0}
    todo = [0]
    while todo:
        i = todo.pop()
        one = instructions[i]
        after = depth[i] + (one.name == "PUSH_EXC_INFO") - (one.name == "POP_EXCEPT")
        ways = [(i + 1, after)] if falls_through(one) and i + 1 < len(instructions) else []
        if one.target is not None:
            ways.append((place[id(one.target)], after))
        if one.handler is not None:      # its first instruction is PUSH_EXC_INFO, or it cleans up inside of one
            ways.append((place[id(one.handler.target)], depth[i]))
        for goal, level in ways:
            if depth.get(goal, -1) < level < 20:
                depth[goal] = level
                todo.append(goal)
    return [depth.get(i, 0) > 0 for i in range(len(instructions))]


# A resume function is made from the original code, also where the break is in a resume function: loops would otherwise
# make a new one each time round. code of a resume function -> the original, and the place there of each instruction
_origins: dict[CodeType, tuple[CodeType, list[int | None]]] = {}
_made: dict[tuple, CodeType] = {}


def original(point: BreakPoint) -> BreakPoint:
    """The same point in the code that the user wrote."""
    if point.code not in _origins:
        return point
    code, places = _origins[point.code]
    at = places[point.at]
    if at is None:
        raise CannotResume("the break is before the first instruction of the rest")
    return BreakPoint(code, at, point.stack, point.bound)


def original_code(code: CodeType) -> CodeType:
    """The code that the user wrote, of which `code` is the rest."""
    return _origins[code][0] if code in _origins else code


@cache
def is_plain(code: CodeType) -> bool:
    """Whether code only hands on what it got: there is nothing to compile, and values need no guards."""
    return all(one.name in _PLAIN for one in reachable(decode(code)))


def check(point: BreakPoint) -> None:
    """Raise `CannotResume` where no function can go on from a point."""
    point = original(point)
    program = _program(point.code)
    one = program.instructions[point.at]
    if point.code.co_flags & _GENERATORS:
        raise CannotResume("a generator cannot be left and entered again")
    if point.code.co_cellvars and any(one.argval in _READS_ALL for one in program.instructions
                                      if one.name == "LOAD_GLOBAL"):
        raise CannotResume("the frame asks for its locals, and has cells among them")
    if program.is_handling[point.at]:
        raise CannotResume("an exception is being handled")
    if one.name in _NOT_ALONE:
        raise CannotResume(f"{one.name} cannot run by itself")


def needed(point: BreakPoint) -> tuple[str, ...]:
    """The variables that emitted code must have put back under their names before `emit_break`, in order. For own
    cells: the cell."""
    point = original(point)
    live = _program(point.code).live[point.at]
    free = set(point.code.co_freevars)
    return tuple(sorted(name for name in live & point.bound if name not in free))


def emit_break(
    emitter: Emitter, point: BreakPoint, resume: Callable[[CodeType], Any], called: Callable[[Any], Any] | None = None,
    on_frame: Callable | None = None,
) -> None:
    """Write the instruction and what follows, to the end of the function. The code so far has put back the stack and
    the variables that are `needed`. `resume` gives the callable for the code of a resume function; `called` what to
    call in the place of a callable, where the instruction is a call; `on_frame` is asked about frames that it enters
    otherwise."""
    check(point)
    point = original(point)
    program = _program(point.code)
    rest = _Copies(program)
    one = program.instructions[point.at]
    emitter.positions = one.positions
    emitter.handler = rest.handler(one.handler)
    if called is not None:
        _exchange_callee(emitter, one, point.stack, called)
    if on_frame is not None and one.name not in _ENTER_NO_FRAMES:
        emitter.load_const(_C.watch_frames)
        emitter.load_const(on_frame)
        emitter.call(1)
        emitter.pop()
    stack = _run(emitter, program, point.at, point.stack)
    jumped = emitter.instructions[-1] if one.target is not None else None
    emitter.handler = None
    if falls_through(one):
        _emit_tail_call(emitter, BreakPoint(point.code, point.at + 1, stack[0], point.bound), resume)
    if jumped is not None:
        assert one.target is not None
        label = emitter.label()
        jumped.target = label
        emitter.place(label)
        goal = program.place[id(one.target)]
        if one.name == "FOR_ITER" and VERSION >= (3, 12):
            # The interpreter jumps behind these two (one, in 3.12), so they must be there.
            label.name = "END_FOR"
            goal += 1
            if VERSION >= (3, 13):
                emitter.pop()
                goal += 1
        _emit_tail_call(emitter, BreakPoint(point.code, goal, stack[1], point.bound), resume)
    for copy in rest.listed():
        emitter.append(copy)


def _exchange_callee(emitter: Emitter, one: Instruction, stack: tuple[bool, ...], called: Callable) -> None:
    """Write: the callable of the call that follows becomes called(callable)."""
    count = one.arg or 0
    match one.name:
        case "CALL" | "CALL_KW":
            place = count + 2 + (one.name == "CALL_KW")
            if VERSION < (3, 13) and not stack[-place]:      # NULL, callable; otherwise a method and its self
                place -= 1
        case "CALL_FUNCTION_EX":
            place = 4 if VERSION >= (3, 14) else 2 + (count & 1) + (VERSION >= (3, 13))
        case _:
            return
    emitter.load_const(called)
    emitter.copy(place + 1)
    emitter.call(1)
    emitter.swap(place + 1)
    emitter.pop()


def _run(emitter: Emitter, program: _Program, at: int, stack: tuple[bool, ...]) -> tuple[tuple[bool, ...], ...]:
    """Write the instruction at a place; the stack afterwards, on the way through and on the way of the jump."""
    one = program.instructions[at]
    asks_for_method = one.name == "LOAD_METHOD" or (
        one.name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and VERSION >= (3, 12) and (one.arg or 0) & 1
    )
    if asks_for_method:      # a bound method and NULL: which of two forms it would be is known only when it runs
        plain = one.copy()
        plain.name = "LOAD_ATTR" if one.name == "LOAD_METHOD" else one.name
        plain.arg = (one.arg or 0) & ~1 if VERSION >= (3, 12) else 0
        plain.handler = emitter.handler
        emitter.append(plain)
        emitter.push_null()
        if VERSION < (3, 13):
            emitter.swap(2)
        below = stack[: -1 if one.name != "LOAD_SUPER_ATTR" else -3]
        after = (*below, False, True) if VERSION < (3, 13) else (*below, True, False)
        return after, after
    if one.name == "LOAD_SPECIAL":      # likewise
        emitter.call_function(partial(bound_special, SPECIAL_METHODS[one.arg or 0]), 1)
        emitter.push_null()
        return ((*stack[:-1], True, False),) * 2
    taken = 0
    for before in program.instructions[max(at - 2, 0):at]:      # what a call has in front of it belongs to it
        if before.name in ("KW_NAMES", "PRECALL") and one.name == "CALL":
            emitter.append(_moved(before, emitter.handler))
            taken -= stack_effect(before)
    emitter.append(_moved(one, emitter.handler))
    if one.name == "LOAD_GLOBAL" and (one.arg or 0) & 1:
        after = (*stack, False, True) if VERSION < (3, 13) else (*stack, True, False)
        return after, after
    return tuple(_stack_after(one, stack[: len(stack) - taken], jump) for jump in (False, True))


def bound_special(name: str, owner: Any) -> Any:
    """A special method: found on the class, bound to the object."""
    for kind in type(owner).__mro__:
        if name in kind.__dict__:
            found = kind.__dict__[name]
            return found.__get__(owner, type(owner)) if hasattr(type(found), "__get__") else found
    raise TypeError(f"'{type(owner).__name__}' object does not support the context manager protocol (no {name})")


def _stack_after(one: Instruction, stack: tuple[bool, ...], jump: bool) -> tuple[bool, ...]:
    """NULLs are below what an instruction takes, and stay; what it pushes are values."""
    effect = stack_effect(one, jump=jump and one.target is not None)
    if one.name == "FOR_ITER" and jump:
        effect = -1      # tables count what END_FOR takes off
    if one.name == "COPY":
        return (*stack, stack[-(one.arg or 1)])
    if one.name == "SWAP":
        moved = list(stack)
        moved[-1], moved[-(one.arg or 1)] = moved[-(one.arg or 1)], moved[-1]
        return tuple(moved)
    if one.name == "PUSH_NULL":
        return (*stack, False)
    after = [*stack[: len(stack) + min(effect, 0)], *(True,) * max(effect, 0)]
    if one.name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
        after[-1] = True      # the result may lie where the NULL was
    return tuple(after)


def _moved(one: Instruction, handler: Handler | None) -> Instruction:
    copy = one.copy()
    copy.handler = handler
    return copy


class _Copies:
    """The handlers of a code, copied to stand behind emitted code."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self.copies: dict[int, Instruction] | None = None

    def handler(self, handler: Handler | None) -> Handler | None:
        if handler is None:
            return None
        if self.copies is None:
            self.copies = copied(self.program.instructions)
        return Handler(self.copies[id(handler.target)], handler.depth, handler.lasti)

    def listed(self) -> list[Instruction]:
        return [] if self.copies is None else [self.copies[id(one)] for one in self.program.instructions]


def copied(instructions: Sequence[Instruction]) -> dict[int, Instruction]:
    """A copy of each instruction, by the id of the original; jumps and handlers lead to copies."""
    copies = {id(one): one.copy() for one in instructions}
    for copy in copies.values():
        if copy.target is not None:
            copy.target = copies[id(copy.target)]
        if copy.handler is not None:
            old = copy.handler
            copy.handler = Handler(copies[id(old.target)], old.depth, old.lasti)
    return copies


def _emit_tail_call(emitter: Emitter, point: BreakPoint, resume: Callable[[CodeType], Any]) -> None:
    """Write: return tail_call(resume function, stack..., variables...)."""
    names = [emitter.fresh_local("kept") for _ in point.stack]
    for name in reversed(names):
        emitter.store_local(name)      # NULLs too: the local is then unbound
    variables = needed(point)
    emitter.load_const(_C.tail_call)
    emitter.load_const(resume(resume_code(point)))
    for place in _parameters(point):
        emitter.load_local(names[place] if isinstance(place, int) else place)
    emitter.call(1 + sum(point.stack) + len(variables))
    emitter.return_value()


def _parameters(point: BreakPoint) -> list[int | str]:
    """The parameters of a resume function: places of the stack, and names of variables."""
    variables = list(needed(point))
    first = point.code.co_varnames[:1] if point.code.co_argcount else ()
    ahead = [name for name in first if name in variables and "__class__" in point.code.co_freevars]
    return [*ahead, *(i for i, is_value in enumerate(point.stack) if is_value),
            *(name for name in variables if name not in ahead)]


def stack_name(i: int) -> str:
    """The parameter for the i-th item of the stack."""
    return f"<stack {i}>"


def resume_code(point: BreakPoint) -> CodeType:
    """The code that goes on at a point: its parameters are the stack and the variables still read."""
    point = original(point)
    given = _parameters(point)
    key = (point.code, point.at, point.stack, tuple(given))
    found = _made.get(key)
    if found is not None:
        return found
    program = _program(point.code)
    copies = copied(program.instructions)
    goal = copies[id(program.instructions[point.at])]
    start = [Instruction("RESUME", 0, 0, positions=Positions(goal.line))]
    free = point.code.co_freevars
    if free:
        start.insert(0, Instruction("COPY_FREE_VARS", len(free), len(free), positions=NOWHERE))
    for i, is_value in enumerate(point.stack):
        start.append(Instruction("LOAD_FAST", None, stack_name(i)) if is_value else Instruction("PUSH_NULL"))
    for i in range(len(point.stack)):
        if point.stack[i]:      # what the stack holds must not be kept alive by the parameter
            start += [Instruction("LOAD_CONST", None, None), Instruction("STORE_FAST", None, stack_name(i))]
    start.append(Instruction("JUMP_FORWARD", 0, None, goal))
    for one in start:
        one.positions = Positions(goal.line)
    rest = [copies[id(one)] for one in program.instructions]
    parameters = [stack_name(p) if isinstance(p, int) else p for p in given]
    results = assemble([*start, *rest], like=point.code, parameters=parameters, cellvars=(), freevars=free)
    _origins[results] = point.code, _places(results, start, rest)
    _made[key] = results
    return results


def _places(code: CodeType, start: Sequence[Instruction], rest: Sequence[Instruction]) -> list[int | None]:
    """For each instruction of a resume function, its place in the original code."""
    order = {id(one): i for i, one in enumerate(rest)}
    places = [order.get(id(one)) for one in reachable([*start, *rest])]
    assert len(places) == len(decode(code)), "resume: the code was not assembled as it was written"
    return places
