"""Real processes for tests: `run(ranks, function, ...)` runs it in each, and gives what each returned or raised.

A function is one of a test's file: it gets its rank, how many there are, and the arguments. The world is made before it
is called, unless told otherwise.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

TIMEOUT = 60.0     # for a test that hangs; nothing here takes that long


class Raised:
    """What a rank raised: the class's name and the message."""

    def __init__(self, error: BaseException) -> None:
        self.kind, self.text = type(error).__name__, str(error)
        self.trace = "".join(traceback.format_exception(error))

    def __repr__(self) -> str:
        return f"{self.kind}: {self.text}"


def _enter(pipe: Any, function: Callable, rank: int, ranks: int, path: str, options: dict, args: tuple) -> None:
    os.environ.update(options.get("environment", {}))
    import rushlight as rl
    from rushlight import distributed as dist

    rl.set_num_threads(1)
    try:
        if options.get("make_world", True):
            dist.init_process_group(
                "gloo", init_method=f"file://{path}", rank=rank, world_size=ranks,
                timeout=timedelta(seconds=options.get("timeout", 30)),
            )  # fmt: skip
        result = function(rank, ranks, *args)
    except Exception as error:
        result = Raised(error)
    pipe.send(result)
    pipe.close()
    if dist.is_initialized():
        dist.destroy_process_group()


def run(ranks: int, function: Callable, *args: Any, **options: Any) -> list[Any]:
    """What the function returned in each rank; `Raised` where it did not, None where the process died."""
    context = multiprocessing.get_context("spawn")
    path = os.path.join(tempfile.mkdtemp(), "meeting")
    pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
    processes = [
        context.Process(target=_enter, args=(pipes[r][1], function, r, ranks, path, options, args))
        for r in range(ranks)
    ]
    for process, (_, end) in zip(processes, pipes, strict=True):
        process.start()
        end.close()
    results = []
    for process, (pipe, _) in zip(processes, pipes, strict=True):
        try:
            has_said = pipe.poll(options.get("patience", TIMEOUT))
            results.append(pipe.recv() if has_said else Raised(TimeoutError("the rank said nothing")))
        except EOFError:
            results.append(None)
    for process in processes:
        process.join(10)
        if process.is_alive():
            process.kill()
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
