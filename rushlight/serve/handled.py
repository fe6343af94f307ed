"""Requests to models that have a handler of their own, and what it gave.

Enters: a request's body, form or query, as rows that a handler reads. Leaves: an answer: dicts and lists as JSON, words
as text, bytes as they are, with the type and status that the handler chose. Refuses: forms that cannot be read, and
handlers that give another number of answers than there were rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aiohttp import BodyPartReader, web

from .http import SLOWEST_BODY, body, open_headers, while_needed
from .refusals import Refusal
from .served import Job, Served

Piece = tuple[str, str, bytes]      # a name, a type of content, and the content
SEQUENCE, START, END = "ts_request_sequence_id", "ts_request_sequence_start", "ts_request_sequence_end"
Answer = tuple[int, dict[str, str], bytes]      # status, headers, content


async def predicted(model: Served, request: web.Request, explain: bool) -> web.StreamResponse:
    """What the handler gives for one request."""
    pieces = [(name, "", value.encode()) for name, value in request.query.items()]
    kind = request.content_type
    if kind == "multipart/form-data":
        pieces += await _form(request)
    elif kind == "application/x-www-form-urlencoded":
        content = await body(request)
        if b"=" not in content or content[:1] in b"{[":      # clients that call anything a form by default
            pieces.append(("body", "", content))
        else:
            pieces += [(n, "", v.encode()) for n, v in (await request.post()).items() if isinstance(v, str)]
    else:
        named_kind = kind if "Content-Type" in request.headers else ""
        content = await body(request)
        if content or not pieces:
            pieces.append(("body", named_kind, content))
    with while_needed(request):
        return await _as_it_comes(request, answers_to(model, pieces, open_headers(request), explain))


async def _as_it_comes(request: web.Request, answers: AsyncIterator[tuple[bool, Answer]]) -> web.StreamResponse:
    """An answer: whole, or in chunks where the handler sends parts. One that fails within is cut off."""
    response: web.StreamResponse | None = None
    try:
        async for is_last, (status, headers, content) in answers:
            if response is None and is_last:
                return web.Response(body=content, status=status, headers=headers)
            if response is None:
                response = web.StreamResponse(status=status, headers=headers)
                await response.prepare(request)
            if content:
                await response.write(content)
        assert response is not None
        await response.write_eof()
    except Refusal:
        if response is None:
            raise
        if request.transport is not None:
            request.transport.abort()
    return response


async def answer_to(model: Served, pieces: list[Piece], headers: dict[str, str],
                    explain: bool = False) -> Answer:
    """Status, headers and content that the handler gives for one row; the content of all parts where it sends some."""
    if explain:
        headers = {**headers, "explain": "True"}
    parts: list[Answer] = []
    status, headers, content = await model.run(_job(pieces, headers, explain, parts.append))
    return status, headers, b"".join((*(part for _, _, part in parts), content))


async def answers_to(model: Served, pieces: list[Piece], headers: dict[str, str],
                     explain: bool = False, sequence: str = "") -> AsyncIterator[tuple[bool, Answer]]:
    """The parts of an answer as the handler sends them, and whether each is the last. Those of a `sequence` are given
    by one worker, until it says in a header of an answer that the sequence has ended."""
    if explain:
        headers = {**headers, "explain": "True"}
    is_first = bool(sequence) and model.begin_sequence(sequence)
    if sequence:
        headers = {**headers, SEQUENCE: sequence, **({START: "true"} if is_first else {})}
    parts: asyncio.Queue[Answer | None] = asyncio.Queue()
    job = _job(pieces, headers, explain, parts.put_nowait)
    job.sequence = sequence
    running = asyncio.ensure_future(model.run(job))
    running.add_done_callback(lambda _: parts.put_nowait(None))
    try:
        while (part := await parts.get()) is not None:
            yield False, part
        last = await running
        if sequence and any(name.lower() == END for name in last[1]):
            model.end_sequence(sequence)
        yield True, last
    except Refusal:
        if is_first:      # nobody knows of it: it begins with the next
            model.end_sequence(sequence)
        raise
    finally:
        running.cancel()


def _job(pieces: list[Piece], headers: dict[str, str], explain: bool, part: Callable[[Answer], None]) -> Job:
    said = {"pieces": [(name, kind) for name, kind, _ in pieces], "headers": headers}
    contents = [content for _, _, content in pieces]
    return Job(said, contents, asyncio.get_running_loop().create_future(), key=explain, part=part)


async def _form(request: web.Request) -> list[Piece]:
    """The parts of a form. Their sum is bounded as a body is."""
    found: list[Piece] = []
    size, largest = 0, request._client_max_size
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            reader = await request.multipart()
            async for part in reader:
                if not isinstance(part, BodyPartReader) or part.name is None:
                    raise Refusal(400, "the form: expected parts with a name each")
                content = bytearray()
                while piece := await part.read_chunk(1 << 16):
                    size += len(piece)
                    if size > largest:
                        raise web.HTTPRequestEntityTooLarge(largest, size)
                    content += piece
                found.append((part.name, part.headers.get("Content-Type", ""), bytes(part.decode(content))))
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {SLOWEST_BODY:g} seconds") from None
    except (ValueError, AssertionError, RuntimeError, web.RequestPayloadError) as error:
        raise Refusal(400, f"the form cannot be read: {error}") from None
    return found


def together(model: Served, jobs: list[Job]) -> tuple[dict[str, Any], Sequence[Any]]:
    """Requests as the rows of one call."""
    return {"rows": [job.said for job in jobs]}, [buffer for job in jobs for buffer in job.buffers]


def apart(model: Served, jobs: list[Job], said: dict[str, Any], buffers: list[memoryview]) -> list[Any]:
    """Each request's answer."""
    answers = zip(said["answers"], buffers, strict=True)
    return [(status, headers, bytes(buffer)) for (status, headers), buffer in answers]
