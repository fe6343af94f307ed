"""Keys, sizes, and clients that mean ill or know no better."""

import http.client
import json
import signal
import socket
import subprocess
import time

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
grpc = pytest.importorskip("grpc")

from tests.serve import running_server as running, served_models as models

LIMIT = 20_000
KEYS = '{"management": {"key": "manage-me"}, "inference": {"key": "infer-me"}}'


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    models.mixed(folder)
    models.archive(folder, "echo", "def handle(data, _):\n    return data and [str(len(r['body'])) for r in data]")
    (folder / "keys.json").write_text(KEYS)
    with running.server("--model-store", folder, "--models", "mixed.pt2", "echo.mar", "--keys", folder / "keys.json",
                        "--max-request-size", LIMIT) as server:
        yield server


INFERENCE = {"Authorization": "Bearer infer-me"}
MANAGEMENT = {"Authorization": "Bearer manage-me"}
ROWS = {"left": [[1, 2, 3, 4]], "right": [[1, 1, 1, 1]]}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "infer-me"}, {"Authorization": "Bearer"}, MANAGEMENT,
                                     {"Authorization": "Basic infer-me"}, {"Authorization": "Bearer infer-m"}])
def test_inference_asks_for_its_key(served, headers):
    for path in ("/predictions/mixed", "/v2/models/mixed/infer", "/v2/nothing", "/ping", "/v1/models"):
        status, answer = served.ask(path, ROWS, headers=headers)
        assert status == 401 and "infer-me" not in str(answer), path
    assert served.ask("/predictions/mixed", ROWS, headers=INFERENCE)[0] == 200


def test_management_asks_for_its_own(served):
    for headers in ({}, INFERENCE):
        assert served.manage("GET", "/models", headers)[0] == 401
        assert served.ask("/v2/repository/models/mixed/unload", {}, headers=headers)[0] == 401
    assert served.manage("GET", "/models", MANAGEMENT)[0] == 200


def test_metrics_take_either(served):
    assert served.ask("/metrics", port=served.metrics)[0] == 401
    assert served.ask("/metrics", port=served.metrics, headers=INFERENCE)[0] == 200
    assert served.ask("/metrics", port=served.metrics, headers=MANAGEMENT)[0] == 200


def test_grpc_asks_for_the_key_in_its_metadata(served):
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        load = channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
        assert live(b"", metadata=[("authorization", "Bearer infer-me")]) == b"\x08\x01"
        for call, metadata in ((live, []), (live, [("authorization", "Bearer x")]),
                               (load, [("authorization", "Bearer infer-me")])):
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def connection(served, **more):
    return http.client.HTTPConnection("127.0.0.1", served.http, timeout=10, **more)


def test_announced_bodies_that_are_too_large_are_refused_before_they_come(served):
    with socket.create_connection(("127.0.0.1", served.http), 10) as asking:
        asking.sendall(b"POST /predictions/mixed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer infer-me\r\n"
                       b"Content-Length: 10000000\r\n\r\n")
        answer = asking.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413") and b'"code": 413' in answer


@pytest.mark.parametrize(("length", "key", "expected", "status"), [
    (10_000_000, "infer-me", "100-continue", 413), (10, "other", "100-continue", 401), (10, "infer-me", "tea", 417),
    (10, "infer-me", "100-continue", 100)])
