"""KServe's protocol, by Triton's clients and by hand: what a model takes and gives, tensors as JSON and as bytes."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
grpc = pytest.importorskip("grpc")
over_http = pytest.importorskip("tritonclient.http")
over_grpc = pytest.importorskip("tritonclient.grpc")
np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

import rushlight as rl
from rushlight.serve.datatypes import decoded, encoded
from rushlight.serve.refusals import Refusal
from tests.serve import running_server as running, served_models as models

NUMPY = {"bool": bool, "bfloat16": ml_dtypes.bfloat16}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kserve")
    path, module = models.mixed(folder)
    models.typed(folder)
    with running.server("--model-store", folder, "--models", f"mixed={path}", "typed.pt2") as server:
        server.module, server.folder = module, folder
        yield server


@pytest.fixture(params=["http", "grpc"])
def client(request, served):
    kind = over_http if request.param == "http" else over_grpc
    with kind.InferenceServerClient(f"127.0.0.1:{getattr(served, request.param)}") as found:
        found.kind = kind
        yield found


def given(kind, rows=3, seed=0):
    rng = np.random.default_rng(seed)
    values = {name: rng.standard_normal((rows, 4)).astype(np.float32) for name in ("left", "right")}
    inputs = []
    for name, value in values.items():
        inputs.append(kind.InferInput(name, list(value.shape), "FP32"))
        inputs[-1].set_data_from_numpy(value)
    return values, inputs


def expected(served, values):
    with rl.no_grad():
        found = served.module(*(rl.from_numpy(v) for v in values.values()))
    return {name: value.numpy() for name, value in found.items()}


def test_server_and_model_say_they_are_ready(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("mixed") and client.is_model_ready("mixed", "1")


def test_metadata_names_the_programs_own_inputs(client):
    said = client.get_model_metadata("mixed", **({"as_json": True} if client.kind is over_grpc else {}))
    assert [(e["name"], e["datatype"], [int(n) for n in e["shape"]]) for e in said["inputs"]] == [
        ("left", "FP32", [-1, 4]), ("right", "FP32", [-1, 4])]
    assert [(e["name"], [int(n) for n in e["shape"]]) for e in said["outputs"]] == [
        ("scores", [-1, 3]), ("sum", [-1, 4])]
    assert said["versions"] == ["1"]


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_results_are_the_modules(client, served, rows):
    values, inputs = given(client.kind, rows)
    found = client.infer("mixed", inputs, request_id="a7")
    wanted = expected(served, values)
    for name in wanted:
        np.testing.assert_allclose(found.as_numpy(name), wanted[name], rtol=1e-5, atol=1e-6)
    answer = found.get_response()
    assert (answer["id"] if client.kind is over_http else answer.id) == "a7"


def test_an_empty_batch_gives_an_empty_batch(client):
    _, inputs = given(client.kind, 0)
    assert client.infer("mixed", inputs).as_numpy("scores").shape == (0, 3)


def test_chosen_outputs_come_in_the_order_asked(client, served):
    values, inputs = given(client.kind)
    asked = [client.kind.InferRequestedOutput(name) for name in ("sum",)]
    found = client.infer("mixed", inputs, outputs=asked)
    assert found.as_numpy("scores") is None
    np.testing.assert_allclose(found.as_numpy("sum"), values["left"] + values["right"], rtol=1e-6)


def test_every_type_goes_both_ways(client):
    said = client.get_model_metadata("typed", **({"as_json": True} if client.kind is over_grpc else {}))
    inputs, values = [], []
    for at, (name, entry) in enumerate(zip(models.TYPES, said["inputs"])):
        value = (np.arange(4).reshape(2, 2) + at).astype(NUMPY.get(name, name))
        values.append(value)
        inputs.append(client.kind.InferInput(entry["name"], [2, 2], entry["datatype"]))
        inputs[-1].set_data_from_numpy(value)
    found = client.infer("typed", inputs)
    for name, value, entry in zip(models.TYPES, values, said["outputs"]):
        wanted = ~value if name == "bool" else value + np.ones((), value.dtype)
        np.testing.assert_array_equal(found.as_numpy(entry["name"]), wanted, err_msg=name)


def test_tensors_as_json_of_every_type(served):
    said = served.ask("/v2/models/typed")[1]
    inputs = [{"name": e["name"], "shape": [2, 2], "datatype": e["datatype"],
               "data": [[True, False], [True, True]] if e["datatype"] == "BOOL" else [[1, 2], [3, 4]]}
              for e in said["inputs"]]
    status, answer = served.ask("/v2/models/typed/infer", {"inputs": inputs})
    assert status == 200, answer
    for entry in answer["outputs"]:
        assert entry["data"] == ([False, True, False, False] if entry["datatype"] == "BOOL" else [2, 3, 4, 5])


def test_statistics_count_requests_and_runs(client, served):
    _, inputs = given(client.kind)
    more = {"as_json": True} if client.kind is over_grpc else {}
    before = client.get_inference_statistics("mixed", **more)["model_stats"][0]
    for _ in range(3):
        client.infer("mixed", inputs)
    after = client.get_inference_statistics("mixed", **more)["model_stats"][0]
    assert int(after["execution_count"]) - int(before["execution_count"]) == 3
    assert int(after["inference_count"]) - int(before["inference_count"]) == 9
    assert 'ts_inference_requests_total{model_name="mixed",model_version="1"}' in served.counted()


def test_index_lists_loads_and_unloads(client, served):
    more = {"as_json": True} if client.kind is over_grpc else {}
    client.unload_model("typed")
    index = client.get_model_repository_index(**more)
    states = {e["name"]: e["state"] for e in (index["models"] if more else index)}
    assert states == {"mixed": "READY", "typed": "UNAVAILABLE"}
    with pytest.raises(Exception, match=r"not served here"):
        client.infer("typed", [])
    client.load_model("typed")
    assert client.is_model_ready("typed")


def test_a_model_that_cannot_be_loaded_anew_is_served_on(client, served):
    path = served.folder / "typed.pt2"
    whole = path.read_bytes()
    before = served.workers("typed")[0]["pid"]
    try:
        path.write_bytes(whole[:1000])
        with pytest.raises(Exception, match="typed"):
            client.load_model("typed")
    finally:
        path.write_bytes(whole)
    assert client.is_model_ready("typed") and served.workers("typed")[0]["pid"] == before
    with ThreadPoolExecutor(2) as pool:      # one waits for the other
        asked = [pool.submit(served.ask, "/v2/repository/models/typed/load", {}) for _ in range(2)]
        assert [one.result()[0] for one in asked] == [200] * 2
    assert client.is_model_ready("typed") and len(served.workers("typed")) == 1


def test_configuration_says_the_largest_batch(client):
    said = client.get_model_config("mixed", **({"as_json": True} if client.kind is over_grpc else {}))
    said = said.get("config", said)
    assert said["input"][0]["data_type"] == "TYPE_FP32" and [int(n) for n in said["input"][0]["dims"]] == [4]


def test_a_stream_answers_each_request(served):
    _, inputs = given(over_grpc)
    found = []
    with over_grpc.InferenceServerClient(f"127.0.0.1:{served.grpc}") as client:
        client.start_stream(callback=lambda result, error: found.append((result, error)))
        client.async_stream_infer("mixed", inputs)
        client.async_stream_infer("absent", inputs)
        client.async_stream_infer("mixed", inputs)
        client.stop_stream()
    assert [error is None for _, error in found] == [True, False, True]


def test_typed_contents_are_read(served):
    service, stubs = over_grpc.service_pb2, over_grpc.service_pb2_grpc
    asked = service.ModelInferRequest(model_name="mixed")
    for name in ("left", "right"):
        one = asked.inputs.add(name=name, datatype="FP32", shape=[1, 4])
        one.contents.fp32_contents.extend([1.0, 2.0, 3.0, 4.0])
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(asked)
        assert np.frombuffer(answer.raw_output_contents[1], np.float32).tolist() == [2, 4, 6, 8]
        asked.inputs[0].contents.fp32_contents.append(1.0)
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(asked)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        asked.model_name = "absent"
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(asked)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_bytes_that_are_no_message_are_an_invalid_argument(served):
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for content in (b"\xff", b"\x0a\x05ab", b"\x08\x01", b"\x2a\x03\x1a\x01\xff"):
            with pytest.raises(grpc.RpcError) as refused:
                call(content)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, content
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"")
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


LEFT = {"name": "left", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
RIGHT = {**LEFT, "name": "right"}
BAD = {
    "no inputs": ({}, "inputs"),
    "a list": ([], "object"),
    "inputs no list": ({"inputs": {}}, "inputs"),
    "missing": ({"inputs": [LEFT]}, "'right' is missing"),
    "doubled": ({"inputs": [LEFT, LEFT, RIGHT]}, "twice"),
    "unknown": ({"inputs": [LEFT, RIGHT, {**LEFT, "name": "middle"}]}, "'left', 'right'"),
    "no name": ({"inputs": [{**LEFT, "name": 3}, RIGHT]}, "name"),
    "type": ({"inputs": [{**LEFT, "datatype": "INT64"}, RIGHT]}, "expected datatype FP32, got INT64"),
    "unknown type": ({"inputs": [{**LEFT, "datatype": "FP31"}, RIGHT]}, "FP31"),
    "rank": ({"inputs": [{**LEFT, "shape": [4]}, RIGHT]}, r"expected shape [-1, 4], got [4]"),
    "size": ({"inputs": [{**LEFT, "shape": [1, 5], "data": [1] * 5}, RIGHT]}, "[-1, 4], got [1, 5]"),
    "rows differ": ({"inputs": [{**LEFT, "shape": [2, 4], "data": [1] * 8}, RIGHT]}, "another input"),
    "count": ({"inputs": [{**LEFT, "data": [1, 2, 3]}, RIGHT]}, "elements"),
    "uneven": ({"inputs": [{**LEFT, "data": [[1, 2], [3]]}, RIGHT]}, "uneven"),
    "words": ({"inputs": [{**LEFT, "data": ["a", 2, 3, 4]}, RIGHT]}, "'a'"),
    "nothing": ({"inputs": [{**LEFT, "data": None}, RIGHT]}, "list"),
    "truths": ({"inputs": [{**LEFT, "data": [True, 2, 3, 4]}, RIGHT]}, "True"),
    "negative": ({"inputs": [{**LEFT, "shape": [-1, 4]}, RIGHT]}, "shape"),
    "huge": ({"inputs": [{**LEFT, "shape": [2**62, 2**62]}, RIGHT]}, "elements"),
    "shape of words": ({"inputs": [{**LEFT, "shape": ["1", 4]}, RIGHT]}, "shape"),
    "output": ({"inputs": [LEFT, RIGHT], "outputs": [{"name": "nix"}]}, "'scores', 'sum'"),
    "output twice": ({"inputs": [LEFT, RIGHT], "outputs": [{"name": "sum"}, {"name": "sum"}]}, "twice"),
    "id": ({"id": 3, "inputs": [LEFT, RIGHT]}, "id"),
    "bytes beyond": ({"inputs": [{**{k: v for k, v in LEFT.items() if k != "data"},
                                  "parameters": {"binary_data_size": 16}}, RIGHT]}, "binary_data_size"),
    "memory": ({"inputs": [{**LEFT, "parameters": {"shared_memory_region": "x"}}, RIGHT]}, "not supported"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_told_what_was_expected(served, name):
    body, words = BAD[name]
    status, answer = served.ask("/v2/models/mixed/infer", body)
    assert status == 400 and set(answer) == {"error"} and words in answer["error"], answer


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100000, b'{"inputs": NaN}', b"1" * 5000])
def test_what_is_no_json_is_told_so(served, content):
    status, answer = served.ask("/v2/models/mixed/infer", content)
    assert status == 400 and "Traceback" not in answer["error"]


@pytest.mark.parametrize("length", ["99999", "-1", "x", "1e2", "²"])
def test_a_header_length_beyond_the_body_is_refused(served, length):
    body = json.dumps({"inputs": [LEFT, RIGHT]}).encode()
    try:
        status, answer = served.ask("/v2/models/mixed/infer", body, headers={"Inference-Header-Content-Length": length})
    except UnicodeEncodeError:
        return
    assert status == 400 and "error" in answer


@pytest.mark.parametrize("path", ["/v2/models/nix", "/v2/models/nix/infer", "/v2/models/mixed/versions/2",
                                  "/v2/models/a%00b/ready", "/v2/models/..%2f..%2fetc/ready", "/v2/nothing"])
def test_unknown_names_are_not_found(served, path):
    status, answer = served.ask(path, {} if path.endswith("infer") else None)
    assert status == 404 and set(answer) == {"error"}


def test_a_wrong_method_is_named(served):
    status, answer = served.ask("/v2/models/mixed/infer")
    assert status == 405 and "POST" in answer["error"]


def test_numbers_survive_beyond_a_float_in_bytes(served):
    """A body with bytes behind its JSON, and bytes asked for back."""
    left = np.array([[np.nan, np.inf, -0.0, 1e-40]], np.float32)
    inputs = [over_http.InferInput(name, [1, 4], "FP32") for name in ("left", "right")]
    inputs[0].set_data_from_numpy(left)
    inputs[1].set_data_from_numpy(np.zeros((1, 4), np.float32))
    with over_http.InferenceServerClient(f"127.0.0.1:{served.http}") as client:
        found = client.infer("mixed", inputs).as_numpy("sum")
    np.testing.assert_array_equal(found, left)


@pytest.mark.parametrize(("datatype", "value", "said"), [
    ("FP32", 1e39, "range of FP32"), ("FP16", 7e4, "range of FP16"), ("BF16", 1e39, "range of BF16"),
    ("FP32", 10**400, "range of FP32"), ("FP64", 10**400, "range of FP64"), ("INT64", 2**63, "range of INT64")])
def test_a_number_beyond_its_type_is_refused_by_name(datatype, value, said):
    with pytest.raises(Refusal, match=said):
        encoded([value], datatype, "x")


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_infinities_and_nan_are_numbers_of_every_floating_type(datatype):
    found = decoded(encoded([float("inf"), float("-inf"), float("nan")], datatype, "x"), datatype)
    assert found[:2] == [float("inf"), float("-inf")] and found[2] != found[2]


def test_words_that_utf8_cannot_write_are_refused(served):
    one = b'{"inputs": [{"name": "left", "shape": [1], "datatype": "BYTES", "data": ["\\ud800"]}]}'
    status, said = served.ask("/v2/models/mixed/infer", one)
    assert status == 400 and "UTF-8" in said["error"]


def test_a_name_that_no_file_can_have_is_no_body_that_was_cut_off(served):
    status, said = served.manage("POST", f"/models?url={'a' * 3000}")
    assert status in (400, 404) and "cut off" not in said["message"]


def test_a_program_that_was_cut_off_is_no_archive(tmp_path):
    path, _ = models.mixed(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    told = running.refused_start("--models", path, "--no-grpc")
    assert told.returncode == 1 and "whole" in told.stderr and "MANIFEST" not in told.stderr
