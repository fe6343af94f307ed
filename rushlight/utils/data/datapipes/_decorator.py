"""Decorators of datapipe classes and their methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, get_args, get_type_hints

from .datapipe import IterDataPipe, MapDataPipe

_determinism = False
_runtime_validation_enabled = True


class functional_datapipe:
    """Make a class callable as a method of datapipes: `@functional_datapipe("map")` gives `pipe.map(...)`."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        decorated = getattr(cls, "__self__", cls)
        real = decorated.cls if isinstance(decorated, non_deterministic) else cls
        if issubclass(real, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        elif issubclass(real, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        else:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe and MapDataPipe")
        return cls


class _Switch:
    """Sets a flag of this module at once, as PyTorch's do, and puts it back when the `with` ends."""

    flag: str
    value: bool

    def __init__(self) -> None:
        self.prev = globals()[self.flag]
        globals()[self.flag] = self.value

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        globals()[self.flag] = self.prev


class guaranteed_datapipes_determinism(_Switch):
    """While it holds, making a datapipe decorated `non_deterministic` is an error."""

    flag, value = "_determinism", True


class runtime_validation_disabled(_Switch):
    """While it holds, `runtime_validation` lets everything pass."""

    flag, value = "_runtime_validation_enabled", False


class non_deterministic:
    """Mark a datapipe as giving other results each time; with a function, only for arguments it returns True for."""

    cls: type[IterDataPipe] | None = None

    def __init__(self, arg: Any) -> None:
        self.deterministic_fn: Callable[..., bool] | None = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(f"non_deterministic: expected a subclass of IterDataPipe, got {arg.__name__}")
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
                raise TypeError(f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found")
            self.cls = args[0]
            return self.make
        return self.make(*args, **kwargs)

    def make(self, *args: Any, **kwargs: Any) -> IterDataPipe:
        """The datapipe, unless determinism is guaranteed and it could not keep that."""
        varies = True if self.deterministic_fn is None else self.deterministic_fn(*args, **kwargs)
        if not isinstance(varies, bool):
            raise TypeError(f"non_deterministic: deterministic_fn must return a bool, got {type(varies)}")
        if _determinism and varies:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, which guaranteed_datapipes_determinism forbids. "
                "Turn it off around this DataPipe where that is harmless"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable) -> Callable:
    """Check, at each call, that arguments annotated as datapipes are some. Their element types are not compared."""
    signature = inspect.signature(f)
    hints = get_type_hints(f)

    @wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            origin = getattr(hint, "__origin__", hint)
            if isinstance(origin, type) and issubclass(origin, IterDataPipe) and not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
        return f(*args, **kwargs)

    return wrapper


def _element_type(cls: type) -> type | None:
    """T of the class's IterDataPipe[T], where that is a class; a parametrised type is taken by its origin."""
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in get_args(base):
            origin = getattr(argument, "__origin__", argument)
            return origin if isinstance(origin, type) else None
    return None


def runtime_validation(f: Callable) -> Callable:
    """On `__iter__`: check that each sample is an instance of the element type the class declares."""
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @wraps(f)
    def wrapper(self: Any) -> Iterator:
        expected = _element_type(type(self))
        for sample in f(self):
            if _runtime_validation_enabled and expected is not None and not isinstance(sample, expected):
                raise RuntimeError(f"Expected an instance as subtype of {expected}, but found {sample}({type(sample)})")
            yield sample

    return wrapper
