"""`torch.distributed.elastic.multiprocessing.errors`: a process's error, told to the launcher.

    @record
    def main(): ...

An exception in `main` is written to the file that the launcher names (TORCHELASTIC_ERROR_FILE), and shown by it.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .....base import environment

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


class ErrorHandler:
    """Writes errors down. Subclass it to do something else."""

    def initialize(self) -> None:
        """Before the program runs: crashes print where they were."""
        if sys.stderr is not None and hasattr(sys.stderr, "fileno"):
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception to the file, if there is one."""
        path = environment.get("TORCHELASTIC_ERROR_FILE")
        if path:
            more = {"py_callstack": "".join(traceback.format_exception(e)), "timestamp": str(int(time.time()))}
            with open(path, "w") as file:
                json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": more}}, file)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Hand on what a child wrote, as this process's own error."""
        with open(rootcause_error_file) as file:
            data = json.load(file)
        if error_code and isinstance(data.get("message"), dict):
            data["message"]["errorCode"] = error_code
        path = environment.get("TORCHELASTIC_ERROR_FILE")
        if path:
            with open(path, "w") as file:
                json.dump(data, file)


def get_error_handler() -> ErrorHandler:
    """The one that `record` uses by default."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that failed: its number, and what it wrote."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: str = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.timestamp = {"message": "<NONE>"}, int(time.time())
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            said = self.error_file_data.get("message", "")
            self.message = said if isinstance(said, str) else said.get("message", "")
            if isinstance(said, dict):
                self.timestamp = int(said.get("extraInfo", {}).get("timestamp", self.timestamp))
        elif self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        else:
            self.message = "the process wrote no error: mark its main function with @record"

    def signal_name(self) -> str:
        """The signal that ended it."""
        if self.exitcode >= 0:
            return "<N/A>"
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return "<N/A>"

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes failed: `failures` by global rank."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("ChildFailedError: there is no failure to tell of")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the process that failed first."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All of them in words, the first one first."""
        first, _ = self.get_first_failure()
        lines = [f"{self.name} FAILED"]
        for rank in [first, *(r for r in self.failures if r != first)]:
            failure = self.failures[rank]
            lines.append(
                f"rank {rank} (local rank {failure.local_rank}, process {failure.pid}) at "
                f"{failure.timestamp_isoformat()}, exit status {failure.exitcode}: {failure.message}"
            )
        return "\n".join(lines)


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """Marks a program's main function: what it raises is told to the launcher, and raised."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0 or error.code is None:
                return None
            handler.record_exception(error)
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if os.path.isfile(failure.error_file):
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
