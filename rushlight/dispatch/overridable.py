"""Which functions `__torch_function__` can override, and the public names they have.

Enters: the package with its namespaces, and functions. Leaves: sets and tables of functions, and their names. Refuses
nothing: what has no public name has None.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late
from ..op import published

_SPACES = ("", "functional", "nn.functional", "linalg", "fft", "special")


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
    torch, ignored = _package(), get_ignored_functions()
    found: dict[Any, dict[str, Callable]] = {}
    for path in _SPACES:
        space = functools.reduce(getattr, filter(None, path.split(".")), torch)
        named = {**vars(space), **published(path)}
        found[space] = {
            n: f
            for n, f in named.items()
            if not n.startswith("_") and isinstance(f, (_C.Op, types.FunctionType)) and f not in ignored
        }
    methods: dict[str, Callable] = {}
    for name, value in vars(Tensor).items():
        if isinstance(value, (_C.Op, types.FunctionType)) or type(value).__name__ == "method_descriptor":
            methods[name] = value
        elif hasattr(value, "__get__") and type(value).__name__ in ("getset_descriptor", "property"):
            methods[f"{name}.__get__"] = value.__get__
    found[Tensor] = methods
    return found


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
def _names() -> dict[Any, str]:
    torch, names = _package(), {}
    for space, named in reversed(_listed().items()):
        prefix = (
            "torch.Tensor"
            if space is Tensor
            else "torch" if space is torch else f"torch.{space.__name__.partition('.')[2]}"
        )
        for name, function in named.items():
            names[function] = f"{prefix}.{name}"
    return names


def resolve_name(f: Callable) -> str | None:
    """The public name of a function: "torch.add"; one that is a function and a method has the function's.
    None for others."""
    if isinstance(f, (_C.Overload,)) or hasattr(f, "_qualified_op_name"):
        return str(f)
    return _names().get(f)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is found on Tensor, or reads one of its properties."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return True
    return getattr(Tensor, name, None) is func
