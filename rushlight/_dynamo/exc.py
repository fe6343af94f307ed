"""`torch._dynamo.exc`: the exceptions of graph capture (`dynamo.errors`) under PyTorch's name."""

from __future__ import annotations

from ..dynamo.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InternalTorchDynamoError,
    InvalidBackend,
    RecompileError,
    RecompileLimitExceeded,
    ResetRequired,
    RestartAnalysis,
    TensorifyScalarRestartAnalysis,
    TorchDynamoException,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend", "RecompileError",
    "RecompileLimitExceeded", "ResetRequired", "RestartAnalysis", "TensorifyScalarRestartAnalysis",
    "TorchDynamoException", "Unsupported", "UserError",
]
