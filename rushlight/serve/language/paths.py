"""OpenAI's protocol: what is asked under /v1, and how it is answered, whole or as server-sent events.

Enters: requests for models by name. Leaves: JSON, or events that end with [DONE]. Refuses: models that are not served
(404), bodies that are wrong (400), with the field. A client that hangs up gets nothing more, and holds nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from ..http import answered, body, parsed
from ..refusals import Refusal, unknown_model, written
from . import requests
from .answers import Answers, Piece
from .client import LanguageModel, Open
from .requests import Asked

LOOK = 0.1           # seconds between looks at whether the client is still there
LONG = 1 << 17       # bytes of a body from which on its text is cut into words beside the loop


def routes(models: Mapping[str, LanguageModel]) -> list[web.AbstractRouteDef]:
    """Paths under /v1 for models that come and go."""

    async def listed(request: web.Request) -> web.Response:
        return answered({"object": "list", "data": [described(m) for m in models.values()]})

    async def one(request: web.Request) -> web.Response:
        return answered(described(named(models, request.match_info["model"])))

    async def completions(request: web.Request) -> web.StreamResponse:
        return await answer(request, models, requests.completion)

    async def chats(request: web.Request) -> web.StreamResponse:
        return await answer(request, models, requests.chat)

    return [
        web.get("/v1/models", listed), web.get("/v1/models/{model:.+}", one), web.post("/v1/completions", completions),
        web.post("/v1/chat/completions", chats),
    ]


def named(models: Mapping[str, LanguageModel], name: str) -> LanguageModel:
    if name not in models:
        raise unknown_model(name[:100])
    return models[name]


def described(model: LanguageModel) -> dict[str, Any]:
    return {
        "id": model.name, "object": "model", "created": model.created, "owned_by": "rushlight",
        "max_model_len": model.max_len,
    }


async def answer(request: web.Request, models: Mapping[str, LanguageModel],
                 read: Callable[..., Asked]) -> web.StreamResponse:
    """One request, from its body to the end of its answer."""
    text = await body(request)
    given = parsed(text)
    model = named(models, requests.model_of(given))
    if len(text) > LONG:
        asked = await asyncio.to_thread(read, given, model.text, model.config.words, model.max_len)
    else:
        asked = read(given, model.text, model.config.words, model.max_len)
    answers = Answers(asked, model.text, model.config.ends)
    opened = model.ask(asked.prompts, asked.samplings, asked.same)
    try:
        if asked.stream:
            return await streamed(request, opened, answers)
        while any(a.finish is None for a in answers.all):
            await taken(request, opened, answers)
        return answered(answers.whole())
    finally:
        opened.close()


async def taken(request: web.Request, opened: Open, answers: Answers) -> list[Piece]:
    """What came since the last look, at least one event."""
    pieces: list[Piece] = []
    while not pieces or not opened.events.empty():
        told = await opened.next(LOOK)
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        if told is None:
            continue
        of = answers.all[told.index]
        if of.finish is None:
            pieces.append(of.add(told))
            if of.finish is not None:
                opened.drop(told.index)
    return pieces


async def streamed(request: web.Request, opened: Open, answers: Answers) -> web.StreamResponse:
    """The answer as events. What goes wrong once they have begun is an event too."""
    pieces = await taken(request, opened, answers)      # what is refused, is refused with a status
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    try:
        while True:
            said = [answers.piece(p) for p in pieces if p.text or p.finish or p.chosen or p.is_first]
            if said:
                await response.write(b"".join(event(one) for one in said))
            if all(a.finish is not None for a in answers.all):
                break
            pieces = await taken(request, opened, answers)
        if answers.asked.with_usage:
            await response.write(event(answers.last()))
        await response.write(b"data: [DONE]\n\n")
    except Refusal as refusal:
        await response.write(b"data: " + written(refusal, request.path) + b"\n\n")
    await response.write_eof()
    return response


def event(said: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(said)}\n\n".encode()
