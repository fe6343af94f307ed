"""HTTP around all protocols: who may ask, how much may be sent, and that every answer can be read by its asker.

Enters: routes, keys, limits. Leaves: an aiohttp application per port. Refuses: requests without the key (401), bodies
that are too large (413, before they are read) or too slow (408), and all that goes wrong in the protocol's words.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import HttpVersion11, web

from .bodies import parsed as parsed
from .refusals import LoadError, Refusal, written

LOG = logging.getLogger("rushlight.serve")
SLOWEST_BODY = 60.0       # seconds until a body must have come
SLOWEST_HEAD = 30.0       # and the first lines of a connection
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Keys:
    """Who may ask what: a key for inference, one for management. Either reads metrics."""

    def __init__(self, inference: str, management: str) -> None:
        self._inference, self._management = inference.encode(), management.encode()

    @classmethod
    def read(cls, path: Path) -> Keys:
        """From a file as the operator wrote it; LoadError where it cannot be read, without what it says."""
        try:
            said = json.loads(path.read_text())
            found = {section: said[section]["key"] for section in ("inference", "management")}
        except (OSError, ValueError, KeyError, TypeError):
            found = {}
        if not found or not all(isinstance(k, str) and k for k in found.values()):
            raise LoadError(f"--keys: {path} is no file of keys. Expected JSON: "
                            '{"management": {"key": "…"}, "inference": {"key": "…"}}')
        return cls(found["inference"], found["management"])

    def allow(self, authorization: str | None, realm: str) -> bool:
        """Whether a header opens a realm: "inference", "management", or "metrics". Takes as long for any key."""
        kind, _, given = (authorization or "").partition(" ")
        if kind.lower() != "bearer":
            return False
        offered = given.strip().encode("utf-8", "surrogateescape")
        is_inference = hmac.compare_digest(offered, self._inference)
        is_management = hmac.compare_digest(offered, self._management)
        return {"inference": is_inference, "management": is_management}.get(realm, is_inference or is_management)


def realm_of(path: str) -> str:
    """What a path belongs to, whatever port it came by."""
    if path == "/metrics" or path == "/v2/repository/index":
        return "metrics"
    if path == "/models" or path.startswith(("/models/", "/v2/repository/")):
        return "management"
    return "inference"


UNAUTHORIZED = "expected the header 'Authorization: Bearer KEY' with a key of this server"


def guard(keys: Keys | None, largest: int) -> Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]:
    """The middleware around every handler."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if keys is not None and not keys.allow(request.headers.get("Authorization"), realm_of(request.path)):
                raise Refusal(401, UNAUTHORIZED)
            if (request.content_length or 0) > largest:
                raise too_large(largest)
            return await handler(request)
        except Exception as error:
            return answer_to(error, request, largest)

    return guarded


def too_large(largest: int) -> Refusal:
    return Refusal(413, f"the body is larger than {largest} bytes, which --max-request-size allows",
                   "RequestEntityTooLargeException")


def answer_to(error: Exception, request: web.BaseRequest, largest: int) -> web.Response:
    """An error as the asker can read it."""
    headers: Mapping[str, str] = {}
    if isinstance(error, Refusal):
        refusal = error
    elif isinstance(error, LoadError):
        refusal = Refusal(400, str(error), "InvalidModelException")
    elif isinstance(error, web.HTTPRequestEntityTooLarge):
        refusal = too_large(largest)
    elif isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        refusal = Refusal(405, f"{request.path}: expected {allowed}, got {request.method}")
        headers = {"Allow": allowed}
    elif isinstance(error, web.HTTPException):
        message = f"nothing answers at {request.path[:200]}" if error.status == 404 else error.reason
        refusal = Refusal(error.status, message)
    elif isinstance(error, (ConnectionError, web.RequestPayloadError)):
        refusal = Refusal(400, "the body was cut off")
    else:
        LOG.error("%s %s failed", request.method, request.path, exc_info=error)
        refusal = Refusal(500, "the server failed at this request; its log says why")
    if refusal.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    answer = web.Response(body=written(refusal, request.path), status=refusal.status, headers=headers,
                          content_type="application/json")
    if refusal.status in (408, 413):
        answer.force_close()
    return answer


