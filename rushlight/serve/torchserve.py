"""TorchServe's protocol: predictions, and the management of models.

Enters: predictions as any body or form, registrations by the name of a file. Leaves: what handlers gave, as JSON, text
or bytes; descriptions of models and their workers. Refuses: what is wrong, with TorchServe's names for kinds of errors.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from . import handled
from .bodies import parsed
from .datatypes import decoded, encoded, flat, nested
from .http import LOG, answered, body
from .inference import Named, infer
from .metrics import Metrics
from .refusals import LoadError, Refusal
from .repository import Repository, check_name
from .served import Served, Settings

Answered = tuple[Any, int]      # a value, and a status
PAGE = 100
MOST_WORKERS = 1024   # each is a process
FULL_QUEUE = 100      # what TorchServe shows as the room of a queue


# --- predictions ------------------------------------------------------------------------------------------------------


async def _predicted(model: Served, request: web.Request, explain: bool) -> web.StreamResponse:
    if model.is_handled:
        return await handled.predicted(model, request, explain)
    if explain:
        raise Refusal(400, f"model {model.name!r} is a program, which explains nothing")
    return answered(await of_program(model, await body(request)))


async def of_program(model: Served, content: bytes) -> Any:
    """What a program gives for JSON: a list for one output, an object for several."""
    if model.description is None:
        raise Refusal(503, f"model {model.name!r} is not loaded yet. Ask again later.")
    outputs = await infer(model, _tensors(model.description["inputs"], parsed(content)), [])
    values = {one.name: nested(decoded(one.data, one.datatype), one.shape) for one in outputs}
    return next(iter(values.values())) if len(values) == 1 else values


def _tensors(entries: list[dict[str, Any]], said: Any) -> list[Named]:
    """JSON as inputs: an object by their names, or a list where there is one input."""
    if not isinstance(said, dict):
        if len(entries) != 1:
            names = ", ".join(repr(e["name"]) for e in entries)
            raise Refusal(400, f"the body: expected an object with {names}, got {type(said).__name__}")
        said = {entries[0]["name"]: said}
    types = {e["name"]: e["datatype"] for e in entries}
    found = []
    for name, value in said.items():
        what = f"input {name!r}"
        if name not in types:
            raise Refusal(400, f"{what} is not one of this model's, which takes {', '.join(map(repr, types))}")
        values, shape = flat(value, what) if isinstance(value, list) else ([value], [])
        found.append(Named(name, types[name], shape, encoded(values, types[name], what)))
    return found


def inference(repository: Repository) -> list[web.AbstractRouteDef]:
    """Paths of the port for inference."""

    async def ping(request: web.Request) -> web.Response:
        if not repository.is_ready:
            return answered({"status": "Unhealthy"}, 500)
        return answered({"status": "Healthy"})

    def answering(explain: bool) -> Any:
        async def predict(request: web.Request) -> web.StreamResponse:
            model = repository.get(request.match_info["model"], request.match_info.get("version"))
            return await _predicted(model, request, explain)

        return predict

    found = [web.get("/ping", ping)]
    for path, explain in (("/predictions/{model}", False), ("/predictions/{model}/{version}", False),
                          ("/explanations/{model}", True), ("/explanations/{model}/{version}", True)):
        found += [web.post(path, answering(explain)), web.put(path, answering(explain)),
                  web.get(path, answering(explain), allow_head=False)]
    return found


# --- management -------------------------------------------------------------------------------------------------------


class Query:
    """The parameters of a request, each read once; those that nobody reads are refused."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = dict(said)

    def word(self, name: str, default: str | None = None) -> str | None:
        return self._said.pop(name, default)

    def number(self, name: str, default: int, low: int = 0, high: int = 1 << 20) -> int:
        text = self._said.pop(name, None)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
            raise Refusal(400, f"{name}: expected a number from {low} to {high}, got {text[:40]!r}")
        return int(text)

    def truth(self, name: str) -> bool:
        text = self._said.pop(name, "false").lower()
        if text not in ("true", "false"):
            raise Refusal(400, f"{name}: expected true or false, got {text[:40]!r}")
        return text == "true"

    def names(self) -> set[str]:
        return set(self._said)

    def done(self) -> None:
        if self._said:
            raise Refusal(400, f"the parameter {next(iter(self._said))[:60]!r} is not known here")


