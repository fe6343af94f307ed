"""jit.trace: one run on example inputs, written down as a graph that runs without Python from then on.

Enters: a function or module and example inputs. Leaves: for a function a `ScriptFunction`, for a module a
`TopLevelTracedModule` that shares its parameters. Control flow is that of the example. Refuses: examples and results
that are no tensors, and, if asked to check, traces that are not the same when made again.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..nn import Module
from ..script.trace.state import TracerWarning, is_tracing
from ._script import RecursiveScriptModule, ScriptFunction, ScriptModule, _enabled
from ._trace_check import TracingCheckError, check


class TracedModule(ScriptModule):
    """A module whose methods are traces, with the parameters of the original."""

    _disable_script_meta = True
    _is_scripted_face = True

    def __init__(self, orig: Module, held: Any) -> None:
        from ._recursive import face_of

        super().__init__()
        actual = face_of(held)
        _name_faces(orig, actual)
        self.__dict__["_name"] = type(orig).__name__
        self.__dict__["_actual_script_module"] = actual
        for name in ("_parameters", "_buffers", "_modules"):
            self.__dict__[name] = actual.__dict__[name]
        self.__dict__.pop("training", None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the trace."""
        raise RuntimeError("a submodule of a trace has no call of its own")

    @property
    def __script_object__(self) -> Any:
        return self._actual_script_module.__script_object__

    @property
    def _c(self) -> Any:
        return self._actual_script_module._c

    def _get_name(self) -> str:
        return self._name

    def extra_repr(self) -> str:
        return f"original_name={self._name}"


class TopLevelTracedModule(TracedModule):
    """What `trace` returns for a module."""

    def __init__(self, orig: Module, held: Any) -> None:
        super().__init__(orig, held)
        self.__dict__["forward"] = None

    def _bind(self) -> None:
        """Methods of the object as attributes, where calls look for them."""
        handle = self._actual_script_module._c
        self.__dict__.pop("forward", None)
        for name in handle.object.type.methods:
            self.__dict__[name] = handle._get_method(name)

    def _reconstruct(self, cpp_module: Any) -> None:
        """Stand around another object."""
        from ._recursive import wrapped

        self.__dict__["_actual_script_module"] = wrapped(cpp_module)
        self._bind()


def _name_faces(original: Any, face: RecursiveScriptModule) -> None:
    """Traced modules print under the names of the classes they come from."""
    for name, child in original._modules.items():
        inner = face.__dict__["_modules"].get(name) if child is not None else None
        if inner is not None and not hasattr(child, "__script_object__"):
            inner.__dict__["_get_name"] = type(child).__name__.__str__
            _name_faces(child, inner)


# --- arguments --------------------------------------------------------------------------------------------------------


def _argument_names(function: Callable) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def _as_tuple(example: Any) -> tuple[Any, ...]:
    if isinstance(example, (Tensor, dict)):
        return (example,)
    return example if isinstance(example, tuple) else tuple(example)


def _called(function: Callable, example: dict[str, Any]) -> tuple[Callable, tuple[Any, ...], list[str]]:
    """A function of keywords as one of positions: in the order of its parameters, those that are given."""
    names = [name for name in _argument_names(function) if name in example]
    names += [name for name in example if name not in names]
    return (lambda *given: function(**dict(zip(names, given, strict=True)))), tuple(example[n] for n in names), names


# --- trace ------------------------------------------------------------------------------------------------------------


def trace(func: Callable, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False,
          _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: Any = None,
          _store_inputs: bool = True) -> Any:
    """The function or module as a graph of what it does on the examples."""
    if not _enabled:
        return func
    if optimize is not None:
        warnings.warn("`optimize` does nothing and is deprecated; `with torch.jit.optimized_execution()` is its"
                      " successor",
                      FutureWarning, stacklevel=2)
    if isinstance(func, ScriptModule):
        warnings.warn("trace: this is already a ScriptModule, and is returned as it is", stacklevel=2)
        return func
    if isinstance(func, Module):
        if example_inputs is None:
            if not isinstance(example_kwarg_inputs, dict):
                raise RuntimeError("example_kwarg_inputs should be a dict")
            example_inputs = example_kwarg_inputs
        return trace_module(func, {"forward": example_inputs}, None, check_trace, _each(check_inputs), check_tolerance,
                            strict, _force_outplace, _module_class, _compilation_unit,
                            example_inputs_is_kwarg=isinstance(example_kwarg_inputs, dict),
                            _store_inputs=_store_inputs)
    if inspect.ismethod(func) and isinstance(func.__self__, Module):
        if func.__name__ == "forward":
            return trace(func.__self__, example_inputs, None, check_trace, check_inputs, check_tolerance, strict,
                         example_kwarg_inputs=example_kwarg_inputs)
        raise AttributeError(f"trace: {func.__name__} is one method of a module; trace_module traces those")
    if not callable(func):
        raise AttributeError(f"trace: expected a function or module, got {type(func).__name__}")
    return _trace_function(func, example_inputs, example_kwarg_inputs, check_trace, check_inputs, check_tolerance,
                           strict)


def _each(check_inputs: Any) -> list[Any] | None:
    return None if check_inputs is None else [{"forward": given} for given in check_inputs]


