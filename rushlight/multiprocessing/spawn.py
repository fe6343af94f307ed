"""Start several processes on one function, and learn how they ended.

Enters: a function, called as `fn(index, *args)`. Leaves: nothing, or a `ProcessContext` to wait on. The first process
that fails ends the others, and is raised here with its traceback, signal or exit code.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._C import end_with_parent
from ..base import environment

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"

log = logging.getLogger("torch.multiprocessing.spawn")

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "SpawnContext",
    "start_processes",
]


class ProcessException(Exception):
    """A started process failed; `error_index` and `error_pid` say which."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """It raised an exception, whose traceback is the message."""


class ProcessExitedException(ProcessException):
    """It ended by a signal or with an exit code, saying nothing."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _wrap(fn: Callable, i: int, args: tuple, error_file: str) -> None:
    """What runs in a started process."""
    end_with_parent(int(signal.SIGINT))
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(error_file, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:      # a forked child has the context too, and the folder is not its own
        shutil.rmtree(folder, ignore_errors=True)


class ProcessContext:
    """Processes that were started together. What `_owns` names, the folder of their error files, is removed when all
    have ended, one has failed, or the context is given up."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.error_files = error_files
        self.processes = processes
        self._remove_files: Callable[[], Any] = lambda: None
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def _owns(self, folder: str) -> None:
        self._remove_files = weakref.finalize(self, _remove, folder, os.getpid())

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def _join_all(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait up to `timeout` seconds for one to end. True once all have; raises for the first that failed.

        The others then get `grace_period` seconds to end by themselves, and as much again after SIGTERM.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            if not self.sentinels:
                self._remove_files()
            return not self.sentinels
        self._end_others(grace_period)
        try:
            self._raise_failure(failed)
        finally:
            self._remove_files()
        return False

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_all(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                log.warning("process %s does not end on SIGTERM: sending SIGKILL", process.pid)
                process.kill()
            process.join()

    def _raise_failure(self, index: int) -> None:
        process = self.processes[index]
        try:
            with open(self.error_files[index], encoding="utf-8") as file:
                trace = file.read()
        except FileNotFoundError:
            self._raise_exit(index, process)
        raise ProcessRaisedException(
            f"\n\n-- Process {index} terminated with the following error:\n{trace}", index, process.pid
        )

    def _raise_exit(self, index: int, process: Any) -> None:
        code = process.exitcode
        if code >= 0:
            raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        raise ProcessExitedException(f"process {index} terminated with signal {name}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start `nprocs` processes; wait for all of them, or with `join=False` return their context."""
    context = multiprocessing.get_context(start_method)
    # Of this user alone, and fresh: a traceback may show what a program works with, and nobody else may put one there.
    folder = tempfile.mkdtemp(prefix="rushlight-errors-")

    def start(index: int) -> tuple[Any, str]:
        # Only a process that raises makes the file: a traceback may be longer than any pipe holds.
        path = os.path.join(folder, f"{index}.txt")
        given = (fn, index, args, path)
        process = context.Process(target=_wrap, args=given, daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        return process, path

    try:
        if start_method == "forkserver" and environment.get(ENV_VAR_PARALLEL_START) == "1":
            with ThreadPoolExecutor(max_workers=nprocs) as executor:
                started = list(executor.map(start, range(nprocs)))
        else:
            started = [start(index) for index in range(nprocs)]
    except BaseException:      # a function that cannot be pickled
        _remove(folder, os.getpid())
        raise
    running = ProcessContext([process for process, _ in started], [path for _, path in started])
    running._owns(folder)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with the spawn start method, whatever `start_method` says."""
    if start_method != "spawn":
        warnings.warn(
            f"spawn: start_method is always 'spawn', got {start_method!r}.\n"
            "start_processes(...) takes the others.",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
