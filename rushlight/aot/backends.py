"""What `compile()` does with a function: capture it, and run it through the backend that was named.

Enters: a callable, and the options of `compile`. Leaves: a callable. Backends: `eager` runs the program as it is (with
`fullgraph`, after checking that it can be captured); `aot_eager` runs the captured graphs op by op;
`aot_eager_decomp_partition` the same, decomposed and cut with recomputation; `inductor` hands them to the inductor, or
runs them op by op while there is none. A function as backend gets the forward graph and example inputs. What cannot be
captured raises with `fullgraph`, and otherwise runs as it is, with one warning.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

from .. import _C
from .._decomp import core_aten_decompositions
from .._dynamo import config as settings, decorators, exc
from ..base import late
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree
from .compile_graph import AotConfig, compile_captured
from .min_cut import min_cut_rematerialization_partition
from .partition import Partition
from .refused import NotCaptured, TooOften
from .specialized import PLAIN, Specialized, is_traced_elsewhere


def run_graph(gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """The graph, run op by op."""
    _LazyGraphModule.force_recompile(gm)
    return gm.forward


def run_inductor(gm: GraphModule, example_inputs: list[Any], options: Mapping[str, Any] | None = None) -> Callable:
    """The graph as native code, where there is an inductor; else op by op."""
    compile_graph = inductor_entry()
    if compile_graph is None:
        return run_graph(gm, example_inputs)
    with inductor_options(options or {}):
        made = compile_graph(gm, example_inputs)

    def call(args: list[Any]) -> Any:
        return made(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    call.native_parts = getattr(made, "native_parts", None)  # type: ignore[attr-defined]
    return call


@contextmanager
def inductor_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Settings of the inductor for one compilation. Refuses names it does not have."""
    settings_of = late.provided("inductor settings") if options else None
    unknown = next((name for name in options if not hasattr(settings_of, name)), None)
    if unknown is not None:
        known = sorted(name for name in vars(settings_of) if not name.startswith("_"))
        raise RuntimeError(f"compile: unexpected option {unknown!r}; the inductor has {', '.join(known)}.")
    before = {name: getattr(settings_of, name) for name in options}
    for name, value in options.items():
        setattr(settings_of, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings_of, name, value)


@functools.cache
def inductor_entry() -> Callable | None:
    """The inductor's way in; None until there is one."""
    try:
        return late.provided("compile_graph")
    except ModuleNotFoundError:
        return None


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
        return AotConfig(compiler, compiler, partition=within_budget)
    if backend == "aot_eager_decomp_partition":
        return AotConfig(run_graph, run_graph, partition=within_budget, decompositions=core_aten_decompositions())
    return AotConfig(run_graph, run_graph)


def within_budget(joint: GraphModule, num_results: int, overwritten: Sequence[int] = ()) -> Partition:
    """The min-cut partition, with the memory budget that is set (`_functorch.config.activation_memory_budget`)."""
    budget = late.provided("functorch settings").activation_memory_budget
    return min_cut_rematerialization_partition(joint, num_results, overwritten, memory_budget=budget)


