"""Functions and records of this package as data: where a function's code lies, and what it holds.

Enters: what steps of a plan call between kernels, and what they raise errors with. Leaves: what JSON can hold; and the
other way round, functions with the same code. A function is named by its module (of this package), the names around it
and its line; what its cells hold is described likewise. Refuses (`NotKept`) whatever it does not know, tensors and
functions of the program above all: a plan that holds them is not kept.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import shape
from ..base.late import import_module
from ..codegen.stored.graphs import NotKept
from ..op import find_op
from ..op.definition import OpDefinition
from ..op.indexed import _Shape
from .values import Buffer, Value

_ROOT = __name__.partition(".")[0]
_PLAIN = (bool, int, float, str, type(None))
_LIBRARIES = ("math", "_operator", "builtins")       # of Python: modules whose functions are named like ours
RECORDS = {record.__name__: record for record in (Buffer, Value, _Shape)}
DTYPES = {str(d).rpartition(".")[2]: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def described(x: Any) -> Any:
    """A value as JSON holds it: plain ones as they are, others as a list that begins with what they are."""
    kind = type(x)
    if kind in _PLAIN:
        return x
    describe = _DESCRIBE.get(kind)
    if describe is not None:
        return describe(x)
    if isinstance(x, OpDefinition):
        return _of_definition(x)
    if kind.__name__ in RECORDS and RECORDS[kind.__name__] is kind:
        return ["record", kind.__name__, {name: described(value) for name, value in vars(x).items()}]
    if isinstance(x, type):
        return ["named", *_name(x)]
    raise NotKept(f"it holds a {kind.__name__} ({x!r:.60})")


def restored(x: Any) -> Any:
    """The value that `described` gave this for."""
    if type(x) is not list:
        return x
    return _RESTORE[x[0]](*x[1:])


# --- functions --------------------------------------------------------------------------------------------------------


def _of_function(f: types.FunctionType) -> list[Any]:
    home = _home(f)
    if not _is_own(home) or _code(home, f.__code__.co_qualname, f.__code__.co_firstlineno) is not f.__code__:
        raise NotKept(f"it holds the function {f.__module__}.{f.__qualname__}")
    try:
        cells = [described(c.cell_contents) for c in f.__closure__ or ()]
    except ValueError as error:
        raise NotKept(f"it holds the function {f.__qualname__}, a cell of which is empty") from error
    return ["function", home, f.__code__.co_qualname, f.__code__.co_firstlineno, cells, described(f.__defaults__),
            described(f.__kwdefaults__)]  # fmt: skip


def _home(f: types.FunctionType) -> str:
    """The module that a function was written in: names that programs see tell of PyTorch's."""
    return f.__globals__.get("__name__", "")


def _function(home: str, qualified: str, line: int, cells: list[Any], defaults: Any, by_name: Any) -> Callable:
    if not _is_own(home):
        raise NotKept(f"it holds a function of {home}")
    code = _code(home, qualified, line)
    if code is None or len(code.co_freevars) != len(cells):
        raise NotKept(f"it holds no function {home}.{qualified}")
    held = tuple([types.CellType(restored(c)) for c in cells])
    result = types.FunctionType(code, vars(import_module(home)), code.co_name, restored(defaults), held)
    result.__kwdefaults__ = restored(by_name)
    return result


def _code(home: str, qualified: str, line: int) -> types.CodeType | None:
    """The code of that name and line, found from the module inwards; None where there is not just one."""
    places: list[Any] = [import_module(home)]
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


def _is_own(module: str) -> bool:
    return module == _ROOT or module.startswith(f"{_ROOT}.")


def _name(x: Any) -> tuple[str, str]:
    """Module and name of what a module of ours, or of Python's own, holds under its name."""
    home, name = getattr(x, "__module__", None) or "", getattr(x, "__qualname__", "")
    if "<" in name or _lookup(home, name) is not x:
        raise NotKept(f"it holds {x!r:.60}")
    return home, name