def _described(repository: Repository, model: Served) -> dict[str, Any]:
    settings = model.settings
    def since(seconds: float) -> str:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")

    workers = [{"id": str(9000 + w.number - 1), "status": w.state, "startTime": since(w.started),
                "memoryUsage": w.memory(), "pid": w.pid, "gpu": w.device != "cpu", "gpuUsage": "N/A"}
               for w in model.workers if w.has_begun]
    return {"modelName": model.name, "modelVersion": model.version, "modelUrl": model.url, "runtime": "python",
            "minWorkers": settings.min_workers, "maxWorkers": settings.max_workers, "batchSize": settings.batch_size,
            "maxBatchDelay": int(settings.max_batch_delay), "responseTimeout": int(settings.response_timeout),
            "loadedAtStartup": repository.was_at_start(model), "workers": workers,
            "jobQueueStatus": {"remainingCapacity": max(0, FULL_QUEUE - len(model.waiting)),
                               "pendingRequests": len(model.waiting)}}


class Management:
    """What may be asked of the models that are served. Each method gives a value and a status."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def list(self, query: Query) -> Answered:
        limit, start = query.number("limit", PAGE, 1), query.number("next_page_token", 0)
        query.done()
        every = [{"modelName": name, "modelUrl": self.repository.get(name).url} for name in self.repository.models]
        every += [{"modelName": name, "modelUrl": name} for name in self.repository.language]
        every.sort(key=lambda one: one["modelName"])
        found: dict[str, Any] = {"models": every[start : start + limit]}
        if start + limit < len(every):
            found["nextPageToken"] = str(start + limit)
        return found, 200

    async def register(self, query: Query) -> Answered:
        url, name, handler = query.word("url"), query.word("model_name"), query.word("handler")
        if not url:
            raise Refusal(400, "url: expected the name of a file in the model store, got none")
        runtime = query.word("runtime", "python")
        if runtime not in ("python", "PYTHON", "python3"):
            raise Refusal(400, f"runtime: expected python, got {str(runtime)[:40]!r}")
        chosen = {"batch_size", "max_batch_delay", "response_timeout"} & query.names()
        default = self.repository.settings
        count = query.number("initial_workers", 0, high=MOST_WORKERS)
        settings = Settings(
            query.number("batch_size", default.batch_size, 1), query.number("max_batch_delay", 100),
            query.number("response_timeout", 120, 1), count, max(1, count))
        query.number("startup_timeout", 120, 1)
        is_waited = query.truth("synchronous")
        query.done()
        if name is not None:
            check_name(name)
        path = await self.repository.file_of(url)
        model = await self.repository.add(
            path, name, url=url, settings=settings, workers=count if is_waited else 0, handler=handler,
            chosen=frozenset(chosen))
        if not is_waited and count:
            self._later(model, count, count)
            return {"status": "The workers are being started"}, 202
        return {"status": f'Model "{model.name}" of version {model.version} is registered, with {count} '
                          f'worker{"" if count == 1 else "s"}'}, 200

    def _later(self, model: Served, low: int, high: int) -> None:
        """Scale without anybody waiting."""

        async def work() -> None:
            try:
                await model.scale(low, high)
            except LoadError as error:
                LOG.warning("model %s cannot be loaded: %s", model.name, error)

        model.begin(work())

    def _named(self, name: str, version: str | None) -> Sequence[Served]:
        if version == "all":
            return list(self.repository.models.get(name, {}).values()) or [self.repository.get(name)]
        return [self.repository.get(name, version)]

    def describe(self, name: str, version: str | None, query: Query) -> Answered:
        if query.truth("customized"):
            raise Refusal(400, "customized: handlers are not asked for descriptions here")
        query.done()
        if name in self.repository.language:
            model = self.repository.language[name]
            workers = [{"pid": pid, "status": "READY" if model.is_ready else "LOADING"} for pid in model.processes()]
            return [{"modelName": name, "modelVersion": "1", "modelUrl": name, "workers": workers}], 200
        return [_described(self.repository, model) for model in self._named(name, version)], 200

    async def scale(self, name: str, version: str | None, query: Query) -> Answered:
        model = self.repository.get(name, version)
        low = query.number("min_worker", 1, high=MOST_WORKERS)
        high = query.number("max_worker", max(low, 1) if low else 0, high=MOST_WORKERS)
        is_waited = query.truth("synchronous")
        query.number("timeout", 0)
        query.done()
        if high < low:
            raise Refusal(400, f"max_worker: expected at least min_worker, {low}, got {high}")
        if not is_waited:
            self._later(model, low, high)
            return {"status": "The workers are being scaled"}, 202
        await model.scale(low, high)
        return {"status": f"Workers scaled to {low}"}, 200

    async def unregister(self, name: str, version: str | None) -> Answered:
        if name not in self.repository.language:
            chosen = self.repository.get(name, version)
            others = len(self.repository.models[name]) > 1
            if version is not None and others and self.repository.defaults[name] == chosen.version:
                raise Refusal(403, f"model {name!r} has other versions, of which {version} is the default. "
                                   "Choose another default first.")
        await self.repository.remove(name, version)
        return {"status": f'Model "{name}" is unregistered'}, 200

    def set_default(self, name: str, version: str) -> Answered:
        self.repository.set_default(name, version)
        return {"status": f'Version {version} of model "{name}" is its default'}, 200


async def _registration(request: web.Request) -> Query:
    """The parameters of a registration: in the address, or in the body."""
    said = dict(request.query)
    content = await body(request)
    if content and request.content_type == "application/json":
        more = parsed(content)
        if not isinstance(more, dict):
            raise Refusal(400, f"the body: expected an object, got {type(more).__name__}")
        said |= {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in more.items()}
    elif content and request.content_type == "application/x-www-form-urlencoded":
        said |= {k: v for k, v in (await request.post()).items() if isinstance(v, str)}
    return Query(said)


def management(repository: Repository) -> list[web.AbstractRouteDef]:
    """Paths of the port for management."""
    manager = Management(repository)

    def named(request: web.Request) -> tuple[str, str | None]:
        return request.match_info["model"], request.match_info.get("version")

    async def ping(request: web.Request) -> web.Response:
        return answered({"status": "Healthy" if repository.is_ready else "Unhealthy"})

    async def listed(request: web.Request) -> web.Response:
        return answered(*manager.list(Query(request.query)))

    async def register(request: web.Request) -> web.Response:
        return answered(*await manager.register(await _registration(request)))

    async def describe(request: web.Request) -> web.Response:
        return answered(*manager.describe(*named(request), Query(request.query)))

    async def scale(request: web.Request) -> web.Response:
        return answered(*await manager.scale(*named(request), Query(request.query)))

    async def unregister(request: web.Request) -> web.Response:
        return answered(*await manager.unregister(*named(request)))

    async def set_default(request: web.Request) -> web.Response:
        return answered(*manager.set_default(request.match_info["model"], request.match_info["version"]))

    found = [web.get("/models", listed), web.post("/models", register), web.get("/ping", ping),
             web.put("/models/{model}/{version}/set-default", set_default)]
    for path in ("/models/{model}", "/models/{model}/{version}"):
        found += [web.get(path, describe), web.put(path, scale), web.delete(path, unregister)]
    return found


def metrics(counted: Metrics) -> list[web.AbstractRouteDef]:
    """What Prometheus reads."""

    async def text(request: web.Request) -> web.Response:
        return web.Response(body=counted.text(), headers={"Content-Type": counted.content_type})

    return [web.get("/metrics", text)]
