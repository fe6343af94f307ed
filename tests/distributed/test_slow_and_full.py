"""Peers that are slow, connections that are lost or come in another order, disks that are full, stores that start
again: what can go on goes on, the rest is an error that says what happened."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import Any

import pytest

from .processes import Raised, results_of, run

TRANSPORTS = [{}, {"RUSHLIGHT_DISTRIBUTED_TRANSPORT": "tcp"}]


def slow(rank: int, size: int) -> list[float]:
    import rushlight as rl
    from rushlight import distributed as dist

    found = []
    for step in range(4):
        time.sleep(0.4 if step % size == rank else 0)       # another one every time
        x = rl.tensor(float(rank + step))
        dist.all_reduce(x)
        found.append(x.item())
    return found


@pytest.mark.parametrize("environment", TRANSPORTS, ids=["shared", "tcp"])
def test_a_slow_peer_is_waited_for(environment: dict[str, str]) -> None:
    outcome = results_of(run(3, slow, environment=environment))
    assert outcome == [[3.0 + 3 * step for step in range(4)]] * 3


def late_doors(rank: int, size: int) -> list[Any]:
    """Ranks connect in the reverse of their order, and messages are taken in the reverse of theirs."""
    import rushlight as rl
    from rushlight import distributed as dist

    time.sleep(0.3 * (size - rank))
    if rank:
        for tag in range(3):
            dist.isend(rl.tensor([rank * 10.0 + tag]), 0, tag=tag).wait()
        got = []
    else:
        got = []
        for tag in (2, 0, 1):
            for source in (1, 2):
                x = rl.zeros(1)
                dist.recv(x, source, tag=tag)
                got.append(x.item())
    x = rl.ones(4)
    dist.all_reduce(x)
    return [got, x.tolist()]


def test_connections_and_messages_in_any_order() -> None:
    outcome = results_of(run(3, late_doors, environment=TRANSPORTS[1]))
    assert outcome[0] == [[12.0, 22.0, 10.0, 20.0, 11.0, 21.0], [3.0] * 4] and outcome[1] == [[], [3.0] * 4]


def cut(rank: int, size: int) -> str:
    """Rank 1's connections break while it lives on."""
    import socket

    import rushlight as rl
    from rushlight import distributed as dist

    dist.all_reduce(rl.ones(1))
    if rank == 1:
        for number in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(number))) as found:
                        found.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
    dist.all_reduce(rl.ones(1))
    return "no error"


def test_a_lost_connection_is_an_error_that_names_the_rank() -> None:
    began = time.monotonic()
    first, second = run(2, cut, environment=TRANSPORTS[1], timeout=20)
    assert isinstance(first, Raised) and "rank 1" in first.text and isinstance(second, Raised), (first, second)
    assert time.monotonic() - began < 40


def full_disk(rank: int, size: int, folder: str) -> list[str]:
    """Files may not grow beyond a limit: what a full disk is to a program."""
    import resource

    import rushlight as rl
    from rushlight.distributed import checkpoint

    state = {"weight": rl.arange(50_000.0)}
    checkpoint.save(state, checkpoint_id=folder)
    state["weight"].add_(1)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        checkpoint.save(state, checkpoint_id=folder)
        said = "no error"
    except BaseException as error:      # a CheckpointException is no Exception, as in PyTorch
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    there = {"weight": rl.zeros(50_000)}
    checkpoint.load(there, checkpoint_id=folder)
    return [said, str(there["weight"][:3].tolist())]


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path: Any) -> None:
    for said, there in results_of(run(2, full_disk, str(tmp_path / "saved"))):
        assert "File too large" in said and there == "[0.0, 1.0, 2.0]"


def test_a_file_store_on_a_full_disk_says_so(tmp_path: Any) -> None:
    outcome = run(1, full_store, str(tmp_path / "store"), make_world=False)
    assert "too large" in results_of(outcome)[0]


def full_store(rank: int, size: int, path: str) -> str:
    import resource

    from rushlight import distributed as dist

    store = dist.FileStore(path, 1)
    store.set("a", "1")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
    try:
        store.set("b", "x" * 10_000)
    except OSError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert store.get("a") == b"1"
        return str(error)
    return "no error"


def test_a_store_that_starts_again_serves_new_clients() -> None:
    from rushlight import distributed as dist

    first = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=5))
    client = dist.TCPStore("127.0.0.1", first.port, None, False, timedelta(seconds=5))
    client.set("a", "1")
    port = first.port
    first._server.close()
    with pytest.raises(dist.DistError):
        client.set("b", "2")
    again = dist.TCPStore("127.0.0.1", port, None, True, timedelta(seconds=5))
    newcomer = dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=5))
    newcomer.set("b", "2")
    assert again.get("b") == b"2" and not again.check(["a"])
