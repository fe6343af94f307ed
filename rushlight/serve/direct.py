"""Requests for inference in KServe's protocol, answered where they arrive.

Most of what a server of small models does is HTTP. A request of the usual form that comes over a connection that waits
needs neither a task nor a parser of every form: it is read here, its job goes to the model's queue, and the answer is
written when the worker's comes.
Enters: the bytes of a connection. Leaves: answers; every other request, byte for byte, goes to aiohttp, as do those
that a key or a limit will refuse, and a connection is taken back when aiohttp is done with whole requests.
Refuses: what `bodies.py` and `inference.py` refuse; bodies that do not come in time (408).
"""

from __future__ import annotations

import asyncio
import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp.http import SERVER_SOFTWARE

from .bodies import HEAD_LENGTH, Asked, written
from .http import LOG, SLOWEST_BODY, SLOWEST_HEAD, Connections, Keys
from .inference import Named, begun, chosen
from .refusals import Refusal, written as refused
from .repository import Repository
from .served import Job, Served

_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_HEAD = re.compile(rb"([A-Z]{1,20}) (/[!-~]{0,2000}) HTTP/1\.1\r\n"
                   rb"((?:" + _TOKEN + rb":[\t -~\x80-\xff]*\r\n){1,60})\r\n")
_INFER = re.compile(rb"/v2/models/([\w.\-]+)(?:/versions/([\w.\-]+))?/infer")
_LARGEST_HEAD = 8000      # beyond it aiohttp says what is too large
_LARGEST_BEHIND = 1 << 16
_READ = (b"content-length", b"authorization", b"connection", HEAD_LENGTH.lower().encode())
_ELSEWHERE = (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"trailer", b"te")


class Head(NamedTuple):
    """The first lines of a request of the usual form, `size` bytes, before a body of `length`."""

    size: int
    length: int
    path: bytes
    authorization: str | None
    json_length: str | None
    model: str | None         # what is asked for inference, and its version
    version: str | None


def head_of(data: bytes) -> Head | None:
    """The head that the data begin with; None where it is not whole, not of the usual form, or a body's length is not
    known from it."""
    found = _HEAD.match(data)
    if found is None or found.end() > _LARGEST_HEAD or found[1] == b"CONNECT":
        return None
    values: dict[bytes, bytes] = {}
    for line in found[3].split(b"\r\n"):
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in _ELSEWHERE or name in values:
            return None
        if name in _READ:
            values[name] = value.strip(b" \t")
    length = values.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > 15 or values.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    key, json_length = values.get(b"authorization"), values.get(_READ[-1])
    path = _INFER.fullmatch(found[2]) if found[1] == b"POST" else None
    model, version = path.groups() if path is not None else (None, None)
    return Head(found.end(), int(length), found[2], None if key is None else key.decode("utf-8", "surrogateescape"),
                None if json_length is None else json_length.decode("latin-1"),
                None if model is None else model.decode(), None if version is None else version.decode())


class Inference:
    """Which requests are answered here: inference by a program that is loaded, with its key, within the limits."""

    def __init__(self, repository: Repository, keys: Keys | None, largest: int) -> None:
        self._repository, self._keys, self._largest = repository, keys, largest

    def model_of(self, head: Head) -> Served | None:
        """The model that a request is for; None for those that aiohttp is to answer."""
        name = head.model
        if name is None or head.length > self._largest:
            return None
        if self._keys is not None and not self._keys.allow(head.authorization, "inference"):
            return None
        versions = self._repository.models.get(name)
        if versions is None:
            return None
        found = versions.get(self._repository.defaults[name] if head.version is None else head.version)
        return found if found is not None and found.description is not None and not found.is_handled else None


