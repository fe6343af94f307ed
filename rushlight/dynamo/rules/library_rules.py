"""Rules for functions of Python's library whose results depend on more than their arguments, or need care.

Enters: calls of them in captured programs. Leaves: results with guards on what they were read from (`os.environ`), or
calls to make behind the graph (`warnings.catch_warnings`). Joins the table of `natives.py`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import threading
import types
import warnings
import weakref
from typing import Any

from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from ..values.guards import Kind, Predicate
from ..values.outside import is_python_class
from ..values.sources import Constant, Local
from . import stand_ins
from .natives import Identity, special

_DATA = (int, float, bool, str, type(None))


@special(sys.exception)
def _exception(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """The exception that is being handled."""
    return m.handled


@special(re._compile)  # type: ignore[attr-defined]
def _pattern(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """A pattern is what its text and flags say, whatever the cache of patterns holds."""
    if not all(isinstance(a, (str, bytes, int, re.Pattern)) for a in (*args, *kwargs.values())):
        raise GraphBreak("not modelled", "a pattern of something that is no text")
    return m.native(f, args, kwargs)


if hasattr(functools.singledispatchmethod(len), "_method_cache"):      # 3.13 keeps methods by their owners

    @special(functools.singledispatchmethod.__get__)
    def _bound_dispatch(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
        return m.call(stand_ins.bound_dispatch, args, kwargs)


@special(os.fspath)
def _fspath(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if type(args[0]) not in (str, bytes):
        return m.call(m.load_attr(args[0], "__fspath__"), (), {})
    return args[0]


@special(type(os.environ).__getitem__)
def _environment(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """A variable of the environment, as it is now."""
    owner, name = args
    if owner is not os.environ or type(name) is not str:
        raise GraphBreak("native", "the environment of the process is read")
    value = owner.get(name)
    m.outside.guard(Kind.PREDICATE, Constant(os.environ, "os.environ"),
                    Predicate(_Variable(name, value), f"{name} is {value!r} in the environment"))
    m.outside.taken.append(Constant(os.environ, f"os.environ[{name!r}]"))
    if value is None:
        raise Raised(KeyError(name))
    return value


class _Variable:
    """Whether a variable of the environment is what it was."""

    def __init__(self, name: str, value: str | None) -> None:
        self.name, self.value = name, value

    def __call__(self, environ: Any) -> bool:
        return environ.get(self.name) == self.value


@special(threading.get_ident)
def _thread(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return Identity(f())


@special(json.dumps, json.loads)
def _json(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if not _is_data((args, kwargs)):
        raise GraphBreak("not modelled", f"{shown(f)} of objects, or with functions")
    return m.native(f, args, kwargs)


def _is_data(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_data, value))
    if type(value) is dict:
        return all(_is_data(part) for item in value.items() for part in item)
    return type(value) in _DATA


# --- weak references --------------------------------------------------------------------------------------------------


@special(weakref.ref)
def _reference(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """A weak reference to an argument of the frame, which whoever calls it holds, or to an object made here."""
    known = m.twin_of(args[0])
    is_held = is_python_class(type(args[0])) if known is None else (
        isinstance(known.source, Local) and known.kind == "object")
    if len(args) != 1 or not is_held:
        raise GraphBreak("not modelled", "a weak reference is made, to an object that may go")
    return weakref.ref(args[0])


def referent(m: Machine, reference: weakref.ReferenceType) -> Any:
    """What a weak reference refers to, where the program has that by another name too."""
    found = reference()
    if m.twin_of(found) is None and any(found is v for frame in m.frames for v in frame.slots.values()):
        return found      # made here, and a variable holds it
    if m.twin_of(found) is not None and m.twin_of(found).real is not found:      # a reference made here
        return found
    known = m.outside.by_real.get(id(found))
    if known is None or known.twin is None:
        raise GraphBreak("native", "a weak reference is followed to an object that is found nowhere else")
    m.outside.guard(Kind.PREDICATE, known.source,
                    Predicate(lambda value: value is reference(), "what a weak reference refers to"))
    return known.twin


# --- loggers and warnings ---------------------------------------------------------------------------------------------


def is_get_logger(function: types.FunctionType) -> bool:
    """Whether a function is `logging.getLogger`; the module takes long to load."""
    return function.__module__ == "logging" and function is getattr(sys.modules.get("logging"), "getLogger", None)


def logger(m: Machine, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The logger of a name, which is always the same."""
    found = m.native(function, args, kwargs)
    return m.outside.admit(found, Constant(found, f"logging.getLogger({', '.join(map(repr, args))})"))


@special(warnings.catch_warnings)
def _catch(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if args or kwargs.get("record") or kwargs.get("module") is not None or not _is_data(
            [v for k, v in kwargs.items() if k != "category"]):
        raise GraphBreak("native", "warnings are recorded")
    return Block(m, kwargs)


class Block:
    """What stands for `warnings.catch_warnings()` while it is captured: it is entered and left behind the graph, where
    what is said inside is said."""

    def __init__(self, machine: Machine, kwargs: dict[str, Any]) -> None:
        self.machine, self.kwargs, self.start = machine, kwargs, 0

    def __enter__(self) -> None:
        self.start = len(self.machine.deferred)

    def __exit__(self, *exc: object) -> None:
        said = self.machine.deferred
        inside = tuple(said[self.start:])
        del said[self.start:]
        said.append((_say_inside, (dict(self.kwargs), inside), {}))


def _say_inside(options: dict[str, Any], said: tuple) -> None:
    with warnings.catch_warnings(**options):
        for function, args, kwargs in said:
            if function is warnings.warn and len(args) < 3:      # names its caller, which is one further up from here
                kwargs = {**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1}
            function(*args, **kwargs)


@special(warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings)
def _filter(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    m.deferred.append((f, args, kwargs))
