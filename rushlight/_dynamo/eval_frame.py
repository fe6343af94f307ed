"""`compile()`: callables with the semantics of the original, captured from their bytecode and run by a backend.

Enters: a function or module, and PyTorch's options. Leaves: a callable that stands in for the function
(`dynamo.convert`), or an `OptimizedModule` around the module. Refuses: unknown backends and modes, options together
with a mode, and with fullgraph=True programs that cannot be captured whole.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late
from ..dynamo import settings as config
from ..dynamo.bytecode import instructions
from ..nn import Module
from . import backends, compiled_autograd

_MODES = frozenset(("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"))
_state = {"backend": "inductor"}
_warned: set[str] = set()       # modes that were said to change nothing


def is_dynamo_supported() -> bool:
    """Whether functions can be captured here: on versions of CPython whose bytecode is known."""
    return instructions.IS_SUPPORTED


def is_inductor_supported() -> bool:
    """Whether captured graphs can be handed to the inductor here."""
    return True


def set_default_backend(backend: str | Callable | None) -> None:
    """The backend of `compile()` calls that name none; None for the first one again."""
    if isinstance(backend, str):
        backends.check_name(backend)
    _state["backend"] = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend of `compile()` calls that name none."""
    return _state["backend"]


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A callable that behaves as `model`. Bare or with arguments, also as a decorator."""
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(sorted(_MODES))}")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, name=name, disable=disable, recompile_limit=recompile_limit,
                                 isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec)  # fmt: skip
    if not callable(model):
        raise RuntimeError(f"A callable function is expected, but {type(model)} is provided.")
    chosen = backends.lookup(_state["backend"] if backend is None else backend)
    if disable or config.disable:
        return model
    if shapes_spec is not None:
        raise NotImplementedError("compile: shapes_spec is not supported. dynamic=True captures sizes as symbols.")
    if isolate_recompiles:
        raise NotImplementedError(
            "compile: isolate_recompiles=True is not supported. Each call of compile has a cache of its own."
        )
    if mode not in (None, "default"):
        options = _mode_options(mode, chosen)
    if options and chosen == "inductor":
        late.provided("inductor settings").resolved(options)      # refuses unknown ones now, not at the first call
    choices = {
        "backend": chosen,
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "options": options,
        "limit": recompile_limit,
    }
    if isinstance(model, Module):
        return OptimizedModule(model, choices)
    result = late.provided("compile_callable")(model, **choices)
    return _with_backward(result, choices) if config.compiled_autograd else result


def compile_calls(module: Module, *args: Any, **kwargs: Any) -> Callable:
    """What `module.compile()` puts in the place of the module's calls: its forward compiled, and where hooks, or a
    forward of this one module, are to be seen, the whole call."""
    quick, whole = (compile(function, *args, **kwargs) for function in (module.forward, module._call_impl))

    def call(*args: Any, **kwargs: Any) -> Any:
        is_plain = "forward" not in vars(module) and not _C.module_is_hooked(module)
        return (quick if is_plain else whole)(*args, **kwargs)

    return call


def _with_backward(compiled: Callable, choices: dict[str, Any]) -> Callable:
    """`made`, with every `backward()` that it comes to compiled too (`config.compiled_autograd`)."""
    backend, options = choices["backend"], choices.get("options")
    compiler = late.provided("compilers of a backend")(backend, options).fw_compiler

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with compiled_autograd.enabled_for((backend, repr(options)), compiler):
            return compiled(*args, **kwargs)

    return call


def _mode_options(mode: str, backend: str | Callable) -> dict[str, Any] | None:
    """What a mode stands for: settings of the inductor. Other backends have none."""
    if backend == "inductor":
        return late.provided("inductor settings").MODES[mode]
    if mode not in _warned:
        _warned.add(mode)
        warnings.warn(
            f"compile: mode={mode!r} says how the inductor compiles; the backend that was chosen has no modes.",
            stacklevel=3,
        )
    return None


def optimize(
    backend: str | Callable = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
    **options: Any,
) -> Callable:
    """A decorator that compiles with `backend`."""
    if options:
        raise TypeError(f"optimize: unexpected keyword argument {next(iter(options))!r}. Use compile(options=...).")
    return functools.partial(compile, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend: str | Callable, **options: Any) -> Callable:
    """The same, where a break in the graph is an error."""
    return optimize(backend, nopython=True, **options)


class OptimizedModule(Module):
    """A module to be run compiled. Attributes are those of the original, which is the child `_orig_mod`."""

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        self.__dict__["_is_made"] = False
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_choices"] = (
            {"backend": "eager", "fullgraph": False, "dynamic": None} if dynamo_ctx is None else dynamo_ctx
        )
        self.__dict__["_run"] = None
        self.__dict__["_is_made"] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fields = self.__dict__
        run = fields["_run"]
        original = fields["_modules"]["_orig_mod"]
        if run is None:
            run = late.provided("compile_module")(original, **fields["_choices"])
            if config.compiled_autograd:
                run = tuple(None if result is None else _with_backward(result, fields["_choices"]) for result in run)
            fields["_run"] = run
        quick, whole = run
        if quick is None or _C.module_is_hooked(original):
            return whole(*args, **kwargs)
        return quick(*args, **kwargs)

    forward = __call__

    @property
    def dynamo_ctx(self) -> Callable:
        """Compiles other functions as this module is compiled."""
        return functools.partial(late.provided("compile_callable"), **self.__dict__["_choices"])

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
            self.__dict__["_run"] = None
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
        return type(self), (self._modules["_orig_mod"], self.__dict__["_choices"])


_C.quick_optimized(OptimizedModule)
