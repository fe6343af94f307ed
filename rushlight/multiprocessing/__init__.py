"""Python's `multiprocessing`, with tensors that are shared between processes instead of copied.

Enters: everything the standard module offers, under the same names. Leaves: the same; a tensor put on a queue or passed
to a process moves to shared memory, and the other side looks at the same bytes. Refuses: tensors computed in a graph.

Both sharing strategies of PyTorch are accepted and mean the same here: memory files without names, passed as
descriptors, which nothing can leave behind. The limit on open descriptors, the reason to choose "file_system" in
PyTorch, is raised when it is met.
"""

from __future__ import annotations

import multiprocessing as _standard
import threading as _threading
from multiprocessing import *  # noqa: F403
from typing import Any

from .sharing import init_reductions
from .spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = ["set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", *_standard.__all__]

_ALL_STRATEGIES = ("file_descriptor", "file_system")
_strategy = _ALL_STRATEGIES[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose among `get_all_sharing_strategies()`. All of them work alike here."""
    global _strategy
    if new_strategy not in _ALL_STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {set(_ALL_STRATEGIES)}")
    _strategy = new_strategy


def get_sharing_strategy() -> str:
    """The strategy chosen last."""
    return _strategy


def get_all_sharing_strategies() -> set[str]:
    """Names `set_sharing_strategy` takes."""
    return set(_ALL_STRATEGIES)


def _name_file() -> str:
    return f"/proc/self/task/{_threading.get_native_id()}/comm"


def _set_thread_name(name: str) -> None:
    """Name the current thread, as process listings show it (15 characters)."""
    with open(_name_file(), "w") as file:
        file.write(name[:15])


def _get_thread_name() -> str:
    with open(_name_file()) as file:
        return file.read().strip()


def __getattr__(name: str) -> Any:
    if name in ("reductions", "queue", "pool", "_atfork"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


init_reductions()
