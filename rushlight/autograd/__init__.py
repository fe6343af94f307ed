"""Autograd: recording modes, gradients, hooks, custom functions, forward mode and their checks.

Enters: tensors whose history was recorded. Leaves: gradients, on leaves or returned; nodes, hooks and edges to look
at. Refuses: a second backward through freed nodes, and saved tensors that were changed since.

The tape and the engine are native (csrc/tape.h); this package is what users call. Importing it installs the
autograd methods of Tensor and of graph nodes.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late
from . import anomaly_mode, grad_mode, hooks
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .backward import backward, grad, tensor_backward
from .grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .variable import Variable


class _Engine:
    """What programs reach as `Variable._execution_engine`."""

    queue_callback = staticmethod(_C.queue_callback)

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """Whether a re-entrant checkpoint may run its forward again: not where `grad` asks for certain inputs."""
        return not _C._backward_has_inputs()


Variable._execution_engine = _Engine()

hooks.install()
anomaly_mode.install()
_C._autograd_callbacks["tensor_backward"] = tensor_backward


def _asked(role: str) -> Any:
    """What an upper layer knows about nodes, asked when somebody looks at the graph."""
    return lambda *args: late.provided(role)(*args)


# how nodes look: csrc/extras/node_face.cpp, Note [dressing]
_C._autograd_callbacks.update({role: _asked(role) for role in ("dress", "shows_own", "saved_attribute")})
# how calls look in a recording: csrc/profile.h
_C._autograd_callbacks.update(
    {role: _asked(role) for role in ("call_name", "call_inputs", "kernel_name", "frame_paths")}
)


# Rarely needed: kept out of start-up.
_late_name, _late_names = late.names(
    globals(),
    {
        "Function": "function",
        "Node": "graph",
        "gradgradcheck": "gradcheck",
        "GradcheckError": "gradcheck",
        "NestedIOFunction": "function",
    },
    files=("forward_ad", "function", "functional", "gradcheck", "graph", "variable"),
)

# The profiler stands above: it is asked for by its role.
_PROFILERS = ("profiler", "profiler_util")
_OF_PROFILER = frozenset((
    "DeviceType", "ProfilerActivity", "ProfilerState", "kineto_available", "_profiler_enabled", "_supported_activities",
    "_is_kineto_stopped", "_record_function_with_args_enter", "_record_function_with_args_exit", "_ProfilerResult",
))


def __getattr__(name: str) -> Any:
    if name in _PROFILERS:
        return late.provided(f"autograd.{name}")
    if name in _OF_PROFILER:
        return getattr(late.provided("autograd.profiler"), name)
    return _late_name(name)


def __dir__() -> list[str]:
    return sorted({*_late_names(), *_PROFILERS, *_OF_PROFILER})
