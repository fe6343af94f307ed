"""`compile()`: what joins the stages, from a function to a callable that runs native code.

Enters: a function or module, and PyTorch's options. Leaves: a callable that stands in for the function, or an
`OptimizedModule` around the module. Dynamo captures graphs and asks the backend that it is handed to make functions of
them (`Choices`); AOTAutograd differentiates them and asks the compilers that it is handed (`AotConfig`); the inductor
is such a compiler. No stage knows the next.

Backends: `eager` runs the graphs that Dynamo captured op by op; `aot_eager` their forward and backward graphs;
`aot_eager_decomp_partition` the same, decomposed and cut with recomputation; `inductor` hands them to the inductor,
`onnxrt` to ONNX Runtime, `openxla` to XLA. A function as backend gets the graph and example inputs. Refuses: unknown
backends and modes, options together with a mode, and with fullgraph=True programs that cannot be captured whole.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .. import _C
from ..aot import compiled_autograd, settings as aot_settings
from ..aot.compile_graph import AotConfig
from ..aot.graphs.backend import compile_with, force_recompile
from ..aot.repro import reporting
from ..aot.runtime import boxed
from ..base import late
from ..dynamo import convert, errors, settings
from ..dynamo.convert import Choices
from ..nn import Module
from . import registry

if TYPE_CHECKING:
    from types import CodeType

    from ..aot.partition import Partition
    from ..dynamo.report import Report
    from ..fx.graph_module import GraphModule

_MODES = frozenset(("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"))
_warned: set[str] = set()       # modes that were said to change nothing


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
    """A callable that behaves as `model`. Bare or with arguments, also as a decorator.

    Arguments:
        model: a function or module; None to use it as a decorator
        fullgraph: whether what cannot be captured is an error, in place of a break in the graph
        dynamic: whether sizes may vary: True from the start, False never, None once one does
        backend: who compiles the graph: "inductor", "eager", "aot_eager", "openxla", "onnxrt" or a function of a graph
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs"
        options: settings of the back end, in place of a mode
        name: what the compiled function is called in logs
        disable: whether nothing is done
        recompile_limit: how often one function is compiled before it is left alone; None for the setting
        isolate_recompiles: whether this call's compilations count apart from those of others of the same function
        shapes_spec: which sizes may vary, by argument

    Example:
        >>> @rl.compile
        ... def f(x):
        ...     return rl.sin(x) ** 2 + rl.cos(x) ** 2
        >>> f(rl.tensor([0.5, 1.0]))
        tensor([1., 1.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(sorted(_MODES))}")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, name=name, disable=disable, recompile_limit=recompile_limit,
                                 isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec)
    if not callable(model):
        raise RuntimeError(f"A callable function is expected, but {type(model)} is provided.")
    chosen = registry.lookup(registry.get_default_backend() if backend is None else backend)
    if disable or settings.disable:
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
        inductor_settings().resolved(options)      # refuses unknown ones now, not at the first call
    choices = {
        "backend": chosen,
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "options": options,
        "limit": recompile_limit,
    }
    if isinstance(model, Module):
        return OptimizedModule(model, choices)
    result = compile_callable(model, **choices)
    return _with_backward(result, choices) if settings.compiled_autograd else result


def compile_calls(module: Module, *args: Any, **kwargs: Any) -> Callable:
    """What `module.compile()` puts in the place of the module's calls: its forward compiled, and where hooks, or a
    forward of this one module, are to be seen, the whole call."""
    quick, whole = (compile(function, *args, **kwargs) for function in (module.forward, module._call_impl))

    def call(*args: Any, **kwargs: Any) -> Any:
        is_plain = "forward" not in vars(module) and not _C.module_is_hooked(module)
        return (quick if is_plain else whole)(*args, **kwargs)

    return call


def _with_backward(compiled: Callable, choices: dict[str, Any]) -> Callable:
    """`compiled`, with every `backward()` that it comes to compiled too (the setting `compiled_autograd`)."""
    backend, options = choices["backend"], choices.get("options")
    compiler = config_of(backend, options).fw_compiler

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with compiled_autograd.enabled_for((backend, repr(options)), compiler):
            return compiled(*args, **kwargs)

    return call


