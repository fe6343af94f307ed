"""rushlight.jit: TorchScript. Names only; the machine is `rushlight.script`, imported when something is compiled
or loaded. With PYTORCH_JIT=0 decorated code runs as Python, and `script` hands back what it is given."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

from .._jit_internal import (
    Error,
    Future,
    _drop,
    _IgnoreContextManager,
    _isinstance,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from ..base import late
from ..base.refusals import reason_of, stand_in
from ._execution import (
    enable_onednn_fusion,
    fork,
    fuser,
    last_executed_optimized_graph,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
    wait,
)
from ._script import (
    Attribute,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    ScriptWarning,
    interface,
    script,
    script_if_tracing,
    script_method,
)
from ._serialization import load, save, validate_map_location  # noqa: F401
from ._trace import (
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    _get_trace_graph,
    is_tracing,
    trace,
    trace_module,
)

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptClass", "RecursiveScriptModule",
    "ScriptFunction", "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracedModule", "TracerWarning",
    "TracingCheckError", "annotate", "enable_onednn_fusion", "export",
    "export_opnames", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance",
    "last_executed_optimized_graph", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy",
    "strict_fusion", "trace", "trace_module", "unused", "wait",
]

_MISSING = reason_of("torch.jit.ONNXTracedModule")
_drop, _overload, _overload_method, _IgnoreContextManager, _script_if_tracing = (
    _drop,
    _overload,
    _overload_method,
    _IgnoreContextManager,
    script_if_tracing,
)
ONNXTracedModule = stand_in("torch.jit", "ONNXTracedModule")


_LATE = ("CompilationUnit", "RecursiveScriptClass", "freeze", "optimize_for_inference", "run_frozen_optimizations")


def __getattr__(name: str) -> Any:
    """Names that need the compiler, when they are asked for."""
    if name not in _LATE:
        raise AttributeError(f"module 'torch.jit' has no attribute '{name}'")
    globals()[name] = found = late.provided(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def annotate(the_type: Any, the_value: Any) -> Any:
    """Tell the script compiler the type of a value; in Python, the value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001 - PyTorch's name
    """isinstance that also takes annotations such as `List[int]`."""
    return _isinstance(obj, target_type)


_fork, _wait = fork, wait


def _await(func: Callable, *args: Any, **kwargs: Any) -> Future:
    return fork(func, *args, **kwargs)


def _awaitable_wait(aw: Future) -> Any:
    return aw.wait()




def export_opnames(m: Any) -> list[str]:
    """The ops that a scripted module's methods call, by name and overload, each once, in order."""
    from ..script.opnames import op_names

    if not hasattr(m, "_c"):
        raise RuntimeError(f"export_opnames: expected a scripted module, got {type(m).__name__}")
    return op_names(m._c.object)


def _flatten(tree: Any) -> tuple[tuple[Any, ...], Any]:
    from ..utils._pytree import tree_flatten

    leaves, spec = tree_flatten(tree)
    return tuple(leaves), spec


def _unwrap_optional(x: Any) -> Any:
    assert x is not None, "Unwrapping null optional"
    return x


Optional, List, Dict = typing.Optional, typing.List, typing.Dict  # noqa: UP006
