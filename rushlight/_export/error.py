"""`torch._export.error`: errors of passes over exported graphs."""

__all__ = ["ExportError", "ExportErrorType", "InternalError"]

from enum import Enum


class ExportErrorType(Enum):
    """Whose mistake it was."""

    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


class InternalError(Exception):
    """A pass found a graph that no export makes."""


class ExportError(Exception):
    """A mistake of the program's, of a kind."""

    def __init__(self, error_code: ExportErrorType, message: str) -> None:
        super().__init__(f"[{error_code}]: {message}")
