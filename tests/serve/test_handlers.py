"""Handlers as people write them: services in a module, entries by name, packages beside them, metrics, explanations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("yaml")

from tests.serve import running_server as running, served_models as models

SERVICE = '''
import json
import logging
import os
from abc import ABC

import numpy as np

from helpers.words import shout
from ts.torch_handler.base_handler import BaseHandler

logger = logging.getLogger(__name__)

class Words(BaseHandler, ABC):
    def __init__(self):
        super(Words, self).__init__()
        self.initialized = False

    def initialize(self, ctx):
        properties = ctx.system_properties
        with open(os.path.join(properties.get("model_dir"), "labels.json")) as file:
            self.labels = json.load(file)
        print("handlers print")
        self.initialized = True

    def handle(self, data, context):
        rows = [row.get("data") if row.get("data") is not None else row.get("body") for row in data]
        return [{"said": shout(bytes(row).decode()), "label": self.labels["0"], "numbers": np.arange(3) / 2,
                 "one": np.float32(0.5), "nested": {"a": np.array([[1, 2]])}} for row in rows]

_service = Words()

def handle(data, context):
    try:
        if not _service.initialized:
            _service.initialize(context)
        if data is None:
            return None
        return _service.handle(data, context)
    except Exception as error:
        logger.error("%s", error)
        raise error
'''
PLAIN = '''
class Helper:
    """No handler: it has no such method."""

class Model(object):
    def __init__(self):
        self.factor = None

    def initialize(self, context):
        self.factor = context.model_yaml_config["handler"]["factor"]
        self.batch = context.system_properties.get("batch_size")

    def handle(self, data, context):
        return [[row["body"] * self.factor, self.batch] for row in data]
'''
ENTRY = '''
def other(data, context):
    raise RuntimeError("not this one")

def run(data, context):
    return None if data is None else [(n, len(data)) for n, _ in enumerate(data)]
'''
COUNTED = '''
from ts.handler_utils.timer import timed
from ts.metrics.dimension import Dimension
from ts.metrics.metric_type_enum import MetricTypes
from ts.service import emit_metrics
from ts.torch_handler.base_handler import BaseHandler

class Counting(BaseHandler):
    def initialize(self, context):
        self.context = context
        self.asked = context.metrics.add_metric_to_cache(
            metric_name="Asked", unit="count", dimension_names=["Method"], metric_type=MetricTypes.COUNTER)
        self.initialized = True

    @timed
    def preprocess(self, data):
        return [row["body"] for row in data]

    def inference(self, data):
        metrics = self.context.metrics
        self.asked.add_or_update(value=len(data), dimension_values=["predict"])
        metrics.add_counter("Rows", len(data), 0, [Dimension("Kind", "all")])
        metrics.add_size("Body", 1.5, None, "kB")
        metrics.add_percent("Share", 50.0)
        metrics.add_metric("Depth", 7, unit="layers", dimensions=[Dimension("Net", "a")],
                           metric_type=MetricTypes.GAUGE)
        try:
            self.asked.add_or_update(-1, ["predict"])
            wrong = ""
        except ValueError as error:
            wrong = str(error)
        emit_metrics(metrics.cache)
        took = metrics.values["ts_handler_preprocess"]
        found = metrics.get_metric("Asked", MetricTypes.COUNTER).values
        return [[list(found.values()), metrics.values["Rows"], took >= 0, metrics.get_metric(
            "Depth", MetricTypes.GAUGE).values[("a",)], wrong]] * len(data)

    def postprocess(self, data):
        return data
'''
EXPLAINED = '''
import torch
from base import Doubling

class Told(Doubling):
    def get_insights(self, tensor_data, raw_data, target):
        return {"rows": tensor_data.tolist(), "raw": raw_data, "target": target}
'''
BASE = '''
import torch
from ts.torch_handler.base_handler import BaseHandler

class Doubling(BaseHandler):
    def initialize(self, context):
        super().initialize(context)
        assert self.model_yaml_config == context.model_yaml_config == {"responseTimeout": 7}

    def preprocess(self, data):
        return torch.tensor([row["body"]["values"] for row in data])
'''
NET = '''
import torch
from layers import Twice

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.twice = Twice()
    def forward(self, x):
        return self.twice(x)
'''
LAYERS = "import torch\nclass Twice(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[running.Running]:
    store = tmp_path_factory.mktemp("handlers")
    models.archive(store, "service", SERVICE, more={
        "labels.json": '{"0": "zero"}', "helpers/__init__.py": "", "helpers/words.py":
            "from .marks import MARK\ndef shout(word):\n    return word.upper() + MARK\n",
        "helpers/marks.py": "MARK = '!'\n"})
    models.archive(store, "plain", PLAIN, more={
        "model-config.yaml": "batchSize: 3\nmaxBatchDelay: 5\nhandler:\n  factor: 4\n"})
    models.archive(store, "entry", ENTRY, model={"handler": "handler.py:run"})
    models.archive(store, "counted", COUNTED)
    models.archive(store, "told", EXPLAINED, model={"modelFile": "net.py"}, more={
        "base.py": BASE, "net.py": NET, "layers.py": LAYERS, "model-config.yaml": "responseTimeout: 7\n"})
    with running.server("--model-store", store, "--models", "service", "plain", "entry", "counted", "told",
                        "--no-grpc") as found:
        yield found


def test_a_service_of_the_module_with_a_package_beside_it(served: running.Running) -> None:
    plain = {"Content-Type": "text/plain"}
    assert served.ask("/predictions/service", b"word", headers=plain) == (200, {
        "said": "WORD!", "label": "zero", "numbers": [0.0, 0.5, 1.0], "one": 0.5, "nested": {"a": [[1, 2]]}})
    form = b'--B\r\nContent-Disposition: form-data; name="data"; filename="f"\r\n\r\nfile\r\n--B--\r\n'
    sent = served.ask("/predictions/service", form, headers={"Content-Type": "multipart/form-data; boundary=B"})
    assert sent[1]["said"] == "FILE!"


def test_a_class_of_no_base_reads_its_configuration(served: running.Running) -> None:
    assert served.ask("/predictions/plain", 5) == (200, [20, 3])
    assert served.manage("GET", "/models/plain")[1][0]["batchSize"] == 3


def test_an_entry_is_taken_by_its_name(served: running.Running) -> None:
    assert served.ask("/predictions/entry", 1) == (200, [0, 1])


def test_what_a_handler_counts_can_be_read_back(served: running.Running) -> None:
    first, second = (served.ask("/predictions/counted", 1)[1] for _ in range(2))
    assert first[:4] == [[1], 1, True, 7] and second[:4] == [[2], 2, True, 7]
    assert "counter cannot fall" in first[4]


def test_predictions_and_explanations_of_a_model_of_several_files(served: running.Running) -> None:
    asked: dict[str, Any] = {"values": [1.0, 2.0], "target": 3}
    assert served.ask("/predictions/told", asked) == (200, [2.0, 4.0])
    assert served.ask("/explanations/told", asked) == (200, {"rows": [[1.0, 2.0]], "raw": asked, "target": 3})
    status, answer = served.ask("/explanations/counted", 1)
    assert status == 503 and "get_insights" in answer["message"]
