"""Requests to models that have a handler of their own, and what it gave.

Enters: a request's body, form or query, as rows that a handler reads. Leaves: an answer: dicts and lists as JSON, words
as text, bytes as they are, with the type and status that the handler chose. Refuses: forms that cannot be read, and
handlers that give another number of answers than there were rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import BodyPartReader, web

from .http import SLOWEST_BODY, body
from .refusals import Refusal
from .served import Job, Served

Piece = tuple[str, str, bytes]      # a name, a type of content, and the content


async def predicted(model: Served, request: web.Request, explain: bool) -> web.Response:
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
    headers = {name: value for name, value in request.headers.items() if name.lower() != "authorization"}
    if explain:
        headers["explain"] = "True"
    said = {"pieces": [(name, kind) for name, kind, _ in pieces], "headers": headers}
    job = Job(said, [content for _, _, content in pieces], asyncio.get_running_loop().create_future(), key=explain)
    status, headers, content = await model.run(job)
    return web.Response(body=content, status=status, headers=headers)


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
