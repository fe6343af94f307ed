"""Answers that come in parts, streams of requests, and the device of each model."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
grpc = pytest.importorskip("grpc")
over_grpc = pytest.importorskip("tritonclient.grpc")
np = pytest.importorskip("numpy")

from rushlight.serve import devices, messages as m
from rushlight.serve.refusals import LoadError
from tests.serve import running_server as running, served_models as models

PARTS = '''
import os, time
from ts.protocol.otf_message_handler import send_intermediate_predict_response
def handle(data, context):
    if data is None:
        return None
    words = [bytes(row.get("data") or row.get("body")).decode() for row in data]
    for n in range(3):
        if n == 2 and "die" in words:
            os._exit(3)
        if n == 2 and "fail" in words:
            raise ValueError("in the middle")
        parts = [f"{word}{n} " for word in words]
        send_intermediate_predict_response(parts if "few" not in words else [], context.request_ids, "ok", 200, context)
        time.sleep(0.1 if "slow" in words else 0)
    return [f"{word} end" for word in words]
'''
INFERENCE = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[running.Running]:
    store = tmp_path_factory.mktemp("store")
    models.mixed(store)
    models.archive(store, "parts", PARTS)
    with running.server("--model-store", store, "--models", "mixed", "parts", "--batch-size", 4,
                        "--max-batch-delay", 20) as found:
        yield found


@pytest.fixture(scope="module")
def channel(served: running.Running) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as found:
        yield found


def asked(word: bytes, model: str = "parts") -> bytes:
    return m.PREDICT.written({"model_name": model, "input": [{"key": "data", "value": word}]})


def streamed(channel: Any, content: bytes) -> list[bytes]:
    call = channel.unary_stream(f"{INFERENCE}StreamPredictions")
    return [bytes(m.PREDICTED.read(one)["prediction"]) for one in call(content, timeout=20)]


def test_a_stream_of_predictions_has_the_parts(channel: Any) -> None:
    assert streamed(channel, asked(b"a")) == [b"a0 ", b"a1 ", b"a2 ", b"a end"]


def test_parts_come_before_the_end(channel: Any) -> None:
    call, times = channel.unary_stream(f"{INFERENCE}StreamPredictions"), []
    for _ in call(asked(b"slow"), timeout=20):
        times.append(time.monotonic())
    assert len(times) == 4 and times[-1] - times[0] > 0.15


def test_a_single_prediction_holds_all_parts(channel: Any, served: running.Running) -> None:
    whole = m.PREDICTED.read(channel.unary_unary(f"{INFERENCE}Predictions")(asked(b"b"), timeout=20))["prediction"]
    assert bytes(whole) == b"b0 b1 b2 b end"


def test_a_program_gives_one_part(channel: Any) -> None:
    row = [[1.0, 2.0, 3.0, 4.0]]
    (found,) = streamed(channel, asked(json.dumps({"left": row, "right": row}).encode(), "mixed"))
    assert json.loads(found)["sum"] == [[2.0, 4.0, 6.0, 8.0]]


@pytest.mark.parametrize(("word", "code", "model"), [
    (b"fail", grpc.StatusCode.UNAVAILABLE, "parts"), (b"few", grpc.StatusCode.UNAVAILABLE, "parts"),
    (b"x", grpc.StatusCode.NOT_FOUND, "absent"), (b"no JSON", grpc.StatusCode.INVALID_ARGUMENT, "mixed")])
def test_what_fails_ends_a_stream_with_a_code(channel: Any, word: bytes, code: Any, model: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        streamed(channel, asked(word, model))
    assert refused.value.code() is code and "Traceback" not in refused.value.details()


def test_parts_of_requests_that_run_together_go_to_their_askers(channel: Any) -> None:
    found: dict[bytes, list[bytes]] = {}
    words = [b"w%d" % n for n in range(8)]
    threads = [threading.Thread(target=lambda w=w: found.__setitem__(w, streamed(channel, asked(w)))) for w in words]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {w: [b"%b%d " % (w, n) for n in range(3)] + [w + b" end"] for w in words}


def over_http(served: running.Running, word: str) -> tuple[http.client.HTTPResponse, Callable[[], bytes]]:
    connection = http.client.HTTPConnection("127.0.0.1", served.http, timeout=20)
    connection.request("POST", "/predictions/parts", word, {"Content-Type": "text/plain"})
    return (answer := connection.getresponse()), answer.read


def test_http_sends_parts_in_chunks(served: running.Running) -> None:
    answer, read = over_http(served, "slow")
    assert answer.status == 200 and answer.getheader("Transfer-Encoding") == "chunked"
    assert answer.read1() == b"slow0 "
    assert read() == b"slow1 slow2 slow end"


@pytest.mark.parametrize("word", ["fail", "die"])
def test_an_answer_that_breaks_off_does_not_look_whole(served: running.Running, word: str) -> None:
    answer, read = over_http(served, word)
    assert answer.status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        read()
    for _ in range(100):       # the next one is answered, by another worker if need be
        if served.ask("/predictions/parts", b"again", headers={"Content-Type": "text/plain"})[0] == 200:
            return
        time.sleep(0.1)
    pytest.fail("nothing answers after a worker's death")


class Stream:
    """What a stream of Triton's client gives."""

    def __init__(self, served: running.Running) -> None:
        self.client = over_grpc.InferenceServerClient(f"127.0.0.1:{served.grpc}")
        self.found: list[tuple[Any, Any]] = []
        self.client.start_stream(callback=lambda result, error: self.found.append((result, error)))

    def done(self) -> list[tuple[Any, Any]]:
        self.client.stop_stream()
        self.client.close()
        return self.found


