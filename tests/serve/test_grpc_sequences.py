"""StreamPredictions2: requests of sequences in one stream, which a worker answers that remembers those before."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
grpc = pytest.importorskip("grpc")

from rushlight.serve import messages as m
from tests.serve import running_server as running, served_models as models

SUMS = '''
import os, time
from ts.torch_handler.base_handler import BaseHandler
from ts.handler_utils.utils import send_intermediate_predict_response

class Sums(BaseHandler):
    """The sum of a sequence's numbers so far, which only this worker knows."""

    def initialize(self, context):
        self.context = context
        context.cache = {}

    def handle(self, data, context):
        found = []
        for at, row in enumerate(data):
            name = context.get_sequence_id(at)
            said = bytes(row["data"]).decode()
            if said == "early":
                raise RuntimeError("before anything is known of the sequence")
            if context.get_request_header(at, context.header_key_sequence_start):
                context.cache[name] = 0
            if said == "slow":
                time.sleep(0.3)
            elif said == "parts":
                send_intermediate_predict_response([f"{name}..."] * len(data), context.request_ids, "", 200, context)
            elif said == "end":
                context.set_response_header(at, context.header_key_sequence_end, name)
            elif said == "pid":
                found.append(str(os.getpid()))
                continue
            else:
                context.cache[name] += int(said)
            found.append(f"{name}={context.cache[name]} of {len(data)}")
        return found
'''
METHOD = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/StreamPredictions2"
Said = tuple[str, bytes]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[running.Running]:
    store = tmp_path_factory.mktemp("store")
    models.mixed(store)
    models.archive(store, "sums", SUMS)
    with running.server("--model-store", store, "--models", "sums", "mixed", "--workers", 2, "--batch-size", 3,
                        "--max-batch-delay", 5) as found:
        yield found


def talk(served: running.Running, *said: Said, model: str = "sums") -> list[dict[str, Any]]:
    """What answers these requests, in one stream."""
    asked = [m.PREDICT.written({"model_name": model, "sequenceId": name,
                                "input": [{"key": "data", "value": value}]}) for name, value in said]
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        return [m.PREDICTED.read(one) for one in channel.stream_stream(METHOD)(iter(asked), timeout=30)]


def texts(answers: list[dict[str, Any]], name: str) -> list[str]:
    return [bytes(one["prediction"]).decode().partition(" of ")[0] for one in answers if one["sequenceId"] == name]


def test_a_sequence_is_answered_in_order_by_one_who_remembers(served: running.Running) -> None:
    answers = talk(served, *[(name, str(n).encode()) for n in range(1, 6) for name in ("a", "b", "c")])
    for name in "abc":
        assert texts(answers, name) == [f"{name}={total}" for total in (1, 3, 6, 10, 15)]
    assert all(one["status"] is None for one in answers)


def test_sequences_have_workers_of_their_own_and_stay_there(served: running.Running) -> None:
    answers = talk(served, *[(name, b"pid") for _ in range(4) for name in ("a", "b")])
    homes = [set(texts(answers, name)) for name in "ab"]
    assert [len(h) for h in homes] == [1, 1] and homes[0] != homes[1]


def test_one_sequence_does_not_wait_for_another(served: running.Running) -> None:
    answers = talk(served, ("s", b"slow"), ("s", b"1"), *[("q", b"1")] * 4)
    order = [one["sequenceId"] for one in answers]
    assert order[:4] == ["q"] * 4, "the slow one's home was not the other's"


def test_parts_come_before_an_answer(served: running.Running) -> None:
    assert texts(talk(served, ("p", b"parts"), ("p", b"2")), "p") == ["p...", "p=0", "p=2"]


def test_a_sequence_that_ended_begins_again(served: running.Running) -> None:
    assert texts(talk(served, *[("e", word) for word in (b"3", b"end", b"4")]), "e") == ["e=3", "e=3", "e=4"]
    assert texts(talk(served, ("e", b"5")), "e") == ["e=5"]      # and with its stream


def test_what_fails_is_told_and_the_stream_goes_on(served: running.Running) -> None:
    answers = talk(served, ("", b"1"), ("x", b"1"), ("x", b"no number"), ("x", b"2"))
    assert answers[0]["status"]["code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "sequenceId" in answers[0]["status"]["message"]
    of_x = [one for one in answers if one["sequenceId"] == "x"]
    assert texts(of_x, "x") == ["x=1", "", "x=3"]
    assert "ValueError" in of_x[1]["status"]["message"] and "Traceback" not in of_x[1]["status"]["message"]
    (absent,) = talk(served, ("x", b"1"), model="absent")
    assert absent["status"]["code"] == grpc.StatusCode.NOT_FOUND.value[0]


def test_a_sequence_whose_first_request_fails_begins_with_the_next(served: running.Running) -> None:
    answers = talk(served, ("y", b"early"), ("y", b"2"), ("y", b"3"))
    assert answers[0]["status"] is not None and texts(answers[1:], "y") == ["y=2", "y=5"]


def test_bytes_that_are_no_message_are_told_too(served: running.Running) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        (answer,) = channel.stream_stream(METHOD)(iter([b"\xff\xff"]), timeout=30)
    assert m.PREDICTED.read(answer)["status"]["code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]


def test_a_stream_has_so_many_sequences_and_no_more(served: running.Running) -> None:
    answers = talk(served, *[(f"m{n}", b"1") for n in range(1026)], ("m0", b"2"), ("x" * 201, b"1"))
    wrong = [one["status"] for one in answers if one["status"] is not None]
    exhausted, invalid = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT
    assert [one["code"] for one in wrong] == [exhausted.value[0], exhausted.value[0], invalid.value[0]]
    assert texts(answers, "m0") == ["m0=1", "m0=3"] and len(answers) == 1028


def test_a_worker_that_dies_takes_its_sequences_along(served: running.Running) -> None:
    gate, asked = threading.Event(), []

    def requests() -> Iterator[bytes]:
        for at, word in enumerate((b"1", b"pid", b"2", b"3", b"4")):
            if at == 2:
                gate.wait(20)
            yield m.PREDICT.written({"model_name": "sums", "sequenceId": "d",
                                     "input": [{"key": "data", "value": word}]})

    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        for one in channel.stream_stream(METHOD)(requests(), timeout=30):
            asked.append(m.PREDICTED.read(one))
            if len(asked) == 2:
                pid = int(bytes(asked[1]["prediction"]))
                os.kill(pid, signal.SIGKILL)
                while any(w["pid"] == pid for w in served.workers("sums")):
                    pass
                gate.set()
    assert asked[2]["status"]["code"] == grpc.StatusCode.UNAVAILABLE.value[0]
    assert texts(asked[3:], "d") == ["d=3", "d=7"]      # it begins anew


def test_programs_answer_in_such_a_stream(served: running.Running, tmp_path: Path) -> None:
    row = b'{"left": [[1, 2, 3, 4]], "right": [[1, 2, 3, 4]]}'
    answers = talk(served, ("m", row), ("m", row), model="mixed")
    assert [b"[[2.0, 4.0, 6.0, 8.0]]" in bytes(one["prediction"]) for one in answers] == [True, True]
