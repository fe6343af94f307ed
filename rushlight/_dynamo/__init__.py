"""rushlight._dynamo: the names programs take from PyTorch's graph capture. The machinery is `rushlight.dynamo`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late
from ..nn import Module
from . import compiled_autograd, config, exc, external_utils, utils
from .backends import list_backends, lookup_backend, register_backend
from .decorators import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    nonstrict_trace,
    patch_dynamo_config,
    run,
    set_stance,
    skip_frame,
    substitute_in_graph,
)  # fmt: skip
from .eval_frame import OptimizedModule, is_dynamo_supported, is_inductor_supported, optimize, optimize_assert
from .external_utils import is_compiling

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "compiled_autograd", "config", "disable",
    "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "exc", "explain", "export", "external_utils",
    "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_supported", "is_inductor_supported",
    "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config", "register_backend", "reset",
    "reset_code_caches", "run", "set_stance", "skip_frame", "substitute_in_graph", "utils",
]  # fmt: skip

def reset() -> None:
    """Forget everything compiled."""
    late.provided("forget what is compiled")()
    compiled_autograd.reset()


reset_code_caches = reset


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`explain(f)(*args)` runs a function or module compiled and says what it was made of: graphs, breaks with their
    reasons, guards (`dynamo.report.Report`; `.html(path)` writes a page). Arguments given at once are run at once."""

    def run(*args: Any, **kwargs: Any) -> Any:
        report = late.provided("compile report")()
        told = {"backend": "eager", "report": report}
        if isinstance(f, Module):
            quick, whole = late.provided("compile_module")(f, **told)
            (whole if quick is None or _C.module_is_hooked(f) else quick)(*args, **kwargs)
        else:
            late.provided("compile_callable")(f, **told)(*args, **kwargs)
        return report

    return run(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else run


def export(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Refused: torch.export.export is the way to a graph."""
    raise NotImplementedError("_dynamo.export: use torch.export.export, which gives a graph with its signature.")