def _ask(backend: Callable, gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """What a backend given as a function makes of a graph; what it raises is its own."""
    try:
        made = backend(gm, example_inputs)
    except Exception as error:
        name = getattr(backend, "__name__", type(backend).__name__)
        raise exc.BackendCompilerFailed(f"backend={name!r} raised:\n{type(error).__name__}: {error}") from error
    if not callable(made):
        raise TypeError(f"compile: expected the backend to return a callable, got {type(made).__name__}")
    return made


def compile_callable(function: Callable, modules: Iterable[Module], backend: str | Callable, *, fullgraph: bool,
                     dynamic: bool | None, options: Any = None, limit: int | None = None) -> Callable:  # fmt: skip
    """`function` compiled; `modules` are those it is a method of. `limit` is how often it may be captured."""
    if backend in ("eager", "eager_noexcept") and not fullgraph:
        return function
    config = config_of(backend, options)
    is_checked = backend in ("eager", "eager_noexcept")
    compiled = Specialized(
        function,
        [*modules, *modules_of(function)],
        lambda captured: compile_captured(captured, config),
        decompositions=config.decompositions,
        dynamic=bool(dynamic),
    )
    compiled.limit = settings.accumulated_recompile_limit if limit is None else limit
    made = Attempted(function, compiled, fullgraph, is_checked)
    _compiled.add(made)
    return made


_compiled: weakref.WeakSet[Attempted] = weakref.WeakSet()


def reset() -> None:
    """Forget everything that was compiled."""
    for made in list(_compiled):
        made.compiled.reset()
        made.is_given_up = False


class Attempted:
    """A function that runs compiled, or where that is impossible raises (`fullgraph`) or runs as it is."""

    def __init__(self, function: Callable, compiled: Specialized, fullgraph: bool, runs_as_it_is: bool) -> None:
        self.function, self.compiled, self.fullgraph, self.runs_as_it_is = function, compiled, fullgraph, runs_as_it_is
        self.is_given_up = self.is_said = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_given_up or decorators.stance == "force_eager" or settings.disable:
            return self.function(*args, **kwargs)
        compiled = self.compiled
        quick = None if kwargs or self.runs_as_it_is else _C.call_key(compiled.modules, args, PLAIN)
        if quick is not None:      # plain tensors, and no mode or transform around the call
            known = compiled.quick.get(quick[1])
            if known is not None:
                made = known[0](quick[0])
                return made[0] if known[1] is None else pytree.tree_unflatten(made, known[1])
        if is_traced_elsewhere():
            return self.function(*args, **kwargs)
        try:
            call, entry = compiled.prepare(args, kwargs)
        except TooOften as error:
            if self.fullgraph:
                raise exc.FailOnRecompileLimitHit(str(error)) from error
            self.warn(error)
            return self.function(*args, **kwargs)
        except NotCaptured as error:
            if self.fullgraph:
                raise exc.Unsupported(str(error)) from error
            self.is_given_up = True
            self.warn(error)
            return self.function(*args, **kwargs)
        if quick is not None:
            compiled.remember(quick[1], call, entry)
        return self.function(*args, **kwargs) if self.runs_as_it_is else call.run(entry)

    def warn(self, error: Exception) -> None:
        """Say once why it does not run compiled."""
        if not self.is_said:
            self.is_said = True
            warnings.warn(f"{error} It runs uncompiled.", stacklevel=4)


def modules_of(function: Callable) -> list[Module]:
    """The modules a function refers to: its own object, its closure, defaults and the globals that it names."""
    found: dict[int, Module] = {}
    seen: set[int] = set()

    def look(value: Any, depth: int) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Module):
            found.setdefault(id(value), value)
        elif isinstance(value, (list, tuple)):
            for v in value:
                look(v, depth)
        elif isinstance(value, dict):
            for v in value.values():
                look(v, depth)
        elif isinstance(value, functools.partial):
            for v in (value.func, *value.args, *value.keywords.values()):
                look(v, depth)
        elif isinstance(value, MethodType):
            look(value.__self__, depth)
            look(value.__func__, depth)
        elif hasattr(value, "__code__") and depth:
            for v in captured_by(value):
                look(v, depth - 1)
        elif (
            depth
            and not isinstance(value, type)
            and type(value).__module__ not in ("builtins",)
            and hasattr(value, "__dict__")
            and depth == _DEPTH - 1
        ):
            for v in list(vars(value).values()):     # an object that a method belongs to, or that a closure holds
                if isinstance(v, Module):
                    look(v, 0)

    look(function, _DEPTH)
    return list(found.values())


_DEPTH = 3


def captured_by(function: Any) -> list[Any]:
    """What a Python function holds besides its arguments."""
    values = list(function.__defaults__ or ()) + list((function.__kwdefaults__ or {}).values())
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:     # not filled yet
            continue
    names = function.__code__.co_names
    return values + [
        function.__globals__[n]
        for n in names
        if n in function.__globals__ and not isinstance(function.__globals__[n], type(late))
    ]
