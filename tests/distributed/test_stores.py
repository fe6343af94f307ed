"""Stores: one table of calls for all kinds, waiting, and what happens to bad bytes."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.etcd_store import EtcdStore

from .etcd_server import etcd_port

KINDS: dict[str, Callable[[Any], Any]] = {
    "hash": lambda folder: dist.HashStore(),
    "file": lambda folder: dist.FileStore(str(folder / "store"), 1),
    "tcp": lambda folder: dist.TCPStore("localhost", 0, 1, True),
    "prefix": lambda folder: dist.PrefixStore("part", dist.HashStore()),
    "etcd": lambda folder: EtcdStore("127.0.0.1", etcd_port(), f"/tests/{folder}"),     # one server for all, kept
}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return KINDS[request.param](tmp_path)


def test_values(store: Any) -> None:
    store.set("a", "1")
    store.set("a", b"\0\xff")
    assert store.get("a") == b"\0\xff"
    assert [store.add("n", 3), store.add("n", -1)] == [3, 2]
    assert store.get("n") == b"2"
    store.append("text", "x")
    store.append("text", "y")
    assert store.get("text") == b"xy"
    store.multi_set(["p", "q"], ["1", "2"])
    assert store.multi_get(["p", "q"]) == [b"1", b"2"]


def test_compare_set(store: Any) -> None:
    assert store.compare_set("k", "expected", "new") == b"expected"     # absent: nothing is set
    assert not store.check(["k"])
    assert store.compare_set("k", "", "new") == b"new"
    assert store.compare_set("k", "other", "newer") == b"new"
    assert store.compare_set("k", "new", "newer") == b"newer"
    assert store.get("k") == b"newer"


def test_check_delete_and_count(store: Any) -> None:
    before = store.num_keys()
    store.set("a", "1")
    store.set("b", "")
    assert store.check(["a", "b"]) and not store.check(["a", "c"])
    assert store.num_keys() == before + 2
    assert store.delete_key("a") and not store.delete_key("a")
    assert not store.check(["a"])
    assert "b" in store.list_keys()


def test_queues(store: Any) -> None:
    for value in ("1", "2"):
        store.queue_push("queue", value)
    assert store.queue_len("queue") == 2
    assert [store.queue_pop("queue"), store.queue_pop("queue")] == [b"1", b"2"]
    with pytest.raises(dist.QueueEmptyError, match="queue"):
        store.queue_pop("queue", block=False)


def test_waiting_ends_when_the_key_is_set(store: Any) -> None:
    other = store.clone()
    threading.Timer(0.05, lambda: other.set("late", "here")).start()
    assert store.get("late") == b"here"
    store.wait(["late"])


def test_waiting_ends_with_the_timeout(store: Any) -> None:
    store.set_timeout(timedelta(milliseconds=40))
    assert store.timeout == timedelta(milliseconds=40)
    began = time.monotonic()
    with pytest.raises(dist.DistStoreError, match=r"0\.04 s.*never"):
        store.get("never")
    with pytest.raises(dist.DistStoreError, match="nor this"):
        store.wait(["nor this"], timedelta(milliseconds=10))
    assert time.monotonic() - began < 5
    store.set("never", "now")       # the store is of use afterwards
    assert store.get("never") == b"now"


def test_bad_arguments(store: Any) -> None:
    with pytest.raises(TypeError, match="list"):
        store.set("a", [1])
    with pytest.raises(TypeError, match="timedelta"):
        store.set_timeout(3)
    with pytest.raises(ValueError, match="2 keys but 1"):
        store.multi_set(["a", "b"], ["1"])
    store.set("word", "seven")
    with pytest.raises(dist.DistStoreError, match="seven"):
        store.add("word", 1)


def test_prefixes_nest_and_share() -> None:
    base = dist.HashStore()
    inner = dist.PrefixStore("b", dist.PrefixStore("a", base))
    inner.set("key", "1")
    assert base.get("a/b/key") == b"1"
    assert inner.list_keys() == ["key"]
    with pytest.raises(TypeError, match="Store"):
        dist.PrefixStore("a", "not a store")


def test_many_clients_of_one_server() -> None:
    server = dist.TCPStore("localhost", 0, None, True)
    clients = [dist.TCPStore("localhost", server.port) for _ in range(8)]
    threads = [threading.Thread(target=lambda c=c: [c.add("n", 1) for _ in range(50)]) for c in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.add("n", 0) == 400


def test_foreign_bytes_do_not_hurt_a_server() -> None:
    server = dist.TCPStore("localhost", 0, None, True)
    for message in (b"GET / HTTP/1.1\r\n\r\n", struct.pack("<I", 9) + b"\xee" * 9, struct.pack("<IBI", 5, 0, 1 << 30),
                    struct.pack("<I", 0), struct.pack("<IBI", 9, 0, 4) + b"\xff\xfe\xfd\xfc"):
        with socket.create_connection(("localhost", server.port)) as foreign:
            foreign.sendall(message)
    server.set("still", "here")
    assert server.get("still") == b"here"


def test_a_server_that_went_away() -> None:
    server = dist.TCPStore("localhost", 0, None, True)
    client = dist.TCPStore("localhost", server.port)
    server._server.close()
    with pytest.raises(dist.DistNetworkError, match="has rank 0 ended"):
        client.get("anything")


def test_nobody_serves_and_somebody_else_does() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match=f"port {port}"):
            dist.TCPStore("localhost", port, 1, True)
    with pytest.raises(dist.DistNetworkError, match="MASTER_ADDR"):
        dist.TCPStore("localhost", port, 1, False, timeout=timedelta(milliseconds=100))


def test_a_server_that_waits_for_workers_says_how_many_came() -> None:
    with pytest.raises(dist.DistStoreError, match="1 of 2"):
        dist.TCPStore("localhost", 0, 2, True, timeout=timedelta(milliseconds=100))


def test_a_damaged_file_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(dist.DistStoreError, match="damaged"):
        dist.FileStore(str(path), 1)


def test_the_last_one_removes_the_file(tmp_path: Any) -> None:
    path = str(tmp_path / "store")
    first, second = dist.FileStore(path, 2), dist.FileStore(path, 2)
    second.set("a", "1")
    del first
    assert os.path.exists(path)
    del second
    assert not os.path.exists(path)


@pytest.mark.parametrize("kind", ["hash", "tcp"])
def test_the_same_answers_as_pytorch(kind: str, tmp_path: Any) -> None:
    torch = pytest.importorskip("torch")
    make = {"hash": lambda d: d.HashStore(), "tcp": lambda d: d.TCPStore("localhost", 0, 1, True)}[kind]
    calls = [
        ("set", "a", "1"), ("get", "a"), ("add", "n", 3), ("add", "n", -1), ("get", "n"),
        ("compare_set", "q", "x", "y"), ("check", ["q"]), ("compare_set", "q", "", "y"), ("compare_set", "q", "z", "w"),
        ("compare_set", "q", "y", "w"), ("check", ["a"]), ("check", ["a", "zz"]), ("delete_key", "a"),
        ("delete_key", "a"), ("append", "t", "x"), ("append", "t", "y"), ("get", "t"), ("num_keys",),
        ("multi_set", ["m", "o"], ["1", "2"]), ("multi_get", ["m", "o"]), ("queue_push", "qq", "1"),
        ("queue_len", "qq"), ("queue_pop", "qq"), ("has_extended_api",),
    ]
    ours, theirs = make(rl.distributed), make(torch.distributed)
    for name, *args in calls:
        assert getattr(ours, name)(*args) == getattr(theirs, name)(*args), (name, args)