def _lookup(home: str, name: str) -> Any:
    if not _is_own(home) and home not in _LIBRARIES:
        raise NotKept(f"it holds {name} of {home}")
    found = import_module(home)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _of_builtin(x: Any) -> list[Any]:
    owner = getattr(x, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return ["named", *_name(x)]
    return ["method", described(owner), x.__name__]


# --- things of the core -----------------------------------------------------------------------------------------------


def _of_overload(x: Any) -> list[Any]:
    return ["overload", *_of_definition(x.definition)[1:]]


def _of_definition(x: Any) -> list[Any]:
    for name in (x.name, getattr(x.spec, "name", x.name)):
        try:
            overloads = find_op(name).overload_list
        except AttributeError:
            continue
        for number, overload in enumerate(overloads):
            if overload.definition is x:
                return ["definition", name, number]
    raise NotKept(f"it holds the definition of {x.name}")


def _overload(name: str, number: int) -> Any:
    return find_op(name).overload_list[number]


def _of_generator(x: Any) -> list[Any]:
    if x is not _C.default_generator:
        raise NotKept("it holds a generator of the program's own")
    return ["generator"]


def _record(name: str, fields: dict[str, Any]) -> Any:
    result = RECORDS[name].__new__(RECORDS[name])
    vars(result).update({field: restored(value) for field, value in fields.items()})
    return result


def _of_module(x: types.ModuleType) -> list[Any]:
    if not _is_own(x.__name__) and x.__name__ != "math":
        raise NotKept(f"it holds the module {x.__name__}")
    return ["module", x.__name__]


def _module(name: str) -> Any:
    if not _is_own(name) and name != "math":
        raise NotKept(f"it holds the module {name}")
    return import_module(name)


_DESCRIBE: dict[type, Callable[[Any], Any]] = {
    list: lambda x: ["list", *map(described, x)],
    tuple: lambda x: ["tuple", *map(described, x)],
    dict: lambda x: ["dict", [[described(k), described(v)] for k, v in x.items()]],
    bytes: lambda x: ["bytes", x.hex()],
    slice: lambda x: ["slice", described(x.start), described(x.stop), described(x.step)],
    complex: lambda x: ["complex", x.real, x.imag],
    _C.dtype: lambda x: ["dtype", dtype_name(x)],
    _C.device: lambda x: ["device", str(x)],
    shape.layout: lambda x: ["named", *_core_name(x)],
    shape.memory_format: lambda x: ["named", *_core_name(x)],
    _C.Overload: _of_overload,
    _C.Generator: _of_generator,
    types.FunctionType: _of_function,
    types.BuiltinFunctionType: _of_builtin,
    types.MethodType: lambda x: ["method", described(x.__self__), x.__name__],
    types.ModuleType: _of_module,
    functools.partial: lambda x: ["partial", described(x.func), described(x.args), described(x.keywords)],
}
_RESTORE: dict[str, Callable[..., Any]] = {
    "list": lambda *x: [*map(restored, x)],
    "tuple": lambda *x: tuple(map(restored, x)),
    "dict": lambda pairs: {restored(k): restored(v) for k, v in pairs},
    "bytes": bytes.fromhex,
    "slice": lambda *x: slice(*map(restored, x)),
    "complex": complex,
    "dtype": lambda name: DTYPES[name],
    "device": _C.device,
    "overload": _overload,
    "definition": lambda name, number: _overload(name, number).definition,
    "generator": lambda: _C.default_generator,
    "record": _record,
    "named": _lookup,
    "method": lambda owner, name: getattr(restored(owner), name),
    "module": _module,
    "function": _function,
    "partial": lambda f, args, by_name: functools.partial(restored(f), *restored(args), **restored(by_name)),
}


def _core_name(x: Any) -> tuple[str, str]:
    """A layout or memory format by its name."""
    name = str(x).rpartition(".")[2]
    if getattr(shape, name, None) is not x:
        raise NotKept(f"it holds {x!r:.60}")
    return shape.__name__, name
