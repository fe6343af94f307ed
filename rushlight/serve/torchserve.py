"""TorchServe's protocol.

Enters: predictions, registrations. Leaves: answers in TorchServe's words. Refuses: what is wrong, likewise.
"""

from __future__ import annotations

from aiohttp import web

from .http import answered
from .metrics import Metrics
from .repository import Repository


def inference(repository: Repository) -> list[web.AbstractRouteDef]:
    async def ping(request: web.Request) -> web.Response:
        return answered({"status": "Healthy"})

    return [web.get("/ping", ping)]


def management(repository: Repository) -> list[web.AbstractRouteDef]:
    return []


def metrics(counted: Metrics) -> list[web.AbstractRouteDef]:
    """What Prometheus reads."""

    async def text(request: web.Request) -> web.Response:
        return web.Response(body=counted.text(), headers={"Content-Type": counted.content_type})

    return [web.get("/metrics", text)]
