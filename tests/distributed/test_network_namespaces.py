"""Network namespaces as machines: ranks that reach each other over a network only. Skipped where none may be made."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAM = """
import sys
from datetime import timedelta
import rushlight as rl
from rushlight import distributed as dist
rank, address = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://{address}:29510", rank=rank, world_size=2,
                        timeout=timedelta(seconds=int(sys.argv[3])))
x = rl.arange(1000.0) + rank
dist.all_reduce(x)
assert x[:2].tolist() == [1.0, 3.0]
y = rl.zeros(3)
dist.send(rl.ones(3), 1) if rank == 0 else dist.recv(y, 0)
assert rank == 0 or y.tolist() == [1, 1, 1]
found = [None, None]
dist.all_gather_object(found, rank)
if sys.argv[4] == "cut":
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        print(error)
        raise SystemExit(3)
kind = type(dist.group.WORLD._get_backend("cpu").transport()).__name__
dist.destroy_process_group()
print(found, kind)
"""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@pytest.fixture
def hosts() -> Iterator[list[tuple[str, str]]]:
    """Two machines with a cable between them: (name, address)."""
    if shutil.which("ip") is None or os.geteuid():
        pytest.skip("needs iproute2, and to be root")
    names = [f"rl{os.getpid()}{letter}" for letter in "ab"]
    made = []
    try:
        try:
            for name in names:
                _ip("netns", "add", name)
                made.append(name)
            _ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
        except (subprocess.CalledProcessError, OSError):
            pytest.skip("network namespaces may not be made here")
        found = []
        for number, name in enumerate(names, 1):
            _ip("link", "set", name, "netns", name)
            inside = functools.partial(_ip, "-n", name)
            inside("addr", "add", f"10.111.7.{number}/24", "dev", name)
            inside("link", "set", name, "up")
            inside("link", "set", "lo", "up")
            found.append((name, f"10.111.7.{number}"))
        yield found
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _start(hosts: list[tuple[str, str]], rank: int, transport: str, seconds: int = 60, then: str = "") -> Any:
    name = hosts[rank][0]
    return subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, "-c", PROGRAM, str(rank), hosts[0][1], str(seconds), then],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": name, "RUSHLIGHT_DISTRIBUTED_TRANSPORT": transport},
    )


@pytest.mark.parametrize(("transport", "expected"), [("auto", "SharedTransport"), ("tcp", "SocketTransport")])
def test_ranks_of_two_machines_meet_over_the_network(hosts, transport, expected):
    ranks = [_start(hosts, rank, transport) for rank in range(2)]
    for process in ranks:
        out, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        assert out.split("] ") == ["[0, 1", f"{expected}\n"]       # these machines share memory, unless told not to


def test_a_cable_that_is_cut_is_an_error_that_names_the_rank(hosts):
    ranks = [_start(hosts, rank, "tcp", 4, "cut") for rank in range(2)]
    for process in ranks:
        assert process.stdout.readline() == "ready\n"
    _ip("-n", hosts[1][0], "link", "set", hosts[1][0], "down")
    for rank, process in enumerate(ranks):
        out, errors = process.communicate("\n", timeout=60)
        assert process.returncode == 3 and f"rank {1 - rank}" in out, (out, errors)
