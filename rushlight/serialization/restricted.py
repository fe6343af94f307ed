"""Reads a pickle as data: an interpreter of its instructions that runs nothing a list does not allow.

Enters: a buffer with a pickle at some position, a function for the globals it may name, one for its storages. Leaves:
the object and the position behind it. Refuses, with `pickle.UnpicklingError`, every global, call, attribute and
instruction that is not plainly data; `EOFError` where the pickle ends too soon. Nesting costs no stack here.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from typing import Any

from .._C import Tensor
from ..tensors import pickling
from . import allowed, names

_INT, _UINT, _SHORT, _LONG, _DOUBLE = (struct.Struct(form) for form in ("<i", "<I", "<H", "<Q", ">d"))


class Unpickler:
    """The state of one reading: the stack, what lies under the marks, and what has been named.
    Readers of other kinds of pickles change the `table` of instructions and what a `name` may be."""

    table: list[Callable[[Unpickler], None] | None]

    def __init__(self, data: Any, at: int, persistent_load: Callable[[Any], Any], encoding: str = "utf-8") -> None:
        self.data, self.at, self.size = data, at, len(data)
        self.persistent_load = persistent_load
        self.encoding = encoding
        self.stack: list = []
        self.below: list[list] = []
        self.memo: dict[int, Any] = {}
        self.callable: set[int] = set()    # ids of the globals named so far; only they may be called
        self.user = allowed.user_globals()

    def load(self) -> Any:
        """Run to the end of the pickle."""
        data, table = self.data, self.table
        try:
            while True:
                code = data[self.at]
                self.at += 1
                step = table[code]
                if step is None:
                    if code == 0x2E:
                        return self.stack.pop()
                    raise UnpicklingError(f"Unsupported operand {code}")
                step(self)
        except (
            KeyError,
            IndexError,
            struct.error,
            UnicodeDecodeError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            OverflowError,
        ) as error:
            if self.at >= self.size:
                raise EOFError("the pickle ends too soon: the file is damaged or was cut short") from None
            raise UnpicklingError(
                f"the pickle is damaged or not plain data ({type(error).__name__}: {error})"
            ) from error

    def take(self, size: int) -> bytes:
        """The next bytes."""
        at = self.at
        end = at + size
        if end > self.size or size < 0:
            self.at = self.size
            raise EOFError("the pickle ends too soon: the file is damaged or was cut short")
        self.at = end
        return self.data[at:end]

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            self.at = self.size
            raise EOFError("the pickle ends too soon: the file is damaged or was cut short")
        text = bytes(self.data[self.at : end]).decode()
        self.at = end + 1
        return text

    def marked(self) -> list:
        """What is above the last mark."""
        items = self.stack
        self.stack = self.below.pop()
        return items

    def text(self, size: int) -> None:
        self.stack.append(str(self.take(size), "utf-8", "surrogatepass"))

    def old_text(self, size: int) -> None:
        data = bytes(self.take(size))
        self.stack.append(data if self.encoding == "bytes" else data.decode(self.encoding, "strict"))

    def name(self, module: str, name: str) -> None:
        found = allowed.find(*names.python3_name(module, name), self.user)
        if found not in allowed.NAMED_ONLY:
            self.callable.add(id(found))
        self.stack.append(found)

    def check_callable(self, function: Any) -> None:
        if id(function) not in self.callable:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r}")


# --- plain values -----------------------------------------------------------------------------------------------------


def _byte(u: Unpickler) -> None:
    u.stack.append(u.data[u.at])
    u.at += 1


def _fixed(form: struct.Struct) -> Callable[[Unpickler], None]:
    size, unpack = form.size, form.unpack_from

    def step(u: Unpickler) -> None:
        u.stack.append(unpack(u.data, u.at)[0])
        u.at += size

    return step


def _sized(form: str, use: Callable[[Unpickler, int], None]) -> Callable[[Unpickler], None]:
    """An instruction followed by a length and that many bytes."""
    reader = struct.Struct(form)

    def step(u: Unpickler) -> None:
        (size,) = reader.unpack_from(u.data, u.at)
        u.at += reader.size
        use(u, size)

    return step


def _raw(u: Unpickler, size: int) -> None:
    u.stack.append(bytes(u.take(size)))


def _byte_array(u: Unpickler, size: int) -> None:
    u.stack.append(bytearray(u.take(size)))


def _long(u: Unpickler, size: int) -> None:
    u.stack.append(decode_long(bytes(u.take(size))))


def _constant(value: Any) -> Callable[[Unpickler], None]:
    return lambda u: u.stack.append(value)


def _new(make: Callable[[], Any]) -> Callable[[Unpickler], None]:
    return lambda u: u.stack.append(make())


# --- the stack and the memo -------------------------------------------------------------------------------------------


def _mark(u: Unpickler) -> None:
    u.below.append(u.stack)
    u.stack = []


def _get(u: Unpickler) -> None:
    u.stack.append(u.memo[u.data[u.at]])
    u.at += 1


def _long_get(u: Unpickler) -> None:
    u.stack.append(u.memo[_UINT.unpack_from(u.data, u.at)[0]])
    u.at += 4


def _put(u: Unpickler) -> None:
    u.memo[u.data[u.at]] = u.stack[-1]
    u.at += 1


def _long_put(u: Unpickler) -> None:
    u.memo[_UINT.unpack_from(u.data, u.at)[0]] = u.stack[-1]
    u.at += 4


def _memoize(u: Unpickler) -> None:
    u.memo[len(u.memo)] = u.stack[-1]


def _skip(size: int) -> Callable[[Unpickler], None]:
    def step(u: Unpickler) -> None:
        u.take(size)

    return step


def _pop(u: Unpickler) -> None:
    if u.stack:
        u.stack.pop()
    else:
        u.marked()


# --- containers -------------------------------------------------------------------------------------------------------


def _tuple(u: Unpickler) -> None:
    items = tuple(u.marked())
    u.stack.append(items)


def _tuple_of(count: int) -> Callable[[Unpickler], None]:
    def step(u: Unpickler) -> None:
        items = tuple(u.stack[-count:])
        if len(items) < count:
            raise IndexError("the stack is too short")
        u.stack[-count:] = [items]

    return step


def _list(u: Unpickler) -> None:
    items = u.marked()
    u.stack.append(items)


def _dict(u: Unpickler) -> None:
    items = u.marked()
    u.stack.append({})
    _fill(u, items)


def _frozen_set(u: Unpickler) -> None:
    items = u.marked()
    for item in items:
        allowed.check_key(item)
    u.stack.append(frozenset(items))


def _grow(u: Unpickler, items: list) -> None:
    target = u.stack[-1]
    if type(target) is not list:
        raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
    target.extend(items)


def _append(u: Unpickler) -> None:
    _grow(u, [u.stack.pop()])


def _appends(u: Unpickler) -> None:
    _grow(u, u.marked())


def _add_items(u: Unpickler) -> None:
    items, target = u.marked(), u.stack[-1]
    if type(target) is not set:
        raise UnpicklingError(f"Can only add to sets, but got {type(target)}")
    for item in items:
        allowed.check_key(item)
    target.update(items)


def _fill(u: Unpickler, items: list) -> None:
    target = u.stack[-1]
    if not isinstance(target, dict):
        raise UnpicklingError(f"Can only set items of dicts, but got {type(target)}")
    if len(items) % 2:
        raise UnpicklingError("a dict has a key without a value")
    for index in range(0, len(items), 2):
        key = items[index]
        if type(key) is not str:
            allowed.check_key(key)
        target[key] = items[index + 1]


def _set_item(u: Unpickler) -> None:
    value, key = u.stack.pop(), u.stack.pop()
    _fill(u, [key, value])


def _set_items(u: Unpickler) -> None:
    _fill(u, u.marked())


# --- what could do harm -----------------------------------------------------------------------------------------------


def _global(u: Unpickler) -> None:
    module = u.line()
    u.name(module, u.line())


def _stack_global(u: Unpickler) -> None:
    name, module = u.stack.pop(), u.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise UnpicklingError("STACK_GLOBAL requires str")
    u.name(module, name)


def _reduce(u: Unpickler) -> None:
    args, function = u.stack.pop(), u.stack[-1]
    u.check_callable(function)
    u.stack[-1] = function(*args)


def _new_object(u: Unpickler, args: Any, kwargs: dict) -> None:
    cls = u.stack.pop()
    if id(cls) not in u.callable:
        raise UnpicklingError(f"NEWOBJ: expected Parameter or a class named to `add_safe_globals`, got {cls!r}")
    u.stack.append(cls.__new__(cls, *args, **kwargs) if isinstance(cls, type) else cls(*args, **kwargs))


def _newobj(u: Unpickler) -> None:
    _new_object(u, u.stack.pop(), {})


def _newobj_ex(u: Unpickler) -> None:
    kwargs, args = u.stack.pop(), u.stack.pop()
    _new_object(u, args, kwargs)


def _build(u: Unpickler) -> None:
    state, target = u.stack.pop(), u.stack[-1]
    cls = type(target)
    if cls is Tensor:
        target.set_(*state)
    elif cls is OrderedDict:
        allowed.check_attributes(state)
        target.__dict__.update(state)
    elif id(cls) in u.callable or any(cls is known for known in u.user.values()):
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            _set_state(target, state)
    elif cls is pickling.parameter_class():
        target.__setstate__(state)
    else:
        raise UnpicklingError(
            f"BUILD: expected Tensor, Parameter, OrderedDict or a class named to `add_safe_globals`, got {cls}"
        )


def _set_state(target: Any, state: Any) -> None:
    """What pickle does of itself: attributes past `__setattr__`, by which frozen dataclasses refuse; slots by it."""
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if own:
        target.__dict__.update(own)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _persistent(u: Unpickler) -> None:
    key = u.stack.pop()
    if type(key) not in (tuple, int):
        raise UnpicklingError(f"persistent_load: expected a tuple or int, got {type(key)}")
    if type(key) is tuple and key and key[0] not in ("storage", b"storage"):
        raise UnpicklingError(f"persistent_load: expected a storage, got {key[0]!r}")
    u.stack.append(u.persistent_load(key))


_STEPS: dict[bytes, Callable[[Unpickler], None]] = {
    b"\x80": _skip(1), b"\x95": _skip(8), b"(": _mark, b"h": _get, b"j": _long_get, b"q": _put, b"r": _long_put,
    b"\x94": _memoize, b"0": _pop, b"1": lambda u: u.marked() and None, b"2": lambda u: u.stack.append(u.stack[-1]),
    b"N": _constant(None), b"\x88": _constant(True), b"\x89": _constant(False), b")": _constant(()),
    b"]": _new(list), b"}": _new(dict), b"\x8f": _new(set), b"K": _byte, b"M": _fixed(_SHORT), b"J": _fixed(_INT),
    b"G": _fixed(_DOUBLE), b"\x8a": _sized("<B", _long), b"\x8b": _sized("<i", _long),
    b"X": _sized("<I", Unpickler.text), b"\x8c": _sized("<B", Unpickler.text),
    b"\x8d": _sized("<Q", Unpickler.text), b"U": _sized("<B", Unpickler.old_text),
    b"T": _sized("<i", Unpickler.old_text), b"B": _sized("<I", _raw), b"C": _sized("<B", _raw),
    b"\x8e": _sized("<Q", _raw), b"\x96": _sized("<Q", _byte_array),
    b"t": _tuple, b"\x85": _tuple_of(1), b"\x86": _tuple_of(2), b"\x87": _tuple_of(3), b"l": _list, b"d": _dict,
    b"\x91": _frozen_set, b"a": _append, b"e": _appends, b"s": _set_item, b"u": _set_items, b"\x90": _add_items,
    b"c": _global, b"\x93": _stack_global, b"R": _reduce, b"\x81": _newobj, b"\x92": _newobj_ex, b"b": _build,
    b"Q": _persistent,
}


def table_of(changed: dict[bytes, Callable[[Any], None]]) -> list[Callable[[Unpickler], None] | None]:
    """What each instruction does, some of them changed."""
    steps = {**_STEPS, **changed}
    return [steps.get(bytes((code,))) for code in range(256)]


Unpickler.table = table_of({})
