"""Archives asked by Triton's clients, TorchServe's services over gRPC, and both under TLS."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.request

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
grpc = pytest.importorskip("grpc")

from rushlight.serve import messages as m
from tests.serve import running_server as running, served_models as models

HANDLER = """
import json
def handle(data, context):
    if data is None:
        return None
    answers = []
    for at, row in enumerate(data):
        given, name = row["data"], row.get("name")
        ask = context.get_request_header(at, "X-Ask")
        if name == "words":
            words = [w.decode() for w in (given if isinstance(given, list) else [given])]
            answers.append([w.upper() for w in words] if len(words) > 1 else words[0].upper())
        elif name == "facts":
            answers.append({"shape": row["shape"], "datatype": row["datatype"], "data": given})
        elif name == "raw":
            answers.append(bytes(given)[::-1])
        elif name == "bad":
            context.set_response_status(422, "no", at)
            answers.append("not these")
        elif name is None:
            answers.append({"keys": sorted(row), "text": bytes(given).decode()})
        else:
            answers.append([[2 * v for v in line] for line in given])
    return answers
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    models.archive(folder, "echo", HANDLER)
    models.archive(folder, "other", HANDLER)
    models.mixed(folder)
    return folder


@pytest.fixture(scope="module")
def served(store):
    with running.server("--model-store", store, "--models", "echo.mar", "mixed.pt2", "--batch-size", 4,
                        "--max-batch-delay", 1) as server:
        yield server


@pytest.fixture(scope="module", params=["http", "grpc"])
def client(request, served):
    """One of Triton's clients, and the module it is of."""
    module = pytest.importorskip(f"tritonclient.{request.param}")
    with module.InferenceServerClient(f"127.0.0.1:{getattr(served, request.param)}") as found:
        yield module, found


def tensor(module, name, values, datatype):
    made = module.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


def test_words_and_numbers_go_to_handlers(client):
    np = pytest.importorskip("numpy")
    module, triton = client
    words = tensor(module, "words", np.array([b"one", b"zwei"], dtype=object), "BYTES")
    numbers = tensor(module, "numbers", np.arange(6, dtype=np.int32).reshape(2, 3), "INT32")
    halves = tensor(module, "halves", np.array([[0.5, 1.5]], dtype=np.float32), "FP32")
    found = triton.infer("echo", [words, numbers, halves])
    assert found.as_numpy("predict").tolist() == [b"ONE", b"ZWEI"]
    assert found.as_numpy("predict_1").tolist() == [[0, 2, 4], [6, 8, 10]]
    assert found.as_numpy("predict_2").tolist() == [[1.0, 3.0]]
    single = tensor(module, "words", np.array([b"one"], dtype=object), "BYTES")
    assert triton.infer("echo", [single]).as_numpy("predict").tolist() == [b"ONE"]
    chosen = [module.InferRequestedOutput("predict_1")]
    only = triton.infer("echo", [words, numbers], outputs=chosen)
    assert only.as_numpy("predict") is None and only.as_numpy("predict_1").shape == (2, 3)


def test_bytes_and_objects_come_back_as_words(client):
    np = pytest.importorskip("numpy")
    module, triton = client
    raw = tensor(module, "raw", np.array([b"\x00\xffab"], dtype=object), "BYTES")
    facts = tensor(module, "facts", np.array([[True], [False]]), "BOOL")
    found = triton.infer("echo", [raw, facts])
    assert found.as_numpy("predict").tolist() == [b"ba\xff\x00"]
    said = json.loads(found.as_numpy("predict_1").tolist()[0])
    assert said == {"shape": [2, 1], "datatype": "BOOL", "data": [[True], [False]]}


def test_what_handlers_refuse_is_refused(client):
    np = pytest.importorskip("numpy")
    module, triton = client
    utils = pytest.importorskip("tritonclient.utils")
    bad = tensor(module, "bad", np.zeros((1, 1), np.float32), "FP32")
    with pytest.raises(utils.InferenceServerException, match="422: not these"):
        triton.infer("echo", [bad])
    with pytest.raises(utils.InferenceServerException, match="nothing"):
        triton.infer("echo", [bad], outputs=[module.InferRequestedOutput("nothing")])


