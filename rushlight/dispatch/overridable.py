"""Which functions `__torch_function__` can override, and the public names they have.

Enters: the package with its namespaces, and functions. Leaves: sets and tables of functions, and their names. Refuses
nothing: what has no public name has None.
"""

from __future__ import annotations

import contextlib
import functools
import os
import types
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late

_SPACES = ("", "functional", "nn.functional", "nn.init", "Tensor", "linalg", "fft", "special")
_METHODS = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_ATTRIBUTES = (types.GetSetDescriptorType, property)
_REQUIRED = object()
_WHEN_GIVEN = object()      # an option, written `name?`, that PyTorch does not hand on: shown only where it was given


def _package() -> Any:
    return late.provided("package")


def get_ignored_functions() -> set[Callable]:
    """Functions that are never overridden: they make tensors from none, or ask about the process."""
    torch = _package()
    names = (
        "arange as_tensor asarray bartlett_window blackman_window can_cast empty empty_permuted empty_strided eye"
        " from_dlpack from_numpy frombuffer full get_default_dtype get_num_threads get_rng_state hamming_window"
        " hann_window initial_seed is_grad_enabled is_storage is_tensor kaiser_window linspace load logspace"
        " manual_seed normal ones promote_types rand randint randn randperm range result_type save scalar_tensor seed"
        " set_default_device set_default_dtype set_grad_enabled set_num_threads set_printoptions set_rng_state"
        " sparse_coo_tensor tensor tril_indices triu_indices vander zeros"
    )
    return {getattr(torch, name) for name in names.split() if hasattr(torch, name)}


def get_default_nowrap_functions() -> set[Callable]:
    """Getters whose results the default `__torch_function__` leaves as they are."""
    return {Tensor.__dict__[name].__get__ for name in ("_base", "grad", "_grad") if name in Tensor.__dict__}


def _listed() -> dict[Any, dict[str, Callable]]:
    """Namespace -> name -> function: the ops and functions under their public names, and what is on Tensor."""
    torch, ignored = _package(), {id(f) for f in get_ignored_functions()}
    found: dict[Any, dict[str, Callable]] = {}
    for path in _SPACES:
        if path == "Tensor":
            found[Tensor] = _on_tensors()
            continue
        space = functools.reduce(getattr, filter(None, path.split(".")), torch)
        found[space] = {
            n: f
            for n, f in vars(space).items()
            if not n.startswith("_") and isinstance(f, (_C.Op, types.FunctionType)) and id(f) not in ignored
        }
    return found


def _on_tensors() -> dict[str, Callable]:
    """Methods of Tensor, and the getters and setters of its attributes."""
    methods: dict[str, Callable] = {}
    for name in dir(Tensor):
        value = _held(name)
        if isinstance(value, (_C.Op, *_METHODS)):
            methods[name] = value
        elif isinstance(value, _ATTRIBUTES):
            methods[f"{name}.__get__"] = value.__get__
            if getattr(value, "fset", value) is not None:
                methods[f"{name}.__set__"] = value.__set__
    return methods


def _held(name: str) -> Any:
    """What Tensor's dict has under a name, late ones in place; None for what it inherits from `object`."""
    value = vars(Tensor).get(name)
    if value is not None and not isinstance(value, (_C.Op, *_METHODS, *_ATTRIBUTES)) and hasattr(value, "__get__"):
        return getattr(Tensor, name, None)
    return value


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """What subclasses and modes can override, by the namespace (or Tensor) it is found in."""
    return {space: list(named.values()) for space, named in _listed().items()}


def get_testing_overrides() -> dict[Callable, Callable]:
    """For every function that can be overridden, one that takes the same arguments and returns -1."""
    return {f: _stand_in(f) for functions in get_overridable_functions().values() for f in functions}


def _stand_in(function: Callable) -> Callable:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    if isinstance(function, _C.Op):
        import inspect  # slow to import, and only these stand-ins need it

        kinds, params = inspect.Parameter, max((o.definition.spec.params for o in function.overload_list), key=len)
        with contextlib.suppress(ValueError):   # Python has no name "from", and wants defaults last
            vars(stand_in)["__signature__"] = inspect.Signature([
                kinds(p.name, kinds.KEYWORD_ONLY if p.keyword_only else kinds.POSITIONAL_OR_KEYWORD,
                      default=kinds.empty if p.required else p.default) for p in params
            ])
    return stand_in