class Exchange:
    """A request that runs: what a model's queue tells the result."""

    __slots__ = ("_asked", "_connection", "_job", "_model", "_path")

    def __init__(self, connection: DirectConnections, model: Served, path: bytes) -> None:
        self._connection: DirectConnections | None = connection
        self._model, self._path = model, path
        self._job: Job | None = None

    def begin(self, content: bytes, json_length: str | None) -> None:
        """Ask the model; what is wrong with the request is its answer."""
        try:
            self._asked = Asked(content, json_length)
            self._job = begun(self._model, self._asked.inputs, list(self._asked.outputs), self)
            self._model.enqueue(self._job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            if not self.done():
                self.set_exception(error)

    def done(self) -> bool:
        return self._connection is None

    def set_result(self, outputs: list[Named]) -> None:
        try:
            outputs = chosen(outputs, self._asked.outputs)
            content, headers = written(self._model.name, self._model.version, self._asked, outputs)
        except Exception as error:  # noqa: BLE001 - what calls this has other requests to answer too
            return self.set_exception(error)
        self._answer(200, headers, content)

    def set_exception(self, error: BaseException) -> None:
        if not isinstance(error, Refusal):
            LOG.error("POST %s failed", self._path.decode(), exc_info=error)
            error = Refusal(500, "the server failed at this request; its log says why")
        self._answer(error.status, {"Content-Type": "application/json"}, refused(error, self._path.decode()))

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.answer(status, headers, content)

    def leave(self) -> None:
        """The client has gone."""
        self._connection = None
        if self._job is not None:
            self._model.forget(self._job)


class DirectConnections(Connections):
    """A connection whose requests for inference are answered here."""

    def __init__(self, inference: Inference, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inference = inference
        self._is_elsewhere = False              # aiohttp may be within a request
        self._last: Head | None = None
        self._last_bytes = b""
        self._exchange: Exchange | None = None
        self._expected: tuple[Head, Served] | None = None       # a body that is on its way
        self._pieces: list[bytes] = []
        self._missing = 0
        self._behind = bytearray()              # what came before the answer was written
        self._is_cut = False                    # that ends within a head
        self._is_slow = False                   # the client reads less than it asks for
        self._late: asyncio.TimerHandle | None = None

    # --- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_elsewhere or self._force_close or self._close:
            super().data_received(data)
        elif self._is_cut:
            self._is_cut = False
            self._forget_body()
            whole, self._behind = bytes(self._behind) + data, bytearray()
            self._take(whole)
        elif self._exchange is not None or self._is_slow or self._behind:
            self._behind += data
            if len(self._behind) > _LARGEST_BEHIND and self.transport is not None:
                self.transport.pause_reading()
        elif self._expected is not None:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing <= 0:
                self._complete()
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """A request's first bytes. Clients send the same head again and again."""
        if self._last is not None and data.startswith(self._last_bytes):
            head: Head | None = self._last
        else:
            head = self._last = head_of(data)
            self._last_bytes = data[: head.size] if head is not None else b""
        model = self._inference.model_of(head) if head is not None and self._is_waiting() else None
        if head is None or model is None:
            self._is_elsewhere = head is None or len(data) != head.size + head.length
            return super().data_received(data)
        self._request_count += 1
        missing = head.size + head.length - len(data)
        if missing > 0:
            self._expected, self._pieces, self._missing = (head, model), [data], missing
            self._late = asyncio.get_running_loop().call_later(SLOWEST_BODY, self._give_up)
            return
        self._begin(head, model, data)

    def _is_waiting(self) -> bool:
        """Whether aiohttp has answered all that it was given."""
        waiter = getattr(self, "_waiter", None)
        return waiter is not None and not waiter.done() and not self._messages

    def _complete(self) -> None:
        assert self._expected is not None
        (head, model), data = self._expected, b"".join(self._pieces)
        self._forget_body()
        self._begin(head, model, data)

    def _begin(self, head: Head, model: Served, data: bytes) -> None:
        end = head.size + head.length
        if len(data) > end:
            self._behind += data[end:]
        self._exchange = Exchange(self, model, head.path)
        self._exchange.begin(data[head.size : end], head.json_length)

    def _forget_body(self) -> None:
        self._expected, self._pieces = None, []
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        """A body did not come."""
        assert self._expected is not None
        why = Refusal(408, f"the body did not come within {SLOWEST_BODY:g} seconds")
        content = refused(why, self._expected[0].path.decode())
        self._forget_body()
        self.answer(408, {"Content-Type": "application/json", "Connection": "close"}, content)
        self.force_close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Write an answer, and go on with what the client sent meanwhile."""
        self._exchange = None
        if self.transport is None:
            return
        loop = asyncio.get_running_loop()
        phrase = "OK" if status == 200 else HTTPStatus(status).phrase
        said = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = (f"HTTP/1.1 {status} {phrase}\r\n{said}Content-Length: {len(content)}\r\n"
                f"Date: {_date()}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n")
        self.transport.write(head.encode() + content)
        self._next_keepalive_close_time = loop.time() + self.keepalive_timeout
        if self._behind:
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """The next request of those that came while one ran."""
        if self._exchange is None and not self._is_slow and self._behind and self.transport is not None:
            if self._is_elsewhere or len(self._behind) > _LARGEST_HEAD or b"\r\n\r\n" in self._behind:
                data, self._behind = bytes(self._behind), bytearray()
                self.data_received(data)
            elif not self._is_cut:
                self._is_cut = True
                self._late = asyncio.get_running_loop().call_later(SLOWEST_HEAD, self.force_close)
            if len(self._behind) <= _LARGEST_BEHIND and self.transport is not None:
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_slow = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_slow = False
        self._go_on()

    # --- its end ------------------------------------------------------------------------------------------------------

    def _process_keepalive(self) -> None:
        if self._exchange is not None or self._expected is not None:
            self._next_keepalive_close_time = asyncio.get_running_loop().time() + self.keepalive_timeout
        super()._process_keepalive()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_body()
        if self._exchange is not None:
            self._exchange.leave()
            self._exchange = None
        super().connection_lost(exc)


_said = (0, "")


def _date() -> str:
    """Now, as HTTP writes it."""
    global _said
    now = int(time.time())
    if now != _said[0]:
        _said = (now, formatdate(now, usegmt=True))
    return _said[1]
