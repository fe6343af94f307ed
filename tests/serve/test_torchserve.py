"""TorchServe's protocol: archives, what handlers see and give, and the management of models."""

import io
import json
import subprocess
import sys
import urllib.parse
import zipfile

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("grpc")

import rushlight as rl
from tests.serve import running_server as running, served_models as models

ECHO = """
import json, os
def handle(data, context):
    if data is None:
        assert os.path.isdir(context.system_properties["model_dir"])
        assert context.manifest["model"]["modelName"] == "echo" and context.system_properties.get("batch_size") == 1
        return None
    answers = []
    for at, row in enumerate(data):
        ask = context.get_request_header(at, "X-Ask")
        if ask == "text":
            answers.append("words")
        elif ask == "bytes":
            context.set_response_content_type(at, "image/png")
            answers.append(b"\\x00\\x01")
        elif ask == "plain bytes":
            answers.append(bytearray(b"ab"))
        elif ask == "status":
            context.set_response_status(418, "teapot", at)
            answers.append({"short": True})
        elif ask == "two":
            return [1, 2]
        elif ask == "prediction":
            from ts.utils.util import PredictionException
            raise PredictionException("not this", 513)
        else:
            answers.append({k: v if not isinstance(v, (bytes, bytearray)) else ["bytes", v.decode("latin1")]
                            for k, v in row.items()})
    return answers
"""
CLASS = """
import torch
from ts.torch_handler.base_handler import BaseHandler
class Doubling(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([row["body"]["values"] for row in data])
    def postprocess(self, data):
        return [{"values": row.tolist(), "torch": torch.__name__} for row in data]
"""
NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.layer(x)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torchserve")
    models.archive(folder, "echo", ECHO)
    models.mixed(folder)
    rl.manual_seed(0)
    layer = rl.nn.Linear(2, 2)
    weights = io.BytesIO()
    rl.save({"layer.weight": layer.weight, "layer.bias": layer.bias}, weights)
    models.archive(folder, "net", CLASS, model={"modelFile": "net.py", "serializedFile": "net.pt"},
                   more={"net.py": NET, "net.pt": weights.getvalue()})

    return folder, layer


@pytest.fixture(scope="module")
def served(store):
    with running.server("--model-store", store[0], "--models", "echo.mar", "net=net.mar") as server:
        yield server


def test_ping(served):
    assert served.ask("/ping") == (200, {"status": "Healthy"})


def ask(served, word, content=b"x"):
    return served.ask("/predictions/echo", content, headers={"X-Ask": word, "Content-Type": "application/octet-stream"})


def test_bodies_come_as_bytes_and_json_as_values(served):
    assert ask(served, "")[1] == {"body": ["bytes", "x"]}
    assert served.ask("/predictions/echo", {"a": [1]})[1] == {"body": {"a": [1]}}
    status, answer = served.ask("/predictions/echo", b"{", headers={"Content-Type": "application/json"})
    assert status == 400 and "JSON" in answer["message"]


