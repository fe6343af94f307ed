"""Instructions that decide where a frame goes: jumps, matching, calls, generators, exceptions and blocks.

Enters and leaves as in `frame.py`, whose table they join.
"""

from __future__ import annotations

import opcode
import types
from collections.abc import Callable
from typing import Any

from ..bytecode.instructions import SPECIAL_METHODS, VERSION, Instruction
from ..record.breaks import Raised, not_modelled
from .frame import NULL, OPS, UNBOUND, Frame, op

# --- jumps ------------------------------------------------------------------------------------------------------------


@op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP")
def _jump(f: Frame, one: Instruction) -> None:
    f.jump(one)


def _jump_if(wanted: bool) -> Callable:
    def jump(f: Frame, one: Instruction) -> None:
        if f.truth(f.stack.pop(), f.at - 1) is wanted:
            f.jump(one)

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
    named = f.stack.pop() if VERSION >= (3, 14) or (one.arg or 0) & 1 else NULL      # 3.14: NULL where there are none
    kwargs = {} if named is NULL else f.machine.mapping(named)
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
    if closure is None and code.co_freevars:      # 3.13: SET_FUNCTION_ATTRIBUTE follows and brings it
        closure = tuple(types.CellType() for _ in code.co_freevars)
    result = types.FunctionType(code, f.scope, code.co_name, defaults, closure)
    result.__kwdefaults__ = keywords
    if annotations:
        result.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    f.stack.append(f.machine.own_function(result))


@op("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(f: Frame, one: Instruction) -> None:
    value, function = f.pop(2)
    if one.arg == 8:
        result = types.FunctionType(function.__code__, f.scope, function.__name__, function.__defaults__, value)
        result.__kwdefaults__ = function.__kwdefaults__
        function = f.machine.own_function(result)
    elif one.arg == 16:
        function.__annotate__ = value
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
    name = SPECIAL_METHODS[one.arg or 0]
    if name not in ("__enter__", "__exit__"):
        raise not_modelled(f"the special method {name}")
    f.stack += (f.machine.special_method(f.stack.pop(), name), NULL)


@op("WITH_EXCEPT_START")
def _with_except(f: Frame, one: Instruction) -> None:
    error = f.stack[-1]
    leave = f.stack[-4] if VERSION < (3, 14) else f.stack[-5]        # NULL for its self is between, in 3.14
    f.stack.append(f.machine.call(leave, (type(error), error, error.__traceback__), {}))


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


@op("LOAD_COMMON_CONSTANT")
def _load_common_constant(f: Frame, one: Instruction) -> None:
    f.stack.append(opcode._common_constants[one.arg or 0])  # type: ignore[attr-defined]


@op("LOAD_ASSERTION_ERROR")
def _load_assertion(f: Frame, one: Instruction) -> None:
    f.stack.append(AssertionError)