def test_inputs_of_archives_are_checked(served):
    def ask(*inputs):
        return served.ask("/v2/models/echo/infer", {"inputs": list(inputs)})

    one = {"name": "words", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    assert ask(one)[1]["outputs"] == [{"name": "predict", "datatype": "BYTES", "shape": [1], "data": ["A"]}]
    for given, why in (((), "at least one"), ((one, one), "twice"), (({**one, "shape": [2]},), "elements"),
                       (({**one, "datatype": "TEXT"},), "datatype")):
        status, said = ask(*given)
        assert status == 400 and why in said["error"], said


def call(served, service, method, asked, given, said, metadata=()):
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        send = channel.unary_unary(f"/org.pytorch.serve.grpc.{service}/{method}", request_serializer=asked.written,
                                   response_deserializer=given.read)
        return send(said, timeout=30, metadata=metadata)


def predict(served, **said):
    return call(served, "inference.InferenceAPIsService", "Predictions", m.PREDICT, m.PREDICTED, said)["prediction"]


def manage(served, method, asked, **said):
    return json.loads(call(served, "management.ManagementAPIsService", method, asked, m.SAID, said)["msg"])


def test_torchserves_predictions_over_grpc(served):
    health = call(served, "inference.InferenceAPIsService", "Ping", m.NOTHING, m.HEALTH, {})["health"]
    assert json.loads(health) == {"status": "Healthy"}
    found = json.loads(bytes(predict(served, model_name="echo", input=[{"key": "data", "value": b"text"}])))
    assert found == {"keys": ["data"], "text": "text"}
    given = json.dumps({"left": [[1, 1, 1, 1]], "right": [[1, 2, 3, 4]]}).encode()
    found = json.loads(bytes(predict(served, model_name="mixed", input=[{"key": "data", "value": given}])))
    assert found["sum"] == [[2.0, 3.0, 4.0, 5.0]]
    for said, code in (({"model_name": "nothing", "input": [{"key": "data", "value": b""}]}, "NOT_FOUND"),
                       ({"model_name": "echo"}, "INVALID_ARGUMENT"),
                       ({"model_name": "echo", "model_version": "9", "input": [{"key": "data", "value": b""}]},
                        "NOT_FOUND")):
        with pytest.raises(grpc.RpcError) as refused:
            predict(served, **said)
        assert refused.value.code().name == code, refused.value.details()


def test_torchserves_management_over_grpc(served):
    assert {one["modelName"] for one in manage(served, "ListModels", m.LIST)["models"]} == {"echo", "mixed"}
    said = manage(served, "RegisterModel", m.REGISTER, url="other.mar", initial_workers=1, synchronous=True,
                  batch_size=2)
    assert "registered" in said["status"]
    described = manage(served, "DescribeModel", m.DESCRIBE, model_name="other")[0]
    assert described["batchSize"] == 2 and len(described["workers"]) == 1
    manage(served, "ScaleWorker", m.SCALE, model_name="other", min_worker=2, synchronous=True)
    assert len(manage(served, "DescribeModel", m.DESCRIBE, model_name="other")[0]["workers"]) == 2
    assert "default" in manage(served, "SetDefault", m.DESCRIBE, model_name="other", model_version="1.0")["status"]
    for method, asked, more, code in (("RegisterModel", m.REGISTER, {"url": "other.mar"}, "ALREADY_EXISTS"),
                                      ("RegisterModel", m.REGISTER, {"url": "/etc/passwd"}, "INVALID_ARGUMENT"),
                                      ("ScaleWorker", m.SCALE, {"model_name": "other", "number_gpu": 1},
                                       "INVALID_ARGUMENT")):
        with pytest.raises(grpc.RpcError) as refused:
            manage(served, method, asked, **more)
        assert refused.value.code().name == code, refused.value.details()
    assert "unregistered" in manage(served, "UnregisterModel", m.DESCRIBE, model_name="other")["status"]
    with pytest.raises(grpc.RpcError) as gone:
        manage(served, "DescribeModel", m.DESCRIBE, model_name="other")
    assert gone.value.code().name == "NOT_FOUND"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which makes a certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out",
                    folder / "chain.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return folder / "chain.pem", folder / "key.pem"


def test_every_port_speaks_tls(store, certificate, tmp_path):
    chain, key = certificate
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"management": {"key": "over"}, "inference": {"key": "ask"}}))
    with running.server("--model-store", store, "--models", "echo.mar", "--certificate", chain, "--private-key", key,
                        "--keys", keys) as served:
        context = ssl.create_default_context(cafile=chain)
        for port, path, word in ((served.http, "/v2/health/ready", "ask"), (served.management, "/models", "over"),
                                 (served.metrics, "/metrics", "ask")):
            headers = {"Authorization": f"Bearer {word}"}
            asked = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
            with urllib.request.urlopen(asked, context=context, timeout=20) as answer:
                assert answer.status == 200
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{served.http}/v2/health/ready", timeout=20)
        credentials = grpc.ssl_channel_credentials(chain.read_bytes())
        with grpc.secure_channel(f"localhost:{served.grpc}", credentials) as channel:
            ready = channel.unary_unary("/inference.GRPCInferenceService/ServerReady",
                                        request_serializer=m.NOTHING.written, response_deserializer=m.READY.read)
            assert ready({}, timeout=20, metadata=(("authorization", "Bearer ask"),))["ready"]
            listed = channel.unary_unary("/org.pytorch.serve.grpc.management.ManagementAPIsService/ListModels",
                                         request_serializer=m.LIST.written, response_deserializer=m.SAID.read)
            with pytest.raises(grpc.RpcError) as refused:
                listed({}, timeout=20, metadata=(("authorization", "Bearer ask"),))
            assert refused.value.code().name == "UNAUTHENTICATED"
            assert json.loads(listed({}, timeout=20, metadata=(("authorization", "Bearer over"),))["msg"])["models"]


def test_what_cannot_be_spoken_ends_the_start(store, certificate):
    chain, key = certificate
    for options, why in ((("--certificate", chain), "both"), (("--certificate", key, "--private-key", chain), "PEM"),
                         (("--certificate", store / "none", "--private-key", key), "No such file"),
                         (("--device", "cuda:99"), "--device"), (("--device", "tpu"), "expected cpu")):
        said = running.refused_start("--model-store", store, *options)
        assert said.returncode in (1, 2) and why in said.stderr and "Traceback" not in said.stderr, said.stderr
