"""rushlight._dynamo: the names programs take from PyTorch's graph capture.

Programs are captured by tracing (see `eval_frame`), not from bytecode: there are no graph breaks, and marks such as
`mark_dynamic` or `disable` change nothing and are kept as marks. What would have to show graphs and breaks between them
(`explain`, `export`) raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import late
from . import config, exc, external_utils
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
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
    "dont_skip_tracing", "error_on_graph_break", "exc", "explain", "export", "external_utils", "forbid_in_graph",
    "graph_break", "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends", "lookup_backend",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config", "register_backend", "reset",
    "reset_code_caches", "run", "set_stance", "skip_frame", "substitute_in_graph",
]  # fmt: skip

_NO_CAPTURE = "capture of bytecode (Dynamo) is not written yet; compile() traces functions"


def reset() -> None:
    """Forget everything compiled."""
    late.provided("forget what is compiled")()


reset_code_caches = reset


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Refused: it reports captured graphs and the breaks between them."""
    raise NotImplementedError(f"_dynamo.explain: {_NO_CAPTURE}")


def export(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Refused: it returns a captured graph."""
    raise NotImplementedError(
        f"_dynamo.export: {_NO_CAPTURE}. For straight-line code use torch.fx.symbolic_trace or make_fx."
    )
