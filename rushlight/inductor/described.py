"""Functions and records of this package as data: where a function's code lies, and what it holds.

Enters: what steps of a plan call between kernels, and what they raise errors with. Leaves: what JSON can hold; and the
other way round, functions with the same code. To what has a name (op/stored.py) it adds functions that hold something:
such a one is named by its module (of this package), the names around it and its line; what its cells hold is described
likewise. Refuses (`NotKept`) whatever it does not know, tensors and functions of the program above all: a plan that
holds them is not kept.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base.codec import Codec
from ..base.disk_cache import NotKept
from ..op.indexed import _Shape
from ..op.stored import NAMED, home_of, module_named, named
from .values import Buffer, Value

RECORDS = {record.__name__: record for record in (Buffer, Value, _Shape)}


# --- functions --------------------------------------------------------------------------------------------------------


def _function_parts(f: types.FunctionType) -> tuple:
    home, code = home_of(f), f.__code__
    if _code(home, code.co_qualname, code.co_firstlineno) is not code:
        raise NotKept(f"it holds the function {f.__module__}.{f.__qualname__}")
    try:
        cells = [c.cell_contents for c in f.__closure__ or ()]
    except ValueError as error:
        raise NotKept(f"it holds the function {f.__qualname__}, a cell of which is empty") from error
    return home, code.co_qualname, code.co_firstlineno, cells, f.__defaults__, f.__kwdefaults__


def _function(home: str, qualified: str, line: int, cells: list[Any], defaults: Any, by_name: Any) -> Callable:
    code = _code(home, qualified, line)
    if code is None or len(code.co_freevars) != len(cells):
        raise NotKept(f"it holds no function {home}.{qualified}")
    held = tuple(map(types.CellType, cells))
    result = types.FunctionType(code, vars(module_named(home)), code.co_name, defaults, held)
    result.__kwdefaults__ = by_name
    return result


def _code(home: str, qualified: str, line: int) -> types.CodeType | None:
    """The code of that name and line, found from the module inwards; None where there is not just one."""
    places: list[Any] = [module_named(home)]
    for name in qualified.split("."):
        inner: list[Any] = []
        for place in places:
            if name == "<locals>":
                inner += [place] if isinstance(place, types.CodeType) else [place.__code__] * hasattr(place, "__code__")
            elif isinstance(place, types.CodeType):
                inner += [c for c in place.co_consts if isinstance(c, types.CodeType) and c.co_name == name]
            elif name in vars(place):
                found = vars(place)[name]
                inner.append(getattr(found, "__func__", getattr(found, "__wrapped__", found)))
        places = inner
    codes = [place if isinstance(place, types.CodeType) else getattr(place, "__code__", None) for place in places]
    found = [code for code in codes if code is not None and code.co_firstlineno == line]
    return found[0] if len(found) == 1 else None


def _builtin(x: Any) -> tuple:
    is_free = x.__self__ is None or isinstance(x.__self__, types.ModuleType)
    return ("named", *named(x)) if is_free else ("method", x.__self__, x.__name__)


# --- other things -----------------------------------------------------------------------------------------------------


def _generator_parts(x: Any) -> tuple:
    if x is not _C.default_generator:
        raise NotKept("it holds a generator of the program's own")
    return ()


def _record(name: str, fields: dict[str, Any]) -> Any:
    result = RECORDS[name].__new__(RECORDS[name])
    vars(result).update(fields)
    return result


def _module(name: str) -> Any:
    return module_named(name, "math")


HELD = Codec(NAMED)
HELD.add(types.FunctionType, "function", _function_parts, _function)
HELD.add(types.MethodType, "method", lambda x: (x.__self__, x.__name__), getattr)
HELD.exact[types.BuiltinFunctionType] = _builtin
HELD.add(types.ModuleType, "module", lambda x: (_module(x.__name__).__name__,), _module)
HELD.add(functools.partial, "partial", lambda x: (x.func, x.args, x.keywords),
         lambda f, args, by_name: functools.partial(f, *args, **by_name))
HELD.add(_C.Generator, "generator", _generator_parts, lambda: _C.default_generator)
for _kind in RECORDS.values():
    HELD.add(_kind, "record", lambda x: (type(x).__name__, vars(x)), _record)