def test_clients_that_ask_before_they_send_are_told(served, length, key, expected, status):
    with socket.create_connection(("127.0.0.1", served.http), 10) as asking:
        asking.sendall(f"POST /predictions/mixed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                       f"Expect: {expected}\r\nContent-Length: {length}\r\n\r\n".encode())
        assert asking.recv(4096).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.parametrize("path", ["/predictions/mixed", "/predictions/echo", "/v2/models/mixed/infer"])
def test_chunked_bodies_that_grow_too_large_are_refused(served, path):
    asking = connection(served)
    pieces = (b"x" * 1000 for _ in range(LIMIT // 1000 + 5))
    asking.request("POST", path, pieces, {**INFERENCE, "Content-Type": "application/octet-stream"}, encode_chunked=True)
    answer = asking.getresponse()
    assert answer.status == 413 and json.loads(answer.read())
    asking.close()


def test_bodies_that_unpack_to_too_much_are_refused(served):
    import zlib

    status, answer = served.ask("/predictions/echo", zlib.compress(b"x" * 10 * LIMIT),
                                headers={**INFERENCE, "Content-Encoding": "deflate"})
    assert status == 413, answer


def test_a_body_of_the_largest_size_is_taken(served):
    status, answer = served.ask("/predictions/echo", b"x" * LIMIT,
                                headers={**INFERENCE, "Content-Type": "application/octet-stream"})
    assert (status, answer) == (200, str(LIMIT))


def test_forty_half_sent_requests_keep_nobody_waiting(served):
    half = []
    for n in range(40):
        one = socket.create_connection(("127.0.0.1", served.http))
        one.sendall(b"POST /predictions/mixed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer infer-me\r\n"
                    + (b"Content-Length: 100\r\n\r\nabc" if n % 2 else b"Conte"))
        half.append(one)
    try:
        begun = time.monotonic()
        assert served.ask("/predictions/mixed", ROWS, headers=INFERENCE)[0] == 200
        assert time.monotonic() - begun < 10
    finally:
        for one in half:
            one.close()


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"NIX / HTTP/9.9\r\n\r\n",
                                  b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
                                  b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"])
def test_what_is_no_http_is_answered_as_json(served, sent):
    with socket.create_connection(("127.0.0.1", served.http), 10) as asking:
        asking.sendall(sent)
        head, _, body = asking.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) and "message" in json.loads(body)
    assert b"Traceback" not in body


def test_all_is_well_afterwards(served):
    assert served.ask("/predictions/mixed", ROWS, headers=INFERENCE)[0] == 200
    assert served.process.poll() is None


# --- starts that fail -------------------------------------------------------------------------------------------------


def one_line(done, *words):
    assert done.returncode == 1, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("rushlight serve: "), done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def test_a_taken_port_ends_the_start_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        for option in ("--port", "--management-port", "--grpc-port"):
            one_line(running.refused_start(option, number), number)


@pytest.mark.parametrize("content", [b"", b"not a program", b"PK\x05\x06" + bytes(18)])
def test_a_model_that_does_not_load_ends_the_start_in_one_line(tmp_path, content):
    (tmp_path / "bad.pt2").write_bytes(content)
    one_line(running.refused_start("--models", f"bad={tmp_path / 'bad.pt2'}"), "'bad'")


def test_a_program_that_was_cut_or_changed_ends_the_start_in_one_line(tmp_path):
    path, _ = models.mixed(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.find(b"graph_module")
    content[at : at + 5] = b"xxxxx"
    path.write_bytes(content)
    one_line(running.refused_start("--models", f"bad={path}"), "damaged")


@pytest.mark.parametrize("options", [
    ("--models", "nix"), ("--models", "a=nix.pt2"), ("--model-store", "/nowhere"), ("--keys", "/nowhere"),
    ("--models", "../x=nix")])
def test_wrong_options_end_the_start_in_one_line(options):
    one_line(running.refused_start(*options))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"inference": {"key": "a"}}',
                                     '{"inference": {"key": ""}, "management": {"key": "secret"}}'])
def test_a_file_that_holds_no_keys_is_not_shown(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    done = running.refused_start("--keys", tmp_path / "keys")
    one_line(done, "--keys")
    assert "secret" not in done.stderr


def test_the_server_killed_outright_leaves_no_worker(tmp_path):
    models.archive(tmp_path, "echo", "def handle(data, context):\n    return data\n")
    process = subprocess.Popen([*running.COMMAND, *running.FREE, "--models", f"echo={tmp_path / 'echo.mar'}"],
                               stdout=subprocess.PIPE, text=True, env=running.environment(), cwd=running.ROOT)
    server = running.Running(process, process.stdout.readline())
    pid = server.workers("echo")[0]["pid"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    raise AssertionError("the worker lives on")
