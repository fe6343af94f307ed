"""TorchServe's protocol: archives, what handlers see and give, and the management of models."""

import http.server
import io
import json
import subprocess
import sys
import threading
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
        elif ask == "split header":
            context.set_response_header(at, "X-More", "a\\r\\nInjected: 1")
            answers.append("words")
        elif ask == "length":
            context.set_response_header(at, "Content-Length", "5000")
            answers.append("words")
        elif ask == "odd status":
            context.set_response_status(9999, "odd", at)
            answers.append("words")
        elif ask == "exit":
            raise SystemExit(2)
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
    for word, why in (("split header", "no header"), ("length", "no header"), ("odd status", "200 to 599"),
                      ("exit", "SystemExit")):
        status, answer = ask(served, word)
        assert status == 503 and why in answer["message"] and answer["type"] == "InternalServerException", answer
    assert ask(served, "text") == (200, "words")


def test_a_class_over_base_handler_loads_its_model(served, store):
    status, answer = served.ask("/predictions/net/1.0", {"values": [1.0, 2.0]})
    assert status == 200 and answer["torch"] == "torch", answer
    assert answer["values"] == pytest.approx(store[1](rl.tensor([1.0, 2.0])).tolist(), rel=1e-5)


TEXTS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(12, 3, mode="sum")
    def forward(self, numbers, starts):
        return self.bag(numbers, starts)
"""


def test_the_classifier_of_texts_cleans_them(served, store):
    weight = rl.zeros(12, 3)
    weight[1, 0] = weight[2, 1] = weight[3, 2] = weight[4, 2] = weight[5, 0] = 1.0
    held, words = io.BytesIO(), {"<unk>": 0, "cafe": 1, "is": 2, "not": 3, "is not": 4, "good": 5, "good<": 6}
    rl.save({"bag.weight": weight}, held)
    more = {"net.py": TEXTS, "net.pt": held.getvalue(), "source_vocab.json": json.dumps(words),
            "index_to_name.json": json.dumps({"0": "good", "1": "so", "2": "bad"})}
    model = {"modelFile": "net.py", "serializedFile": "net.pt", "handler": "text_classifier"}
    models.archive(store[0], "texts", "", model=model, more=more)
    assert served.manage("POST", "/models?url=texts.mar&initial_workers=1&synchronous=true")[0] == 200
    for text, scores in (("Caf\u00e9 isn't <b>GOOD</b>!", (2.0, 1.0, 2.0)), ("caf\u00e9&nbsp;, good?", (2.0, 0.0, 0.0)),
                         ("nothing known", (0.0, 0.0, 0.0))):
        status, found = served.ask("/predictions/texts", text.encode(), headers={"Content-Type": "text/plain"})
        wanted = rl.softmax(rl.tensor(scores), 0).tolist()
        assert status == 200, found
        assert [found[name] for name in ("good", "so", "bad")] == pytest.approx(wanted, abs=1e-5), text
    del more["source_vocab.json"]
    models.archive(store[0], "wordless", "", model=model, more=more)
    status, said = served.manage("POST", "/models?url=wordless.mar&initial_workers=1&synchronous=true")
    assert status == 400 and "vocabulary" in said["message"]


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
    """Other tests of this server may have a model of theirs registered."""
    every = [one["modelName"] for one in served.manage("GET", "/models")[1]["models"]]
    names, page = [], served.manage("GET", "/models?limit=1")[1]
    while "nextPageToken" in page:
        names += [one["modelName"] for one in page["models"]]
        assert page["nextPageToken"] == str(len(names))
        page = served.manage("GET", f"/models?limit=1&next_page_token={len(names)}")[1]
    names += [one["modelName"] for one in page["models"]]
    assert names == every and names[:2] == ["echo", "net"]


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


def test_addresses_that_lead_elsewhere_are_refused(store):
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            leads = {"/ok/on": "/ok/mixed.pt2", "/ok/off": "/hidden/mixed.pt2", "/ok/round": "/ok/round"}
            content = (store[0] / "mixed.pt2").read_bytes() if self.path.endswith(".pt2") else b""
            self.send_response(200 if content else 302)
            self.send_header("Location", leads.get(self.path, "file:///etc/passwd"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words):
            """Nothing."""

    asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{site.server_port}"
        with running.server("--allowed-urls", f"{home}/ok/.*", "--no-grpc") as served:
            for path, status, why in (
                ("ok/mixed.pt2", 200, "registered"), ("ok/on", 200, "registered"), ("ok/off", 403, "leads"),
                ("ok/file", 403, "leads"), ("ok/round", 400, "leads on"), ("hidden/mixed.pt2", 403, "--allowed-urls"),
                ("ok/../hidden/mixed.pt2", 403, "--allowed-urls"), ("ok/%252e%252e/hidden/mixed.pt2", 403, "--allowed"),
            ):
                found, said = served.manage("POST", f"/models?url={home}/{path}&model_name=m{len(asked)}x{status}")
                assert found == status and why in json.dumps(said), (path, said)
        site.shutdown()
    assert not [path for path in asked if "hidden" in path]


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
