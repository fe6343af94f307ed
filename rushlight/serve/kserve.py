"""KServe's protocol for inference, version 2, over HTTP: what Triton's clients speak.

Enters: requests as JSON, with tensors in it or as bytes behind it. Leaves: answers likewise. Refuses: bodies that are
shorter than they say, parameters that ask for what is not done here, and what `inference.py` refuses.
"""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from .. import version
from .datatypes import BYTES, NUMBERS, count, decoded, encoded, flat
from .http import answered, body, parsed
from .inference import Named, infer, shape_of
from .refusals import Refusal
from .repository import Repository, check_name
from .served import Served

HEAD_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = ("binary_tensor_data", "model_repository", "statistics", "model_configuration")
NOT_DONE = ("sequence_id", "sequence_start", "sequence_end", "shared_memory_region", "classification")


def server_metadata() -> dict[str, Any]:
    return {"name": "rushlight", "version": version.rushlight, "extensions": list(EXTENSIONS)}


def metadata(repository: Repository, model: Served) -> dict[str, Any]:
    """What a model takes and gives."""
    described = model.description or {"inputs": [], "outputs": []}

    def shown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: entry[key] for key in ("name", "datatype", "shape")} for entry in entries]

    versions = sorted(repository.models.get(model.name, {model.version: model}))
    return {"name": model.name, "versions": versions,
            "platform": "rushlight_mar" if model.is_handled else "rushlight_pt2",
            "inputs": shown(described["inputs"]), "outputs": shown(described["outputs"])}


def configuration(model: Served) -> dict[str, Any]:
    """Triton's description of a model, as far as it has a meaning here."""
    described = model.description or {"inputs": [], "outputs": [], "batch": None}
    free = 1 if described.get("batch") is not None else 0

    def shown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"name": e["name"], "data_type": "TYPE_" + ("STRING" if e["datatype"] == BYTES else e["datatype"]),
                 "dims": e["shape"][free:]} for e in entries]

    return {"name": model.name, "platform": "rushlight_pt2", "backend": "rushlight",
            "max_batch_size": model.settings.batch_size if free else 0,
            "input": shown(described["inputs"]), "output": shown(described["outputs"])}


def statistics(model: Served) -> dict[str, Any]:
    """What has been counted of a model."""
    counts = model.counts
    runs = counts.succeeded

    def duration(number: int, ns: int) -> dict[str, int]:
        return {"count": number, "ns": ns}

    by_size = [{"batch_size": size, "compute_input": duration(n, 0), "compute_infer": duration(n, ns),
                "compute_output": duration(n, 0)} for size, (n, ns) in sorted(counts.batches.items())]
    return {"name": model.name, "version": model.version, "last_inference": counts.last,
            "inference_count": counts.inferences, "execution_count": counts.executions,
            "inference_stats": {
                "success": duration(runs, counts.success_ns), "fail": duration(counts.failed, counts.fail_ns),
                "queue": duration(runs, counts.queue_ns), "compute_input": duration(counts.executions, 0),
                "compute_infer": duration(counts.executions, counts.compute_ns),
                "compute_output": duration(counts.executions, 0), "cache_hit": duration(0, 0),
                "cache_miss": duration(0, 0)},
            "batch_stats": by_size}


# --- requests ---------------------------------------------------------------------------------------------------------