def numbers(value: float) -> list[Any]:
    inputs = [over_grpc.InferInput(name, [1, 4], "FP32") for name in ("left", "right")]
    for one in inputs:
        one.set_data_from_numpy(np.full((1, 4), value, np.float32))
    return inputs


def test_requests_of_a_stream_run_together_and_are_answered_in_order(served: running.Running) -> None:
    def executions() -> int:
        return served.ask("/v2/models/mixed/stats")[1]["model_stats"][0]["execution_count"]

    before, stream = executions(), Stream(served)
    for n in range(200):
        stream.client.async_stream_infer("mixed", numbers(float(n)), request_id=str(n))
    found = stream.done()
    assert [result.get_response().id for result, _ in found] == [str(n) for n in range(200)]
    assert all(result.as_numpy("sum")[0, 0] == 2.0 * n for n, (result, _) in enumerate(found))
    assert all(r.get_response().parameters["triton_final_response"].bool_param for r, _ in found)
    assert executions() - before < 150


def test_a_stream_gives_the_parts_of_a_handler_and_says_which_is_the_last(served: running.Running) -> None:
    stream = Stream(served)
    word = over_grpc.InferInput("data", [1], "BYTES")
    word.set_data_from_numpy(np.array([b"c"], dtype=object))
    stream.client.async_stream_infer("parts", [word], request_id="one", enable_empty_final_response=True)
    found = [result for result, error in stream.done() if error is None]
    assert [r.as_numpy("predict")[0] for r in found] == [b"c0 ", b"c1 ", b"c2 ", b"c end"]
    finals = [r.get_response().parameters["triton_final_response"].bool_param for r in found]
    assert finals == [False, False, False, True]


def test_a_stream_that_is_left_disturbs_nobody(served: running.Running) -> None:
    stream = Stream(served)
    word = over_grpc.InferInput("data", [1], "BYTES")
    word.set_data_from_numpy(np.array([b"slow"], dtype=object))
    for _ in range(5):
        stream.client.async_stream_infer("parts", [word])
    stream.client.stop_stream(cancel_requests=True)
    stream.client.close()
    assert served.ask("/predictions/parts", b"d", headers={"Content-Type": "text/plain"})[0] == 200


