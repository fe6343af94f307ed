"""KServe's protocol for inference over gRPC: the service `inference.GRPCInferenceService`.

Enters: calls with messages of `messages.py`; tensors raw or typed. Leaves: answers, tensors raw. Refuses: what HTTP
refuses, by gRPC's codes: NOT_FOUND, INVALID_ARGUMENT, UNAUTHENTICATED, UNAVAILABLE; and methods it has not
(UNIMPLEMENTED), such as those for memory shared with a client.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from . import kserve, messages as m
from .bodies import NOT_DONE
from .datatypes import BYTES, NUMBERS, encoded, joined
from .http import LOG, Keys
from .inference import Named, infer, shape_of
from .refusals import LoadError, Refusal
from .repository import Repository, check_name

SERVICE = "inference.GRPCInferenceService"
CODES = {400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED,
         403: grpc.StatusCode.PERMISSION_DENIED, 404: grpc.StatusCode.NOT_FOUND, 408: grpc.StatusCode.DEADLINE_EXCEEDED,
         409: grpc.StatusCode.ALREADY_EXISTS, 413: grpc.StatusCode.RESOURCE_EXHAUSTED,
         503: grpc.StatusCode.UNAVAILABLE}
REALMS = {"RepositoryModelLoad": "management", "RepositoryModelUnload": "management", "RepositoryIndex": "metrics"}
# In which typed list the elements of a type come.
TYPED = {"BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
         "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
         "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", BYTES: "bytes_contents"}


def _given(said: dict[str, Any], raw: list[memoryview] | None, at: int) -> Named:
    """An input of a request."""
    name, datatype, what = said["name"], said["datatype"], f"input {said['name']!r}"
    shape = shape_of(said["shape"], what)
    _refuse_parameters(said["parameters"], what)
    typed = {k: v for k, v in (said["contents"] or {}).items() if v}
    if raw is not None:
        if typed:
            raise Refusal(400, f"{what}: expected its elements raw, as those of the others, got {', '.join(typed)} too")
        return Named(name, datatype, shape, raw[at])
    if datatype not in TYPED:
        known = ", ".join(NUMBERS)
        raise Refusal(400, f"{what}: elements of {datatype} come raw" if datatype in NUMBERS else
                      f"{what}: expected a datatype among {known} and {BYTES}, got {datatype[:60]!r}")
    if set(typed) - {TYPED[datatype]}:
        raise Refusal(400, f"{what}: expected elements of {datatype} in {TYPED[datatype]}, got {', '.join(typed)}")
    values = typed.get(TYPED[datatype], [])
    data = joined([bytes(v) for v in values]) if datatype == BYTES else encoded(values, datatype, what)
    return Named(name, datatype, shape, data)


def _refuse_parameters(entries: list[dict[str, Any]], what: str) -> None:
    for entry in entries:
        value = next((v for v in (entry["value"] or {}).values() if v is not None), None)
        if entry["key"] in NOT_DONE and value not in (None, 0, False, ""):
            raise Refusal(400, f"{what}: the parameter {entry['key']!r} is not supported here")


class Service:
    """The service at a port."""

    def __init__(self, repository: Repository, keys: Keys | None, largest: int) -> None:
        self.repository, self.keys, self.number = repository, keys, 0
        self._largest = largest

    async def open(self, host: str, port: int) -> None:
        """Listen; LoadError where that is not possible."""
        self._server = grpc.aio.server(options=[
            ("grpc.max_receive_message_length", self._largest), ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0)])
        unary: dict[str, tuple[m.Message, m.Message, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]]] = {
            "ServerLive": (m.NOTHING, m.LIVE, self._live), "ServerReady": (m.NOTHING, m.READY, self._ready),
            "ServerMetadata": (m.NOTHING, m.SERVER, self._about), "ModelReady": (m.MODEL, m.READY, self._model_ready),
            "ModelMetadata": (m.MODEL, m.METADATA, self._metadata), "ModelInfer": (m.INFER, m.INFERRED, self._infer),
            "ModelConfig": (m.MODEL, m.CONFIGURATION, self._configuration),
            "ModelStatistics": (m.MODEL, m.STATISTICS, self._statistics),
            "RepositoryIndex": (m.INDEX_ASKED, m.INDEX, self._index),
            "RepositoryModelLoad": (m.LOAD, m.NOTHING, self._load),
            "RepositoryModelUnload": (m.LOAD, m.NOTHING, self._unload)}
        handlers = {name: grpc.unary_unary_rpc_method_handler(self._answering(name, *parts))
                    for name, parts in unary.items()}
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            # gRPC writes of a port that is taken to standard error, in words of its own: ask before.
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
            self.number = self._server.add_insecure_port(address)
        except (OSError, RuntimeError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is taken"
            raise LoadError(f"port {port} of {host} cannot be listened at: {why}") from None
        await self._server.start()

    async def close(self, patience: float) -> None:
        await self._server.stop(patience)

    # --- around every call --------------------------------------------------------------------------------------------

    def _check_key(self, context: Any, name: str) -> None:
        if self.keys is None:
            return
        offered = dict(context.invocation_metadata() or ()).get("authorization")
        if not self.keys.allow(offered if isinstance(offered, str) else None, REALMS.get(name, "inference")):
            raise Refusal(401, "expected the metadata 'authorization: Bearer KEY' with a key of this server")

    def _answering(self, name: str, asked: m.Message, given: m.Message,
                   answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> Callable:
        async def handle(content: bytes, context: Any) -> bytes:
            try:
                self._check_key(context, name)
                return given.written(await answer(_read(asked, content)))
            except Exception as error:
                refusal = _refusal(name, error)
                await context.abort(CODES.get(refusal.status, grpc.StatusCode.INTERNAL), refusal.message)
                raise AssertionError("abort raises") from error

        return handle

    async def _stream(self, contents: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Requests one after the other; one that fails does not end the stream."""
        try:
            self._check_key(context, "ModelStreamInfer")
        except Refusal as refused:
            await context.abort(CODES[401], refused.message)
        async for content in contents:
            try:
                yield m.STREAMED.written({"infer_response": await self._infer(_read(m.INFER, content))})
            except Exception as error:
                yield m.STREAMED.written({"error_message": _refusal("ModelStreamInfer", error).message})

    # --- the methods --------------------------------------------------------------------------------------------------

    async def _live(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"live": True}

    async def _ready(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"ready": self.repository.is_ready}

    async def _about(self, said: dict[str, Any]) -> dict[str, Any]:
        return kserve.server_metadata()

    async def _model_ready(self, said: dict[str, Any]) -> dict[str, Any]:
        found = self.repository.language.get(said["name"]) or self._named(said)
        return {"ready": found.is_ready}

    def _named(self, said: dict[str, Any]) -> Any:
        return self.repository.get(said["name"], said["version"] or None)

    async def _metadata(self, said: dict[str, Any]) -> dict[str, Any]:
        return kserve.metadata(self.repository, self._named(said))

    async def _configuration(self, said: dict[str, Any]) -> dict[str, Any]:
        found = kserve.configuration(self._named(said))
        for entry in (*found["input"], *found["output"]):
            entry["data_type"] = m.TYPES.index(entry["data_type"].removeprefix("TYPE_"))
        return {"config": found}

    async def _statistics(self, said: dict[str, Any]) -> dict[str, Any]:
        models = [self._named(said)] if said["name"] else self.repository.all()
        return {"model_stats": [kserve.statistics(model) for model in models]}

    async def _index(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"models": [one for one in self.repository.index() if not said["ready"] or one["state"] == "READY"]}

    async def _load(self, said: dict[str, Any]) -> dict[str, Any]:
        if said["parameters"]:
            names = ", ".join(sorted(entry["key"] for entry in said["parameters"]))
            raise Refusal(400, f"load: expected no parameters, got {names[:100]}")
        await self.repository.load(check_name(said["model_name"]))
        return {}

    async def _unload(self, said: dict[str, Any]) -> dict[str, Any]:
        await self.repository.unload(check_name(said["model_name"]))
        return {}

    async def _infer(self, said: dict[str, Any]) -> dict[str, Any]:
        model = self.repository.get(said["model_name"], said["model_version"] or None)
        _refuse_parameters(said["parameters"], "the request")
        raw = said["raw_input_contents"] or None
        if raw is not None and len(raw) != len(said["inputs"]):
            raise Refusal(400, f"raw_input_contents: expected one for each of the {len(said['inputs'])} inputs, "
                               f"got {len(raw)}")
        given = [_given(one, raw, at) for at, one in enumerate(said["inputs"])]
        for one in said["outputs"]:
            _refuse_parameters(one["parameters"], f"output {one['name']!r}")
        outputs = await infer(model, given, [one["name"] for one in said["outputs"]])
        return {"model_name": model.name, "model_version": model.version, "id": said["id"],
                "outputs": [{"name": o.name, "datatype": o.datatype, "shape": o.shape} for o in outputs],
                "raw_output_contents": [o.data for o in outputs]}


def _read(kind: m.Message, content: bytes) -> dict[str, Any]:
    try:
        return kind.read(content)
    except ValueError as error:
        raise Refusal(400, f"the message cannot be read: {error}") from None


def _refusal(name: str, error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, LoadError):
        return Refusal(400, str(error))
    LOG.error("%s failed", name, exc_info=error)
    return Refusal(500, "the server failed at this call; its log says why")
