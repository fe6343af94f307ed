"""The trace: structured records of what is compiled, for tools that read them (tlparse), in files of their own.

Enters: a name, metadata and a payload, as functions that are called only if somebody listens. Leaves: a file
`dedicated_log_torch_trace_*.log` in the folder that TORCH_TRACE names, one for each process, made at the first record:
each record is a line with its metadata as JSON (and the frame that is compiled), and its payload in indented lines,
whose MD5 the metadata holds. Refuses (AssertionError): names that records have for themselves.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .. import version
from ..base import environment, late, logs
from .formatting import rank

LOG_PREFIX = "dedicated_log_torch_trace_"
_RESERVED = frozenset((
    "rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "severity", "timestamp", "pathname",
    "thread", "subgraph_name",
))
# No logger of a module: silencing modules does not silence the trace.
trace_log = logging.getLogger("torch.__trace")
INTERN_TABLE: dict[str, int] = {}      # texts that records have numbers for
structured_logging_overhead: dict[str, float] = defaultdict(float)      # seconds, by frame: `0_0`


def trace_folder() -> str | None:
    """Where the environment wants the trace; None: nowhere."""
    found = environment.get("TORCH_DTRACE") or environment.get("TORCH_TRACE")
    if not found and environment.get("TORCH_COMPILE_DEBUG") == "1":
        found = os.path.join(late.provided("dynamo settings").debug_dir_root, "tlparse")
    return found or None


class LazyTraceHandler(logging.StreamHandler):
    """Writes to a file that is made when there is something to write; a child process makes its own."""

    def __init__(self, root_dir: str | None) -> None:
        logging.Handler.__init__(self)
        self.root_dir, self.stream, self.path = root_dir, None, ""
        self._pid = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None and self._pid != os.getpid():
            self._leave()
        if self.stream is not None:
            super().emit(record)
        elif self.root_dir is None:
            trace_log.removeHandler(self)
        else:
            self._open(self.root_dir)
            super().emit(record)
            _tell_version()

    def _open(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        number = rank()
        suffix = "" if number is None else f"rank_{number}_"
        descriptor, self.path = tempfile.mkstemp(suffix=".log", prefix=LOG_PREFIX + suffix, dir=folder)
        self.stream, self._pid = os.fdopen(descriptor, "w", encoding="utf-8"), os.getpid()
        logging.getLogger("torch._inductor").info("tlparse raw data: %s", self.path)

    def _leave(self) -> None:
        """Let go of the file of the parent process without writing what it has not written yet."""
        stream, self.stream = self.stream, None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.close()

    def close(self) -> None:
        if self.stream is not None and self._pid == os.getpid():
            self.flush()
            self.stream.close()
        self.stream = None
        super().close()


def is_traced() -> bool:
    """Whether somebody reads records. Handlers that hear everything (pytest gives its own to every logger that does not
    propagate, and to the root) did not ask for them."""
    return any(handler not in logging.root.handlers for handler in trace_log.handlers)


def _tell_version() -> None:
    told = {"pytorch_version": version.__version__, "commit": version.git_version, "oss": True}
    write("artifact", lambda: {"name": "torch_version", "encoding": "json"}, lambda: told, suppress_context=True)


# --- stacks -----------------------------------------------------------------------------------------------------------


def intern_string(s: str | None) -> int:
    """The number of a text, which a record `str` explains once; -1 for None."""
    if s is None:
        return -1
    if s not in INTERN_TABLE:
        number = INTERN_TABLE[s] = len(INTERN_TABLE)
        if is_traced():
            write("str", lambda: (s, number), lambda: None, suppress_context=True)
    return INTERN_TABLE[s]


def from_traceback(tb: Sequence[traceback.FrameSummary]) -> list[dict[str, Any]]:
    """Frames as records hold them: line, name, number of the file, and the line's text."""
    return [
        {"line": frame.lineno, "name": frame.name, "filename": intern_string(frame.filename), "loc": frame.line}
        for frame in tb
    ]


# --- records ----------------------------------------------------------------------------------------------------------


