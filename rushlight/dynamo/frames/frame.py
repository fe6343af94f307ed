"""One frame of the captured program: its stack, locals and cells, and what each instruction does to them.

Enters: instructions of CPython 3.11 to 3.14 (`instructions.decode`). Leaves: the value that the frame returns or
yields, or an exception of the program (`Raised`). Values on the stack are Python objects: fake tensors, symbolic
numbers, twins of objects from outside, and whatever the frame itself made. Instructions that look into objects or call
them ask the `Machine`. Differences between the versions of CPython are here and nowhere else of the interpreter.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...symbols import SymBool, sym_not
from ..bytecode.branches import Branches
from ..bytecode.instructions import VERSION, Instruction, decode
from ..record.breaks import GraphBreak, Raised
from ..record.hidden import SYMBOLS, is_hidden
from ..record.machine import Machine
from ..values.sources import Constant, Global, Item, Source


class _Null:
    """What PUSH_NULL pushes."""

    def __repr__(self) -> str:
        return "NULL"


NULL = _Null()
UNBOUND = _Null()


class Unread:
    """An argument of the top frame that no instruction has looked at yet."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source) -> None:
        self.value, self.source = value, source


BINARY = (
    operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul, operator.mod,
    operator.or_, operator.pow, operator.rshift, operator.sub, operator.truediv, operator.xor, operator.iadd,
    operator.iand, operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imul, operator.imod, operator.ior,
    operator.ipow, operator.irshift, operator.isub, operator.itruediv, operator.ixor,
)
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
           ">=": operator.ge}
_decoded: dict[types.CodeType, tuple[list[Instruction], dict[int, int]]] = {}


_branches: dict[types.CodeType, Branches] = {}


def decoded(code: types.CodeType) -> tuple[list[Instruction], dict[int, int]]:
    """The instructions of a code object, and the place of each by its id."""
    found = _decoded.get(code)
    if found is None:
        instructions = decode(code)
        found = _decoded[code] = instructions, {id(one): i for i, one in enumerate(instructions)}
    return found


class Frame:
    """A frame that runs in the interpreter."""

    def __init__(
        self, machine: Machine, code: types.CodeType, scope: dict[str, Any], arguments: dict[str, Any],
        closure: tuple[types.CellType, ...], is_top: bool = False,
    ) -> None:
        self.machine, self.code, self.scope, self.is_top = machine, code, scope, is_top
        self.instructions, self.place = decoded(code)
        machine.codes.add(code)
        self.slots: dict[str, Any] = dict(arguments)      # locals, and cells under the names of their variables
        for name, cell in zip(code.co_freevars, closure, strict=True):
            self.slots[name] = cell
        self.stack: list[Any] = []
        self.at = 0
        self.names: tuple[str, ...] = ()                  # keywords of the call that follows
        self.members: dict[str, Any] | None = None        # of the class whose body this is
        self.now: Instruction = self.instructions[0]

    @property
    def branches(self) -> Branches:
        """What is known of the code's branches."""
        found = _branches.get(self.code)
        if found is None:
            found = _branches[self.code] = Branches(self.instructions, self.place)
        return found

    def truth(self, value: Any, at: int) -> bool | None:
        """The truth of a value that the jump at `at` goes by; None: both ways were gone, and the frame is where they
        meet."""
        machine = self.machine
        if isinstance(value, (Tensor, *SYMBOLS)):
            assumed = machine.assume(self, value, at)
            if assumed is not None:
                return assumed
            if machine.join(self, value, at):
                return None
            if isinstance(value, Tensor) or (is_hidden(value) and value.env.decide(value.expression) is None):
                supposed = machine.suppose(self, value, at)
                if supposed is not None:
                    return supposed
        return machine.truth(value)

    def push_truth(self, value: Any) -> None:
        """The truth of a value, which the next instruction may jump by, or negate."""
        if is_hidden(value) and self.instructions[self.at].name == "UNARY_NOT":
            self.stack.append(value if isinstance(value, SymBool) else self.machine.binary(operator.ne, value, 0))
            return
        found = self.truth(value, self.at)
        if found is not None:
            self.stack.append(found)

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> tuple[str, Any]:
        """Go on until the frame returns or yields."""
        machine, instructions = self.machine, self.instructions
        machine.frames.append(self)
        try:
            while True:
                one = self.now = instructions[self.at]
                if self.is_top:
                    machine.tick(self)
                self.at += 1
                if machine.follower is not None:
                    machine.follower.step(self, one, len(machine.frames))
                try:
                    handler = OPS.get(one.name)
                    if handler is None:
                        raise GraphBreak("instruction", f"{one.name} is not modelled")
                    result = handler(self, one)
                except Raised as raised:
                    self.handle(raised.exception, one)
                    continue
                except GraphBreak as found:
                    if not found.location:
                        found.location, found.depth = machine.location(), len(machine.frames)
                        found.stack = machine.stack()
                    raise
                if result is not None:
                    return result
        finally:
            machine.frames.pop()

    def run_until(self, ends: frozenset[int]) -> None:
        """Go on to one of these places of this frame, by instructions that neither return nor handle exceptions."""
        while self.at not in ends:
            one = self.now = self.instructions[self.at]
            self.at += 1
            OPS[one.name](self, one)

    def handle(self, error: BaseException, one: Instruction) -> None:
        """Go to the handler of an exception, or pass it on."""
        current = self.machine.handled
        if current is not None and current is not error and error.__context__ is None:
            error.__context__ = current
        handler = one.handler
        if handler is None:
            raise Raised(error)
        del self.stack[handler.depth:]
        if handler.lasti:
            self.stack.append(one.offset)
        self.stack.append(error)
        self.at = self.place[id(handler.target)]

    def jump(self, one: Instruction) -> None:
        self.at = self.place[id(one.target)]

    def pop(self, count: int) -> list[Any]:
        """The last `count` values, in order."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def local(self, name: str) -> Any:
        """The value of a local; arguments of the top frame are admitted when they are first read."""
        value = self.slots.get(name, UNBOUND)
        if type(value) is Unread:
            value = self.slots[name] = self.machine.outside.admit(value.value, value.source)
        return value

    def cell(self, name: str) -> types.CellType:
        """The cell of a variable."""
        found = self.local(name)
        if type(found) is not types.CellType:
            raise GraphBreak("internal", f"the variable {name} has no cell")
        return found

    @property
    def line(self) -> str:
        """Where the frame is, for people."""
        return f"{self.code.co_filename}:{self.now.line or self.code.co_firstlineno} in {self.code.co_qualname}"

    def global_source(self, name: str) -> Source:
        """Where a global of the frame's module is found."""
        if self.scope is self.machine.scope:
            return Global(name)
        return Item(Constant(self.scope, self.scope.get("__name__", "")), name)