def test_queries_and_forms_are_named(served):
    assert served.ask("/predictions/echo?a=1&b=c")[1] == {"a": ["bytes", "1"], "b": ["bytes", "c"]}
    form = urllib.parse.urlencode({"data": "word"}).encode()
    sent = served.ask("/predictions/echo", form, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert sent[1] == {"data": ["bytes", "word"]}
    parts = ('--B\r\nContent-Disposition: form-data; name="data"; filename="x"\r\n\r\n\x01\x02\r\n'
             '--B\r\nContent-Disposition: form-data; name="more"\r\nContent-Type: application/json\r\n\r\n'
             '[1]\r\n--B--\r\n')
    sent = served.ask("/predictions/echo", parts.encode(), headers={"Content-Type": "multipart/form-data; boundary=B"})
    assert sent[1] == {"data": ["bytes", "\x01\x02"], "more": [1]}
    broken = served.ask("/predictions/echo", b"nothing", headers={"Content-Type": "multipart/form-data"})
    assert broken[0] == 400


def test_answers_are_written_as_what_they_are(served):
    assert ask(served, "text") == (200, "words")
    assert ask(served, "bytes") == (200, b"\x00\x01")
    assert ask(served, "plain bytes") == (200, b"ab")
    assert ask(served, "status") == (418, {"short": True})


def test_handlers_that_fail_are_told_of(served):
    status, answer = ask(served, "two")
    assert status == 503 and "2 of them" in answer["message"] and answer["code"] == 503
    status, answer = ask(served, "prediction")
    assert (status, answer["message"]) == (513, "not this")


def test_a_class_over_base_handler_loads_its_model(served, store):
    status, answer = served.ask("/predictions/net/1.0", {"values": [1.0, 2.0]})
    assert status == 200 and answer["torch"] == "torch", answer
    assert answer["values"] == pytest.approx(store[1](rl.tensor([1.0, 2.0])).tolist(), rel=1e-5)


def test_programs_answer_predictions(served):
    assert served.manage("POST", "/models?url=mixed.pt2&initial_workers=1&synchronous=true")[0] == 200
    rows = {"left": [[1, 2, 3, 4]], "right": [[1, 1, 1, 1]]}
    status, answer = served.ask("/predictions/mixed", rows)
    assert status == 200 and answer["sum"] == [[2, 3, 4, 5]]
    assert served.ask("/predictions/mixed", [[1, 2, 3, 4]])[0] == 400
    assert served.ask("/predictions/mixed", {**rows, "middle": 1})[0] == 400
    assert served.ask("/explanations/mixed", rows)[0] == 400
    assert served.manage("DELETE", "/models/mixed")[0] == 200
    assert served.ask("/predictions/mixed", rows)[1]["type"] == "ModelNotFoundException"


def test_models_are_registered_described_and_unregistered(served, store):
    models.archive(store[0], "echo", ECHO.replace("words", "second"), version="2.0")
    asked = "/models?url=echo.mar&initial_workers=1&synchronous=true&batch_size=1&max_batch_delay=7&response_timeout=9"
    assert served.manage("POST", asked)[0] == 200
    status, answer = served.manage("POST", asked)
    assert (status, answer["type"], answer["code"]) == (409, "ConflictStatusException", 409)
    found = served.manage("GET", "/models/echo/all")[1]
    assert sorted(one["modelVersion"] for one in found) == ["1.0", "2.0"]
    second = next(one for one in found if one["modelVersion"] == "2.0")
    assert (second["batchSize"], second["maxBatchDelay"], second["responseTimeout"]) == (1, 7, 9)
    assert second["modelUrl"] == "echo.mar" and second["workers"][0]["status"] == "READY"
    assert not second["loadedAtStartup"] and second["workers"][0]["pid"] > 0
    assert ask(served, "text")[1] == "words"
    assert served.ask("/predictions/echo/2.0", b"", headers={"X-Ask": "text", "Content-Type": "x/y"})[1] == "second"
    assert served.manage("PUT", "/models/echo/2.0/set-default")[0] == 200
    assert ask(served, "text")[1] == "second"
    assert served.manage("DELETE", "/models/echo/2.0")[0] == 403
    assert served.manage("PUT", "/models/echo/1.0/set-default")[0] == 200
    assert served.manage("DELETE", "/models/echo/2.0")[0] == 200
    assert served.manage("GET", "/models/echo/2.0")[1]["type"] == "ModelVersionNotFoundException"
    assert served.manage("PUT", "/models/echo/2.0/set-default")[0] == 404


def test_models_are_listed_in_pages(served):
    first = served.manage("GET", "/models?limit=1")[1]
    assert [one["modelName"] for one in first["models"]] == ["echo"] and first["nextPageToken"] == "1"
    second = served.manage("GET", f"/models?limit=1&next_page_token={first['nextPageToken']}")[1]
    assert [one["modelName"] for one in second["models"]] == ["net"] and "nextPageToken" not in second


def test_registration_without_workers_is_unavailable_until_scaled(served, store):
    models.archive(store[0], "later", ECHO.replace('"echo"', '"later"'))
    assert served.manage("POST", "/models?url=later.mar")[0] == 200
    assert served.ask("/predictions/later", {})[0] == 503
    assert served.manage("PUT", "/models/later?min_worker=2&max_worker=3&synchronous=true")[0] == 200
    said = served.manage("GET", "/models/later")[1][0]
    assert (said["minWorkers"], said["maxWorkers"], len(said["workers"])) == (2, 3, 2)
    assert served.ask("/predictions/later", {})[0] == 200
    assert served.manage("PUT", "/models/later?min_worker=1&synchronous=true")[0] == 200
    assert served.manage("DELETE", "/models/later")[0] == 200


@pytest.mark.parametrize("query", [
    "", "url=", "url=nix.mar", "url=/etc/passwd", "url=../echo.mar", "url=file:///etc/passwd",
    "url=http://127.0.0.1:1/x.mar", "url=s3://a/b.mar", "url=echo%00.mar", "url=echo.mar&initial_workers=-1",
    "url=echo.mar&model_name=..", "url=echo.mar&model_name=a%2fb", "url=echo.mar&batch_size=0", "url=echo.mar&x=1",
    "url=echo.mar&model_name=%00", "url=echo.mar&synchronous=perhaps", "url=."])
def test_bad_registrations_are_refused_and_listed_nowhere(served, query):
    before = served.manage("GET", "/models")[1]
    status, answer = served.manage("POST", f"/models?{query}")
    assert 400 <= status < 500 and set(answer) == {"code", "type", "message"} and answer["code"] == status
    assert served.manage("GET", "/models")[1] == before


def bad(folder, name, write):
    with zipfile.ZipFile(folder / f"{name}.mar", "w") as file:
        write(file)


MANIFEST = json.dumps({"model": {"modelName": "bad", "handler": "handler.py", "modelVersion": "1.0"}})


def link(file):
    file.writestr("MAR-INF/MANIFEST.json", MANIFEST)
    one = zipfile.ZipInfo("handler.py")
    one.external_attr = 0o120777 << 16
    file.writestr(one, "/etc/passwd")


BAD = {
    "no manifest": lambda f: f.writestr("handler.py", "x = 1"),
    "manifest no json": lambda f: f.writestr("MAR-INF/MANIFEST.json", "{"),
    "manifest a list": lambda f: f.writestr("MAR-INF/MANIFEST.json", "[]"),
    "no handler": lambda f: f.writestr("MAR-INF/MANIFEST.json", MANIFEST),
    "outside": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("../handler.py", "x = 1")),
    "absolute": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("/tmp/handler.py", "x = 1")),
    "link": link,
    "does not compile": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("handler.py", "def (:")),
    "fails": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("handler.py", "1 / 0")),
    "no entry": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("handler.py", "x = 1")),
    "requirements": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST), f.writestr("requirements.txt", "numpy"),
                               f.writestr("handler.py", "def handle(data, context): return data")),
    "version": lambda f: (f.writestr("MAR-INF/MANIFEST.json", MANIFEST.replace("1.0", "../1")),
                          f.writestr("handler.py", "def handle(data, context): return data")),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_archives_are_refused_and_listed_nowhere(served, store, name):
    bad(store[0], "bad", BAD[name])
    status, answer = served.manage("POST", "/models?url=bad.mar&initial_workers=1&synchronous=true")
    assert status == 400 and "Traceback" not in answer["message"], answer
    assert served.manage("GET", "/models/bad")[0] == 404


def test_what_is_no_zip_is_refused(served, store):
    for content in (b"", b"PK\x03\x04", b"not a zip" * 100, (store[0] / "echo.mar").read_bytes()[:-30]):
        (store[0] / "none.mar").write_bytes(content)
        status, answer = served.manage("POST", "/models?url=none.mar")
        assert status == 400 and answer["type"] == "InvalidModelException", answer


def test_archives_of_the_archiver_run(served, store, tmp_path):
    pytest.importorskip("model_archiver")
    (tmp_path / "own.py").write_text("def handle(data, context):\n    return data and ['made'] * len(data)\n")
    subprocess.run([sys.executable, "-m", "model_archiver.model_packaging", "--model-name", "made", "--version", "3.1",
                    "--handler", str(tmp_path / "own.py"), "--export-path", str(store[0])], check=True)
    assert served.manage("POST", "/models?url=made.mar&initial_workers=1&synchronous=true")[0] == 200
    assert served.ask("/predictions/made", {}) == (200, "made")
    assert served.manage("GET", "/models/made")[1][0]["modelVersion"] == "3.1"
