"""Ops and functions of this package as data: by their names, the same in every process.

Enters: ops, overloads, definitions; functions and classes that a module of ours has under their own names, and those of
Python's that only compute. Leaves: kinds of `NAMED`, which knows constants too (base/codec.py). Refuses (`NotKept`):
what the program defined, functions that hold anything (closures), rooms whose sources do not count for compiled graphs,
and on reading any other function.
"""

from __future__ import annotations

import types
from typing import Any

from .. import _C
from ..base import sources
from ..base.codec import CONSTANTS, Codec, member
from ..base.disk_cache import NotKept
from ..base.late import import_module
from .definition import OpDefinition
from .registry import _aliases, ops

_ROOT = __name__.partition(".")[0]
# of Python's built-in functions
_COMPUTING = frozenset(("abs", "all", "any", "divmod", "len", "max", "min", "pow", "round", "sorted", "sum"))
_op_names: dict[int, str] = {}


def op_name(op: Any) -> str:
    """The name of one of our ops: by what it is, not by the name it shows, which some have from others."""
    if len(_op_names) != len(ops) + len(_aliases):
        _op_names.clear()
        _op_names.update({id(op): f"alias {name}" for name, op in _aliases.items()})
        _op_names.update({id(op): name for name, op in ops.items()})
    name = _op_names.get(id(op))
    if name is None and ops.get(op.__name__) == op:      # the same as a method is an object of its own
        name = op.__name__
    if name is None or "::" in name:
        raise NotKept(f"the graph calls {op}, which the program defined")
    return name


def _op(name: str) -> Any:
    return _aliases[name.removeprefix("alias ")] if name.startswith("alias ") else ops[name]


def _place(definition: Any) -> tuple[str, int]:
    """The name of the op that has a definition, and where in its list."""
    for name in (definition.name, getattr(definition.spec, "name", definition.name)):
        listed = ops[name].overload_list if name in ops and "::" not in name else ()
        for number, overload in enumerate(listed):
            if overload.definition is definition:
                return name, number
    raise NotKept(f"it holds the definition of {definition.name}, which the program defined")


def _overload_place(overload: Any) -> tuple[str, int]:
    name, number = _place(overload.definition)
    if _overload(name, number) is not overload:
        raise NotKept(f"it holds {overload}, which no op lists")
    return name, number


def _overload(name: str, number: int) -> Any:
    return ops[name].overload_list[number]


# --- functions and classes --------------------------------------------------------------------------------------------


def module_named(home: str, *others: str) -> Any:
    """A module of this package whose source counts for compiled graphs, or one of `others`."""
    root, *parts = home.split(".")
    if home not in others and (root != _ROOT or (len(parts) > 1 and not sources.takes_part(parts[0]))):
        raise NotKept(f"it holds something of {home}")
    try:
        return import_module(home)
    except ImportError as error:
        raise NotKept(f"there is no module {home}") from error


def home_of(x: Any) -> str:
    """The module that a function or class was written in: names that programs see tell of PyTorch's."""
    own = x.__globals__.get("__name__") if type(x) is types.FunctionType else getattr(x, "__module__", None)
    return own or ""


def named(x: Any) -> tuple[str, str]:
    """Module and name of what a module of ours, or of Python's own, holds under its name."""
    home, name = home_of(x), getattr(x, "__qualname__", "")
    if "<" in name or getattr(x, "__closure__", None) is not None or _lookup(home, name) is not x:
        raise NotKept(f"it holds {name or x!r:.60}, which is the program's own or has no name")
    return home, name


def _lookup(home: str, name: str) -> Any:
    found = member(module_named(home, "math", "_operator", "builtins"), name)
    is_known = isinstance(found, type) or home != "builtins" or name in _COMPUTING
    is_whole = isinstance(found, (type, types.FunctionType, types.BuiltinFunctionType))
    if not (is_known and is_whole and (home_of(found), found.__qualname__) == (home, name)):      # not what it imports
        raise NotKept(f"it holds {name} of {home}")
    return found


NAMED = Codec(CONSTANTS)
NAMED.add(_C.Op, "op", lambda x: (op_name(x),), _op, derived=True)
NAMED.add(_C.Overload, "overload", _overload_place, _overload)
NAMED.add(OpDefinition, "definition", _place, lambda name, number: _overload(name, number).definition, derived=True)
for _kind in (types.FunctionType, types.BuiltinFunctionType):
    NAMED.add(_kind, "named", named, _lookup)
NAMED.add(type, "named", named, _lookup, derived=True)
