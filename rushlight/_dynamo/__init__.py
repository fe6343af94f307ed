"""rushlight._dynamo: the names programs take from PyTorch's graph capture. The machinery is `rushlight.dynamo`."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from .. import compiler
from ..aot import compiled_autograd
from ..base import late
from ..dynamo import settings as config
from ..dynamo.record import marks
from . import bytecode_debugger, exc, external_utils, utils
from .backends import list_backends, lookup_backend, register_backend
from .decorators import (
    allow_c_slot,
    allow_in_graph,
    assume_constant_result,
    disable,
    disable_nested_graph_breaks,
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    get_recursion_limit,
    graph_break,
    is_dynamo_disable_recursive,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    override_cudagraphs,
    override_optimization_hint,
    patch_dynamo_config,
    replay,
    run,
    set_recursion_limit,
    set_stance,
    skip_frame,
    step_unsupported,
    substitute_in_graph,
)
from .external_utils import is_compiling
from .utils import is_dynamo_supported, is_inductor_supported

__all__ = [
    "OptimizedModule", "allow_c_slot", "allow_in_graph", "assume_constant_result", "bytecode_debugger",
    "compiled_autograd", "config", "disable", "disable_nested_graph_breaks", "disallow_in_graph",
    "dont_skip_tracing", "error_on_graph_break", "exc", "explain", "export", "external_utils", "forbid_in_graph",
    "get_recursion_limit", "graph_break", "is_compiling", "is_dynamo_disable_recursive", "is_dynamo_supported",
    "is_inductor_supported", "list_backends", "lookup_backend", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert",
    "override_cudagraphs", "override_optimization_hint", "patch_dynamo_config", "register_backend",
    "register_hook_for_recompile_user_context", "replay", "reset", "reset_code", "reset_code_caches",
    "reset_frame_count", "reset_recompile_user_contexts", "run", "set_recursion_limit", "set_stance", "skip_frame",
    "step_unsupported", "substitute_in_graph", "utils",
]

# for programs that compile: the stages are loaded then
__getattr__, __dir__ = late.names(
    globals(), late.by_name({"eval_frame": "OptimizedModule explain optimize optimize_assert"}),
    files=("device_interface", "eval_frame")
)


def reset() -> None:
    """Forget everything compiled."""
    compiler.reset()


reset_code_caches = reset


def reset_code(code: Any) -> None:
    """Forget what was compiled of one code object (or function)."""
    code = getattr(code, "__code__", code)
    if not isinstance(code, CodeType):
        raise TypeError(f"reset_code: expected a code object, got {type(code).__name__}")
    from ..compiler import driver  # noqa: PLC0415 - programs that compile nothing do not load it

    driver.reset_code(code)


def reset_frame_count() -> None:
    """Count frames from zero."""
    utils.counters["frames"].clear()


def register_hook_for_recompile_user_context(hook: Callable[[], str]) -> None:
    """A function that is called where something is compiled again; what it returns is said with the reason."""
    if not callable(hook):
        raise TypeError(f"register_hook_for_recompile_user_context: expected a function, got {type(hook).__name__}")
    marks.recompile_contexts.append(hook)


def reset_recompile_user_contexts() -> None:
    """Forget the functions that are called where something is compiled again."""
    marks.recompile_contexts.clear()


def export(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Refused: torch.export.export is the way to a graph."""
    raise NotImplementedError("_dynamo.export: use torch.export.export, which gives a graph with its signature.")
