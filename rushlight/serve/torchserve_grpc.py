"""TorchServe's services over gRPC: predictions, and the management of models.

Enters: calls with messages of `messages.py`. Leaves: what the paths of `torchserve.py` give: a prediction as bytes,
descriptions as JSON; a stream of predictions has the parts that a handler sends. In a stream of requests too
(`StreamPredictions2`), the requests of a sequence are answered one after the other, by the worker that had the ones
before; sequences run beside each other. Refuses: what those paths refuse; in a stream of requests it is told in an
answer's status, and the stream goes on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from . import handled, messages as m
from .refusals import Refusal
from .repository import Repository
from .torchserve import Answered, Management, Query, of_program

Said = dict[str, Any]
Methods = dict[str, tuple[m.Message, m.Message, Callable[[Said], Awaitable[Said]]]]
INFERENCE = "org.pytorch.serve.grpc.inference.InferenceAPIsService"
UNREAD, MOST_WAITING = 64, 64      # answers, and requests, of one stream that lie here
MOST_SEQUENCES, LONGEST_NAME = 1024, 200      # of one stream
MANAGEMENT = "org.pytorch.serve.grpc.management.ManagementAPIsService"


def services(repository: Repository) -> list[tuple[str, str, Methods]]:
    """Names of services, the realm whose key opens them, and their methods."""
    manager = Management(repository)

    async def ping(said: Said) -> Said:
        return {"health": json.dumps({"status": "Healthy" if repository.is_ready else "Unhealthy"})}

    async def predict(said: Said) -> Said:
        return {"prediction": b"".join([one["prediction"] async for one in predictions(repository, said)])}

    async def listed(said: Said) -> Said:
        return _told(manager.list(_query(said)))

    async def describe(said: Said) -> Said:
        return _told(manager.describe(*_named(said), _query(said)))

    async def register(said: Said) -> Said:
        return _told(await manager.register(_query(said)))

    async def scale(said: Said) -> Said:
        return _told(await manager.scale(*_named(said), _query(said)))

    async def set_default(said: Said) -> Said:
        return _told(manager.set_default(said["model_name"], said["model_version"]))

    async def unregister(said: Said) -> Said:
        return _told(await manager.unregister(*_named(said)))

    of_inference: Methods = {"Ping": (m.NOTHING, m.HEALTH, ping), "Predictions": (m.PREDICT, m.PREDICTED, predict)}
    of_management: Methods = {
        "ListModels": (m.LIST, m.SAID, listed), "DescribeModel": (m.DESCRIBE, m.SAID, describe),
        "RegisterModel": (m.REGISTER, m.SAID, register), "ScaleWorker": (m.SCALE, m.SAID, scale),
        "SetDefault": (m.DESCRIBE, m.SAID, set_default), "UnregisterModel": (m.DESCRIBE, m.SAID, unregister)}
    return [(INFERENCE, "inference", of_inference), (MANAGEMENT, "management", of_management)]


async def predictions(repository: Repository, said: Said, sequence: str = "") -> AsyncIterator[Said]:
    """What a model gives for a message, in parts where its handler sends some."""
    model = repository.get(said["model_name"], said["model_version"] or None)
    given = {one["key"]: bytes(one["value"]) for one in said["input"]}
    if not given:
        raise Refusal(400, "input: expected at least one entry, got none")
    if not model.is_handled:
        if len(given) > 1:
            raise Refusal(400, f"input: a program takes its JSON as one entry, got {len(given)}")
        yield {"prediction": json.dumps(await of_program(model, *given.values())).encode()}
        return
    pieces = [(name, "", content) for name, content in given.items()]
    async for _, (status, _, content) in handled.answers_to(model, pieces, {}, sequence=sequence):
        if status != 200:
            raise Refusal(status, content.decode(errors="replace")[:1000])
        yield {"prediction": content}


class Conversation:
    """The requests of one stream, and what answers them. `told` gives the status that says what went wrong."""

    def __init__(self, repository: Repository, told: Callable[[Exception], Said]) -> None:
        self.repository, self.told = repository, told
        self.answers: asyncio.Queue[Said | None] = asyncio.Queue(UNREAD)
        self.lanes: dict[str, asyncio.Queue[Said | None]] = {}
        self.tasks: set[asyncio.Task] = set()
        self.room = asyncio.Semaphore(MOST_WAITING)

    async def run(self, contents: AsyncIterator[Said | Exception]) -> AsyncIterator[Said]:
        """Answers, as they come."""
        reading = asyncio.ensure_future(self._read(contents))
        self.tasks.add(reading)
        try:
            while (answer := await self.answers.get()) is not None:
                yield answer
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _read(self, contents: AsyncIterator[Said | Exception]) -> None:
        try:
            async for said in contents:
                await self.room.acquire()
                try:
                    self._lane_of(said).put_nowait(said)
                except Exception as error:  # noqa: BLE001 - of a message that cannot be read, too
                    await self.answers.put({"status": self.told(error)})
                    self.room.release()
        finally:
            for lane in self.lanes.values():
                lane.put_nowait(None)
        await asyncio.gather(*self.tasks - {asyncio.current_task()})
        await self.answers.put(None)

    def _lane_of(self, said: Said | Exception) -> asyncio.Queue[Said | None]:
        """Where the requests of a sequence wait."""
        if isinstance(said, Exception):
            raise said
        name = said["sequenceId"]
        if not name.strip() or len(name) > LONGEST_NAME:
            raise Refusal(400, f"sequenceId: expected a name of up to {LONGEST_NAME} letters, got {name[:40]!r}")
        if name not in self.lanes:
            if len(self.lanes) == MOST_SEQUENCES:
                raise Refusal(413, f"sequenceId: expected at most {MOST_SEQUENCES} in a stream, got {name!r} too")
            self.lanes[name] = asyncio.Queue()
            self.tasks.add(asyncio.ensure_future(self._sequence(name, self.lanes[name])))
        return self.lanes[name]

    async def _sequence(self, name: str, lane: asyncio.Queue[Said | None]) -> None:
        """The requests of one sequence, one after the other."""
        models: set[str] = set()
        try:
            while (said := await lane.get()) is not None:
                try:
                    models.add(said["model_name"])
                    async for one in predictions(self.repository, said, name):
                        await self.answers.put({**one, "sequenceId": name})
                except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                    await self.answers.put({"sequenceId": name, "status": self.told(error)})
                self.room.release()
        finally:
            for model in models & set(self.repository.models):
                for one in self.repository.models[model].values():
                    one.end_sequence(name)


def _named(said: Said) -> tuple[str, str | None]:
    return said.pop("model_name"), said.pop("model_version") or None


def _query(said: Said) -> Query:
    """What was sent, as an address would say it; what has its usual value was not."""
    return Query({name: str(value).lower() if isinstance(value, bool) else str(value)
                  for name, value in said.items() if value})


def _told(answer: Answered) -> Said:
    return {"msg": json.dumps(answer[0])}
