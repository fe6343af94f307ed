"""Classes that the captured program makes: `class` statements, `type(name, bases, members)`.

Enters: the function of a class body, a name, bases. Leaves: a class, made by Python itself from the members that the
interpreter found. Its functions are the program's own: they see the variables around them as they are in the capture.
Refuses (breaks the graph): metaclasses of the program, and classes that leave the frame: each call makes another one.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import types
from typing import TYPE_CHECKING, Any

from ..frames.frame import Frame, op
from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from ..values.attributes import MISSING, is_stable, on_class
from .natives import special

if TYPE_CHECKING:
    from ..bytecode.instructions import Instruction


@special(builtins.__build_class__)
def _build_class(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> type:
    body, name, *given = args
    bases = m.native(types.resolve_bases, (tuple(given),))
    if bases != tuple(given) and not all(is_stable(getattr(base, "__module__", None))
                                         for base in given if not isinstance(base, type)):
        raise GraphBreak("not modelled", "a class is made of what is none")
    kind, members, rest = m.native(types.prepare_class, (name, bases, kwargs))
    check_metaclass(kind)
    frame = Frame(m, body.__code__, body.__globals__, {}, m.closure_of(body))
    frame.members = members
    frame.run()
    if bases != tuple(given):
        members["__orig_bases__"] = tuple(given)
    return make(m, kind, name, bases, members, rest)


def check_metaclass(kind: type) -> None:
    if not is_stable(kind.__module__):
        raise GraphBreak("not modelled", f"{shown(kind)} makes a class")


def make(m: Machine, kind: Any, name: str, bases: tuple, members: dict[str, Any], rest: dict[str, Any]) -> type:
    """kind(name, bases, members, **rest)"""
    for base in bases:
        hook = on_class(base, "__init_subclass__")
        function = getattr(hook, "__func__", None)
        if isinstance(function, types.FunctionType) and not is_stable(function.__module__):
            raise GraphBreak("not modelled", f"{shown(base)} looks at classes that are made of it")
    return own(m, m.native(kind, (name, bases, members), rest))


def own(m: Machine, kind: type) -> type:
    """Note a class that the program made, with its functions."""
    m.own_classes[id(kind)] = kind
    for member in vars(kind).values():
        parts = (member.fget, member.fset, member.fdel) if type(member) is property else (
            member, getattr(member, "__func__", None))
        for part in parts:
            for function in (part, getattr(part, "__wrapped__", None)):
                if isinstance(function, types.FunctionType) and id(function) not in m.own:
                    m.own_function(function)
    return kind


def class_of_members(m: Machine, args: tuple, kwargs: dict[str, Any]) -> type:
    """type(name, bases, members)"""
    name, bases, members = args
    kind = types.prepare_class(name, bases)[0]
    check_metaclass(kind)
    return make(m, kind, name, bases, dict(members), kwargs)


@special(dataclasses.dataclass)
def _dataclass(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not args:
        return functools.partial(f, **kwargs)
    if id(args[0]) not in m.own_classes:
        raise GraphBreak("not modelled", f"{shown(args[0])} becomes a dataclass")
    return own(m, m.native(f, args, kwargs))


# --- the instructions of class bodies ---------------------------------------------------------------------------------


@op("LOAD_BUILD_CLASS")
def _load_build_class(f: Frame, one: Instruction) -> None:
    f.stack.append(builtins.__build_class__)


def _members(f: Frame) -> dict[str, Any]:
    if f.members is None:
        raise GraphBreak("instruction", "names of a module are read one by one")
    return f.members


@op("LOAD_NAME")
def _load_name(f: Frame, one: Instruction) -> None:
    members = _members(f)
    f.stack.append(members[one.argval] if one.argval in members else f.machine.load_global(f, one.argval))


@op("STORE_NAME")
def _store_name(f: Frame, one: Instruction) -> None:
    f.machine.native(_members(f).__setitem__, (one.argval, f.stack.pop()))


@op("DELETE_NAME")
def _delete_name(f: Frame, one: Instruction) -> None:
    if one.argval not in _members(f):
        raise Raised(NameError(f"name '{one.argval}' is not defined"))
    del _members(f)[one.argval]


@op("SETUP_ANNOTATIONS")
def _setup_annotations(f: Frame, one: Instruction) -> None:
    _members(f).setdefault("__annotations__", {})


@op("LOAD_LOCALS")
def _load_locals(f: Frame, one: Instruction) -> None:
    f.stack.append(_members(f))


@op("LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def _load_class_deref(f: Frame, one: Instruction) -> None:
    members = _members(f) if one.name == "LOAD_CLASSDEREF" else f.stack.pop()
    found = members.get(one.argval, MISSING)
    if found is MISSING:
        try:
            found = f.cell(one.argval).cell_contents
        except ValueError:
            raise Raised(NameError(f"cannot access free variable '{one.argval}' where it is not associated with a"
                                   " value in enclosing scope")) from None
    f.stack.append(found)


@op("LOAD_FROM_DICT_OR_GLOBALS")
def _load_dict_or_global(f: Frame, one: Instruction) -> None:
    members = f.stack.pop()
    f.stack.append(members[one.argval] if one.argval in members else f.machine.load_global(f, one.argval))
