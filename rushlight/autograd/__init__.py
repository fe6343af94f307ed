"""Autograd: recording modes, gradients, hooks, custom functions, forward mode and their checks.

The tape and the engine are native (csrc/tape.h); this package is what users call. Importing it installs the
autograd methods of Tensor and of graph nodes.
"""

import importlib

from .. import _C
from . import anomaly_mode, forward_ad, grad_mode, graph, hooks
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .backward import backward, grad, tensor_backward
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .graph import Node

Variable = _C.Tensor

hooks.install()
anomaly_mode.install()
_C._autograd_callbacks["tensor_backward"] = tensor_backward


def __getattr__(name: str) -> object:
    if name == "functional":
        return importlib.import_module(".functional", __name__)
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        module = importlib.import_module(".gradcheck", __name__)   # rarely needed: kept out of start-up
        return module if name == "gradcheck" else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
