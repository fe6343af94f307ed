"""jit.trace: one run on example inputs, checked, and callable from then on.

Enters: a function or module and example inputs. Leaves: for a function, itself; for a module, a `TopLevelTracedModule`
that shares its parameters and runs its forward. Control flow is followed anew at each call (PyTorch would freeze the
path of the example), so results are those of the Python program. Refuses: examples it cannot run, runs that disagree
with each other, and a compiled form.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .._C import Tensor
from ..autograd import no_grad
from ..nn import Module
from ..utils._pytree import tree_leaves, tree_map
from ._script import ScriptModule


class TracerWarning(Warning):
    """Warnings about what a trace cannot know."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Warnings raised by libraries during a trace are left out."""
        warnings.filterwarnings("ignore", category=TracerWarning)


class TracingCheckError(Exception):
    """A traced program gave another result than the one it was traced from."""


_is_tracing = False


def is_tracing() -> bool:
    """Whether `jit.trace` is running the program now."""
    return _is_tracing


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    global _is_tracing
    before, _is_tracing = _is_tracing, True
    try:
        yield
    finally:
        _is_tracing = before


class TracedModule(ScriptModule):
    """A module as its trace runs it, with the parameters of the original."""

    _is_scripted_face = True

    def __init__(self, orig: Module) -> None:
        super().__init__()
        object.__setattr__(self, "_traced_from", orig)
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[table] = orig.__dict__[table]     # shared: a state_dict loaded here is loaded there
        self.training = orig.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._traced_from(*args, **kwargs)

    def train(self, mode: bool = True) -> TracedModule:
        self._traced_from.train(mode)
        self.training = mode
        return self

    def _get_name(self) -> str:
        return type(self._traced_from).__name__

    def extra_repr(self) -> str:
        return f"original_name={self._get_name()}"


class TopLevelTracedModule(TracedModule):
    """What `trace` returns for a module."""


def trace(func: Callable, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False,
          _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: Any = None,
          _store_inputs: bool = True) -> Any:
    """A callable with the behaviour of `func`, which is run on the examples now."""
    if not callable(func):
        raise AttributeError(f"trace: expected a function or module, got {type(func).__name__}")
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("example_kwarg_inputs should be a dict, and example_inputs be None, or the other way round")
    args = (
        example_inputs
        if isinstance(example_inputs, tuple)
        else tuple(example_inputs) if isinstance(example_inputs, list) else (example_inputs,)
    )
    kwargs = example_kwarg_inputs or {}
    args = () if example_inputs is None else args
    if isinstance(func, ScriptModule):
        return func
    with _tracing():
        expected = func(*args, **kwargs)
    _require_tensors(expected, strict)
    if check_trace:
        for inputs in [(args, kwargs), *((i if isinstance(i, tuple) else (i,), {}) for i in check_inputs or ())]:
            _check(func, *inputs, check_tolerance)
    return TopLevelTracedModule(func) if isinstance(func, Module) else func


def trace_module(mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
                 _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
                 example_inputs_is_kwarg: bool = False, _store_inputs: bool = True) -> Any:
    """Trace several methods of a module: `inputs` maps their names to example inputs."""
    if not isinstance(mod, Module):
        raise AttributeError("trace_module: expected an nn.Module as mod")
    if not isinstance(inputs, dict):
        raise AttributeError("trace_module: expected inputs to be a dict from method names to inputs")
    traced = TopLevelTracedModule(mod)
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        given = {"example_kwarg_inputs": example} if example_inputs_is_kwarg else {"example_inputs": example}
        trace(
            lambda *a, _m=method, **k: _m(*a, **k),
            check_trace=check_trace,
            check_tolerance=check_tolerance,
            strict=strict,
            **given,
        )
        if name != "forward":
            object.__setattr__(traced, name, method)
    return traced


def _require_tensors(result: Any, strict: bool) -> None:
    """A traced program returns tensors, in tuples (and, if not strict, lists and dicts)."""
    if isinstance(result, dict) and strict:
        raise RuntimeError(
            "trace: the function returns a dict, whose keys must not "
            "depend on the inputs. Pass `strict=False` to allow it.")
    leaves = tree_leaves(result)
    odd = next((x for x in leaves if not isinstance(x, Tensor)), None)
    if odd is not None:
        raise RuntimeError(
            "trace: expected the function to return tensors, or lists, tuples or dicts of them, got"
            f" {type(odd).__name__}"
        )


def _check(func: Callable, args: tuple, kwargs: dict[str, Any], tolerance: float) -> None:
    """Two runs on the same inputs must agree; a program that draws random numbers does not, and is warned about."""
    from ..random import get_rng_state, set_rng_state

    state = get_rng_state()
    with no_grad():
        runs = [tree_leaves(func(*tree_map(_copied, args), **tree_map(_copied, kwargs))) for _ in range(2)]
    set_rng_state(state)
    for first, second in zip(*runs, strict=True):
        if first.is_floating_point() and not first.allclose(second, rtol=tolerance, atol=tolerance, equal_nan=True):
            warnings.warn(
                "trace: the function has nondeterministic nodes. A model in training mode does: call .eval() on it.",
                category=TracerWarning,
                stacklevel=3,
            )
            return


def _copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, Tensor) else x
