"""Functions that are not interpreted: which of them run as they are, and the rules of those that need care.

Enters: a function that is not written in Python, or is one of this framework's, and its arguments. Leaves: its result,
by a rule of its own (`SPECIAL`) or by running it. Only what is known to depend on its arguments alone, and to change
nothing else, runs during capture; any other function breaks the graph.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import operator
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ... import _C, func
from ..._C import Tensor
from ...autograd import grad as autograd_grad
from ...base import late
from ...base.quantizers import qscheme
from ...base.shape import Size, layout, memory_format
from ...dispatch import autocast
from ...dispatch.modes import below, state as mode_state
from ...nn import Module
from ...nn.modules import hooks
from ...symbols import SymInt, sym_max, sym_min
from ...tensors import interop
from ...utils import checkpoint
from ..record.breaks import GraphBreak, Raised, shown
from ..record.hidden import is_hidden, names_in, needs
from ..record.machine import Machine
from ..record.recorder import without_modes
from ..values.attributes import MISSING, SYMBOLS, is_stable, on_class, python_method
from ..values.floats import as_numbers
from ..values.guards import Kind
from ..values.lists import Ordered
from ..values.operators import Drawn, Generator
from ..values.outside import ITSELF, VIEWS, dict_of, is_of_class, is_plain_key, is_python_class
from ..values.sources import Constant, DictOf, Item
from .regions import Transformed, call_region, with_derivative

ID_IS, LACKS_KEY = Kind.ID_IS, Kind.LACKS_KEY
Rule = Callable[[Machine, Any, tuple, dict[str, Any]], Any]
SPECIAL: dict[Any, Rule] = {}
TENSOR_METHODS: dict[str, Rule] = {}
_Op = type(Tensor.add)

# --- what may run -----------------------------------------------------------------------------------------------------

_FORBIDDEN = {
    print, input, open, exec, eval, compile, globals, locals, vars, dir, breakpoint, id, __import__, delattr,
    memoryview, sys.exc_info,
}
_PURE_MODULES = frozenset((
    "builtins", "math", "_operator", "operator", "itertools", "_functools", "functools", "_collections", "collections",
    "cmath", "_bisect", "_abc", "abc", "re", "_sre", "_string", "enum", "typing", "_typing", "_struct", "binascii",
    "unicodedata", "_heapq", "types", "_statistics", "_collections_abc", "fractions", "numbers", "_hashlib", "zlib",
))
_PLAIN_TYPES = (
    int, float, bool, str, bytes, bytearray, complex, list, tuple, dict, set, frozenset, slice, range, type(None),
    collections.deque, collections.OrderedDict, collections.defaultdict, Size, type({}.keys()), type({}.values()),
    type({}.items()), type(iter([])), type(iter(())), type(iter({})), type(iter(set())), type(iter(range(0))),
    type(iter("")), enumerate, zip, map, filter, reversed, itertools.chain, itertools.count, itertools.islice,
    itertools.repeat, itertools.product, itertools.combinations, itertools.permutations, itertools.cycle,
    itertools.accumulate, itertools.groupby, itertools.starmap, itertools.takewhile, itertools.dropwhile,
    itertools.zip_longest, itertools.pairwise, itertools.compress, re.Pattern, re.Match, types.MappingProxyType,
    types.GenericAlias, operator.itemgetter, operator.attrgetter, operator.methodcaller, _C.dtype, _C.device,
    type(iter({}.items())), type(iter({}.values())), type(reversed([])), BaseException, Generator, Drawn, type,
    types.CodeType, property, type(Ellipsis), type(NotImplemented), types.UnionType, types.SimpleNamespace,
    contextlib.nullcontext, staticmethod, classmethod, types.MethodType, types.FunctionType, object, super,
    itertools.combinations_with_replacement, itertools.filterfalse, layout, memory_format, qscheme,
)
BARE_NEWS = {object.__new__, dict.__new__, list.__new__, collections.OrderedDict.__new__, set.__new__}
CALLS_BACK = ("rushlight.func", "rushlight.functorch", "rushlight._higher_order_ops", "rushlight.autograd.functional")
_STATE = ("manual_seed", "seed", "set_rng_state", "set_default_dtype", "set_default_device", "set_num_threads", "save",
          "load", "use_deterministic_algorithms", "synchronize", "set_printoptions", "fork_rng", "set_stance",
          "set_default_tensor_type", "set_flush_denormal", "get_rng_state", "initial_seed", "compile")
# modules whose contexts graphs need not know of, or that capture itself is made of
ENTERED = ("rushlight.autograd.hooks", "rushlight.autograd.labels", "rushlight.dynamo.rules.library_rules",
           "rushlight.dynamo.rules.subclasses")
_METHOD_TYPES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
                 types.MethodWrapperType, types.ClassMethodDescriptorType)

_CALLABLES = (*_METHOD_TYPES, _Op, operator.itemgetter, operator.attrgetter, operator.methodcaller)


def is_ours(module: str | None) -> bool:
    """Whether a module is of this framework or the standard library."""
    return is_stable(module)


def changes_state(function: Any) -> bool:
    """Whether a function of ours does more than compute."""
    return getattr(function, "__name__", "") in _STATE


def is_native(function: Any) -> bool:
    """Whether a callable is of a kind that `check` can judge."""
    return isinstance(function, _CALLABLES) \
        or (type(function).__module__.startswith("rushlight") and not isinstance(function, Module))


def is_plain_class(kind: type) -> bool:
    """Whether a class may be called as it is."""
    return kind in _PLAIN_TYPES or isinstance(kind, enum.EnumMeta) or (
        issubclass(kind, BaseException) and not isinstance(on_class(kind, "__init__"), types.FunctionType)
        and not isinstance(on_class(kind, "__new__"), types.FunctionType))


def is_new_safe(kind: type) -> bool:
    """Whether `kind.__new__` of a class with built-in bases only makes an object."""
    return any(issubclass(kind, base) for base in (tuple, str, int, float, set, frozenset, dict, list))


def check(machine: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Break the graph where a function is not known to be safe with these arguments."""
    if isinstance(function, type):
        pass
    elif type(function) is _C.MultiTensorUpdate or function is _C.update_rows:
        raise GraphBreak("native", "an optimizer updates its parameters in one native call")
    elif isinstance(function, _Op) or type(function).__module__.startswith("rushlight"):
        return
    elif isinstance(getattr(function, "__self__", None), Tensor):
        check_method(function.__name__)
    elif issubclass(getattr(function, "__objclass__", int), Tensor):
        check_method(function.__name__)
    else:
        if function in _FORBIDDEN:
            raise GraphBreak("native", f"{shown(function)}() is called")
        owner = getattr(function, "__self__", None)
        if isinstance(function, types.BuiltinFunctionType) and (owner is None or isinstance(owner, types.ModuleType)):
            module = function.__module__ or ""
            if module.partition(".")[0] in ("rushlight", "torch"):
                if function.__name__.lstrip("_").startswith(("set_", "push_", "pop_")):
                    raise GraphBreak("native", f"{function.__name__} changes a state that is not of the graph")
            elif module.partition(".")[0] not in _PURE_MODULES:
                raise GraphBreak("native", f"{shown(function)} is not known to be safe")
        else:
            kind = getattr(function, "__objclass__", None) or (owner if isinstance(owner, type) else type(owner))
            is_known = kind in _PLAIN_TYPES or kind.__module__ == "_hashlib" or issubclass(
                kind, (Tensor, tuple, BaseException, enum.Enum)) or (is_ours(kind.__module__) and is_python_class(kind))
            if not is_known and not _has_plain_base(kind):
                raise GraphBreak("native", f"{shown(function)} of {shown(kind)} is not known to be safe")
    for value in (*args, *kwargs.values()):
        known = machine.twin_of(value)
        if known is not None and known.is_closed and function not in _LOOKS_NOT:
            raise GraphBreak("opaque object", f"{shown(function)} is called with {known.source}")


