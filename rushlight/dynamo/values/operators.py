"""Operators, truth, items and iteration of values in the captured program.

Enters: values of the stack. Leaves: what Python would give. Operators of built-in types and tensors run as they are
(tensor ops are recorded); special methods written in Python run in the interpreter. Refuses (breaks the graph): the
truth of a tensor's elements.
"""

from __future__ import annotations

import enum
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..._C import Tensor
from ...symbols import SymBool
from ..record.breaks import GraphBreak, Raised, shown
from ..record.hidden import asked_here, is_hidden, is_long, names_in, needs
from . import masks
from .attributes import MISSING, SYMBOLS, Attributes, on_class, python_method
from .floats import as_numbers
from .guards import Kind
from .outside import is_python_class
from .sources import Constant

_REFLECTED = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}
_NAMES = {"and_": "and", "or_": "or"}


def has_operators(x: Any) -> bool:
    """Whether operators on an object may be functions of the program: members of enums that are strings have them."""
    return is_python_class(type(x)) or isinstance(x, enum.Enum)


def class_getitem(owner: type) -> types.FunctionType | None:
    """The function of the program that Class[key] calls, if there is one."""
    if on_class(type(owner), "__getitem__") is not MISSING:
        return None
    for kind in owner.__mro__:
        found = vars(kind).get("__class_getitem__")
        if found is not None:
            function = getattr(found, "__func__", None)
            is_own = type(function) is types.FunctionType and function.__module__ != "typing"
            return function if is_own else None
    return None


class unwatched:  # noqa: N801 - used as a function
    """Inside, built-in code has handed control back to the machine."""

    def __enter__(self) -> None:
        self.before = sys.getprofile()
        sys.setprofile(None)

    def __exit__(self, *exc: Any) -> None:
        put_back(self.before)


def put_back(profiler: Any) -> None:
    """Watch calls again as before. Profilers that are written in C are told themselves: they are no functions."""
    if profiler is None or callable(profiler):
        sys.setprofile(profiler)
    else:
        profiler.enable()


class Generator:
    """A generator of the captured program; built-in functions may draw from it too."""

    def __init__(self, machine: Any, frame: Any) -> None:
        self.machine, self.frame = machine, frame
        self.is_started = self.is_running = self.is_done = False
        self.handled: BaseException | None = None

    def __iter__(self) -> Generator:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        return self._go(lambda: self._push(value))

    def _push(self, value: Any) -> None:
        if not self.is_started:
            if value is not None:
                raise TypeError("can't send non-None value to a just-started generator")
            self.is_started = True
        self.frame.stack.append(value)      # what RESUME of a started frame takes off again

    def throw(self, error: Any, *rest: Any) -> Any:
        given = error() if isinstance(error, type) else error
        if not self.is_started:
            self.is_done = True
        return self._go(lambda: self.frame.handle(given, self.frame.now))

    def close(self) -> None:
        if self.is_done or not self.is_started:
            self.is_done = True
            return
        try:
            self.throw(GeneratorExit())
        except (GeneratorExit, StopIteration):
            return
        raise RuntimeError("generator ignored GeneratorExit")

    def _go(self, prepare: Callable[[], None]) -> Any:
        """Run until the next value; exceptions leave as themselves, for built-in callers."""
        if self.is_done:
            raise StopIteration
        if self.is_running:
            raise ValueError("generator already executing")
        machine = self.machine
        outer, machine.handled = machine.handled, self.handled
        self.is_running = True
        try:
            with unwatched():
                prepare()
                what, value = self.frame.run()
        except Raised as raised:
            self.is_done = True
            error = raised.exception
            if isinstance(error, StopIteration):
                wrapped = RuntimeError("generator raised StopIteration")
                wrapped.__cause__ = error
                raise wrapped from error
            raise error from error.__cause__
        finally:
            self.is_running = False
            self.handled, machine.handled = machine.handled, outer
        if what == "yield":
            return value
        self.is_done = True
        raise StopIteration(value)


class Drawn:
    """An iterator of the program's own classes, for built-in functions to draw from."""

    def __init__(self, machine: Any, iterator: Any) -> None:
        self.machine, self.iterator = machine, iterator

    def __iter__(self) -> Drawn:
        return self

    def __next__(self) -> Any:
        try:
            with unwatched():
                return self.machine.advance(self.iterator)
        except Raised as raised:
            raise raised.exception from raised.exception.__cause__


