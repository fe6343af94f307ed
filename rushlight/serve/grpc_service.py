"""gRPC: KServe's service `inference.GRPCInferenceService`, and TorchServe's two beside it (torchserve_grpc.py).

Enters: calls with messages of `messages.py`; tensors raw or typed. Leaves: answers, tensors raw. Refuses: what HTTP
refuses, by gRPC's codes: NOT_FOUND, INVALID_ARGUMENT, UNAUTHENTICATED, UNAVAILABLE; and methods it has not
(UNIMPLEMENTED), such as those for memory shared with a client.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from . import kserve, messages as m, torchserve_grpc
from .bodies import NOT_DONE
from .datatypes import BYTES, NUMBERS, encoded, joined
from .http import LOG, Keys
from .inference import Named, shape_of
from .refusals import LoadError, Refusal
from .repository import Repository, check_name
from .served import Served
from .tensor_rows import outputs_of, parts_of

MOST_STREAMED = 64      # requests of one stream that run beside each other
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

    async def open(self, host: str, port: int, certificate: tuple[Any, bytes, bytes] | None = None) -> None:
        """Listen; LoadError where that is not possible."""
        self._server = grpc.aio.server(options=[
            ("grpc.max_receive_message_length", self._largest), ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0)])
        unary: torchserve_grpc.Methods = {
            "ServerLive": (m.NOTHING, m.LIVE, self._live), "ServerReady": (m.NOTHING, m.READY, self._ready),
            "ServerMetadata": (m.NOTHING, m.SERVER, self._about), "ModelReady": (m.MODEL, m.READY, self._model_ready),
            "ModelMetadata": (m.MODEL, m.METADATA, self._metadata), "ModelInfer": (m.INFER, m.INFERRED, self._infer),
            "ModelConfig": (m.MODEL, m.CONFIGURATION, self._configuration),
            "ModelStatistics": (m.MODEL, m.STATISTICS, self._statistics),
            "RepositoryIndex": (m.INDEX_ASKED, m.INDEX, self._index),
            "RepositoryModelLoad": (m.LOAD, m.NOTHING, self._load),
            "RepositoryModelUnload": (m.LOAD, m.NOTHING, self._unload)}
        handlers = {name: grpc.unary_unary_rpc_method_handler(
            self._answering(name, REALMS.get(name, "inference"), *parts)) for name, parts in unary.items()}
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        for service, realm, methods in torchserve_grpc.services(self.repository):
            added = {name: grpc.unary_unary_rpc_method_handler(self._answering(name, realm, *parts))
                     for name, parts in methods.items()}
            if service == torchserve_grpc.INFERENCE:
                answers = functools.partial(torchserve_grpc.predictions, self.repository)
                added["StreamPredictions"] = grpc.unary_stream_rpc_method_handler(
                    self._streaming("StreamPredictions", realm, m.PREDICT, m.PREDICTED, answers))
                added["StreamPredictions2"] = grpc.stream_stream_rpc_method_handler(self._conversation)
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, added),))
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            # gRPC writes of a port that is taken to standard error, in words of its own: ask before.
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
            if certificate is None:
                self.number = self._server.add_insecure_port(address)
            else:
                credentials = grpc.ssl_server_credentials([certificate[1:]])
                self.number = self._server.add_secure_port(address, credentials)
        except (OSError, RuntimeError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is taken"
            raise LoadError(f"port {port} of {host} cannot be listened at: {why}") from None
        await self._server.start()

    async def close(self, patience: float) -> None:
        await self._server.stop(patience)

    # --- around every call --------------------------------------------------------------------------------------------

    def _check_key(self, context: Any, realm: str) -> None:
        if self.keys is None:
            return
        offered = dict(context.invocation_metadata() or ()).get("authorization")
        if not self.keys.allow(offered if isinstance(offered, str) else None, realm):
            raise Refusal(401, "expected the metadata 'authorization: Bearer KEY' with a key of this server")

    def _answering(self, name: str, realm: str, asked: m.Message, given: m.Message,
                   answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> Callable:
        async def handle(content: bytes, context: Any) -> bytes:
            try:
                self._check_key(context, realm)
                return given.written(await answer(_read(asked, content)))
            except Exception as error:
                refusal = _refusal(name, error)
                await context.abort(CODES.get(refusal.status, grpc.StatusCode.INTERNAL), refusal.message)
                raise AssertionError("abort raises") from error

        return handle

    async def _stream(self, contents: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Requests that run beside each other and are answered in order; one that fails does not end the stream."""
        try:
            self._check_key(context, "inference")
        except Refusal as refused:
            await context.abort(CODES[401], refused.message)
        begun: asyncio.Queue[tuple[asyncio.Task, asyncio.Queue] | None] = asyncio.Queue()
        room = asyncio.Semaphore(MOST_STREAMED)
        tasks: set[asyncio.Task] = set()

        async def read() -> None:
            try:
                async for content in contents:
                    await room.acquire()
                    found: asyncio.Queue[bytes | None] = asyncio.Queue()
                    task = asyncio.ensure_future(self._answer_streamed(content, found))
                    tasks.add(task)
                    begun.put_nowait((task, found))
            finally:
                begun.put_nowait(None)

        reading = asyncio.ensure_future(read())
        try:
            while (one := await begun.get()) is not None:
                task, found = one
                while (answer := await found.get()) is not None:
                    yield answer
                tasks.discard(task)
                room.release()
        finally:
            for task in (reading, *tasks):
                task.cancel()
            await asyncio.gather(reading, *tasks, return_exceptions=True)

    async def _answer_streamed(self, content: bytes, found: asyncio.Queue[bytes | None]) -> None:
        """What answers one request of a stream; None behind it."""
        name = ""
        try:
            said = _read(m.INFER, content)
            name = said["id"]
            model, given, names = self._asked(said)
            async for is_last, outputs in parts_of(model, given, names):
                final = {"key": "triton_final_response", "value": {"bool_param": is_last}}
                answer = {**_inferred(model, name, outputs), "parameters": [final]}
                found.put_nowait(m.STREAMED.written({"infer_response": answer}))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            message = _refusal("ModelStreamInfer", error).message
            found.put_nowait(m.STREAMED.written({"error_message": message, "infer_response": {"id": name}}))
        finally:
            found.put_nowait(None)

    def _streaming(self, name: str, realm: str, asked: m.Message, given: m.Message,
                   answers: Callable[[dict[str, Any]], AsyncIterator[dict[str, Any]]]) -> Callable:
        async def handle(content: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                self._check_key(context, realm)
                async for answer in answers(_read(asked, content)):
                    yield given.written(answer)
            except Exception as error:
                refusal = _refusal(name, error)
                await context.abort(CODES.get(refusal.status, grpc.StatusCode.INTERNAL), refusal.message)

        return handle

    async def _conversation(self, contents: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Requests of sequences, whose worker remembers those before; one that fails does not end the stream."""
        try:
            self._check_key(context, "inference")
        except Refusal as refused:
            await context.abort(CODES[401], refused.message)

        async def asked() -> AsyncIterator[dict[str, Any] | Exception]:
            async for content in contents:
                try:
                    yield _read(m.PREDICT, content)
                except Refusal as refused:
                    yield refused

        def told(error: Exception) -> dict[str, Any]:
            refusal = _refusal("StreamPredictions2", error)
            code = CODES.get(refusal.status, grpc.StatusCode.INTERNAL)
            return {"code": code.value[0], "message": refusal.message}

        async for answer in torchserve_grpc.Conversation(self.repository, told).run(asked()):
            yield m.PREDICTED.written(answer)

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

    def _asked(self, said: dict[str, Any]) -> tuple[Served, list[Named], list[str]]:
        """The model that a request is for, its inputs, and the names of the outputs."""
        model = self.repository.get(said["model_name"], said["model_version"] or None)
        _refuse_parameters(said["parameters"], "the request")
        raw = said["raw_input_contents"] or None
        if raw is not None and len(raw) != len(said["inputs"]):
            raise Refusal(400, f"raw_input_contents: expected one for each of the {len(said['inputs'])} inputs, "
                               f"got {len(raw)}")
        given = [_given(one, raw, at) for at, one in enumerate(said["inputs"])]
        for one in said["outputs"]:
            _refuse_parameters(one["parameters"], f"output {one['name']!r}")
        return model, given, [one["name"] for one in said["outputs"]]

    async def _infer(self, said: dict[str, Any]) -> dict[str, Any]:
        model, given, names = self._asked(said)
        return _inferred(model, said["id"], await outputs_of(model, given, names))


def _inferred(model: Served, name: str, outputs: list[Named]) -> dict[str, Any]:
    """The answer to a request of this id."""
    return {"model_name": model.name, "model_version": model.version, "id": name,
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
