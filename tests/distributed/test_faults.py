"""What goes wrong between processes is an error that names the rank, on every other rank, and soon."""

from __future__ import annotations

import os
import signal
import socket
import time
from datetime import timedelta
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist

from .processes import Raised, results_of, run

TRANSPORTS = {"shared": {}, "tcp": {"RUSHLIGHT_DISTRIBUTED_TRANSPORT": "tcp"}}


def one_dies(rank: int, size: int) -> str:
    dist.all_reduce(rl.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(rl.ones(1000))
    return "not an error"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_rank_that_dies_is_named(transport: str) -> None:
    began = time.monotonic()
    first, died, last = run(3, one_dies, environment=TRANSPORTS[transport])
    assert died is None
    for result in (first, last):
        assert isinstance(result, Raised) and result.kind == "DistBackendError" and "rank 1" in result.text, result
    assert time.monotonic() - began < 25, "the timeout is 30 s, a dead rank is noticed before"


def one_stops(rank: int, size: int) -> str:
    dist.all_reduce(rl.ones(1))
    if rank == 2:
        time.sleep(4)
        return "slept"
    dist.all_reduce(rl.ones(1))
    return "not an error"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_rank_that_hangs_is_named_when_the_time_is_over(transport: str) -> None:
    outcome = run(3, one_stops, timeout=2, environment=TRANSPORTS[transport])
    for result in outcome[:2]:
        assert isinstance(result, Raised) and "rank" in result.text, result
    assert any("rank 2" in r.text and "2 s" in r.text for r in outcome[:2]), outcome


def different_calls(rank: int, size: int, kind: str) -> str:
    dist.all_reduce(rl.ones(1))
    if kind == "shape":
        dist.all_reduce(rl.ones(3 + rank))
    elif kind == "dtype":
        dist.all_reduce(rl.ones(3, dtype=rl.float32 if rank else rl.int32))
    elif kind == "call":
        dist.all_reduce(rl.ones(3)) if rank else dist.barrier()
    else:
        dist.all_reduce(rl.ones(3), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
    return "not an error"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("shape", ("3 elements", "4 elements")), ("dtype", ("float32", "int32")), ("call", ("barrier", "all_reduce")),
     ("op", ("MAX", "SUM"))],
)
def test_ranks_at_different_calls_are_told(kind: str, words: tuple[str, ...]) -> None:
    for result in run(2, different_calls, kind):
        assert isinstance(result, Raised) and result.kind == "DistBackendError", result
        assert all(word in result.text for word in (*words, "rank 0", "rank 1")), result


def one_leaves(rank: int, size: int) -> str:
    dist.all_reduce(rl.ones(1))
    if rank == 0:
        return "left"
    dist.all_reduce(rl.ones(1))
    return "not an error"


def test_a_rank_that_leaves_is_named() -> None:
    left, other = run(2, one_leaves)
    assert left == "left"
    assert isinstance(other, Raised) and "rank 0 left" in other.text, other


def meets_again(rank: int, size: int, path: str) -> str:
    for turn in range(3):
        dist.init_process_group("gloo", init_method=f"file://{path}{turn}", rank=rank, world_size=size)
        x = rl.ones(2)
        dist.all_reduce(x)
        assert float(x[0]) == size
        dist.destroy_process_group()
    return "done"


def test_the_world_can_be_made_again(tmp_path: Any) -> None:
    assert results_of(run(2, meets_again, str(tmp_path / "m"), make_world=False)) == ["done"] * 2


def says(rank: int, size: int, path: str, ranks: list[int], sizes: list[int]) -> str:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=ranks[rank], world_size=sizes[rank])
    return "done"


def _free_port() -> int:
    with socket.create_server(("", 0)) as free:
        return free.getsockname()[1]


def test_ranks_that_disagree_are_told(tmp_path: Any) -> None:
    outcome = run(2, says, str(tmp_path / "first"), [0, 1], [2, 3], make_world=False)
    for result in outcome:
        assert isinstance(result, Raised) and "world_size=2" in result.text and "world_size=3" in result.text, outcome
    outcome = run(3, says, str(tmp_path / "second"), [0, 1, 1], [3, 3, 3], make_world=False)
    assert all(isinstance(r, Raised) and "two processes were given rank 1" in r.text for r in outcome), outcome


def too_few(rank: int, size: int, port: int) -> str:
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3, timeout=timedelta(seconds=2)
    )
    return "not an error"


def test_ranks_that_do_not_come_are_missed() -> None:
    for result in run(2, too_few, _free_port(), make_world=False):
        assert isinstance(result, Raised) and ("2 of 3 processes" in result.text or "rank 0" in result.text), result


def refused(rank: int, size: int) -> str:
    for arguments, error, words in (
        (dict(init_method="http://host"), RuntimeError, "http://"),
        (dict(init_method="tcp://host"), ValueError, "port is missing"),
        (dict(init_method="file:///tmp/x"), ValueError, "rank is missing"),
        (dict(init_method="env://"), ValueError, "RANK"),
        (dict(backend="smoke", init_method="file:///tmp/x"), RuntimeError, "'smoke' is not available"),
        (dict(store=dist.HashStore(), rank=3, world_size=2), ValueError, "rank 3"),
        (dict(store=dist.HashStore()), AssertionError, "world_size > 0"),
        (dict(timeout=3), TypeError, "timedelta"),
    ):
        with pytest.raises(error, match=words):
            dist.init_process_group(**{"backend": "gloo", **arguments})
        assert not dist.is_initialized()
    for call in (lambda: dist.get_rank(), lambda: dist.all_reduce(rl.ones(1)), lambda: dist.destroy_process_group()):
        with pytest.raises(ValueError, match="init_process_group first"):
            call()
    return "done"


def test_bad_ways_to_meet_are_refused() -> None:
    assert results_of(run(1, refused, make_world=False)) == ["done"]


def checked_barrier(rank: int, size: int) -> str:
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    if rank == 0 or rank == 1:
        dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)
    return "done"


def test_a_monitored_barrier_names_who_is_missing() -> None:
    outcome = run(4, checked_barrier)
    for result in outcome[:2]:
        assert isinstance(result, Raised) and "[2, 3]" in result.text, result
    assert outcome[2:] == ["done", "done"]