async def body(request: web.Request) -> bytes:
    """All of a body, if it comes in time and is whole."""
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            return await request.read()
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {SLOWEST_BODY:g} seconds") from None
    except web.RequestPayloadError as error:
        raise Refusal(400, f"the body was cut off or is not encoded as it says: {error}") from None


def while_needed(request: web.Request) -> contextlib.AbstractContextManager[None]:
    """Cancels what is done here when the client goes."""
    return request.protocol.needed() if isinstance(request.protocol, Connections) else contextlib.nullcontext()


def open_headers(request: web.Request) -> dict[str, str]:
    """The headers that a model may see."""
    return {name: value for name, value in request.headers.items() if name.lower() != "authorization"}


class Connections(web.RequestHandler):
    """A connection: what is no HTTP gets JSON too, and who sends no request is not waited for."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._asking: set[asyncio.Task] = set()
        self._patience = asyncio.get_running_loop().call_later(SLOWEST_HEAD, self._lose_patience)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._patience.cancel()
        for task in self._asking:
            task.cancel()
        super().connection_lost(exc)

    @contextlib.contextmanager
    def needed(self) -> Iterator[None]:
        """What the current task does here is of no use once the client has gone."""
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            yield
        finally:
            self._asking.discard(task)

    def _lose_patience(self) -> None:
        if not self._request_count and self.transport is not None:
            self.transport.close()

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """What a client sent wrong was told to it; it is nothing for the log."""
        if not isinstance(kwargs.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kwargs)

    def handle_error(self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None,
                     message: str | None = None) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        LOG.debug("a request that is no HTTP", exc_info=exc)
        line = (message or "").strip().splitlines()
        said = f"the request is no HTTP that can be read{f': {line[0][:120]}' if line else ''}"
        refusal = Refusal(status, said if status < 500 else "the server failed at this request; its log says why")
        answer = web.Response(body=written(refusal, request.path), status=status, content_type="application/json")
        answer.force_close()
        return answer


def _expecting(route: web.AbstractRouteDef, keys: Keys | None, largest: int) -> web.AbstractRouteDef:
    """The route, where a client that asks before it sends its body is told what becomes of it."""
    check = guard(keys, largest)

    async def proceed(request: web.Request) -> web.StreamResponse:
        if request.headers["Expect"].lower() != "100-continue":
            raise Refusal(417, "expected 100-continue as Expect")
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0      # what follows is the answer's first
        return web.Response()

    async def asked(request: web.Request) -> web.StreamResponse | None:
        if request.version < HttpVersion11:
            return None
        told = await check(request, proceed)
        return told if told.status != 200 else None

    assert isinstance(route, web.RouteDef)
    return web.RouteDef(route.method, route.path, route.handler, {**route.kwargs, "expect_handler": asked})


class Port:
    """Routes at an address."""

    def __init__(self, routes: Iterable[web.AbstractRouteDef], keys: Keys | None, largest: int,
                 connections: Callable[..., Connections] = Connections) -> None:
        self._connections = connections
        self.app = web.Application(middlewares=[guard(keys, largest)], client_max_size=largest)
        self.app.add_routes([_expecting(route, keys, largest) for route in routes])
        self._runner = web.AppRunner(self.app, access_log=None)
        self.number = 0

    async def open(self, host: str, port: int, secure: ssl.SSLContext | None = None) -> None:
        """Listen, with TLS where there is a context; OSError where that is not possible."""
        await self._runner.setup()
        server, loop = self._runner.server, asyncio.get_running_loop()
        assert server is not None
        self._listening = await loop.create_server(
            lambda: self._connections(server, loop=loop, access_log=None, keepalive_timeout=75.0, lingering_time=3.0,
                                logger=LOG),
            host, port, backlog=1024, ssl=secure, ssl_handshake_timeout=SLOWEST_HEAD if secure else None)
        self.number = self._listening.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        self._listening.close()

    async def close(self) -> None:
        """End connections; what runs has been finished."""
        await self._runner.cleanup()


def answered(value: Any, status: int = 200) -> web.Response:
    """A value as JSON."""
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")
