"""Bytecode as a list of instructions, and back.

Enters: a code object of CPython 3.11 to 3.14. Leaves: `Instruction`s without prefixes, caches and offsets: jumps
and exception handlers point at instructions, names and constants stand as themselves; `assemble` makes a code object
of such a list again, with tables, line numbers and stack size. Refuses: other versions of CPython.

Three things are made plain on the way in: EXTENDED_ARG is part of the instruction that it belongs to, 3.13's pairs
(LOAD_FAST_LOAD_FAST, ...) are two instructions, and 3.14's loads without counting (LOAD_FAST_BORROW) are loads, since
code that is taken apart need not keep the variable for as long as the stack has its value.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

VERSION = sys.version_info[:2]
IS_SUPPORTED = (3, 11) <= VERSION <= (3, 14)

_VARARGS, _VARKEYWORDS = 0x04, 0x08      # flags of code
_EXTENDED_ARG = opcode.EXTENDED_ARG
_JUMPS = frozenset((*opcode.hasjrel, *opcode.hasjabs))
_CONSTANTS, _NAMES = frozenset(opcode.hasconst), frozenset(opcode.hasname)
_SLOTS = frozenset((*opcode.haslocal, *opcode.hasfree))
# How many low bits of the argument are flags; the index of the name stands above them.
_FLAG_BITS = {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1 if VERSION >= (3, 12) else 0, "LOAD_SUPER_ATTR": 2}
_COMPARE_SHIFT = {(3, 11): 0, (3, 12): 4}.get(VERSION, 5)
_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
}
SPECIAL_METHODS: list[str] = getattr(opcode, "_special_method_names", [])      # what 3.14's LOAD_SPECIAL looks up
# After these the next instruction is not reached.
_ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"))
_ALWAYS_JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_READS = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_DEREF", "LOAD_CLOSURE",
                    "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF", "DELETE_DEREF"))


def _cache_sizes() -> list[int]:
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    sizes = [0] * 256
    for name, op in opcode.opmap.items():
        if op < 256:
            sizes[op] = entries.get(name, 0) if isinstance(entries, dict) else entries[op]
    return sizes


_CACHES = _cache_sizes()


class Positions(NamedTuple):
    """Where in the source an instruction comes from; None where nothing is known."""

    line: int | None = None
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


NOWHERE = Positions()


class Handler:
    """Where an exception goes: the stack is cut to `depth`, then (with `lasti`) the offset, then the exception."""

    __slots__ = ("target", "depth", "lasti")

    def __init__(self, target: Instruction, depth: int, lasti: bool) -> None:
        self.target, self.depth, self.lasti = target, depth, lasti


class Instruction:
    """One instruction. `argval` is what its argument means (constant, name, operator), `target` where it jumps.

    `arg` is the number of the original; of names only its flag bits count (`LOAD_GLOBAL`: push NULL first), since
    `assemble` finds the index of `argval` itself. `offset` is its place in the code it was decoded from.
    """

    __slots__ = ("name", "arg", "argval", "target", "positions", "handler", "offset")

    def __init__(self, name: str, arg: int | None = None, argval: Any = None, target: Instruction | None = None,
                 positions: Positions = NOWHERE, handler: Handler | None = None, offset: int | None = None
                 ) -> None:
        self.name, self.arg, self.argval, self.target = name, arg, argval, target
        self.positions, self.handler, self.offset = positions, handler, offset

    @property
    def opcode(self) -> int:
        return opcode.opmap[self.name]

    @property
    def line(self) -> int | None:
        return self.positions.line

    def __repr__(self) -> str:
        shown = f"-> {self.target.name}@{self.target.offset}" if self.target is not None else (
            "" if self.arg is None else repr(self.argval))
        return f"<{self.offset} {self.name} {shown}>"

    def copy(self) -> Instruction:
        """The same, to be changed; target and handler still point at the originals."""
        return Instruction(self.name, self.arg, self.argval, self.target, self.positions, self.handler, self.offset)


def check_version() -> None:
    """Raise on a CPython whose bytecode is not known."""
    if not IS_SUPPORTED:
        raise RuntimeError(
            f"dynamo: bytecode of CPython {VERSION[0]}.{VERSION[1]} is not known; that of 3.11 to 3.14 is."
        )


def slot_names(code: CodeType) -> tuple[str, ...]:
    """The names of a frame's slots: locals, own cells that are no arguments, free variables."""
    own = set(code.co_varnames)
    return (*code.co_varnames, *(n for n in code.co_cellvars if n not in own), *code.co_freevars)


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of a code object."""
    check_version()
    raw = code.co_code
    positions = [Positions(*p) for p in code.co_positions()]
    slots, names, consts = slot_names(code), code.co_names, code.co_consts
    found: list[Instruction] = []
    at: dict[int, Instruction] = {}      # by the offset of the first prefix, which is what jumps name
    jumps: list[tuple[Instruction, int]] = []
    offset, start, arg = 0, 0, 0
    while offset < len(raw):
        op, arg = raw[offset], arg << 8 | raw[offset + 1]
        if op == _EXTENDED_ARG:
            offset += 2
            continue
        name = opcode.opname[op]
        where = positions[offset // 2] if offset // 2 < len(positions) else NOWHERE
        after = offset + 2 + 2 * _CACHES[op]
        for one in _meanings(name, op, arg, slots, names, consts):
            one.positions, one.offset = where, start
            at.setdefault(start, one)
            found.append(one)
        if op in _JUMPS:
            jumps.append((found[-1], _jump_target(name, op, arg, after)))
        offset, start, arg = after, after, 0
    for one, goal in jumps:
        one.target = at[goal]
    _attach_handlers(code, found, at)
    return found


def _meanings(
    name: str, op: int, arg: int, slots: Sequence[str], names: Sequence[str], consts: Sequence[Any]
) -> Iterator[Instruction]:
    if name in _PAIRS:
        first, second = _PAIRS[name]
        yield Instruction(first, arg >> 4, slots[arg >> 4])
        yield Instruction(second, arg & 15, slots[arg & 15])
    elif op < opcode.HAVE_ARGUMENT:
        yield Instruction(name)
    elif op in _CONSTANTS:
        yield Instruction(name, arg, consts[arg])
    elif op in _NAMES:
        yield Instruction(name, arg, names[arg >> _FLAG_BITS.get(name, 0)])
    elif op in _SLOTS:
        yield Instruction("LOAD_FAST" if name == "LOAD_FAST_BORROW" else name, arg, slots[arg])
    elif name == "COMPARE_OP":
        yield Instruction(name, arg, opcode.cmp_op[arg >> _COMPARE_SHIFT])
    else:
        yield Instruction(name, arg, arg)


def _jump_target(name: str, op: int, arg: int, after: int) -> int:
    if op in opcode.hasjabs:
        return arg * 2
    return after - arg * 2 if "BACKWARD" in name else after + arg * 2


def _read_varints(data: bytes) -> Iterator[int]:
    value, fresh = 0, True
    for byte in data:
        value = byte & 63 if fresh else value << 6 | byte & 63
        fresh = not byte & 64
        if fresh:
            yield value


def _attach_handlers(code: CodeType, found: list[Instruction], at: dict[int, Instruction]) -> None:
    """Give each instruction the handler that the exception table names for its place."""
    numbers = _read_varints(code.co_exceptiontable)
    ranges = []
    for start in numbers:
        length, target, packed = next(numbers), next(numbers), next(numbers)
        ranges.append((start * 2, (start + length) * 2, Handler(at[target * 2], packed >> 1, bool(packed & 1))))
    place = 0
    for one in found:
        assert one.offset is not None
        while place < len(ranges) and ranges[place][1] <= one.offset:
            place += 1
        if place < len(ranges) and ranges[place][0] <= one.offset:
            one.handler = ranges[place][2]


# -- flow ----------------------------------------------------------------------------------------------------------


def falls_through(one: Instruction) -> bool:
    """Whether the next instruction may be reached from this one."""
    return one.name not in _ENDS and one.name not in _ALWAYS_JUMPS


def _successors(instructions: Sequence[Instruction], place: dict[int, int], i: int) -> Iterator[int]:
    one = instructions[i]
    if falls_through(one) and i + 1 < len(instructions):
        yield i + 1
    if one.target is not None:
        yield place[id(one.target)]
    if one.handler is not None:
        yield place[id(one.handler.target)]


def reachable(instructions: Sequence[Instruction], start: int = 0) -> list[Instruction]:
    """The instructions that a run from `start` can come to, in their order."""
    place = {id(one): i for i, one in enumerate(instructions)}
    seen, todo = {start}, [start]
    while todo:
        for i in _successors(instructions, place, todo.pop()):
            if i not in seen:
                seen.add(i)
                todo.append(i)
    return [one for i, one in enumerate(instructions) if i in seen]


def liveness(instructions: Sequence[Instruction]) -> list[frozenset[str]]:
    """For each instruction, the names of locals and cells that a run from it on may still read."""
    place = {id(one): i for i, one in enumerate(instructions)}
    before: list[set[str]] = [set() for _ in instructions]
    sources: list[list[int]] = [[] for _ in instructions]
    for i in range(len(instructions)):
        for goal in _successors(instructions, place, i):
            sources[goal].append(i)
    todo = list(range(len(instructions)))
    while todo:
        i = todo.pop()
        one = instructions[i]
        live: set[str] = set()
        for goal in _successors(instructions, place, i):
            live |= before[goal]
        if one.name in ("STORE_FAST", "LOAD_FAST_AND_CLEAR"):
            live.discard(one.argval)
        if one.name in _READS:
            live.add(one.argval)
        if one.handler is not None:         # the store may not have happened when its handler runs
            live |= before[place[id(one.handler.target)]]
        if live != before[i]:
            before[i] = live
            todo.extend(sources[i])
    return [frozenset(one) for one in before]


def stack_depths(instructions: Sequence[Instruction]) -> dict[int, int]:
    """The depth of the stack before each instruction that can be reached, by the id of the instruction."""
    place = {id(one): i for i, one in enumerate(instructions)}
    depths: dict[int, int] = {id(instructions[0]): 0}
    todo = [0]

    def reach(goal: Instruction, depth: int) -> None:
        if depths.get(id(goal), -1) < depth:
            depths[id(goal)] = depth
            todo.append(place[id(goal)])

    while todo:
        i = todo.pop()
        one = instructions[i]
        depth = depths[id(one)]
        if one.handler is not None:
            reach(one.handler.target, one.handler.depth + one.handler.lasti + 1)
        if one.target is not None:
            reach(one.target, depth + stack_effect(one, jump=True))
        if falls_through(one) and i + 1 < len(instructions):
            reach(instructions[i + 1], depth + stack_effect(one, jump=False))
    return depths


def stack_effect(one: Instruction, jump: bool = False) -> int:
    """How much deeper the stack is after an instruction."""
    if one.name == "RETURN_GENERATOR":      # what is sent in first; older tables do not count it
        return 1
    return opcode.stack_effect(one.opcode, one.arg or 0 if one.opcode >= opcode.HAVE_ARGUMENT else None, jump=jump)


# -- back to a code object -----------------------------------------------------------------------------------------


class _Table:
    """Names or constants, each at the number that instructions give it."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = list(items)
        self.by_id = {id(x): i for i, x in reversed(list(enumerate(items)))}

    def index(self, item: Any, hint: int | None = None) -> int:
        if hint is not None and hint < len(self.items) and self.items[hint] is item:
            return hint
        if id(item) not in self.by_id:
            self.by_id[id(item)] = len(self.items)
            self.items.append(item)
        return self.by_id[id(item)]