def _mode_options(mode: str, backend: str | Callable) -> dict[str, Any] | None:
    """What a mode stands for: settings of the inductor. Other backends have none."""
    if backend == "inductor":
        return inductor_settings().MODES[mode]
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


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`explain(f)(*args)` runs a function or module compiled and says what it was made of: graphs, breaks with their
    reasons, guards (`dynamo.report.Report`; `.html(path)` writes a page). Arguments given at once are run at once."""
    from ..dynamo.report import Report  # noqa: PLC0415 - for those who ask

    def run(*args: Any, **kwargs: Any) -> Report:
        report = Report()
        if isinstance(f, Module):
            quick, whole = compile_module(f, backend="eager", report=report)
            (whole if quick is None or _C.module_is_hooked(f) else quick)(*args, **kwargs)
        else:
            compile_callable(f, backend="eager", report=report)(*args, **kwargs)
        return report

    return run(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else run


def reset() -> None:
    """Forget everything compiled."""
    convert.reset()
    compiled_autograd.reset()


def reset_code(code: CodeType) -> None:
    """Forget what was compiled of one code object."""
    convert.reset_code(code)


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
            run = compile_module(original, **fields["_choices"])
            if settings.compiled_autograd:
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
        return functools.partial(compile_callable, **self.__dict__["_choices"])

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


# -- dynamo: what it is handed ---------------------------------------------------------------------------------------


def choices_of(
    backend: str | Callable, *, fullgraph: bool = False, dynamic: bool | None = None, options: Any = None,
    limit: int | None = None, report: Report | None = None,
) -> Choices:
    """What `compile()` was told, as Dynamo takes it."""
    arguments = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic, "options": options, "limit": limit}
    first = functools.partial(graph_backend, "aot_eager")
    return Choices(graph_backend(backend, options), fullgraph, dynamic, limit, arguments, report, first)


def compile_callable(function: Callable, **told: Any) -> Any:
    """`function` compiled."""
    return convert.compiled(function, choices_of(**told))


def compile_module(module: Module, **told: Any) -> tuple[Any, Any]:
    """What a call of a module runs: its forward alone, where there are no hooks, and the whole call."""
    return convert.compiled_module(module, choices_of(**told))


def graph_backend(backend: str | Callable, options: Any = None) -> Callable[[GraphModule, list[Any]], Callable]:
    """What makes a function of a graph that Dynamo captured. A function as backend gets the graph itself."""
    if backend in ("eager", "eager_noexcept"):
        return run_graph
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    if callable(backend) and getattr(backend, "aot_config", None) is None:
        config_of(backend, options)      # refuses options
        return reporting(functools.partial(_ask, backend), name)
    return reporting(compile_with(config_of(backend, options)), name)


def lookup_backend(backend: str | Callable) -> Any:
    """The compile function of a name; a function is its own."""
    if not isinstance(backend, str):
        return backend
    found = registry.lookup(backend)
    return graph_backend(found) if isinstance(found, str) else found


# -- aot and inductor: what they are handed --------------------------------------------------------------------------


def run_graph(gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """The graph, run op by op."""
    force_recompile(gm)
    return gm.forward


def run_inductor(gm: GraphModule, example_inputs: list[Any], options: Mapping[str, Any] | None = None) -> Callable:
    """The graph as native code; one whose calls have effects (`register_effect`) runs as it is written."""
    if any(getattr(getattr(n.target, "definition", None), "effect", None) is not None for n in gm.graph.nodes):
        return run_graph(gm, example_inputs)
    from ..aot.graphs.calls import calls_in  # noqa: PLC0415 - as in within_budget
    from ..inductor.compile_fx import compile_graph  # noqa: PLC0415

    with inductor_options(options or {}):
        for inner in calls_in(gm):
            inner.compile(functools.partial(run_inductor, options=options))
        result = compile_graph(gm, example_inputs)

    return boxed(result)


def inductor_options(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Settings of the inductor for one compilation. Refuses names it does not have."""
    return inductor_settings().applied(options) if options else nullcontext()


def inductor_settings() -> Any:
    """The inductor's settings."""
    from ..inductor import settings  # noqa: PLC0415 - other backends have none

    return settings


def fuses(options: Mapping[str, Any] | None) -> bool:
    """Whether the inductor, with these options, joins ops."""
    with inductor_options(options or {}):
        return inductor_settings().fuse


def kept_by(options: Mapping[str, Any] | None) -> Any:
    """Who keeps what the inductor makes with these options."""
    from ..inductor.stored import Keeper  # noqa: PLC0415 - other backends keep nothing

    return Keeper(options)


def config_of(backend: str | Callable, options: Any) -> AotConfig:
    """How a backend compiles."""
    given = getattr(backend, "aot_config", None)
    if given is not None:
        return given
    if options and backend != "inductor":
        raise RuntimeError(
            f"compile: options are for the backend 'inductor', got some for {getattr(backend, '__name__', backend)!r}."
        )
    if callable(backend):
        return AotConfig(functools.partial(_ask, backend), run_graph)
    if backend == "inductor":
        with inductor_options(options or {}):     # refuses unknown ones now
            compiler = functools.partial(run_inductor, options=options)
        keeper = functools.partial(kept_by, options)
        return AotConfig(compiler, compiler, partition=within_budget, keeper=keeper, keeps_layers=True,
                         joins_attention=functools.partial(fuses, options))
    if backend == "onnxrt":
        bridge = late.provided("onnx backend")
        return AotConfig(bridge.run_forward, bridge.run_backward, partition=bridge.partition)
    if backend == "openxla":
        compiler = late.provided("xla backend").compile_graph
        return AotConfig(compiler, compiler, partition=within_budget)
    if backend == "aot_eager_decomp_partition":
        from .._decomp import core_aten_decompositions  # noqa: PLC0415 - for this backend alone

        return AotConfig(run_graph, run_graph, partition=within_budget, decompositions=core_aten_decompositions())
    return AotConfig(run_graph, run_graph)


def within_budget(joint: GraphModule, num_results: int, overwritten: Sequence[int] = ()) -> Partition:
    """The min-cut partition, with the memory budget that is set (`aot.settings`)."""
    from ..aot.lines import lay_out_lines  # noqa: PLC0415 - these are for graphs that are not found on disk
    from ..aot.min_cut import min_cut_rematerialization_partition  # noqa: PLC0415

    lay_out_lines(joint)
    budget = aot_settings.activation_memory_budget
    return min_cut_rematerialization_partition(joint, num_results, overwritten, memory_budget=budget)


def _ask(backend: Callable, gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """What a backend given as a function makes of a graph; what it raises is its own."""
    try:
        result = backend(gm, example_inputs)
    except Exception as error:
        name = getattr(backend, "__name__", type(backend).__name__)
        raise errors.BackendCompilerFailed(f"backend={name!r} raised:\n{type(error).__name__}: {error}") from error
    if not callable(result):
        raise TypeError(f"compile: expected the backend to return a callable, got {type(result).__name__}")
    return result