def trace_structured(name: str, metadata_fn: Callable[[], dict[str, Any] | tuple[str, int]] = dict, *,
                     payload_fn: Callable[[], str | object | None] = lambda: None, suppress_context: bool = False,
                     expect_trace_id: bool = True, record_logging_overhead: bool = True,
                     compile_id: Any = None) -> None:
    """Write a record. `payload_fn` gives text, or what JSON can hold; `compile_id`: the frame, where none is being
    compiled; without one, records that `expect_trace_id` have the stack."""
    if name in _RESERVED:
        raise AssertionError(f"trace_structured: records have {name!r} for themselves; give it another name")
    for what, given in (("metadata_fn", metadata_fn), ("payload_fn", payload_fn)):
        if not callable(given):
            raise AssertionError(f"trace_structured: {what} should be callable, but got {type(given)}")
    if is_traced():
        write(name, metadata_fn, payload_fn, suppress_context, expect_trace_id, record_logging_overhead, compile_id)


def trace_structured_artifact(name: str, encoding: str, payload_fn: Callable[[], str | object | None] = lambda: None,
                              compile_id: Any = None) -> None:
    """Write a text that readers show under `name`; `encoding`: "string" or "json"."""
    trace_structured("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=payload_fn,
                     compile_id=compile_id)


def dtrace_structured(name: str, metadata_fn: Callable[[], dict[str, Any] | tuple[str, int]] = dict, *,
                      payload_fn: Callable[[], str | object | None] = lambda: None, suppress_context: bool = False,
                      expect_trace_id: bool = False, record_logging_overhead: bool = True) -> None:
    """The same for what only TORCH_DTRACE asks for."""
    if environment.get("TORCH_DTRACE"):
        trace_structured(name, metadata_fn, payload_fn=payload_fn, suppress_context=suppress_context,
                         expect_trace_id=expect_trace_id, record_logging_overhead=record_logging_overhead)


def write(name: str, metadata: Callable[[], Any], payload: Callable[[], Any], suppress_context: bool = False,
          expect_trace_id: bool = True, counts: bool = True, compile_id: Any = None, stacklevel: int = 3) -> None:
    """Write a record, which `stacklevel` calls above caused."""
    started = time.perf_counter()
    record: dict[str, Any] = {name: metadata()}
    if not suppress_context:
        record.update(_context(expect_trace_id, compile_id))
    text = _text(payload())
    if text is not None:
        record["has_payload"] = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    trace_log.debug("", extra={"metadata": record, "payload": text}, stacklevel=stacklevel)
    if counts:
        add_structured_logging_overhead(time.perf_counter() - started)


def _context(expect_trace_id: bool, given: Any) -> dict[str, Any]:
    """Which frame of which process a record is about."""
    number, own = rank(), logs.here.compile_id
    found: dict[str, Any] = {} if number is None else {"rank": number}
    compile_id = own if own is not None else given
    if compile_id is None:
        return {**found, "stack": from_traceback(traceback.extract_stack()[:-3])} if expect_trace_id else found
    for part in ("compiled_autograd_id", "frame_id", "frame_compile_id"):
        if getattr(compile_id, part) is not None:
            found[part] = getattr(compile_id, part)
    if own is not None:
        found["attempt"] = logs.here.attempt
    return found


def _text(payload: Any) -> str | None:
    """A payload as lines that are not too long."""
    if payload is None or isinstance(payload, str):
        return payload
    if isinstance(payload, list):
        return "[\n" + ",\n".join(map(json.dumps, payload)) + "\n]"
    return json.dumps(payload, default=_listed, indent=0)


def _listed(value: Any) -> Any:
    if isinstance(value, set):
        return list(value)
    raise TypeError(f"trace_structured: expected a payload of what JSON can hold, got a {type(value)}")


def _frame_key() -> str | None:
    now = logs.here.compile_id
    return None if now is None else f"{now.frame_id}_{now.frame_compile_id}"


def add_structured_logging_overhead(time_spent: float) -> None:
    """Count seconds that records of the frame took."""
    key = _frame_key()
    if key is not None:
        structured_logging_overhead[key] += time_spent


def get_structured_logging_overhead() -> float | None:
    """Seconds that records of the frame took that is compiled; None where there is none."""
    key = _frame_key()
    return None if key is None else structured_logging_overhead.get(key)
