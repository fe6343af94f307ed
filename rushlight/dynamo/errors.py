"""Exceptions of graph capture, for programs that catch them."""

from __future__ import annotations


class TorchDynamoException(RuntimeError):
    """Something went wrong while capturing a graph."""


class InternalTorchDynamoError(TorchDynamoException):
    """Capture itself is at fault."""


class RestartAnalysis(TorchDynamoException):
    """Capture has to begin again."""


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    """Capture has to begin again with scalars as tensors."""


class Unsupported(TorchDynamoException):
    """The program does something that cannot be captured."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised."""


class UserError(TorchDynamoException):
    """The program cannot be captured as it is written."""


class RecompileError(TorchDynamoException):
    """A recompilation was forbidden."""


class RecompileLimitExceeded(Unsupported):
    """One function was compiled too often."""


class FailOnRecompileLimitHit(Exception):
    """The same, where that must stop the program."""


class InvalidBackend(TorchDynamoException):
    """No backend has this name."""

    def __init__(self, name: str, known: list[str] | None = None) -> None:
        shown = f" Known backends: {', '.join(known)}." if known else ""
        super().__init__(f"Invalid backend: {name!r}. torch._dynamo.list_backends() names those there are.{shown}")


class ResetRequired(TorchDynamoException):
    """`reset()` has to be called first."""
