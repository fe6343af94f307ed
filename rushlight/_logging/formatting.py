"""Lines of logs, as glog writes them: `V1118 04:00:00.123000 4711 rushlight/dynamo/x.py:12] [0/0] [__guards] text`.

Enters: records of `logging`. Leaves: text, every line of it behind the prefix (level, time, process, place, the frame
that is compiled, the artifact), with `[rank0]:` in front where several processes work together; a record of the trace
is its JSON, and its payload in indented lines below. TORCH_LOGS_FORMAT replaces this by a format of `logging`.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from typing import Any

from ..base import environment, late, logs
from .registry import log_registry

_LETTERS = {"DEBUG": "V", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "C"}


def rank() -> int | None:
    """This process's number, where several work together."""
    if not late.is_loaded("distributed"):
        return None
    distributed = late.provided("distributed")
    return distributed.get_rank() if distributed.is_initialized() else None


@functools.lru_cache
def _make_module_path_relative(abs_path: str, sys_path: tuple[str, ...]) -> str:
    resolved = os.path.realpath(abs_path)
    for folder in sys_path:
        if folder and resolved.startswith(folder.rstrip(os.sep) + os.sep):
            return resolved[len(folder.rstrip(os.sep)) + 1:]
    return resolved


def make_module_path_relative(abs_path: str) -> str:
    """A file below the folder that Python found it from."""
    return _make_module_path_relative(abs_path, tuple(sys.path))


class TorchLogsFormatter(logging.Formatter):
    """`trace`: for records of the trace; `trace_id_filter`: frames (`[0/0]`) whose lines alone are kept."""

    def __init__(self, *, trace: bool = False, trace_id_filter: set[str] | None = None) -> None:
        super().__init__()
        self._is_trace, self._trace_id_filter = trace, trace_id_filter

    def format(self, record: Any) -> str:
        artifact = getattr(logging.getLogger(record.name), "artifact_name", None)
        own = log_registry.artifact_log_formatters.get(artifact) if artifact is not None else None
        if own is not None:
            return own.format(record)
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, "%m%d %H:%M:%S")
        found = None if self._is_trace else rank()
        record.rankprefix = "" if found is None else f"[rank{found}]:"
        trace_id = "" if self._is_trace else logs.trace_id()
        record.traceid = f" [{trace_id}]" if trace_id else ""
        record.artifactprefix = "" if artifact is None else f" [__{artifact}]"
        if self._trace_id_filter and record.traceid.strip() not in self._trace_id_filter:
            return ""
        prefix = (
            f"{record.rankprefix}{_LETTERS.get(record.levelname, record.levelname)}{record.asctime}."
            f"{int(record.msecs * 1000):06d} {record.process} {make_module_path_relative(record.pathname)}:"
            f"{record.lineno}]{record.traceid}{record.artifactprefix}"
        )
        if not self._is_trace:
            return "\n".join(f"{prefix} {line}" for line in self._text(record, artifact).split("\n"))
        lines = [] if record.payload is None else record.payload.split("\n")
        metadata = json.dumps(record.metadata, default=repr)
        return "".join([f"{prefix} {metadata}", *(f"\n\t{line}" for line in lines)])

    def _text(self, record: logging.LogRecord, artifact: str | None) -> str:
        """The message, and the error or stack that came with it (where graphs end it is told with `verbose` only)."""
        parts = [record.message]
        if record.exc_info and not record.exc_text and (artifact != "graph_breaks" or _is_verbose()):
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "".join(part if k == 0 or parts[k - 1].endswith("\n") else f"\n{part}" for k, part in enumerate(parts))


def _is_verbose() -> bool:
    return late.provided("dynamo settings").verbose


def _default_formatter() -> logging.Formatter:
    """As the environment asks."""
    wanted = environment.get("TORCH_LOGS_FORMAT")
    if not wanted:
        words = environment.get("TORCH_LOGS_TRACE_ID_FILTER").split(",")
        return TorchLogsFormatter(trace_id_filter={word.strip() for word in words if word.strip()})
    return logging.Formatter(logging.BASIC_FORMAT if wanted in ("short", "basic") else wanted)