def _has_plain_base(kind: type) -> bool:
    return any(issubclass(kind, base) for base in (dict, list, set, str, int, float, collections.deque))


_LOOKS_NOT = {isinstance, type, issubclass, callable, list.append, tuple, list, dict}


def calls_back(function: Any) -> bool:
    """Whether a built-in function calls functions that it is given."""
    module = getattr(function, "__module__", None) or getattr(type(function), "__module__", "")
    return module in ("functools", "_functools", "itertools", "re", "builtins", "_operator") and not isinstance(
        getattr(function, "__self__", None), (dict, set, tuple, collections.deque)
    ) and getattr(function, "__name__", "") not in ("append", "extend", "insert", "index", "remove", "count")


def has_hooks(machine: Machine, module: Any) -> bool:
    """Whether anybody wants to be called around a module's forward; guards where nobody does."""
    known = machine.twin_of(module)
    own = dict_of(known.real if known is not None else module)
    if any(own.get(name) for name in hooks.CALL_HOOKS) or any(hooks.GLOBAL_CALL_HOOKS):
        return True
    if any(dict_of(module).get(name) for name in hooks.CALL_HOOKS):
        return True
    if known is not None:
        for name in hooks.CALL_HOOKS:
            machine.outside.guard(Kind.LENGTH, Item(DictOf(known.source), name), 0)
    for i, table in enumerate(hooks.GLOBAL_CALL_HOOKS):
        machine.outside.guard(Kind.LENGTH, Item(Constant(hooks.GLOBAL_CALL_HOOKS, "global hooks"), i), len(table))
    return False