class _Names(_Table):
    def __init__(self, items: Sequence[str]) -> None:
        self.items, self.by_name = list(items), {x: i for i, x in enumerate(items)}

    def index(self, item: str, hint: int | None = None) -> int:
        if item not in self.by_name:
            self.by_name[item] = len(self.items)
            self.items.append(item)
        return self.by_name[item]


def assemble(
    instructions: Sequence[Instruction],
    like: CodeType,
    *,
    parameters: Sequence[str] | None = None,
    varnames: Sequence[str] | None = None,
    cellvars: Sequence[str] | None = None,
    freevars: Sequence[str] | None = None,
    name: str | None = None,
) -> CodeType:
    """A code object of `instructions`, with the tables, file and flags of `like`.

    `parameters` makes it a function of these positional parameters (without *args and **kwargs); `varnames` are the
    other locals. Instructions that cannot be reached are left out.
    """
    check_version()
    listed = reachable(instructions)
    if parameters is None:
        given = list(varnames if varnames is not None else like.co_varnames)
    else:
        given = [*parameters, *(v for v in (varnames or ()) if v not in set(parameters))]
    cells = list(like.co_cellvars if cellvars is None else cellvars)
    free = list(like.co_freevars if freevars is None else freevars)
    named = {*given, *cells, *free}
    given += dict.fromkeys(
        one.argval for one in listed if one.opcode in _SLOTS and one.argval not in named
    )
    own = set(given)
    slots = {n: i for i, n in enumerate((*given, *(c for c in cells if c not in own), *free))}
    consts, names = _Table(like.co_consts), _Names(like.co_names)
    args = [_encoded(one, slots, consts, names) for one in listed]
    raw, starts = _laid_out(listed, args)
    flags = like.co_flags
    counts = {}
    if parameters is not None:
        flags &= ~(_VARARGS | _VARKEYWORDS)
        counts = {"co_argcount": len(parameters), "co_posonlyargcount": 0, "co_kwonlyargcount": 0}
    return like.replace(
        co_code=bytes(raw), co_consts=tuple(consts.items), co_names=tuple(names.items), co_varnames=tuple(given),
        co_nlocals=len(given), co_cellvars=tuple(cells), co_freevars=tuple(free), co_flags=flags,
        co_stacksize=max(_deepest(listed), 1), co_linetable=_line_table(listed, starts, like.co_firstlineno),
        co_exceptiontable=_exception_table(listed, starts),
        **counts, **({} if name is None else {"co_name": name, "co_qualname": name}),
    )


