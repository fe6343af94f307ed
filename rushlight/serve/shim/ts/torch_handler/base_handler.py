"""The base of handlers: load a model, and answer requests in three steps.

Enters: the context with the archive's folder and manifest, then rows of requests. Leaves: a list of answers. Refuses:
archives without a model, and model files that define no class or several.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
from typing import Any

import torch

from ..utils.util import list_classes_from_module, load_label_mapping

logger = logging.getLogger(__name__)


class BaseHandler:
    """`initialize`, then for each batch `preprocess`, `inference`, `postprocess`."""

    def __init__(self) -> None:
        self.model: Any = None
        self.mapping: Any = None
        self.device: Any = None
        self.context: Any = None
        self.manifest: Any = None
        self.model_pt_path: str | None = None
        self.map_location: str | None = None
        self.initialized = self.explain = False
        self.target = 0
        self.profiler_args: dict[str, Any] = {}
        self.model_yaml_config: dict[str, Any] = {}

    def initialize(self, context: Any) -> None:
        """Load the model, and labels where there are some."""
        properties, self.manifest, self.context = context.system_properties, context.manifest, context
        self.model_yaml_config = context.model_yaml_config
        has_gpu = torch.cuda.is_available() and properties.get("gpu_id") is not None
        self.map_location = "cuda" if has_gpu else "cpu"
        self.device = torch.device(f"cuda:{properties['gpu_id']}" if has_gpu else "cpu")
        folder, model = properties.get("model_dir"), self.manifest["model"]
        if model.get("serializedFile"):
            self.model_pt_path = os.path.join(folder, os.path.basename(model["serializedFile"]))
        if model.get("modelFile"):
            self.model = self._load_pickled_model(folder, os.path.basename(model["modelFile"]), self.model_pt_path)
            self.model.to(self.device)
            self.model.eval()
        elif self.model_pt_path and self.model_pt_path.endswith(".pt2"):
            self.model = torch.export.load(self.model_pt_path).module().to(self.device)
        elif self.model_pt_path and self.model_pt_path.endswith((".pt", ".pth", ".bin")):
            self.model = self._load_torchscript_model(self.model_pt_path)
            self.model.eval()
        else:
            raise RuntimeError("the archive holds no model: expected a modelFile, or a serializedFile (.pt2, .pt)")
        self.mapping = load_label_mapping(os.path.join(folder, "index_to_name.json"))
        self.initialized = True

    def _load_torchscript_model(self, model_pt_path: str) -> Any:
        return torch.jit.load(model_pt_path, map_location=self.device)

    def _load_pickled_model(self, model_dir: str, model_file: str, model_pt_path: str | None) -> Any:
        """The class in the model file, with the weights of the other file."""
        if not os.path.isfile(os.path.join(model_dir, model_file)):
            raise RuntimeError(f"there is no model file {model_file}")
        module = importlib.import_module(model_file.removesuffix(".py"))
        classes = [c for c in list_classes_from_module(module) if issubclass(c, torch.nn.Module)]
        classes = [c for c in classes if not any(_uses(other, c, module) for other in classes)] or classes
        if len(classes) != 1:
            names = ", ".join(c.__name__ for c in classes) or "none"
            raise ValueError(f"{model_file}: expected one class of models, got {names}")
        model = classes[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location=self.device, weights_only=True))
        return model

    def preprocess(self, data: Any) -> Any:
        """Rows as a tensor; rows of requests are taken at their `data` or `body`."""
        rows = [row.get("data", row.get("body")) if isinstance(row, dict) else row for row in data]
        return torch.as_tensor(rows, device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return self.model(data.to(self.device) if isinstance(data, torch.Tensor) else data, *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        return data.tolist()

    def handle(self, data: Any, context: Any) -> list[Any]:
        """Answers to a batch of requests."""
        begun = time.perf_counter()
        self.context = context
        prepared = self.preprocess(data)
        if self._is_explain():
            answers = self.explain_handle(prepared, data)
        else:
            answers = self.postprocess(self.inference(prepared))
        context.metrics.add_time("HandlerTime", round((time.perf_counter() - begun) * 1000, 2), None, "ms")
        return answers

    def explain_handle(self, data_preprocess: Any, raw_data: Any) -> Any:
        """What `get_insights`, which a handler defines, says of its first row."""
        row = raw_data[0]
        inputs = row.get("data") or row.get("body")
        if isinstance(inputs, dict) and "target" in inputs:
            self.target = inputs["target"]
        return [self.get_insights(data_preprocess, inputs, self.target)]

    def get_insights(self, tensor_data: Any, raw_data: Any, target: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} explains nothing: define get_insights")

    def _is_explain(self) -> bool:
        return bool(self.context and self.context.get_request_header(0, "explain") == "True")

    def describe_handle(self) -> dict[str, Any]:
        return {}


def _uses(user: type, used: type, module: Any) -> bool:
    """Whether one class of a file is built of another, which then is no model of its own."""
    import inspect

    if user is used:
        return False
    if issubclass(user, used):
        return True
    try:
        return f"{used.__name__}(" in inspect.getsource(user) and not issubclass(used, user)
    except (OSError, TypeError):
        return False
