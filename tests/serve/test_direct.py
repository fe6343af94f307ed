"""Requests that are answered without aiohttp (rushlight/serve/direct.py): whatever way their bytes come, they get what
aiohttp would give them, and a connection may change from one to the other."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")

from rushlight.serve.direct import head_of
from rushlight.serve.metrics import Counted, Metrics
from tests.serve.running_server import Running, server
from tests.serve.served_models import mixed

ROW = {"shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
BODY = json.dumps({"inputs": [{"name": "left", **ROW}, {"name": "right", **ROW}]}).encode()
ONLY_SUM = json.dumps({"id": "seven", "inputs": [{"name": "right", **ROW}, {"name": "left", **ROW}],
                       "outputs": [{"name": "sum"}]}).encode()
GET = b"GET /v2/models/mixed/ready HTTP/1.1\r\nHost: a\r\n\r\n"


def request(body: bytes = BODY, more: str = "", length: int | None = None, model: str = "mixed") -> bytes:
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: a\r\n{more}"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    mixed(folder)
    return folder


@pytest.fixture(scope="module")
def running(store: Path) -> Iterator[Running]:
    with server("--model-store", store, "--models", "mixed", "--batch-size", 4, "--max-batch-delay", 1,
                "--max-request-size", 100_000, "--no-grpc") as found:
        yield found


class Wire:
    """A connection, and the answers that come over it."""

    def __init__(self, port: int, room: int = 0) -> None:
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.close()
        with contextlib.suppress(OSError):      # also wakes who still writes
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for at, piece in enumerate(pieces):
            time.sleep(0.05 if at else 0)
            self.socket.sendall(piece)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        status = int(self.file.readline().split()[1])
        headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        content = self.file.read(int(headers["content-length"]))
        is_json = headers["content-type"].startswith("application/json")
        return status, headers, json.loads(content) if is_json else content


def is_sum(answer: tuple[int, dict[str, str], Any]) -> bool:
    status, _, said = answer
    return status == 200 and said["id"] == "seven" and said["outputs"] == [
        {"name": "sum", "datatype": "FP32", "shape": [1, 4], "data": [2.0, 4.0, 6.0, 8.0]}]


WHOLE = request(ONLY_SUM)
WAYS = {
    "whole": (WHOLE,), "head then body": (WHOLE[: -len(ONLY_SUM)], ONLY_SUM),
    "cut body": (WHOLE[:-40], WHOLE[-40:-3], WHOLE[-3:]),
    "cut head": (WHOLE[:30], WHOLE[30:]), "byte then rest": (WHOLE[:1], WHOLE[1:]),
    "another header": (request(ONLY_SUM, "X-A: b\r\n"),),
    "lower case": (WHOLE.replace(b"Content-Length", b"content-length"),),
    "query": (WHOLE.replace(b"/infer ", b"/infer?a=b "),), "escaped": (WHOLE.replace(b"mixed", b"%6dixed"),),
    "version": (WHOLE.replace(b"mixed/", b"mixed/versions/1/"),),
    "chunked": (request(b"", "Transfer-Encoding: chunked\r\n").replace(b"Content-Length: 0\r\n", b"")
                + b"%x\r\n%b\r\n0\r\n\r\n" % (len(ONLY_SUM), ONLY_SUM),),
}


@pytest.mark.parametrize("pieces", WAYS.values(), ids=WAYS)
def test_every_way_a_request_comes(running: Running, pieces: tuple[bytes, ...]) -> None:
    with Wire(running.http) as wire:
        for _ in range(2):
            wire.send(*pieces)
            assert is_sum(wire.answer())
        wire.send(GET)
        assert wire.answer()[2] == {"name": "mixed", "ready": True}
        wire.send(*pieces)
        assert is_sum(wire.answer())


def test_requests_behind_each_other_are_answered_in_order(running: Running) -> None:
    bad = request(b'{"inputs": []}')
    with Wire(running.http) as wire:
        wire.send(WHOLE + bad + GET + WHOLE + request(b"no JSON") + WHOLE[:50], WHOLE[50:])
        assert is_sum(wire.answer())
        assert wire.answer()[0] == 400
        assert wire.answer()[2]["ready"] is True
        assert is_sum(wire.answer())
        assert wire.answer()[0] == 400
        assert is_sum(wire.answer())


def test_many_requests_in_one_go(running: Running) -> None:
    with Wire(running.http) as wire:
        wire.send(WHOLE * 300)
        assert all(is_sum(wire.answer()) for _ in range(300))


def test_the_rest_of_another_request_is_not_taken_for_one(running: Running) -> None:
    """The end of a head that aiohttp has begun to read may look like a request."""
    with Wire(running.http) as wire:
        wire.send(b"GET /v2/models/mixed/ready HTTP/1.1\r\nHost: a\r\nX: ", WHOLE)
        status, _, _ = wire.answer()
        assert status == 400      # two requests would have been 200 and 200
    body = WHOLE
    with Wire(running.http) as wire:
        wire.send(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body), body)
        assert wire.answer()[0] == 400
        wire.send(WHOLE)
        assert is_sum(wire.answer())


@pytest.mark.parametrize(("given", "status"), [
    (request(b"", length=200_000), 413), (request(more="Content-Length: 3\r\n"), 400), (request(model="none"), 404),
    (request(more="Inference-Header-Content-Length: 99999\r\n"), 400), (request(b"[" * 50_000), 400),
    (request(b'{"inputs": 1}'), 400), (request(more="Content-Encoding: gzip\r\n"), 400),
    (request(more=" folded\r\n"), 400), (request(more="Bad Name: 1\r\n"), 400), (request(more="X: \x01\r\n"), 400),
    (request(more=f"X: {'a' * 9000}\r\n"), 400), (request(b"", length=-1), 400)])
def test_what_is_wrong_is_refused_as_before(running: Running, given: bytes, status: int) -> None:
    with Wire(running.http) as wire:
        wire.send(given)
        found, headers, said = wire.answer()
        assert (found, headers["content-type"].partition(";")[0]) == (status, "application/json")
        assert said.get("error") or said["message"]      # what is no HTTP has no path to tell the protocol by
    with Wire(running.http) as wire:
        wire.send(WHOLE)
        assert is_sum(wire.answer())


def test_close_is_honoured_and_names_of_headers_have_no_case(running: Running) -> None:
    with Wire(running.http) as wire:
        wire.send(request(ONLY_SUM, "Connection: close\r\n"))
        assert is_sum(wire.answer())
        assert wire.file.read() == b""


def test_expect_is_answered_before_the_body_comes(running: Running) -> None:
    with Wire(running.http) as wire:
        wire.send(request(b"", "Expect: 100-continue\r\n", len(ONLY_SUM)))
        assert wire.file.readline().startswith(b"HTTP/1.1 100")
        wire.file.readline()
        wire.send(ONLY_SUM)
        assert is_sum(wire.answer())


def test_a_client_that_leaves_disturbs_nobody(running: Running) -> None:
    for _ in range(20):
        with Wire(running.http) as wire:
            wire.send(WHOLE)
        with Wire(running.http) as wire:
            wire.send(WHOLE[:-20])
    with Wire(running.http) as wire:
        wire.send(WHOLE)
        assert is_sum(wire.answer())


def test_a_model_that_is_loaded_anew_is_asked_by_a_head_that_came_before(running: Running) -> None:
    with Wire(running.http) as wire:
        wire.send(WHOLE)
        assert is_sum(wire.answer())
        assert running.ask("/v2/repository/models/mixed/unload", b"", method="POST")[0] == 200
        wire.send(WHOLE)
        assert wire.answer()[0] == 404
        assert running.ask("/v2/repository/models/mixed/load", b"", method="POST")[0] == 200
        wire.send(WHOLE)
        assert is_sum(wire.answer())


def test_keys_are_asked_for(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"management": {"key": "m"}, "inference": {"key": "right"}}))
    with server("--model-store", store, "--models", "mixed", "--keys", file, "--no-grpc") as running, \
            Wire(running.http) as wire:
        for key, status in (("right", 200), ("wrong", 401), ("right", 200), ("m", 401), ("", 401), ("right", 200)):
            wire.send(request(ONLY_SUM, f"Authorization: Bearer {key}\r\n"))
            assert wire.answer()[0] == status
        wire.send(WHOLE)
        assert wire.answer()[0] == 401


@pytest.mark.parametrize("text", [
    WHOLE[:20], b"GET / HTTP/1.0\r\n\r\n", b"\r\n" + WHOLE, WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
    WHOLE.replace(b"\r\n", b"\n"), request(more="Transfer-Encoding: chunked\r\n"),
    request(more="Connection: close\r\n"),
    request(more="Content-Length: 5\r\n"), WHOLE.replace(b"Content-Length: ", b"Content-Length: +"),
    request(more="Upgrade: h2c\r\n"), b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_heads_of_unusual_form_are_left_to_aiohttp(text: bytes) -> None:
    assert head_of(text) is None


def test_a_head_is_read() -> None:
    head = head_of(request(ONLY_SUM, "Authorization:  Bearer a\t\r\nInference-Header-Content-Length: 12\r\n"))
    assert head is not None
    assert (head.length, head.model, head.version) == (len(ONLY_SUM), "mixed", None)
    assert (head.authorization, head.json_length) == ("Bearer a", "12")
    other = head_of(GET)
    assert other is not None and other.model is None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks /proc")
def test_requests_and_answers_do_not_gather_in_the_server(running: Running) -> None:
    def memory() -> int:
        return int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    rows = {"shape": [1500, 4], "datatype": "FP32", "data": [1] * 6000}
    body = json.dumps({"inputs": [{"name": "right", **rows}, {"name": "left", **rows}], "outputs": [{"name": "sum"}]})
    one, count = request(body.replace(" ", "").encode()), 1500      # 35 MB of requests
    with Wire(running.http, room=1 << 15) as wire:
        wire.send(one)
        assert wire.answer()[0] == 200
        before = memory()

        def send() -> None:
            with contextlib.suppress(OSError):      # the end of the test ends it
                for _ in range(count):
                    wire.socket.sendall(one)

        sender = threading.Thread(target=send)
        sender.start()
        most = 0
        for _ in range(20):
            time.sleep(0.1)
            most = max(most, memory() - before)
        assert all(wire.answer()[0] == 200 for _ in range(20))
    sender.join()
    assert most < 12 << 20, f"{most} bytes more"


def test_what_is_counted_of_a_model_outlives_an_older_one_of_its_name() -> None:
    class Model:
        name, version, workers, waiting = "a", "1", (), ()

        def __init__(self) -> None:
            self.counted = Counted()

    metrics, old, new = Metrics(), Model(), Model()
    metrics.watch(old)
    metrics.watch(new)
    new.counted.answered(2000, 1000)
    metrics.forget(old)      # which took longer to end
    text = metrics.text().decode()
    assert 'ts_inference_requests_total{model_name="a",model_version="1"} 1.0' in text
    assert 'ts_inference_latency_microseconds{model_name="a",model_version="1"} 2.0' in text
    assert 'ts_request_seconds_bucket{le="0.0005",model_name="a",model_version="1"} 1.0' in text
    assert 'ts_ready_workers{model_name="a",model_version="1"} 0.0' in text
    metrics.forget(new)
    assert 'model_name="a"' not in metrics.text().decode()
