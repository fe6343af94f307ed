"""KServe's protocol for inference, version 2, over HTTP: what Triton's clients speak.

Enters: requests as JSON, with tensors in it or as bytes behind it. Leaves: answers likewise. Refuses: bodies that are
shorter than they say, parameters that ask for what is not done here, and what `inference.py` refuses.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from .. import version
from .bodies import HEAD_LENGTH, Asked, object_of, parsed, written
from .datatypes import BYTES
from .http import answered, body, open_headers, while_needed
from .refusals import Refusal
from .repository import Repository, check_name
from .served import Served
from .tensor_rows import outputs_of

EXTENSIONS = ("binary_tensor_data", "model_repository", "statistics", "model_configuration")


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
        shown = open_headers(request) if model.is_handled else None
        with while_needed(request):
            outputs = await outputs_of(model, asked.inputs, list(asked.outputs), shown)
        content, headers = written(model.name, model.version, asked, outputs)
        return web.Response(body=content, headers=headers)

    async def model_statistics(request: web.Request) -> web.Response:
        return answered({"model_stats": [statistics(named(request))]})

    async def all_statistics(request: web.Request) -> web.Response:
        return answered({"model_stats": [statistics(m) for m in repository.all()]})

    async def model_configuration(request: web.Request) -> web.Response:
        return answered(configuration(named(request)))

    async def index(request: web.Request) -> web.Response:
        content = await body(request)
        only_ready = object_of(parsed(content), "the body").get("ready", False) if content.strip() else False
        return answered([one for one in repository.index() if not only_ready or one["state"] == "READY"])

    async def load(request: web.Request) -> web.Response:
        content = await body(request)
        given = object_of(parsed(content), "the body").get("parameters") or {} if content.strip() else {}
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