def _trace_function(func: Callable, example_inputs: Any, keywords: Any, check_trace: bool, check_inputs: Any,
                    tolerance: float, strict: bool) -> ScriptFunction:
    from ..script.frontend.annotations import qualified_name
    from ..script.trace.functions import trace_function
    from ..script.unit import PYTHON

    run = inspect.unwrap(func) if hasattr(func, "__script_if_tracing_wrapper") else func
    if keywords is not None and example_inputs is None:
        if not isinstance(keywords, dict):
            raise RuntimeError("example_kwarg_inputs should be a dict")
        run, inputs, names = _called(run, keywords)
    else:
        if example_inputs is None:
            raise TypeError("example_inputs: 'NoneType' object is not iterable. Give tensors, or example_kwarg_inputs")
        inputs, names = _as_tuple(example_inputs), _argument_names(func)
    name = getattr(func, "__name__", type(func).__name__)
    full = qualified_name(func) if hasattr(func, "__name__") else f"__torch__.{name}"
    if name == "<lambda>":
        full = full.replace("<lambda>", "_lambda")
    made, _ = trace_function(PYTHON, PYTHON.take_name(full), run, inputs, names, strict)
    traced = ScriptFunction(made, func)
    if check_trace:
        for given in [inputs] if check_inputs is None else check_inputs:
            check(traced, run, lambda row: trace_function(PYTHON, full, run, row, names, strict)[0],
                  given if given is inputs else _as_tuple(given), tolerance)
    return traced


def trace_module(mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
                 _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
                 example_inputs_is_kwarg: bool = False, _store_inputs: bool = True) -> Any:
    """Trace several methods of a module: `inputs` maps their names to example inputs."""
    if not _enabled:
        return mod
    if not isinstance(mod, Module):
        raise AttributeError(f"mod: expected a torch.nn.Module, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError("inputs: expected a dict from names of methods to their inputs, got"
                             f" {type(inputs).__name__}")
    from ..script.trace.classes import object_of
    from ..script.unit import PYTHON

    held = object_of(mod, PYTHON)
    kind = _module_class if _module_class is not None and issubclass(_module_class, TracedModule) else None
    result = (kind or TopLevelTracedModule)(mod, held)
    for name, example in inputs.items():
        _trace_one(mod, held, name, example, strict, example_inputs_is_kwarg)
    result._bind()
    if check_trace:
        for given in [inputs] if check_inputs is None else check_inputs:
            for name, example in given.items():
                _check_method(mod, result, name, example, strict, check_tolerance, example_inputs_is_kwarg)
    return result


def _get_trace_graph(f: Callable, args: Any = (), kwargs: dict[str, Any] | None = None, strict: bool = True,
                     _force_outplace: bool = False, return_inputs: bool = False,
                     _return_inputs_states: bool = False) -> tuple[Any, ...]:
    """The flat graph of one run, with the tensors of the inputs, then those of the module's state, as its inputs; and
    what the run answered."""
    from ..script.trace.functions import trace_flat
    from ..utils._pytree import tree_flatten, tree_unflatten

    given, spec = tree_flatten((_as_tuple(args), kwargs or {}))
    at = [i for i, leaf in enumerate(given) if isinstance(leaf, Tensor)]
    state = list(dict.fromkeys(f.state_dict(keep_vars=True).values())) if isinstance(f, Module) else []

    def run(*tensors: Any) -> Any:
        leaves = list(given)
        for i, tensor in zip(at, tensors, strict=False):
            leaves[i] = tensor
        positional, named = tree_unflatten(leaves, spec)
        return f(*positional, **named)

    graph, result = trace_flat(run, [given[i] for i in at], state, strict)
    extra = (tuple(given[i] for i in at),) if return_inputs or _return_inputs_states else ()
    return (graph, result, *extra)


def _runs(mod: Module, name: str, example: Any, is_kwarg: bool) -> tuple[Callable, tuple[Any, ...], list[str]]:
    """How a method is run, on which inputs, and what they are called."""
    method = mod if name == "forward" else getattr(mod, name)
    own = getattr(mod, name)
    if is_kwarg and isinstance(example, dict):
        _, inputs, names = _called(own, example)
        return (lambda *given: method(**dict(zip(names, given, strict=True)))), inputs, names
    return method, _as_tuple(example), _argument_names(own)


def _trace_one(mod: Module, held: Any, name: str, example: Any, strict: bool, is_kwarg: bool) -> Any:
    from ..script.trace.functions import trace_method
    from ..script.unit import PYTHON

    run, inputs, names = _runs(mod, name, example, is_kwarg)
    return trace_method(PYTHON, name, run, inputs, names, strict, mod, held)[0]


def _check_method(mod: Module, traced: Any, name: str, example: Any, strict: bool, tolerance: float,
                  is_kwarg: bool) -> None:
    from ..script.trace.classes import object_of
    from ..script.unit import Unit

    run, inputs, _ = _runs(mod, name, example, is_kwarg)

    def again(row: tuple[Any, ...]) -> Any:
        held = object_of(mod, Unit())
        made = _trace_one(mod, held, name, row, strict, False)
        return made, lambda *given: made(held, *given)

    check(getattr(traced, name), run, again, inputs, tolerance)


__all__ = ["RecursiveScriptModule", "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError",
           "is_tracing", "trace", "trace_module"]
