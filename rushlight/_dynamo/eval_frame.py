"""`compile()`: callables with the semantics of the original, until there is a compiler behind them.

Enters: a function or module, and PyTorch's options. Leaves: a wrapper of the function, or an `OptimizedModule` around the module. With
backend "eager" it runs as it promises; with the default backend it runs uncompiled, and one warning says so. Refuses: unknown backends and
modes, options together with a mode, and backends given as functions, which would have to be handed a graph.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..nn import Module
from . import backends

_MODES = frozenset(("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"))
_state = {"backend": "inductor", "warned": False}


def is_dynamo_supported() -> bool:
    """Whether functions can be captured here: not yet."""
    return False


def is_inductor_supported() -> bool:
    """Whether captured graphs can be compiled here: not yet."""
    return False


def set_default_backend(backend: str | Callable | None) -> None:
    """The backend of `compile()` calls that name none; None for the first one again."""
    if isinstance(backend, str):
        backends.check_name(backend)
    _state["backend"] = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend of `compile()` calls that name none."""
    return _state["backend"]


def compile(model: Callable | None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str | Callable | None = None,
                     mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
                     recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None) -> Any:  # fmt: skip
    """A callable that behaves as `model`. Bare or with arguments, also as a decorator."""
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(sorted(_MODES))}")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name, disable=disable,
                                 recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec)  # fmt: skip
    if not callable(model):
        raise RuntimeError(f"A callable function is expected, but {type(model)} is provided.")
    chosen = _state["backend"] if backend is None else backend
    _check_backend("eager" if disable else chosen)
    return OptimizedModule(model) if isinstance(model, Module) else _wrapped(model)


def _check_backend(backend: Any) -> None:
    """Raise for a backend there is not; warn, once, for one that would make code."""
    if isinstance(backend, str):
        backends.check_name(backend)
    if not isinstance(backend, str) or backend in backends._registered:
        shown = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        raise NotImplementedError(f"compile: the backend {shown!r} is a function that takes captured graphs, and graph capture (Dynamo) is not written yet. "
                                  "backend='eager' runs the function as it is.")  # fmt: skip
    if backend not in backends.EAGER and not _state["warned"]:
        _state["warned"] = True
        warnings.warn(f"compile: the backend {backend!r} has no compiler yet; functions run uncompiled, with the same results. backend='eager' says so without "
                      "this warning.", stacklevel=4)  # fmt: skip


def _wrapped(fn: Callable) -> Callable:
    @functools.wraps(fn)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    compiled._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    compiled._torchdynamo_inline = fn  # type: ignore[attr-defined]
    return compiled


def optimize(backend: str | Callable = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None, **options: Any) -> Callable:
    """A decorator that compiles with `backend`."""
    return functools.partial(compile, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend: str | Callable, **options: Any) -> Callable:
    """The same, where a break in the graph is an error."""
    return optimize(backend, nopython=True)


class OptimizedModule(Module):
    """A module to be run compiled. Attributes are those of the original, which is the child `_orig_mod`."""

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        self.__dict__["_is_made"] = False
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_is_made"] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._modules["_orig_mod"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._modules["_orig_mod"](*args, **kwargs)

    @property
    def training(self) -> bool:
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode: bool) -> None:
        if self.__dict__.get("_is_made"):
            self._modules["_orig_mod"].training = mode

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod":
            return modules["_orig_mod"]
        if "_orig_mod" not in modules:
            raise AttributeError(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not self.__dict__.get("_is_made") or name in self.__dict__ or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name == "_orig_mod":
            self._modules["_orig_mod"] = value
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __reduce__(self) -> tuple:
        return type(self), (self._modules["_orig_mod"],)