class Operators(Attributes):
    """The part of the machine that computes."""

    # --- truth and identity -------------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        """bool(value)"""
        if value is True or value is False:
            return value
        if isinstance(value, Tensor):
            if value.numel() == 0 and not isinstance(value.numel(), SYMBOLS):
                return self.native(bool, (value,))
            raise GraphBreak("elements", "the truth of a tensor decides where the program goes")
        if is_hidden(value):
            answer = value.env.decide(value.expression) if isinstance(value, SymBool) else None
            if answer is None:
                raise asked_here(value)
            return answer
        if isinstance(value, SYMBOLS) or not is_python_class(type(value)):
            return self.native(bool, (value,))
        for name in ("__bool__", "__len__"):
            found = on_class(type(value), name)
            if found is MISSING:
                continue
            given = self.call(types.MethodType(found, value), (), {}) if isinstance(found, types.FunctionType) \
                else self.native(found, (value,))
            return self.native(bool, (given,))
        return True

    def is_same(self, a: Any, b: Any) -> bool:
        """a is b"""
        if a is b:
            return True
        self.tell_apart(a, b)      # bound methods are new at each read, and types stand for those of their twins
        return False

    def tell_apart(self, a: Any, b: Any) -> None:
        """Guard that two objects from outside are two, where another call might have one in both places."""
        one, other = self.twin_of(a), self.twin_of(b)
        if one is None or other is None or type(one.real) is not type(other.real) or one.kind == "itself":
            return
        if not (isinstance(one.source, Constant) and isinstance(other.source, Constant)):
            self.outside.guard(Kind.NOT_ALIASED, one.source, (other.source,))

    # --- operators ----------------------------------------------------------------------------------------------------

    def binary(self, function: Callable, a: Any, b: Any) -> Any:
        """function(a, b), for a function of `operator`."""
        self.check_open(a, "value")
        self.check_open(b, "value")
        if type(a) is str and function is operator.mod:
            b = as_numbers(b)      # texts of symbols show their names
        if not (has_operators(a) or has_operators(b)):
            if type(a) in (list, tuple) and function in (operator.eq, operator.ne) and type(a) is type(b):
                return self.same_members(function, a, b)
            return self.native(function, (a, b))
        name = function.__name__
        if name in _REFLECTED:
            return self.compare(function, name, a, b)
        is_inplace = name.startswith("i") and name not in ("invert", "is_")
        plain = name[1:] if is_inplace else name
        plain = _NAMES.get(plain, plain).rstrip("_")
        if is_inplace:
            given = self.try_method(a, f"__i{plain}__", b)
            if given is not NotImplemented:
                return given
        order = [(a, f"__{plain}__", b), (b, f"__r{plain}__", a)]
        if type(b) is not type(a) and issubclass(type(b), type(a)) and on_class(type(b), order[1][1]) is not MISSING:
            order.reverse()
        for owner, method, other in order:
            given = self.try_method(owner, method, other)
            if given is not NotImplemented:
                return given
        return self.native(function, (a, b))

    def compare(self, function: Callable, name: str, a: Any, b: Any) -> Any:
        order = [(a, f"__{name}__", b), (b, f"__{_REFLECTED[name]}__", a)]
        if type(b) is not type(a) and issubclass(type(b), type(a)):
            order.reverse()
        for owner, method, other in order:
            if name == "ne" and on_class(type(owner), method) is object.__ne__ and python_method(owner, "__eq__"):
                given = self.try_method(owner, "__eq__", other)      # what is not equal is unequal
                given = given if given is NotImplemented else not self.truth(given)
            else:
                given = self.try_method(owner, method, other)
            if given is not NotImplemented:
                return given
        if name in ("eq", "ne"):
            return self.is_same(a, b) is (name == "eq")
        return self.native(function, (a, b))

    def same_members(self, function: Callable, a: Any, b: Any) -> Any:
        if not any(is_python_class(type(x)) for x in (*a, *b)):
            return self.native(function, (a, b))
        same = len(a) == len(b) and all(
            self.are_equal(x, y) for x, y in zip(a, b, strict=True))
        return same is (function is operator.eq)

    def try_method(self, owner: Any, name: str, other: Any) -> Any:
        """owner.__name__(other), or NotImplemented."""
        found = on_class(type(owner), name)
        if found is MISSING or found is None:
            return NotImplemented
        if isinstance(found, types.FunctionType) and not isinstance(owner, (Tensor, *SYMBOLS)):
            return self.call(found, (owner, other), {})
        result = self.native(found, (owner, other))
        if is_hidden(result) and is_long(result):
            raise needs("a formula of numbers that depend on elements gets long", names_in(result))
        return result

    def unary(self, name: str, value: Any) -> Any:
        """+, - and ~"""
        if python_method(value, f"__{name}__"):
            return self.call(on_class(type(value), f"__{name}__"), (value,), {})
        return self.native(getattr(operator, name), (value,))

    # --- items --------------------------------------------------------------------------------------------------------

    def get_item(self, owner: Any, key: Any) -> Any:
        """owner[key]"""
        if isinstance(owner, type):
            found = class_getitem(owner)
            if found is not None:
                return self.call(found, (owner, key), {})
            return self.native(operator.getitem, (owner, key))
        if python_method(owner, "__getitem__"):
            return self.call(on_class(type(owner), "__getitem__"), (owner, key), {})
        if isinstance(key, Tensor) and not self.has_classes and masks.is_mask(owner, key):
            found = masks.get(self, owner, key)
            if found is not MISSING:
                return found
        self.check_open(owner, "items")
        if isinstance(owner, dict) and type(owner).__flags__ & 512 and python_method(owner, "__missing__"):
            if not self.native(dict.__contains__, (owner, key)):
                return self.call(on_class(type(owner), "__missing__"), (owner, key), {})
        factory = getattr(owner, "default_factory", None)
        if factory is not None and isinstance(owner, dict) and key not in owner:
            owner[key] = self.call(factory, (), {})
        if python_method(key, "__index__"):
            key = self.call(on_class(type(key), "__index__"), (key,), {})
        self.prepare(key)
        return self.native(operator.getitem, (owner, key))

    def set_item(self, owner: Any, key: Any, value: Any) -> None:
        """owner[key] = value"""
        if python_method(owner, "__setitem__"):
            self.call(on_class(type(owner), "__setitem__"), (owner, key, value), {})
            return
        if isinstance(key, Tensor) and not self.has_classes and masks.is_mask(owner, key):
            if masks.put(self, owner, key, value):
                return
        self.check_open(owner, "items")
        self.prepare(key)
        self.native(operator.setitem, (owner, key, value))

    def delete_item(self, owner: Any, key: Any) -> None:
        """del owner[key]"""
        if python_method(owner, "__delitem__"):
            self.call(on_class(type(owner), "__delitem__"), (owner, key), {})
            return
        self.check_open(owner, "items")
        self.native(operator.delitem, (owner, key))

    def contains(self, owner: Any, key: Any) -> bool:
        """key in owner"""
        if python_method(owner, "__contains__"):
            return self.truth(self.call(on_class(type(owner), "__contains__"), (owner, key), {}))
        if on_class(type(owner), "__contains__") is MISSING and is_python_class(type(owner)):
            return any(self.are_equal(x, key) for x in self.iterable(owner))
        if isinstance(owner, Tensor) or (isinstance(key, Tensor) and type(owner) in (list, tuple)):
            if isinstance(owner, Tensor):
                raise GraphBreak("elements", "whether a tensor contains a value is asked")
            return any(x is key for x in owner) or self.contained_tensor(owner, key)
        self.check_open(owner, "members")
        if type(owner) in (list, tuple) and any(is_python_class(type(x)) or is_hidden(x) for x in (key, *owner)):
            return any(self.are_equal(x, key) for x in owner)
        self.prepare(key)
        return self.native(operator.contains, (owner, key))

    def are_equal(self, a: Any, b: Any) -> bool:
        """Whether containers take two members for the same."""
        return self.is_same(a, b) or self.truth(self.binary(operator.eq, a, b))

    def contained_tensor(self, owner: Any, key: Any) -> bool:
        if any(isinstance(x, (Tensor, int, float)) for x in owner):
            raise GraphBreak("elements", "tensors are compared by their elements")
        return False

    def prepare(self, value: Any) -> None:
        """Objects that compare or hash themselves in Python, in the hands of native code: all there is of them."""
        if is_python_class(type(value)) and (python_method(value, "__hash__") or python_method(value, "__eq__")):
            known = self.twin_of(value)
            if known is not None and known.kind == "object":
                self.outside.fill(known)

    def check_open(self, owner: Any, what: str) -> None:
        """Break where an object cannot be looked into."""
        known = self.twin_of(owner)
        if known is not None and known.is_closed:
            raise GraphBreak("opaque object", f"{known.source} is a {type(owner).__qualname__}, asked for its {what}")

    # --- iteration ----------------------------------------------------------------------------------------------------

    def is_outer_set(self, value: Any) -> bool:
        """Whether a value is a set from outside, whose order another run need not have."""
        known = self.twin_of(value) if type(value) in (set, frozenset) else None
        return known is not None and len(value) > 1

    def iterate(self, value: Any) -> Any:
        """iter(value)"""
        if self.is_outer_set(value):
            raise GraphBreak("not modelled", "the order of a set from outside decides")
        if python_method(value, "__iter__"):
            return self.call(on_class(type(value), "__iter__"), (value,), {})
        if type(value) in (Generator, Drawn):
            return value
        self.check_open(value, "members")
        if on_class(type(value), "__iter__") is MISSING and python_method(value, "__getitem__"):
            return self.by_numbers(value)
        if isinstance(value, type) and not isinstance(value, enum.EnumMeta):
            raise GraphBreak("not modelled", f"iteration over the class {shown(value)}")
        return self.native(iter, (value,))

    def by_numbers(self, value: Any) -> Iterator[Any]:
        """Iteration over something that only has __getitem__."""
        i = 0
        while True:
            try:
                item = self.get_item(value, i)
            except Raised as raised:
                if isinstance(raised.exception, (IndexError, StopIteration)):
                    return
                raise
            yield item
            i += 1

    def advance(self, iterator: Any) -> Any:
        """next(iterator), with StopIteration at the end."""
        if python_method(iterator, "__next__") and type(iterator) not in (Generator, Drawn):
            return self.call(on_class(type(iterator), "__next__"), (iterator,), {})
        self.check_open(iterator, "next member")
        return self.native(next, (iterator,))

    def next(self, iterator: Any, default: Any) -> Any:
        """next(iterator, default)"""
        try:
            return self.advance(iterator)
        except Raised as raised:
            if isinstance(raised.exception, StopIteration):
                return default
            raise

    def iterable(self, value: Any) -> Any:
        """Something that built-in functions can iterate over."""
        if type(value) in (Generator, Drawn) or not is_python_class(type(value)):
            self.check_open(value, "members")
            if self.is_outer_set(value):
                raise GraphBreak("not modelled", "the order of a set from outside decides")
            return value
        result = self.iterate(value)
        return Drawn(self, result) if python_method(result, "__next__") and type(result) is not Generator else result

    def listed(self, value: Any) -> list[Any]:
        """list(value)"""
        return self.native(list, (self.iterable(value),))

    def unpacked(self, value: Any, before: int, after: int | None) -> list[Any]:
        """The members of a value that is taken apart."""
        if isinstance(value, Tensor) and not value.ndim:
            raise Raised(TypeError("iteration over a 0-d tensor"))
        if after is None:
            found: list[Any] = []
            iterator = self.iterate(value)
            for _ in range(before):
                item = self.next(iterator, MISSING)
                if item is MISSING:
                    raise Raised(ValueError(f"not enough values to unpack (expected {before}, got {len(found)})"))
                found.append(item)
            if self.next(iterator, MISSING) is not MISSING:
                raise Raised(ValueError(f"too many values to unpack (expected {before})"))
            return found
        found = self.listed(value)
        if len(found) < before + after:
            raise Raised(ValueError(
                f"not enough values to unpack (expected at least {before + after}, got {len(found)})"))
        return found

    def mapping(self, value: Any) -> dict[str, Any]:
        """dict(value), for ** and updates."""
        if isinstance(value, dict) and not python_method(value, "__getitem__") and not python_method(value, "keys"):
            return dict(value)
        keys = self.listed(self.call(self.load_attr(value, "keys"), (), {}))
        return {k: self.get_item(value, k) for k in keys}