@functools.cache
def _names() -> tuple[dict[int, tuple[str, Any]], dict[Any, str]]:
    """Public names of functions by identity (spellings of one op are equal, and have names of their own), and of
    getters and setters, which are made anew whenever asked for."""
    torch = _package()
    functions: dict[int, tuple[str, Any]] = {}
    accesses: dict[Any, str] = {}
    for space, named in _listed().items():
        prefix = (
            "torch.Tensor"
            if space is Tensor
            else "torch" if space is torch else f"torch.{space.__name__.partition('.')[2]}"
        )
        for name, function in named.items():
            if type(function) is types.MethodWrapperType:
                accesses[function] = f"{prefix}.{name}"
            else:
                functions[id(function)] = (f"{prefix}.{name}", function)
    return functions, accesses


def resolve_name(f: Callable) -> str | None:
    """The public name of a function: "torch.add", "torch.Tensor.add", "torch.Tensor.shape.__get__". None for others."""
    if isinstance(f, (_C.Overload,)) or hasattr(f, "_qualified_op_name"):
        return str(f)
    functions, accesses = _names()
    if type(f) is types.MethodWrapperType:
        return accesses.get(f)
    known = functions.get(id(f))
    if known is not None:
        return known[0]
    name = getattr(f, "__name__", "")
    is_late = name and getattr(_package(), name, None) is f      # in place since it was first asked for
    return _ignored_names().get(id(f), f"torch.{name}" if is_late else None)


@functools.cache
def _ignored_names() -> dict[int, str]:
    """Names of functions that only modes see: they make tensors."""
    torch = _package()
    kept = {id(f) for f in get_ignored_functions()}
    return {id(f): f"torch.{n}" for n, f in vars(torch).items() if id(f) in kept}


# --- calls as handlers are shown them ---------------------------------------------------------------------------------


@functools.cache
def _rows() -> dict[int, tuple[Any, tuple[str, ...], dict[str, Any]]]:
    """Functions that PyTorch writes in Python: parameters that go by position, and the others with their defaults."""
    from ast import literal_eval

    rows = {}
    table = os.path.join(os.path.dirname(__file__), "written_in_python.txt")
    with open(table, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        name, _, rest = line.partition(" ")
        positional, _, named = rest.partition("/")
        found = _package()
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            options: dict[str, Any] = {}
            for item in named.split():
                option, _, default = item.partition("=")
                absent = _WHEN_GIVEN if option.endswith("?") else _REQUIRED
                options[option.rstrip("?")] = literal_eval(default) if default else absent
            rows[id(found)] = (found, tuple(positional.split()), options)
    return rows


def respelled(function: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call as PyTorch hands them to handlers: as written for its built-in functions; for those it
    writes in Python what they compute with by position, and options by name, defaults included."""
    row = _rows().get(id(function))
    if row is None:
        return args, kwargs
    _, positional, named = row
    names = (*positional, *named)
    given = dict(zip(names, args, strict=False))
    given.update(kwargs)
    ours = _accepted(function)
    if len(given) != len(args) + len(kwargs) or not given.keys() <= ours | set(positional):
        return args, kwargs
    if any(n not in given for n in (*positional, *(n for n, d in named.items() if d is _REQUIRED))):
        return args, kwargs
    shown = {n: default for n, default in named.items() if n in given or (n in ours and default is not _WHEN_GIVEN)}
    filled = {n: given.get(n, default) for n, default in shown.items()}
    return tuple(given[n] for n in positional), filled


@functools.cache
def _accepted(function: Any) -> frozenset[str]:
    """The names of the parameters a function has here."""
    if isinstance(function, _C.Op):
        return frozenset(p.name for o in function.overload_list for p in o.definition.spec.params) | {"out"}
    import inspect  # slow to import

    return frozenset(inspect.signature(function).parameters)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is found on Tensor, or reads one of its properties."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return True
    return getattr(Tensor, name, None) is func