def _encoded(one: Instruction, slots: dict[str, int], consts: _Table, names: _Names) -> int:
    op = one.opcode
    if op < opcode.HAVE_ARGUMENT or op in _JUMPS:
        return 0
    if op in _CONSTANTS:
        return consts.index(one.argval, one.arg)
    if op in _NAMES:
        bits = _FLAG_BITS.get(one.name, 0)
        return names.index(one.argval) << bits | (one.arg or 0) & (1 << bits) - 1
    if op in _SLOTS:
        return slots[one.argval]
    return one.arg or 0


def _direction(one: Instruction, is_backward: bool) -> str:
    """The name of a jump that goes the way its target lies."""
    if one.name in _ALWAYS_JUMPS:
        if not is_backward:
            return "JUMP_FORWARD"
        return one.name if "BACKWARD" in one.name else "JUMP_BACKWARD"
    if "_FORWARD_" in one.name or "_BACKWARD_" in one.name:
        here, other = ("FORWARD", "BACKWARD") if is_backward else ("BACKWARD", "FORWARD")
        return one.name.replace(f"_{here}_", f"_{other}_")
    assert not is_backward, f"assemble: {one.name} cannot jump back"
    return one.name


def _laid_out(listed: list[Instruction], args: list[int]) -> tuple[bytearray, list[int]]:
    """The bytes of the instructions, and where each starts (with one more entry: the end)."""
    place = {id(one): i for i, one in enumerate(listed)}
    goals = [place[id(one.target)] if one.target is not None else None for one in listed]
    ops = [
        opcode.opmap[one.name if goal is None else _direction(one, goal <= i)]
        for i, (one, goal) in enumerate(zip(listed, goals, strict=True))
    ]
    sizes = [_size(op, arg) for op, arg in zip(ops, args, strict=True)]
    while True:       # jumps grow with the distance: lay out until nothing moves
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + size)
        for i, goal in enumerate(goals):
            if goal is not None:
                args[i] = starts[goal] if ops[i] in opcode.hasjabs else abs(starts[goal] - starts[i + 1])
        grown = [max(size, _size(op, arg)) for op, arg, size in zip(ops, args, sizes, strict=True)]
        if grown == sizes:
            break
        sizes = grown
    raw = bytearray()
    for op, arg, size in zip(ops, args, sizes, strict=True):
        for k in range(size - 1 - _CACHES[op], 0, -1):
            raw += bytes((_EXTENDED_ARG, arg >> 8 * k & 255))
        raw += bytes((op, arg & 255)) + bytes(2 * _CACHES[op])
    return raw, starts


