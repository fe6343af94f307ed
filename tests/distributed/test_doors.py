"""Who may come in: strangers are refused before anything of theirs is read, and doors lead no further than needed."""

from __future__ import annotations

import hmac
import os
import pickle
import socket
import stat
import struct
import threading
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import doors, rpc
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.rpc.rref import State
from tests.distributed.processes import results_of, run

OVER_TCP = {"RUSHLIGHT_DISTRIBUTED_TRANSPORT": "tcp", "GLOO_SOCKET_IFNAME": "lo"}


class _Bomb:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def _call_of_stranger(path):
    """Bytes as a worker's first message, with a bomb where it says who it is."""
    head = pickle.dumps((_Bomb(path), []))
    return struct.pack("<QQ", len(head), 0) + head


def _listening():
    """(host, port) of every TCP socket that this process listens at, as the kernel writes them."""
    descriptors = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    own = {os.readlink(path) for path in descriptors if os.path.islink(path)}
    found = []
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/net/{table}")
        rows = path.read_text().splitlines()[1:] if path.exists() else []
        for row in map(str.split, rows):
            if row[3] == "0A" and f"socket:[{row[9]}]" in own:
                host, port = row[1].split(":")
                found.append((host, int(port, 16)))
    return found


def _knock(address, data, host=None):
    """What a stranger sees who says something at a door: the door's number, and what comes after."""
    _, name, at, port = address.split()
    stranger = socket.create_connection((at, int(port)), 20) if host else socket.socket(socket.AF_UNIX)
    stranger.settimeout(20)
    if not host:
        stranger.connect("\0" + name)
    with stranger:
        number = doors.receive_exactly(stranger, 32)
        stranger.sendall(data(number) if callable(data) else data)
        try:
            return stranger.recv(100)
        except ConnectionResetError:
            return b""


def _strangers_at_rpc(rank, ranks, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/met", rpc_timeout=20)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=ranks, rpc_backend_options=options)
    heard, listening = [], _listening()
    if rank == 0:
        address = State.agent._addresses[1]
        over_tcp = address.split()[2] != "-"
        bomb = _call_of_stranger(f"{folder}/executed")
        heard.append(_knock(address, bomb, over_tcp))
        wrong = lambda number: bytes(32) + hmac.digest(b"0" * 64, b"caller" + number + bytes(32), "sha256") + bomb  # noqa: E731
        heard.append(_knock(address, wrong, over_tcp))
        heard.append(_knock(address, lambda number: number + number + bomb, over_tcp))
        heard.append(rpc.rpc_sync("worker1", rl.add, args=(rl.ones(2), 1)).tolist())
    rpc.shutdown()
    return heard, listening


@pytest.mark.parametrize("environment", [{}, OVER_TCP], ids=["local", "tcp"])
def test_a_stranger_at_the_door_of_calls_is_refused_and_calls_go_on(tmp_path, environment):
    outcome = results_of(run(2, _strangers_at_rpc, str(tmp_path), make_world=False, environment=environment))
    assert outcome[0][0] == [b"", b"", b"", [2.0, 2.0]]
    assert not (tmp_path / "executed").exists()
    for _, listening in outcome:
        # All ranks are here: no port at all. Told to use TCP: one, at the interface that was named.
        assert [host for host, _ in listening] == (["0100007F"] if environment else [])


def _strangers_at_a_mailbox(rank, ranks):
    x = rl.full((3,), float(rank))
    dist.all_reduce(x)
    heard = []
    mailbox = dist.group.WORLD._get_backend("cpu").mailbox()
    if rank == 0:
        address = mailbox._store.get("mailbox/1").decode()
        forged = struct.pack("<qqq", 0, 7, 12) + bytes(12)      # rank 0's message with tag 7, it says
        heard.append(_knock(address, bytes(64) + forged, host=True))
        dist.send(rl.full((3,), 5.0), 1, tag=7)
    else:
        dist.recv(x, 0, tag=7)
    return x.tolist(), heard, [host for host, _ in _listening()]


def test_a_stranger_cannot_send_in_the_name_of_a_rank():
    outcome = results_of(run(2, _strangers_at_a_mailbox, environment=OVER_TCP))
    assert outcome[0] == ([1.0] * 3, [b""], ["0100007F"])
    assert outcome[1] == ([5.0] * 3, [], ["0100007F"])


def _message_between_local_ranks(rank, ranks):
    x = rl.full((3,), 4.0)
    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
    return x.tolist(), _listening()


def test_ranks_of_one_machine_listen_at_no_port():
    for found in results_of(run(2, _message_between_local_ranks)):
        assert found == ([4.0] * 3, [])


def _pair(store, machines=None):
    for rank, machine in enumerate(machines or [doors.this_machine()] * 2):
        store.set(f"machine/{rank}", machine)
    return doors.listen(store, 2)


def test_both_ends_prove_that_they_know_the_secret():
    store = dist.HashStore()
    opened = _pair(store)
    answers = []

    def serve():
        for _ in range(2):
            answers.append(opened.admit(opened.listeners[0].accept()[0]))

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(OSError):
        doors.connect(opened.address, b"another secret", 20)
    doors.connect(opened.address, store.get("secret"), 20).close()
    thread.join(20)
    assert answers == [False, True]


def test_who_listens_without_the_secret_is_not_believed():
    opened = _pair(dist.HashStore())

    def pretend():
        connection, _ = opened.listeners[0].accept()
        connection.sendall(bytes(32))
        doors.receive_exactly(connection, 64)
        connection.sendall(bytes(32))
        connection.close()

    threading.Thread(target=pretend).start()
    with pytest.raises(ConnectionRefusedError, match="secret"):
        doors.connect(opened.address, opened.secret, 20)


def test_every_group_draws_its_own_secret():
    first, second = _pair(dist.HashStore()), _pair(dist.HashStore())
    assert len(first.secret) == 64 and first.secret != second.secret


def test_between_machines_the_interface_that_was_named_is_used(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with pytest.raises(DistBackendError, match="GLOO_SOCKET_IFNAME"):      # another machine cannot reach this one there
        _pair(dist.HashStore(), [doors.this_machine(), "elsewhere"])
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    with pytest.raises(DistBackendError, match="nosuch0"):
        _pair(dist.HashStore(), [doors.this_machine(), "elsewhere"])


def test_without_a_name_the_interface_towards_the_store_is_used(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setenv("RUSHLIGHT_DISTRIBUTED_TRANSPORT", "tcp")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    part = dist.PrefixStore("part", store)
    opened = _pair(part, [doors.this_machine(), doors.this_machine() + "0"])
    assert opened.listeners[1].getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_store_that_is_met_at_a_loopback_address_listens_there_only(host):
    store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    assert [at for at, port in _listening() if port == store.port] == ["0100007F"]
    dist.TCPStore(host, store.port, is_master=False).set("key", "value")
    assert store.get("key") == b"value"


def test_a_store_in_a_file_is_private(tmp_path):
    store = dist.FileStore(str(tmp_path / "met"), 1)
    store.set("secret", "x")
    assert stat.S_IMODE((tmp_path / "met").stat().st_mode) == 0o600