# --- rules ------------------------------------------------------------------------------------------------------------


def special(*functions: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for function in functions:
            SPECIAL[function] = rule
        return rule

    return register


def tensor_method(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            TENSOR_METHODS[name] = rule
        return rule

    return register


@special(isinstance)
def _isinstance(m: Machine, f: Any, args: tuple, kwargs: dict) -> bool:
    value, kinds = args
    if isinstance(kinds, types.UnionType):
        kinds = kinds.__args__
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, tuple):
            if _isinstance(m, f, (value, kind), kwargs):
                return True
            continue
        if isinstance(value, (Tensor, *SYMBOLS)):
            own = m.class_of(value)
            if isinstance(kind, type) and (issubclass(own, kind) or (own is not Tensor and kind in own.__mro__)):
                return True
            if kind in SYMBOLS and isinstance(value, kind):
                return True
            continue
        check_python = on_class(type(kind), "__instancecheck__")
        if isinstance(check_python, types.FunctionType) and not is_ours(type(kind).__module__):
            if m.truth(m.call(check_python, (kind, value), {})):
                return True
        elif m.native(isinstance, (value, kind)):
            return True
    return False


@special(type)
def _type(m: Machine, f: Any, args: tuple, kwargs: dict) -> type:
    return m.class_of(args[0]) if len(args) == 1 else m.new_class(args, kwargs)


@special(getattr)
def _getattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    try:
        return m.load_attr(args[0], args[1])
    except Raised as raised:
        if len(args) == 3 and isinstance(raised.exception, AttributeError):
            return args[2]
        raise


@special(hasattr)
def _hasattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> bool:
    try:
        m.load_attr(*args)
    except Raised as raised:
        if isinstance(raised.exception, AttributeError):
            return False
        raise
    return True


@special(setattr)
def _setattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    m.store_attr(*args)


@special(object.__setattr__)
def _object_setattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    m.plain_store(*args)


@special(object.__getattribute__)
def _object_getattribute(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.plain_attr(args[0], type(args[0]), args[1])


@special(object.__delattr__)
def _object_delattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    m.plain_delete(*args)


@special(delattr)
def _delattr(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    m.delete_attr(*args)


@special(super)
def _super(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if not args:
        frame = m.frames[-1]
        name = frame.code.co_varnames[0] if frame.code.co_argcount else None
        first = frame.local(name) if name is not None else None
        if type(first) is types.CellType:
            first = first.cell_contents
        args = frame.cell("__class__").cell_contents, first
    return m.native(super, args)


@special(len)
def _len(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    value = args[0]
    if python_method(value, "__len__") and type(value) is not Generator:
        return m.call(on_class(type(value), "__len__"), (value,), {})
    if isinstance(value, Tensor) and value.ndim:
        return value.shape[0]
    m.check_open(value, "length")
    return m.native(len, args)


@special(iter)
def _iter(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1:
        return m.iterate(args[0])
    return m.native(iter, (m.wrapped(args[0]), args[1]))


@special(next)
def _next(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.advance(args[0]) if len(args) == 1 else m.next(*args)


_SPELLED = (_C.dtype, _C.device)      # their text is what they are


@special(str, repr, format, ascii)
def _text(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    args = tuple(map(as_numbers, args))      # texts of symbols show their names
    value = args[0] if args else ""
    if names_in(value):
        raise needs("text shows a number that depends on the elements of a tensor", names_in(value))
    if isinstance(value, SYMBOLS):      # text shows the number, which is fixed by it
        value = m.native(m.class_of(value), (value,))
        args = value, *args[1:]
    if _holds_tensor(value):
        raise GraphBreak("elements", "the text of a tensor shows its elements")
    names = {str: ("__str__", "__repr__"), repr: ("__repr__",), ascii: ("__repr__",)}.get(f, ("__format__", "__str__"))
    if (is_python_class(type(value)) and type(value) not in _SPELLED) or isinstance(value, enum.Enum):
        if f is format and (len(args) < 2 or args[1] == ""):
            names = ("__format__", "__str__", "__repr__")
        for name in names:
            found = on_class(type(value), name)
            if isinstance(found, types.FunctionType):
                if is_ours(found.__module__) and isinstance(value, enum.Enum):
                    break
                return m.call(found, (value, *(args[1:] if name == "__format__" else ())), {})
        else:
            raise GraphBreak("not modelled", "the text of an object shows its address")
    if type(value) in (list, tuple, dict) and any(is_python_class(type(x)) for x in (*value, *(
            value.values() if type(value) is dict else ()))):
        return m.native(f, (_shown_members(m, value), *args[1:]))
    if type(value) in VIEWS and not is_of_class(value):
        raise GraphBreak("not modelled", "the text of a view shows what it looks at")
    if isinstance(value, (types.FunctionType, types.MethodType, Generator, Identity)):
        raise GraphBreak("not modelled", "the text of an object shows its address")
    return m.native(f, args, kwargs)


def _shown_members(m: Machine, value: Any) -> str:
    """The text of a container whose members have texts of their own."""
    texts = [_text(m, repr, (x,), {}) for x in value]
    if type(value) is dict:
        texts = [f"{k}: {_text(m, repr, (v,), {})}" for k, v in zip(texts, value.values(), strict=True)]
    inside = ", ".join(texts)
    return f"[{inside}]" if type(value) is list else f"{{{inside}}}" if type(value) is dict else (
        f"({inside},)" if len(texts) == 1 else f"({inside})")


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, dict):
        return any(map(_holds_tensor, value.values()))
    return isinstance(value, (list, tuple, set)) and any(map(_holds_tensor, value))


@special(hash)
def _hash(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if python_method(args[0], "__hash__"):
        return m.call(on_class(type(args[0]), "__hash__"), args, {})
    if type(args[0]) in (int, str, float, bool, tuple, bytes, type(None), frozenset):
        return m.native(hash, args)
    raise GraphBreak("not modelled", "hash() of an object is its address")


class Identity(int):
    """What id() gives: good for telling objects apart, and nothing else. It cannot leave the frame."""


@special(id)
def _id(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    m.kept.append(args[0])
    m.identified[id(args[0])] = args[0]
    return Identity(id(args[0]))


@special(abs, round, divmod, pow)
def _arithmetic(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    name = f"__{f.__name__}__"
    if python_method(args[0], name):
        return m.call(on_class(type(args[0]), name), args, kwargs)
    return m.native(f, args, kwargs)


@special(list, tuple, set, frozenset, sorted, enumerate, reversed, any, all, collections.deque, itertools.chain,
         itertools.islice, zip, itertools.product, itertools.cycle, itertools.zip_longest, itertools.pairwise,
         itertools.combinations, itertools.permutations, itertools.chain.from_iterable, itertools.compress)
def _iterates(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if f is reversed and python_method(args[0], "__reversed__"):
        return m.call(on_class(type(args[0]), "__reversed__"), args, {})
    if f in (any, all):
        return _any_all(m, f, m.iterable(args[0]))
    if f is sorted and (kwargs.get("key") is None):
        args = (list(args[0]) if m.is_outer_set(args[0]) else m.listed(args[0])), *args[1:]
        if any(is_python_class(type(x)) for x in args[0]):
            kwargs = {**kwargs, "key": m.own_callback(functools.partial(Ordered, m))}
    check(m, f, args, kwargs)
    if f in (sorted, set, frozenset):      # the order in which a set is gone through does not matter
        args = tuple(list(a) if m.is_outer_set(a) else a for a in args)
    given = tuple(m.iterable(a) if isinstance(a, Iterable) or is_python_class(type(a)) else a for a in args)
    return m.native(f, given, {k: m.callback(v) for k, v in kwargs.items()})


def _any_all(m: Machine, f: Any, values: Any) -> bool:
    wanted = f is any
    iterator = m.iterate(values)
    while (value := m.next(iterator, MISSING)) is not MISSING:
        if m.truth(value) is wanted:
            return wanted
    return not wanted


@special(sum)
def _sum(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    total = args[1] if len(args) > 1 else kwargs.get("start", 0)
    iterator = m.iterate(args[0])
    while (value := m.next(iterator, MISSING)) is not MISSING:
        total = m.binary(operator.add, total, value)
    return total


@special(min, max)
def _extreme(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    given = m.listed(args[0]) if len(args) == 1 else list(args)
    key = kwargs.get("key")
    if not given:
        if "default" in kwargs:
            return kwargs["default"]
        raise Raised(ValueError(f"{f.__name__}() arg is an empty sequence"))
    best, *rest = given
    if key is None and any(map(is_hidden, given)) and all(type(x) in (int, SymInt) for x in given):
        return functools.reduce(sym_min if f is min else sym_max, given)
    scored = best if key is None else m.call(key, (best,), {})
    for value in rest:
        score = value if key is None else m.call(key, (value,), {})
        better = m.binary(operator.lt if f is min else operator.gt, score, scored)
        either = m.choose(better, value, best) if key is None and isinstance(better, Tensor) else None
        if either is not None:
            best = scored = either
        elif m.truth(better):
            best, scored = value, score
    return best


@special(map)
def _map(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    function, *rest = args
    return map(m.as_called(function), *[m.iterable(a) for a in rest])


@special(filter)
def _filter(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    function, values = args

    def keeps(value: Any) -> bool:
        return m.truth(value if function is None else m.call(function, (value,), {}))

    return filter(m.own_callback(keeps), m.iterable(values))


@special(functools.reduce)
def _reduce(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    values = m.listed(args[1])
    if len(args) > 2:
        values.insert(0, args[2])
    if not values:
        raise Raised(TypeError("reduce() of empty iterable with no initial value"))
    total = values[0]
    for value in values[1:]:
        total = m.call(args[0], (total, value), {})
    return total


@special(functools.partial)
def _partial(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.native(functools.partial, args, kwargs)


@special(dict, collections.OrderedDict, dict.update, collections.OrderedDict.update)
def _dict(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    *owner, = args[:1] if f not in (dict, collections.OrderedDict) else ()
    rest = args[len(owner):]
    given = [m.mapping(a) if hasattr(type(a), "keys") else m.iterable(a) for a in rest]
    return m.native(f, (*owner, *given), kwargs)


@special(vars)
def _vars(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if not args or isinstance(args[0], (type, types.ModuleType)):
        raise GraphBreak("native", "vars() of a scope is called")
    return m.load_attr(args[0], "__dict__")


@special(print, warnings.warn)
def _says(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    defer(m, f, args, kwargs)


def defer(m: Machine, f: Any, args: tuple, kwargs: dict) -> None:
    """What is only said is said behind the graph, where it is known by then what to say."""
    values = (*args, *kwargs.values())
    if any(is_python_class(type(v)) or _holds_tensor(v) for v in values) or kwargs.get("file") is not None:
        raise GraphBreak("native", f"{shown(f)} is called with tensors or objects")
    m.deferred.append((f, tuple(_plain_copy(v) for v in args), {k: _plain_copy(v) for k, v in kwargs.items()}))


def _plain_copy(value: Any) -> Any:
    """What a value is now: containers may change before it is said."""
    if type(value) in (list, tuple, set):
        return type(value)(map(_plain_copy, value))
    if type(value) is dict:
        return {k: _plain_copy(v) for k, v in value.items()}
    return value


LOG_METHODS = frozenset(("debug", "info", "warning", "warn", "error", "critical", "log", "warning_once", "info_once",
                         "warning_advice"))


def is_logger(x: Any) -> bool:
    """Whether a program has this from `logging`, which takes long to load and is asked for here alone."""
    logging = sys.modules.get("logging")
    return logging is not None and isinstance(x, logging.Logger)


@special(typing.cast)
def _cast(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return args[1]


@special(dataclasses.is_dataclass, inspect.isclass, inspect.isfunction, inspect.ismethod, callable, issubclass,
         dataclasses.fields, inspect.isbuiltin, inspect.isroutine, inspect.signature, inspect.unwrap,
         inspect.getattr_static, inspect.get_annotations)
def _as_it_is(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.native(f, args, kwargs)


@special(copy.copy)
def _copy(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    value = args[0]
    if type(value) in (list, dict, set, collections.OrderedDict, collections.deque, collections.defaultdict):
        return value.copy()
    if not is_python_class(type(value)) and not isinstance(value, Tensor):
        return m.native(copy.copy, args)
    own = ("__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    if isinstance(value, (Tensor, dict, list)) or any(python_method(value, n) for n in own):
        raise GraphBreak("not modelled", f"a copy of {shown(type(value))}")
    result = object.__new__(type(value))
    dict_of(result).update(m.own_dict(value))
    return result


@special(copy.deepcopy)
def _deepcopy(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    memo = args[1] if len(args) > 1 else kwargs.get("memo")
    return _deep(m, args[0], {} if memo is None else memo)


def _deep(m: Machine, value: Any, memo: dict) -> Any:
    """copy.deepcopy, for what holds no tensors."""
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if isinstance(value, Tensor):
        raise GraphBreak("not modelled", "copy.deepcopy of a tensor")
    if kind in (list, collections.deque):
        results: Any = kind()
        memo[id(value)] = results
        results.extend(_deep(m, v, memo) for v in value)
    elif kind is tuple:
        results = tuple(_deep(m, v, memo) for v in value)
    elif kind in (dict, collections.OrderedDict):
        results = memo[id(value)] = kind()
        for k, v in value.items():
            results[_deep(m, k, memo)] = _deep(m, v, memo)
    elif kind in (set, frozenset):
        results = kind(_deep(m, v, memo) for v in value)
    elif python_method(value, "__deepcopy__"):
        results = m.call(on_class(kind, "__deepcopy__"), (value, memo), {})
    elif not is_python_class(kind):
        results = value if is_plain_key(value) or isinstance(value, ITSELF) else _refuse_copy(value)
    elif any(python_method(value, n) for n in ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")) or (
            isinstance(value, (dict, list)) or hasattr(kind, "__slots__")):
        results = _refuse_copy(value)
    else:
        results = memo[id(value)] = object.__new__(kind)
        dict_of(results).update({k: _deep(m, v, memo) for k, v in m.own_dict(value).items()})
    memo[id(value)] = results
    m.kept.append(value)
    return results


def _refuse_copy(value: Any) -> Any:
    raise GraphBreak("not modelled", f"copy.deepcopy of {shown(type(value))}")


@special(sys.exc_info)
def _exc_info(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if m.handled is not None:
        raise GraphBreak("not modelled", "sys.exc_info() shows frames that did not run")
    return None, None, None


@special(types.MethodType)
def _method(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.native(types.MethodType, args)


def call_named_method(m: Machine, caller: Any, owner: Any) -> Any:
    """What an operator.methodcaller gives for one object."""
    made, given = caller.__reduce__()      # by the class itself, or by a partial that has the keywords
    name, *rest = (*getattr(made, "args", ()), *given)
    return m.call(m.load_attr(owner, name), tuple(rest), dict(getattr(made, "keywords", {})))


def get_attributes(m: Machine, f: operator.attrgetter, args: tuple) -> Any:
    """operator.attrgetter(...)(object)"""
    names = f.__reduce__()[1]
    found = []
    for name in names:
        value = args[0]
        for part in name.split("."):
            value = m.load_attr(value, part)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


# --- this framework's own ---------------------------------------------------------------------------------------------


@special(_C._set_grad_enabled, _C._set_inference, autocast.set_autocast_enabled, autocast.set_autocast_dtype,
         autocast.set_autocast_cache_enabled, autocast.autocast_increment_nesting,
         autocast.autocast_decrement_nesting, autocast.clear_autocast_cache)
def _state(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """Modes of the thread change at capture, and at the same place of the graph."""
    m.recorder.note_state(f, args)
    return m.native(f, args, kwargs)


@special(Module.__call__)
def _module_call(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.call_module(args[0], args[1:], kwargs)


@special(late.provided)
def _provided(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.native(f, args, kwargs)


# Methods of tensors that do more than compute: on the tape, the storage, or with elements.
UNFIT_METHODS = frozenset((
    "requires_grad_", "retain_grad", "register_hook", "backward", "set_", "untyped_storage", "storage", "data_ptr",
    "__array__", "share_memory_", "detach_", "apply_", "map_", "resize_", "__deepcopy__", "__setstate__", "__dlpack__",
    "as_subclass", "new", "register_post_accumulate_grad_hook", "pin_memory", "__reduce_ex__", "typed_storage",
    "__reduce__", "_typed_storage", "is_shared", "tolist", "item", "numpy", "__bool__", "__int__", "__float__",
    "__index__", "__repr__", "__str__", "__format__", "__complex__", "resize_as_", "sparse_resize_", "module_load",
    "as_strided_",
))
_READS = frozenset(("tolist", "item", "numpy", "__bool__", "__int__", "__float__", "__index__", "__repr__", "__str__",
                    "__format__", "__array__", "__complex__"))


def check_method(name: str) -> None:
    """Break the graph at methods of tensors that a graph cannot hold."""
    if name in UNFIT_METHODS:
        kind = "elements" if name in _READS else "not modelled"
        raise GraphBreak(kind, f"{name.strip('_') if name in _READS else name} of a tensor is called")


def detached(t: Tensor) -> Tensor:
    """t.detach(): asked of the tensor, since traced ones have a method of their own."""
    return t.detach()


@tensor_method("detach")
def _detach(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if m.overrides(args, kwargs):
        with below(mode_state.function_modes):
            return m.op_called(Tensor.detach, args, kwargs)
    return m.record(detached, args, kwargs)


@tensor_method("new_tensor")
def _new_tensor(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return _make_tensor(m, interop.tensor, args[1:], {"dtype": args[0].dtype, "device": args[0].device, **kwargs})


@special(interop.tensor, interop.as_tensor, interop.asarray)
def _make_tensor(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """Tensors from Python values: a node that makes them from the same values."""
    args = tuple(map(as_numbers, args))
    if args and isinstance(args[0], Tensor):
        if f is interop.tensor:
            if kwargs:
                raise GraphBreak("not modelled", f"{shown(f)} of a tensor, with options")
            return m.call(m.load_attr(m.record(Tensor.clone, args[:1], {}), "detach"), (), {})
        return m.call(m.load_attr(args[0], "to"), (), {k: v for k, v in kwargs.items() if v is not None})
    if kwargs.get("requires_grad"):
        raise GraphBreak("not modelled", f"{shown(f)} makes a leaf that wants a gradient")
    if not _is_data(args[:1]):
        raise GraphBreak("elements", f"{shown(f)} takes tensors or objects apart")
    result = m.record(_without_fakes(f), args, kwargs, f)
    return m.record(Tensor.clone, (result,), {})      # a constant of the graph; the program has its own


def _without_fakes(f: Any) -> Callable:
    def make(*args: Any, **kwargs: Any) -> Any:
        with without_modes():
            return f(*args, **kwargs)

    return make


def _is_data(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    return type(value) in (int, float, bool, complex)


@special(autograd_grad)
def _grad(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    return m.record(f, args, kwargs)


@special(checkpoint.checkpoint)
def _checkpoint(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    """The function itself: what is kept for backward is for the partitioner to say."""
    known = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
    if kwargs.get("context_fn") is not None:
        raise GraphBreak("not modelled", "checkpoint with a context_fn")
    return m.call(args[0], args[1:], {k: v for k, v in kwargs.items() if k not in (*known, "context_fn")})


# --- functions of functions -------------------------------------------------------------------------------------------


@special(func.vmap, func.grad, func.grad_and_value, func.jacrev, func.jacfwd, func.hessian)
def _transform(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if not args:
        return functools.partial(f, **kwargs)
    if any(isinstance(v, Tensor) for v in (*args[1:], *kwargs.values())):
        raise GraphBreak("not modelled", f"{shown(f)} with tensors as options")
    return Transformed(f, *args[:1], args[1:], kwargs)


@special(func.jvp, func.vjp, func.linearize)
def _transform_now(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    function, *rest = args if args else (kwargs.pop("func"),)
    run = with_derivative(f) if f is not func.jvp else lambda fs, a, k: func.jvp(fs[0], *a, **k)
    return call_region(m, f.__name__, [function], run, tuple(rest), kwargs)