# --- devices ----------------------------------------------------------------------------------------------------------


def test_a_model_runs_where_the_command_its_file_or_the_default_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "check_device", lambda name, what="": None)
    said = {"": ("cuda:1",), "a": ("cpu", "cuda:0")}
    assert devices.devices_of("a", said, {"deviceType": "gpu"}) == ("cpu", "cuda:0")
    assert devices.devices_of("b", said, {"deviceType": "gpu", "deviceIds": [2, 3]}) == ("cuda:2", "cuda:3")
    assert devices.devices_of("b", said, {"deviceType": "cpu"}) == ("cpu",)
    assert devices.devices_of("b", said, {"deviceType": "gpu"}) == ("cuda",)
    assert devices.devices_of("b", said, {}) == ("cuda:1",)
    assert devices.devices_of("b", {}, {}) == ("cpu",)
    for wrong in ({"deviceType": "tpu"}, {"deviceIds": []}, {"deviceIds": "0"}, {"deviceIds": [-1]}):
        with pytest.raises(LoadError, match=r"model-config\.yaml"):
            devices.devices_of("b", said, wrong)


@pytest.mark.parametrize(("options", "said"), [
    (("--device", "mixed=cuda:77"), "which has"), (("--device", "cpu", "cpu"), "each model once"),
    (("--device", "other=cpu"), "'other'"), (("--device", "mixed=npu"), "expected cpu, cuda"),
    (("--device", "=cpu"), "expected cpu, cuda")])
def test_devices_that_cannot_be_end_the_start(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    path, _ = models.mixed(tmp_path)
    told = running.refused_start("--models", f"mixed={path}", "--no-grpc", *options)
    assert told.returncode and said in told.stderr and "Traceback" not in told.stderr


def test_each_model_has_a_device_of_its_own(tmp_path: Path) -> None:
    path, _ = models.mixed(tmp_path)
    where = "def handle(data, context):\n    return data and [str(context.system_properties['gpu_id']) for _ in data]\n"
    models.archive(tmp_path, "where", where, more={"model-config.yaml": "deviceType: cpu\n"})
    models.archive(tmp_path, "far", where, more={"model-config.yaml": "deviceType: gpu\ndeviceIds: [99]\n"})
    with running.server("--model-store", tmp_path, "--models", f"mixed={path}", "where", "--device", "cpu",
                        "mixed=cpu", "--no-grpc") as served:
        assert served.ask("/predictions/where", b"a", headers={"Content-Type": "text/plain"}) == (200, "None")
        status, answer = served.manage("POST", "/models?url=far.mar&initial_workers=1&synchronous=true")
        assert status == 400 and "cuda:99" in answer["message"]
        assert [one["modelName"] for one in served.manage("GET", "/models")[1]["models"]] == ["mixed", "where"]


# --- clients that go --------------------------------------------------------------------------------------------------


def test_a_request_that_waits_is_left_out_when_its_client_goes(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    models.archive(tmp_path, "slow", f"""
import time
def handle(data, context):
    if data:
        open({str(lines)!r}, "ab").write(data[0]["body"] + b" ")
        time.sleep(0.6)
    return data and ["done" for _ in data]
""")
    with running.server("--model-store", tmp_path, "--models", "slow", "--no-grpc") as served:
        connections = []
        for n in range(6):
            one = http.client.HTTPConnection("127.0.0.1", served.http, timeout=20)
            one.request("POST", "/predictions/slow", str(n), {"Content-Type": "text/plain"})
            connections.append(one)
            time.sleep(0.05)
        for one in connections[2:5]:
            one.close()
        assert connections[5].getresponse().read() == b"done"
        assert lines.read_text().split() == ["0", "1", "5"]      # two are with the worker already
        assert served.manage("GET", "/models/slow")[1][0]["jobQueueStatus"]["pendingRequests"] == 0
        for one in connections:
            one.close()
