"""One frame of the captured program: its stack, locals and cells, and what each instruction does to them.

Enters: instructions of CPython 3.11 to 3.13 (`instructions.decode`). Leaves: the value that the frame returns or
yields, or an exception of the program (`Raised`). Values on the stack are Python objects: fake tensors, symbolic
numbers, twins of objects from outside, and whatever the frame itself made. Instructions that look into objects or call
them ask the `Machine`. Differences between the versions of CPython are here and nowhere else of the interpreter.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .breaks import GraphBreak, Raised, not_modelled
from .instructions import VERSION, Instruction, decode
from .sources import Constant, Global, Item, Source

if TYPE_CHECKING:
    from .interpreter import Machine


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
)  # fmt: skip
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
           ">=": operator.ge}  # fmt: skip
_decoded: dict[types.CodeType, tuple[list[Instruction], dict[int, int]]] = {}


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
    ) -> None:  # fmt: skip
        self.machine, self.code, self.scope, self.is_top = machine, code, scope, is_top
        self.instructions, self.place = decoded(code)
        self.slots: dict[str, Any] = dict(arguments)      # locals, and cells under the names of their variables
        for name, cell in zip(code.co_freevars, closure, strict=True):
            self.slots[name] = cell
        self.stack: list[Any] = []
        self.at = 0
        self.names: tuple[str, ...] = ()                  # keywords of the call that follows
        self.now: Instruction = self.instructions[0]

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
                        found.location = machine.location()
                    raise
                if result is not None:
                    return result
        finally:
            machine.frames.pop()

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
        found = self.slots.get(name, UNBOUND)
        if type(found) is not types.CellType:
            raise GraphBreak("internal", f"the variable {name} has no cell")
        return found

    @property
    def line(self) -> str:
        """Where the frame is, for people."""
        return f"{self.code.co_filename}:{self.now.line or self.code.co_firstlineno} in {self.code.co_qualname}"

    def global_source(self, name: str) -> Source:
        return Global(name) if self.scope is self.machine.scope else Item(Constant(self.scope, self.scope.get("__name__", "")), name)


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


@op("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")
def _load_fast(f: Frame, one: Instruction) -> None:
    value = f.local(one.argval)
    if value is UNBOUND:
        name = one.argval
        raise Raised(UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value"))
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
                               " in enclosing scope")) from None  # fmt: skip


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
    f.stack.append(not f.machine.truth(f.stack.pop()))


@op("TO_BOOL")
def _to_bool(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.truth(f.stack.pop()))


@op("BINARY_OP")
def _binary(f: Frame, one: Instruction) -> None:
    a, b = f.pop(2)
    f.stack.append(f.machine.binary(BINARY[one.arg or 0] if (one.arg or 0) < len(BINARY) else operator.getitem, a, b))


@op("COMPARE_OP")
def _compare(f: Frame, one: Instruction) -> None:
    a, b = f.pop(2)
    found = f.machine.binary(COMPARE[one.argval], a, b)
    f.stack.append(f.machine.truth(found) if VERSION >= (3, 13) and (one.arg or 0) & 16 else found)


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


# --- jumps ------------------------------------------------------------------------------------------------------------


@op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP")
def _jump(f: Frame, one: Instruction) -> None:
    f.jump(one)


def _jump_if(wanted: bool) -> Callable:
    def jump(f: Frame, one: Instruction) -> None:
        if f.machine.truth(f.stack[-1]) is wanted:
            f.jump(one)
        f.stack.pop()

    return jump


def _jump_if_none(wanted: bool) -> Callable:
    def jump(f: Frame, one: Instruction) -> None:
        if (f.stack.pop() is None) is wanted:
            f.jump(one)

    return jump


for _way in ("", "FORWARD_", "BACKWARD_"):
    OPS[f"POP_JUMP_{_way}IF_TRUE"], OPS[f"POP_JUMP_{_way}IF_FALSE"] = _jump_if(True), _jump_if(False)
    OPS[f"POP_JUMP_{_way}IF_NONE"], OPS[f"POP_JUMP_{_way}IF_NOT_NONE"] = _jump_if_none(True), _jump_if_none(False)


@op("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(f: Frame, one: Instruction) -> None:
    if f.machine.truth(f.stack[-1]) is ("TRUE" in one.name):
        f.jump(one)
    else:
        f.stack.pop()


@op("GET_ITER")
def _get_iter(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.iterate(f.stack.pop()))


@op("FOR_ITER")
def _for_iter(f: Frame, one: Instruction) -> None:
    value = f.machine.next(f.stack[-1], UNBOUND)
    if value is not UNBOUND:
        f.stack.append(value)
        return
    if VERSION < (3, 12):
        f.stack.pop()
    elif VERSION == (3, 12):
        f.stack.append(NULL)        # END_FOR takes two
    else:
        f.stack.append(NULL)
    f.jump(one)


# --- matching ---------------------------------------------------------------------------------------------------------


@op("GET_LEN")
def _get_len(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.call(len, (f.stack[-1],), {}))


@op("MATCH_MAPPING", "MATCH_SEQUENCE")
def _match_kind(f: Frame, one: Instruction) -> None:
    flag = 1 << 6 if one.name == "MATCH_MAPPING" else 1 << 5
    f.stack.append(bool(type(f.stack[-1]).__flags__ & flag))


@op("MATCH_KEYS")
def _match_keys(f: Frame, one: Instruction) -> None:
    subject, keys = f.stack[-2], f.stack[-1]
    try:
        values: Any = tuple(f.machine.get_item(subject, k) for k in keys)
    except Raised as raised:
        if not isinstance(raised.exception, KeyError):
            raise
        values = None
    f.stack.append(values)


@op("MATCH_CLASS")
def _match_class(f: Frame, one: Instruction) -> None:
    subject, kind, names = f.pop(3)
    count, machine = one.arg or 0, f.machine
    if not machine.call(isinstance, (subject, kind), {}):
        f.stack.append(None)
        return
    found: list[Any] = []
    if count:
        fields = getattr(kind, "__match_args__", None)
        if fields is None:
            if count > 1 or not kind.__flags__ & 1 << 22:
                raise Raised(TypeError(f"{kind.__name__}() accepts 0 positional sub-patterns ({count} given)"))
            found.append(subject)
            names_of: tuple[str, ...] = ()
        else:
            if count > len(fields):
                raise Raised(TypeError(
                    f"{kind.__name__}() accepts {len(fields)} positional sub-patterns ({count} given)"))
            names_of = tuple(fields[:count])
    else:
        names_of = ()
    for name in (*names_of, *names):
        try:
            found.append(machine.load_attr(subject, name))
        except Raised as raised:
            if not isinstance(raised.exception, AttributeError):
                raise
            f.stack.append(None)
            return
    f.stack.append(tuple(found))


# --- calls ------------------------------------------------------------------------------------------------------------


@op("KW_NAMES")
def _kw_names(f: Frame, one: Instruction) -> None:
    f.names = one.argval


@op("CALL")
def _call(f: Frame, one: Instruction) -> None:
    names, f.names = f.names, ()
    _call_with(f, one.arg or 0, names)


@op("CALL_KW")
def _call_kw(f: Frame, one: Instruction) -> None:
    _call_with(f, one.arg or 0, f.stack.pop())


def _call_with(f: Frame, count: int, names: tuple[str, ...]) -> None:
    args = f.pop(count)
    first, second = f.pop(2)
    if VERSION >= (3, 13):
        function, owner = first, second
    elif first is NULL:
        function, owner = second, NULL
    else:
        function, owner = first, second
    if owner is not NULL:
        args.insert(0, owner)
    split = len(args) - len(names)
    f.stack.append(f.machine.call(function, tuple(args[:split]), dict(zip(names, args[split:], strict=True))))


@op("CALL_FUNCTION_EX")
def _call_ex(f: Frame, one: Instruction) -> None:
    kwargs = f.machine.mapping(f.stack.pop()) if (one.arg or 0) & 1 else {}
    given = f.stack.pop()
    if VERSION >= (3, 13):
        function, _ = f.pop(2)
    else:
        _, function = f.pop(2)
    args = given if type(given) is tuple else tuple(f.machine.listed(given))
    f.stack.append(f.machine.call(function, args, dict(kwargs)))


@op("CALL_INTRINSIC_1")
def _intrinsic(f: Frame, one: Instruction) -> None:
    value = f.stack.pop()
    if one.arg == 6:
        f.stack.append(tuple(value))
    elif one.arg == 5:
        f.stack.append(f.machine.unary("pos", value))
    elif one.arg == 3 and isinstance(value, StopIteration):      # StopIteration may not leave a generator
        error = RuntimeError("generator raised StopIteration")
        error.__cause__ = error.__context__ = value
        f.stack.append(error)
    elif one.arg == 3:
        f.stack.append(value)
    else:
        raise not_modelled(f"intrinsic function {one.arg}")


@op("MAKE_FUNCTION")
def _make_function(f: Frame, one: Instruction) -> None:
    flags = (one.arg or 0) if VERSION < (3, 13) else 0
    code = f.stack.pop()
    closure = f.stack.pop() if flags & 8 else None
    annotations = f.stack.pop() if flags & 4 else None
    keywords = f.stack.pop() if flags & 2 else None
    defaults = f.stack.pop() if flags & 1 else None
    made = types.FunctionType(code, f.scope, code.co_name, defaults, closure)
    made.__kwdefaults__ = keywords
    if annotations:
        made.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    f.stack.append(f.machine.own_function(made))


@op("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(f: Frame, one: Instruction) -> None:
    value, function = f.pop(2)
    if one.arg == 8:
        made = types.FunctionType(function.__code__, f.scope, function.__name__, function.__defaults__, value)
        made.__kwdefaults__ = function.__kwdefaults__
        function = f.machine.own_function(made)
    elif one.arg == 4:
        function.__annotations__ = dict(zip(value[::2], value[1::2], strict=True))
    elif one.arg == 2:
        function.__kwdefaults__ = value
    else:
        function.__defaults__ = value
    f.stack.append(function)


@op("RETURN_VALUE")
def _return(f: Frame, one: Instruction) -> tuple[str, Any]:
    return "return", f.stack.pop()


@op("RETURN_CONST")
def _return_const(f: Frame, one: Instruction) -> tuple[str, Any]:
    return "return", one.argval


@op("IMPORT_NAME")
def _import_name(f: Frame, one: Instruction) -> None:
    level, names = f.pop(2)
    f.stack.append(f.machine.import_name(f, one.argval, names, level))


@op("IMPORT_FROM")
def _import_from(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.import_from(f.stack[-1], one.argval))


# --- generators -------------------------------------------------------------------------------------------------------


@op("RETURN_GENERATOR")
def _return_generator(f: Frame, one: Instruction) -> tuple[str, Any]:
    return "generator", None


@op("YIELD_VALUE")
def _yield(f: Frame, one: Instruction) -> tuple[str, Any]:
    return "yield", f.stack.pop()


@op("GET_YIELD_FROM_ITER")
def _get_yield_from(f: Frame, one: Instruction) -> None:
    f.stack.append(f.machine.iterate(f.stack.pop()))


@op("SEND")
def _send(f: Frame, one: Instruction) -> None:
    value, receiver = f.stack.pop(), f.stack[-1]
    try:
        if value is None:
            f.stack.append(f.machine.advance(receiver))
        else:
            f.stack.append(f.machine.call(f.machine.load_attr(receiver, "send"), (value,), {}))
    except Raised as raised:
        if not isinstance(raised.exception, StopIteration):
            raise
        if VERSION < (3, 12):
            f.stack.pop()
        f.stack.append(raised.exception.value)
        f.jump(one)


@op("END_SEND")
def _end_send(f: Frame, one: Instruction) -> None:
    del f.stack[-2]


# --- exceptions and blocks --------------------------------------------------------------------------------------------


@op("BEFORE_WITH")
def _before_with(f: Frame, one: Instruction) -> None:
    manager = f.stack.pop()
    enter = f.machine.special_method(manager, "__enter__")
    leave = f.machine.special_method(manager, "__exit__")
    f.stack.append(leave)
    f.stack.append(f.machine.call(enter, (), {}))


@op("LOAD_SPECIAL")
def _load_special(f: Frame, one: Instruction) -> None:
    raise GraphBreak("instruction", "LOAD_SPECIAL is not modelled")


@op("WITH_EXCEPT_START")
def _with_except(f: Frame, one: Instruction) -> None:
    error = f.stack[-1]
    f.stack.append(f.machine.call(f.stack[-4], (type(error), error, error.__traceback__), {}))


@op("PUSH_EXC_INFO")
def _push_exc_info(f: Frame, one: Instruction) -> None:
    error = f.stack.pop()
    f.stack += (f.machine.handled, error)
    f.machine.handled = error


@op("POP_EXCEPT")
def _pop_except(f: Frame, one: Instruction) -> None:
    f.machine.handled = f.stack.pop()


@op("CHECK_EXC_MATCH")
def _check_match(f: Frame, one: Instruction) -> None:
    kinds = f.stack.pop()
    f.stack.append(f.machine.native(_matches, (f.stack[-1], kinds)))


def _matches(error: BaseException, kinds: Any) -> bool:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return isinstance(error, kinds)


@op("RERAISE")
def _reraise(f: Frame, one: Instruction) -> None:
    raise Raised(f.stack.pop())


@op("RAISE_VARARGS")
def _raise(f: Frame, one: Instruction) -> None:
    cause = f.stack.pop() if one.arg == 2 else NULL
    if not one.arg:
        if f.machine.handled is None:
            raise Raised(RuntimeError("No active exception to reraise"))
        raise Raised(f.machine.handled)
    error = f.stack.pop()
    if isinstance(error, type) and issubclass(error, BaseException):
        error = f.machine.call(error, (), {})
    if not isinstance(error, BaseException):
        raise Raised(TypeError("exceptions must derive from BaseException"))
    if cause is not NULL:
        if isinstance(cause, type):
            cause = f.machine.call(cause, (), {})
        error.__cause__ = cause
    raise Raised(error)


@op("LOAD_ASSERTION_ERROR")
def _load_assertion(f: Frame, one: Instruction) -> None:
    f.stack.append(AssertionError)