# --- the instructions -------------------------------------------------------------------------------------------------

OPS: dict[str, Callable[[Frame, Instruction], tuple[str, Any] | None]] = {}


def op(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        for name in names:
            OPS[name] = function
        return function

    return register


@op("NOP", "RESUME", "CACHE", "PRECALL", "COPY_FREE_VARS", "EXTENDED_ARG", "NOT_TAKEN")
def _nothing(f: Frame, one: Instruction) -> None:
    pass


@op("PUSH_NULL")
def _push_null(f: Frame, one: Instruction) -> None:
    f.stack.append(NULL)


@op("POP_TOP", "END_FOR", "POP_ITER")
def _pop_top(f: Frame, one: Instruction) -> None:
    f.stack.pop()
    if one.name == "END_FOR" and VERSION == (3, 12):
        f.stack.pop()


@op("SWAP")
def _swap(f: Frame, one: Instruction) -> None:
    n = one.arg or 1
    f.stack[-1], f.stack[-n] = f.stack[-n], f.stack[-1]


@op("COPY")
def _copy(f: Frame, one: Instruction) -> None:
    f.stack.append(f.stack[-(one.arg or 1)])


@op("LOAD_CONST", "LOAD_SMALL_INT")
def _load_const(f: Frame, one: Instruction) -> None:
    f.stack.append(one.argval)


@op("LOAD_FAST", "LOAD_FAST_CHECK")
def _load_fast(f: Frame, one: Instruction) -> None:
    value = f.local(one.argval)
    if value is UNBOUND:
        raise Raised(UnboundLocalError(
            f"cannot access local variable '{one.argval}' where it is not associated with a value"))
    f.stack.append(value)


@op("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(f: Frame, one: Instruction) -> None:
    f.stack.append(f.local(one.argval))
    f.slots.pop(one.argval, None)


@op("STORE_FAST")
def _store_fast(f: Frame, one: Instruction) -> None:
    value = f.stack.pop()
    if value is UNBOUND:
        f.slots.pop(one.argval, None)
    else:
        f.slots[one.argval] = value


@op("DELETE_FAST")
def _delete_fast(f: Frame, one: Instruction) -> None:
    if f.slots.pop(one.argval, UNBOUND) is UNBOUND:
        raise Raised(UnboundLocalError(f"cannot access local variable '{one.argval}'"))


@op("MAKE_CELL")
def _make_cell(f: Frame, one: Instruction) -> None:
    name = one.argval
    f.slots[name] = types.CellType(f.local(name)) if name in f.slots else types.CellType()


@op("LOAD_CLOSURE")
def _load_closure(f: Frame, one: Instruction) -> None:
    f.stack.append(f.cell(one.argval))


@op("LOAD_DEREF")
def _load_deref(f: Frame, one: Instruction) -> None:
    try:
        f.stack.append(f.cell(one.argval).cell_contents)
    except ValueError:
        raise Raised(NameError(f"cannot access free variable '{one.argval}' where it is not associated with a value"
                               " in enclosing scope")) from None


@op("STORE_DEREF")
def _store_deref(f: Frame, one: Instruction) -> None:
    f.cell(one.argval).cell_contents = f.stack.pop()


@op("DELETE_DEREF")
def _delete_deref(f: Frame, one: Instruction) -> None:
    del f.cell(one.argval).cell_contents


@op("LOAD_GLOBAL")
def _load_global(f: Frame, one: Instruction) -> None:
    if (one.arg or 0) & 1 and VERSION < (3, 13):
        f.stack.append(NULL)
    f.stack.append(f.machine.load_global(f, one.argval))
    if (one.arg or 0) & 1 and VERSION >= (3, 13):
        f.stack.append(NULL)


@op("STORE_GLOBAL")
def _store_global(f: Frame, one: Instruction) -> None:
    f.machine.store_global(f, one.argval, f.stack.pop())


@op("LOAD_ATTR")
def _load_attr(f: Frame, one: Instruction) -> None:
    if VERSION >= (3, 12) and (one.arg or 0) & 1:
        return _load_method(f, one)
    f.stack.append(f.machine.load_attr(f.stack.pop(), one.argval))


@op("LOAD_METHOD")
def _load_method(f: Frame, one: Instruction) -> None:
    found = f.machine.load_attr(f.stack.pop(), one.argval)
    f.stack += (NULL, found) if VERSION < (3, 13) else (found, NULL)
    return None


@op("LOAD_SUPER_ATTR")
def _load_super_attr(f: Frame, one: Instruction) -> None:
    _, cls, owner = f.pop(3)
    found = f.machine.load_attr(f.machine.native(super, (cls, owner)), one.argval)
    if (one.arg or 0) & 1:
        f.stack += (NULL, found) if VERSION < (3, 13) else (found, NULL)
    else:
        f.stack.append(found)


@op("STORE_ATTR")
def _store_attr(f: Frame, one: Instruction) -> None:
    value, owner = f.pop(2)
    f.machine.store_attr(owner, one.argval, value)


@op("DELETE_ATTR")
def _delete_attr(f: Frame, one: Instruction) -> None:
    f.machine.delete_attr(f.stack.pop(), one.argval)


# --- operators --------------------------------------------------------------------------------------------------------


@op("UNARY_POSITIVE", "UNARY_NEGATIVE", "UNARY_INVERT")
def _unary(f: Frame, one: Instruction) -> None:
    name = {"UNARY_POSITIVE": "pos", "UNARY_NEGATIVE": "neg", "UNARY_INVERT": "invert"}[one.name]
    f.stack.append(f.machine.unary(name, f.stack.pop()))


@op("UNARY_NOT")
def _not(f: Frame, one: Instruction) -> None:
    value = f.stack.pop()
    f.stack.append(f.machine.native(sym_not, (value,)) if is_hidden(value) else not f.machine.truth(value))


@op("TO_BOOL")
def _to_bool(f: Frame, one: Instruction) -> None:
    f.push_truth(f.stack.pop())


@op("BINARY_OP")
def _binary(f: Frame, one: Instruction) -> None:
    which = one.arg or 0
    if which == len(BINARY):        # 3.14: a[b] is one of them
        return _subscript(f, one)
    a, b = f.pop(2)
    f.stack.append(f.machine.binary(BINARY[which], a, b))
    return None


@op("COMPARE_OP")
def _compare(f: Frame, one: Instruction) -> None:
    a, b = f.pop(2)
    found = f.machine.binary(COMPARE[one.argval], a, b)
    if VERSION >= (3, 13) and (one.arg or 0) & 16:
        f.push_truth(found)
    else:
        f.stack.append(found)


@op("IS_OP")
def _is(f: Frame, one: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(f.machine.is_same(a, b) != bool(one.arg))


@op("CONTAINS_OP")
def _contains(f: Frame, one: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(f.machine.contains(b, a) != bool(one.arg))


@op("BINARY_SUBSCR")
def _subscript(f: Frame, one: Instruction) -> None:
    owner, key = f.pop(2)
    f.stack.append(f.machine.get_item(owner, key))


@op("STORE_SUBSCR")
def _store_subscript(f: Frame, one: Instruction) -> None:
    value, owner, key = f.pop(3)
    f.machine.set_item(owner, key, value)


@op("DELETE_SUBSCR")
def _delete_subscript(f: Frame, one: Instruction) -> None:
    owner, key = f.pop(2)
    f.machine.delete_item(owner, key)


@op("BINARY_SLICE")
def _binary_slice(f: Frame, one: Instruction) -> None:
    owner, start, stop = f.pop(3)
    f.stack.append(f.machine.get_item(owner, slice(start, stop)))


@op("STORE_SLICE")
def _store_slice(f: Frame, one: Instruction) -> None:
    value, owner, start, stop = f.pop(4)
    f.machine.set_item(owner, slice(start, stop), value)


# --- containers and strings -------------------------------------------------------------------------------------------


@op("BUILD_TUPLE")
def _build_tuple(f: Frame, one: Instruction) -> None:
    f.stack.append(tuple(f.pop(one.arg or 0)))


@op("BUILD_LIST")
def _build_list(f: Frame, one: Instruction) -> None:
    f.stack.append(f.pop(one.arg or 0))


@op("BUILD_SET")
def _build_set(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.native(set, (f.pop(one.arg or 0),)))


@op("BUILD_MAP")
def _build_map(f: Frame, one: Instruction) -> None:
    parts = f.pop(2 * (one.arg or 0))
    f.stack.append(f.machine.native(dict, (list(zip(parts[::2], parts[1::2], strict=True)),)))


@op("BUILD_CONST_KEY_MAP")
def _build_const_map(f: Frame, one: Instruction) -> None:
    keys = f.stack.pop()
    f.stack.append(dict(zip(keys, f.pop(one.arg or 0), strict=True)))


@op("BUILD_STRING")
def _build_string(f: Frame, one: Instruction) -> None:
    f.stack.append("".join(f.pop(one.arg or 0)))


@op("BUILD_SLICE")
def _build_slice(f: Frame, one: Instruction) -> None:
    f.stack.append(slice(*f.pop(one.arg or 2)))


@op("LIST_EXTEND")
def _list_extend(f: Frame, one: Instruction) -> None:
    given = f.stack.pop()
    f.machine.native(f.stack[-(one.arg or 1)].extend, (f.machine.iterable(given),))


@op("SET_UPDATE")
def _set_update(f: Frame, one: Instruction) -> None:
    given = f.stack.pop()
    f.machine.native(f.stack[-(one.arg or 1)].update, (f.machine.iterable(given),))


@op("DICT_UPDATE", "DICT_MERGE")
def _dict_update(f: Frame, one: Instruction) -> None:
    given = f.stack.pop()
    target = f.stack[-(one.arg or 1)]
    pairs = f.machine.mapping(given)
    if one.name == "DICT_MERGE":
        again = next((k for k in pairs if k in target), None)
        if again is not None:
            raise Raised(TypeError(f"got multiple values for keyword argument '{again}'"))
    target.update(pairs)


@op("LIST_APPEND")
def _list_append(f: Frame, one: Instruction) -> None:
    value = f.stack.pop()
    f.stack[-(one.arg or 1)].append(value)


@op("SET_ADD")
def _set_add(f: Frame, one: Instruction) -> None:
    value = f.stack.pop()
    f.machine.native(f.stack[-(one.arg or 1)].add, (value,))


@op("MAP_ADD")
def _map_add(f: Frame, one: Instruction) -> None:
    key, value = f.pop(2)
    f.machine.set_item(f.stack[-(one.arg or 1)], key, value)


@op("LIST_TO_TUPLE")
def _list_to_tuple(f: Frame, one: Instruction) -> None:
    f.stack.append(tuple(f.stack.pop()))


@op("FORMAT_VALUE")
def _format_value(f: Frame, one: Instruction) -> None:
    flags = one.arg or 0
    spec = f.stack.pop() if flags & 4 else ""
    value = f.stack.pop()
    convert = {1: str, 2: repr, 3: ascii}.get(flags & 3)
    if convert is not None:
        value = f.machine.call(convert, (value,), {})
    f.stack.append(f.machine.call(format, (value, spec), {}))


@op("CONVERT_VALUE")
def _convert_value(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.call({1: str, 2: repr, 3: ascii}[one.arg or 1], (f.stack.pop(),), {}))


@op("FORMAT_SIMPLE")
def _format_simple(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.call(format, (f.stack.pop(), ""), {}))


@op("FORMAT_WITH_SPEC")
def _format_with_spec(f: Frame, one: Instruction) -> None:
    value, spec = f.pop(2)
    f.stack.append(f.machine.call(format, (value, spec), {}))


@op("UNPACK_SEQUENCE")
def _unpack(f: Frame, one: Instruction) -> None:
    values = f.machine.unpacked(f.stack.pop(), one.arg or 0, None)
    f.stack += reversed(values)


@op("UNPACK_EX")
def _unpack_ex(f: Frame, one: Instruction) -> None:
    before, after = (one.arg or 0) & 255, (one.arg or 0) >> 8
    values = f.machine.unpacked(f.stack.pop(), before, after)
    middle = values[before:len(values) - after]
    f.stack += reversed([*values[:before], middle, *values[len(values) - after:]])