def _object(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise Refusal(400, f"{what}: expected an object, got {type(said).__name__}")
    return said


def _word(said: dict[str, Any], key: str, what: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"{what}: expected a string as {key!r}, got {str(value)[:60]!r}")
    return value


def _parameters(said: dict[str, Any], what: str) -> dict[str, Any]:
    found = _object(said.get("parameters", {}), f"{what}: parameters")
    for name in NOT_DONE:
        if name in found and found[name] not in (0, False):
            raise Refusal(400, f"{what}: the parameter {name!r} is not supported here")
    return found


def _input(said: Any, rest: memoryview, at: int) -> tuple[Named, int]:
    """An input, and where the next one's bytes begin."""
    name = _word(_object(said, "inputs"), "name", "inputs")
    what = f"input {name!r}"
    datatype, shape = _word(said, "datatype", what), shape_of(said.get("shape"), what)
    if datatype not in NUMBERS and datatype != BYTES:
        raise Refusal(400, f"{what}: expected a datatype among {', '.join(NUMBERS)} and {BYTES}, got {datatype[:60]!r}")
    size = _parameters(said, what).get("binary_data_size")
    if size is None:
        if "data" not in said:
            raise Refusal(400, f"{what}: expected 'data', or the parameter 'binary_data_size', got neither")
        values, sizes = flat(said["data"], what)
        if len(values) != count(shape) or (len(sizes) > 1 and sizes != shape):
            raise Refusal(400, f"{what}: shape {shape} has {count(shape)} elements, got data of sizes {sizes}")
        return Named(name, datatype, shape, encoded(values, datatype, what)), at
    if type(size) is not int or size < 0 or at + size > len(rest):
        raise Refusal(400, f"{what}: expected at most the {len(rest) - at} bytes that follow as binary_data_size, "
                           f"got {str(size)[:30]}")
    if "data" in said:
        raise Refusal(400, f"{what}: expected either 'data' or 'binary_data_size', got both")
    return Named(name, datatype, shape, rest[at : at + size]), at + size


class Asked:
    """A request for inference."""

    def __init__(self, content: bytes, head_length: str | None) -> None:
        head, rest = content, memoryview(b"")
        if head_length is not None:
            if not (head_length.isascii() and head_length.isdigit()) or int(head_length) > len(content):
                raise Refusal(400, f"{HEAD_LENGTH}: expected a number up to the body's {len(content)} bytes, "
                                   f"got {head_length[:30]!r}")
            head, rest = content[: int(head_length)], memoryview(content)[int(head_length):]
        said = _object(parsed(head), "the body")
        self.id = said.get("id")
        if self.id is not None and not isinstance(self.id, str):
            raise Refusal(400, f"id: expected a string, got {str(self.id)[:60]}")
        parameters = _parameters(said, "the request")
        if not isinstance(said.get("inputs"), list):
            raise Refusal(400, "inputs: expected a list of tensors")
        self.inputs, at = [], 0
        for one in said["inputs"]:
            given, at = _input(one, rest, at)
            self.inputs.append(given)
        if at != len(rest):
            raise Refusal(400, f"the body has {len(rest)} bytes behind its JSON, but its inputs say {at}")
        self.is_binary = bool(parameters.get("binary_data_output", False))
        self.outputs = self._outputs(said.get("outputs"))

    def _outputs(self, said: Any) -> dict[str, bool]:
        """Names that are asked for, and whether as bytes."""
        if said is None:
            return {}
        if not isinstance(said, list):
            raise Refusal(400, f"outputs: expected a list, got {type(said).__name__}")
        found: dict[str, bool] = {}
        for one in said:
            name = _word(_object(one, "outputs"), "name", "outputs")
            if name in found:
                raise Refusal(400, f"output {name!r} is asked for twice")
            found[name] = bool(_parameters(one, f"output {name!r}").get("binary_data", self.is_binary))
        return found


def _answer(model: Served, asked: Asked, outputs: list[Named]) -> web.Response:
    said: list[dict[str, Any]] = []
    behind: list[Any] = []
    for one in outputs:
        entry: dict[str, Any] = {"name": one.name, "datatype": one.datatype, "shape": one.shape}
        if asked.outputs.get(one.name, asked.is_binary):
            entry["parameters"] = {"binary_data_size": len(one.data)}
            behind.append(one.data)
        else:
            entry["data"] = decoded(one.data, one.datatype)
        said.append(entry)
    result: dict[str, Any] = {"model_name": model.name, "model_version": model.version, "outputs": said}
    if asked.id is not None:
        result["id"] = asked.id
    head = json.dumps(result).encode()
    if not behind:
        return web.Response(body=head, content_type="application/json")
    return web.Response(body=b"".join((head, *behind)), content_type="application/octet-stream",
                        headers={HEAD_LENGTH: str(len(head))})


def routes(repository: Repository) -> list[web.AbstractRouteDef]:
    """Paths under /v2."""

    def named(request: web.Request) -> Served:
        return repository.get(request.match_info["model"], request.match_info.get("version"))

    async def live(request: web.Request) -> web.Response:
        return answered({"live": True})

    async def ready(request: web.Request) -> web.Response:
        if not repository.is_ready:
            raise Refusal(503, "not every model is ready")
        return answered({"ready": True})

    async def about(request: web.Request) -> web.Response:
        return answered(server_metadata())

    async def model_about(request: web.Request) -> web.Response:
        if request.match_info["model"] in repository.language:
            return answered({"name": request.match_info["model"], "versions": ["1"], "platform": "rushlight_language",
                             "inputs": [], "outputs": []})
        return answered(metadata(repository, named(request)))

    async def model_ready(request: web.Request) -> web.Response:
        name = request.match_info["model"]
        model = repository.language.get(name) or named(request)
        if not model.is_ready:
            raise Refusal(503, f"model {name!r} is not ready")
        return answered({"name": name, "ready": True})

    async def model_infer(request: web.Request) -> web.Response:
        model = named(request)
        asked = Asked(await body(request), request.headers.get(HEAD_LENGTH))
        return _answer(model, asked, await infer(model, asked.inputs, list(asked.outputs)))

    async def model_statistics(request: web.Request) -> web.Response:
        return answered({"model_stats": [statistics(named(request))]})

    async def all_statistics(request: web.Request) -> web.Response:
        return answered({"model_stats": [statistics(m) for m in repository.all()]})

    async def model_configuration(request: web.Request) -> web.Response:
        return answered(configuration(named(request)))

    async def index(request: web.Request) -> web.Response:
        content = await body(request)
        only_ready = _object(parsed(content), "the body").get("ready", False) if content.strip() else False
        return answered([one for one in repository.index() if not only_ready or one["state"] == "READY"])

    async def load(request: web.Request) -> web.Response:
        content = await body(request)
        given = _object(parsed(content), "the body").get("parameters") or {} if content.strip() else {}
        if given:
            raise Refusal(400, f"load: expected no parameters, got {', '.join(sorted(map(str, given)))[:100]}")
        await repository.load(check_name(request.match_info["model"]))
        return answered({})

    async def unload(request: web.Request) -> web.Response:
        await body(request)
        await repository.unload(check_name(request.match_info["model"]))
        return answered({})

    found = [web.get("/v2", about), web.get("/v2/", about), web.get("/v2/health/live", live),
             web.get("/v2/health/ready", ready), web.post("/v2/repository/index", index),
             web.post("/v2/repository/models/{model}/load", load), web.get("/v2/models/stats", all_statistics),
             web.post("/v2/repository/models/{model}/unload", unload)]
    for start in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        found += [web.get(start, model_about), web.get(f"{start}/ready", model_ready),
                  web.post(f"{start}/infer", model_infer), web.get(f"{start}/stats", model_statistics),
                  web.get(f"{start}/config", model_configuration)]
    return found