def _size(op: int, arg: int) -> int:
    """Code units of an instruction with its prefixes and caches."""
    return 1 + _CACHES[op] + (0 if arg < 1 << 8 else 1 if arg < 1 << 16 else 2 if arg < 1 << 24 else 3)


def _deepest(listed: list[Instruction]) -> int:
    depths = stack_depths(listed)
    most = 0
    for one in listed:
        depth = depths.get(id(one), 0)
        most = max(most, depth, depth + stack_effect(one), depth + stack_effect(one, jump=one.target is not None))
    return most + 1       # an instruction may need a place of its own while it runs


def _varint(value: int) -> bytes:
    parts = [value & 63]
    while value := value >> 6:
        parts.append(value & 63)
    return bytes(part | (64 if i + 1 < len(parts) else 0) for i, part in enumerate(parts))


def _signed_varint(value: int) -> bytes:
    return _varint(-value << 1 | 1 if value < 0 else value << 1)


def _line_table(listed: list[Instruction], starts: list[int], line: int) -> bytes:
    table = bytearray()
    for i, one in enumerate(listed):
        where = one.positions
        length = starts[i + 1] - starts[i]
        while length > 0:
            units = min(length, 8)
            length -= units
            if where.line is None:
                table.append(0x80 | 15 << 3 | units - 1)
                continue
            body = _signed_varint(where.line - line)
            if where.column is None or where.end_column is None or where.end_line is None:
                table += bytes((0x80 | 13 << 3 | units - 1,)) + body
            else:
                body += _varint(where.end_line - where.line) + _varint(where.column + 1)
                table += bytes((0x80 | 14 << 3 | units - 1,)) + body + _varint(where.end_column + 1)
            line = where.line
    return bytes(table)


def _exception_table(listed: list[Instruction], starts: list[int]) -> bytes:
    place = {id(one): i for i, one in enumerate(listed)}
    table = bytearray()
    i = 0
    while i < len(listed):
        handler = listed[i].handler
        first = i
        i += 1
        if handler is None:
            continue
        key = (id(handler.target), handler.depth, handler.lasti)
        while i < len(listed) and (h := listed[i].handler) is not None and (id(h.target), h.depth, h.lasti) == key:
            i += 1
        entry = (starts[first], starts[i] - starts[first], starts[place[id(handler.target)]],
                 handler.depth << 1 | handler.lasti)
        for k, number in enumerate(entry):
            encoded = _big_varint(number)
            table += bytes((encoded[0] | (0x80 if k == 0 else 0),)) + encoded[1:]
    return bytes(table)


def _big_varint(value: int) -> bytes:
    """As the exception table has them: the highest six bits first."""
    parts = [value & 63]
    while value := value >> 6:
        parts.append(value & 63)
    return bytes(part | (64 if i else 0) for i, part in reversed(list(enumerate(parts))))
