"""Logs of the compile stack, by PyTorch's names: `set_logs`, artifacts, and the structured trace (docs/debugging.md).

The machinery is loaded when a program imports this, or the environment asks for logs (TORCH_LOGS, TORCH_TRACE).
"""

from . import _internal, _registrations, structured
from ._internal import (
    DEFAULT_LOGGING,
    LazyString,
    _init_logs,
    dtrace_structured,
    get_structured_logging_overhead,
    getArtifactLogger,
    hide_warnings,
    set_logs,
    trace_structured,
    warning_once,
)

__all__ = [
    "DEFAULT_LOGGING", "LazyString", "_init_logs", "_internal", "_registrations", "dtrace_structured",
    "getArtifactLogger", "get_structured_logging_overhead", "hide_warnings", "set_logs", "structured",
    "trace_structured", "warning_once",
]
