"""Real processes for tests: `run(ranks, function, ...)` runs it in each, and gives what each returned or raised.

A function is one of a test's file: it gets its rank, how many there are, and the arguments. The world is made before it
is called, unless told otherwise. Ranks are forked from one process for each file of tests, which has imported the file
(tests/warm.py): each is as new as one that was started, without the time that importing takes.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.warm import Helper

TIMEOUT = 60.0     # for a test that hangs; nothing here takes that long
LIBRARIES = ("pytest", "rushlight.optim", "rushlight.distributed.fsdp")   # what most ranks import


class Raised:
    """What a rank raised: the class's name and the message."""

    def __init__(self, error: BaseException) -> None:
        self.kind, self.text = type(error).__name__, str(error)
        self.trace = "".join(traceback.format_exception(error))

    def __repr__(self) -> str:
        return f"{self.kind}: {self.text}"


def _enter(function: Callable, rank: int, ranks: int, path: str, options: dict, args: tuple, pipe: int) -> None:
    os.environ.update(options.get("environment", {}))
    import rushlight as rl
    from rushlight import distributed as dist

    rl.set_num_threads(1)
    try:
        if options.get("make_world", True):
            dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks,
                                    timeout=timedelta(seconds=options.get("timeout", 30)))
        result = function(rank, ranks, *args)
    except Exception as error:
        result = Raised(error)
    with Connection(pipe, readable=False) as said:
        said.send(result)
    if dist.is_initialized():
        dist.destroy_process_group()


class Helpers:
    """What ranks with these libraries are forked from: a process that has imported them, and one forked from it, for
    each file of tests in its turn, that has imported the file."""

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self.base = Helper(libraries)
        self.file, self.helper = "", self.base

    def of_file(self, file: str) -> Helper:
        if file != self.file:
            self._let_go()
            self.file, self.helper = file, Helper([file], self.base)
        return self.helper

    def _let_go(self) -> None:
        if self.helper is not self.base:
            self.helper.close()

    def close(self) -> None:
        self._let_go()
        self.base.close()


@cache
def helpers(libraries: tuple[str, ...]) -> Helpers:
    found = Helpers(libraries)
    atexit.register(found.close)
    return found


def run(
    ranks: int, function: Callable, *args: Any, libraries: tuple[str, ...] = LIBRARIES, **options: Any
) -> list[Any]:
    """What the function returned in each rank; `Raised` where it did not, None where the process died."""
    path = os.path.join(tempfile.mkdtemp(), "meeting")
    file = Path(os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]).stem
    source = helpers(libraries).of_file(f"{__package__}.{file}")
    pipes, processes = [], []
    for rank in range(ranks):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        with theirs:
            call = (function, rank, ranks, path, options, args)
            processes.append(source.start(_enter, *call, files=[theirs.fileno()]))
        pipes.append(ours)
    results = []
    for pipe in pipes:
        try:
            has_said = pipe.poll(options.get("patience", TIMEOUT))
            results.append(pipe.recv() if has_said else Raised(TimeoutError("the rank said nothing")))
        except EOFError:
            results.append(None)
        pipe.close()
    for process in processes:
        source.wait(process, 10)
    return results


def results_of(outcome: list[Any]) -> list[Any]:
    """The results of all ranks; the first error otherwise, with its traceback."""
    for rank, result in enumerate(outcome):
        if isinstance(result, Raised):
            raise AssertionError(f"rank {rank}: {result.trace}")
        assert result is not None, f"rank {rank} died"
    return outcome


def all_of(rank: int, ranks: int, functions: list[Callable]) -> str:
    """Several functions in one world, since processes take longer to start than most of them to run."""
    for function in functions:
        try:
            function(rank, ranks)
        except Exception as error:
            error.add_note(f"in {function.__name__}")
            raise
    return "done"
