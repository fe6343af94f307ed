"""`torch._dynamo.eval_frame`: names of `compiler.driver` where PyTorch has them."""

from __future__ import annotations

from ..compiler.driver import OptimizedModule, compile, explain, optimize, optimize_assert
from ..compiler.registry import get_default_backend, set_default_backend
from .utils import is_dynamo_supported, is_inductor_supported

__all__ = [
    "OptimizedModule", "compile", "explain", "get_default_backend", "is_dynamo_supported", "is_inductor_supported",
    "optimize", "optimize_assert", "set_default_backend",
]
