"""A language model as the server sees it: engines in processes, and what is asked of them and not answered yet.

Enters: prompts as words, and how to continue them. Leaves: `Open` requests, which give events as they come. An engine
that dies is started again, after pauses that grow; requests of which it had told nothing are asked again, others are
refused with 503. Refuses: folders that cannot be loaded (LoadError), and prompts that no engine takes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..processes import Worker
from ..refusals import LoadError, Refusal
from .config import read_config
from .counted import FROM_STATS, Counted
from .sampling import Chosen, Sampling
from .settings import Settings
from .text import Text

MODULE = "rushlight.serve.language.engine_process"
PAUSES = (0.0, 0.25, 1.0, 4.0, 15.0)       # seconds before an engine is started again, by how often it died
SETTLED = 30.0                             # seconds after which an engine's death is its first
PATIENCE = 30.0                            # seconds that requests have when the model is taken away


@dataclass
class Told:
    """What an engine says of one sequence of a request."""

    index: int
    chosen: Chosen | None
    finish: str | None
    cached: int
    prompt: list[Chosen] | None


class Open:
    """A request: sequences that run in one engine."""

    def __init__(self, model: LanguageModel, prompts: Sequence[Sequence[int]], samplings: Sequence[Sampling],
                 names: Sequence[int], afters: Sequence[int | None]) -> None:
        self.model, self.prompts, self.samplings = model, prompts, samplings
        self.names, self.afters = list(names), list(afters)
        self.left = set(self.names)
        self.events: asyncio.Queue[Told | Refusal] = asyncio.Queue()
        self.has_begun = False
        self.engine: Worker | None = None
        self.started = self.latest = time.perf_counter()

    def messages(self) -> list[dict[str, Any]]:
        return [
            {"do": "add", "name": name, "words": list(words), "sampling": asdict(sampling), "after": after}
            for name, words, sampling, after in zip(self.names, self.prompts, self.samplings, self.afters, strict=True)
        ]

    async def next(self, patience: float) -> Told | None:
        """The next event; None where there is none in time. Raises a Refusal where there will be none."""
        if self.events.empty():
            try:
                async with asyncio.timeout(patience):
                    found = await self.events.get()
            except TimeoutError:
                return None
        else:
            found = self.events.get_nowait()
        if isinstance(found, Refusal):
            raise found
        return found

    def drop(self, index: int) -> None:
        """Nobody wants more of one sequence."""
        name = self.names[index]
        if name in self.left:
            self.left.discard(name)
            self.model.cancel(self, [name])

    def close(self) -> None:
        """Nobody wants the rest."""
        names, self.left = list(self.left), set()
        self.model.cancel(self, names)


class LanguageModel:
    """The engines of one folder."""

    def __init__(
        self, name: str, folder: str | os.PathLike[str], options: dict[str, Any], registry: Any = None
    ) -> None:
        self.name, self.folder = name, os.fspath(folder)
        known = {k: v for k, v in options.items() if v is not None}
        self.count = max(1, int(known.pop("workers", 1)))
        self.threads = int(known.pop("threads", 0)) or max(1, (os.cpu_count() or 1) // self.count)
        try:
            self.settings = Settings(**known)
            self.config = read_config(self.folder)
            self.text = Text(self.folder)
        except (ValueError, OSError) as error:
            raise LoadError(str(error)) from None
        self.created = int(time.time())
        self.engines: list[Worker] = []
        self.open: dict[int, tuple[Open, int]] = {}        # by the name of a sequence: its request, and which it is
        self.waiting: list[Open] = []                      # for an engine
        self.numbers = itertools.count(1)
        self.description: dict[str, Any] = {}
        self.stats: dict[Worker, dict[str, Any]] = {}
        self._deaths, self._is_closing, self._why = 0, False, ""
        self._timers: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task] = set()
        self._first: asyncio.Future | None = None
        self._counted = Counted.of(registry) if registry is not None else None
        self._meters = self._counted.model(name) if self._counted is not None else {}

    # --- life

    @property
    def is_ready(self) -> bool:
        return any(e.is_ready for e in self.engines)

    @property
    def max_len(self) -> int:
        return int(self.description["max_len"])

    def processes(self) -> list[int]:
        return [e.pid for e in self.engines if not e.is_gone]

    async def start(self) -> None:
        """Return when it answers; LoadError where it cannot."""
        self._first = asyncio.get_running_loop().create_future()
        for _ in range(self.count):
            await self._start_one()
        await self._first

    async def _start_one(self) -> None:
        engine = Worker(next(self.numbers), self)
        self.engines.append(engine)
        await engine.start(MODULE, {
            "folder": self.folder, "settings": self.settings.told(), "threads": self.threads,
        })

    async def stop(self) -> None:
        """Finish what runs, and end the processes."""
        until = time.monotonic() + PATIENCE
        self._is_closing = True
        while self.open and self.is_ready and time.monotonic() < until:
            await asyncio.sleep(0.01)
        for timer in self._timers:
            timer.cancel()
        self._refuse_all(Refusal(503, f"model {self.name!r} is no longer served"))
        await asyncio.gather(*(e.stop() for e in list(self.engines)), *self._tasks, return_exceptions=True)
        if self._counted is not None and self._meters:
            self._counted.forget(self.name)
            self._meters = {}

    # --- what engines say

    def worker_ready(self, engine: Worker, description: dict[str, Any]) -> None:
        self.description = description
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self._send(request)

    def worker_failed(self, engine: Worker, why: str) -> None:
        self._why = why
        engine.is_stopping = True
        if self._first is not None and not self._first.done():
            self._first.set_exception(LoadError(why))
        elif not self.is_ready:
            self._refuse_all(Refusal(503, f"model {self.name!r} cannot be loaded: {why}"))

    def worker_answered(self, engine: Worker, said: dict[str, Any], buffers: Any) -> None:
        if "refused" in said:
            request, index = self.open.pop(said["refused"], (None, 0))
            if request is not None:
                request.left.discard(request.names[index])
                param = said["why"].partition(":")[0]
                request.events.put_nowait(Refusal(400, said["why"], param=param))
            return
        now = time.perf_counter()
        for name, chosen, finish, cached, prompt in said["events"]:
            request, index = self.open.get(name, (None, 0))
            if request is None:
                continue
            self._note(request, now, finish)
            if finish is not None:
                del self.open[name]
                request.left.discard(name)
            request.has_begun = True
            told = None if prompt is None else [as_chosen(p) for p in prompt]
            request.events.put_nowait(Told(index, None if chosen is None else as_chosen(chosen), finish, cached, told))
        self._count(engine, said["stats"])

    def worker_gone(self, engine: Worker) -> None:
        self.engines.remove(engine)
        self._count(engine, {})
        lost = {id(request): request for request, _ in self.open.values() if request.engine is engine}
        again = []
        for request in lost.values():
            request.engine = None
            if request.has_begun or self._is_closing:
                self._refuse(request, Refusal(503, f"the engine of model {self.name!r} {engine.why()}. Ask again."))
            else:
                again.append(request)
        if self._is_closing or engine.is_stopping:
            for request in again:
                self._refuse(request, self._no_engine())
            return
        if self._meters:
            self._meters["engine_deaths"].inc()
        self._deaths = 1 if time.time() - engine.started > SETTLED else self._deaths + 1
        if self._first is not None and not self._first.done():
            self._first.set_exception(LoadError(f"its engine {engine.why()} while loading"))
            return
        for request in again:
            self._send(request)
        timer = asyncio.get_running_loop().call_later(PAUSES[min(self._deaths, len(PAUSES)) - 1], self._again)
        self._timers.add(timer)

    def _again(self) -> None:
        self._timers = {t for t in self._timers if not t.cancelled() and t.when() > asyncio.get_running_loop().time()}
        if not self._is_closing:
            task = asyncio.ensure_future(self._start_one())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # --- requests

    def ask(self, prompts: Sequence[Sequence[int]], samplings: Sequence[Sampling], same: int = 1) -> Open:
        """Continue prompts, of which each `same` neighbours are one, asked for several times."""
        if self._is_closing:
            raise self._no_engine()
        names = [next(self.numbers) for _ in prompts]
        afters = [names[n - n % same] if n % same else None for n in range(len(prompts))]
        request = Open(self, prompts, samplings, names, afters)
        for index, name in enumerate(names):
            self.open[name] = (request, index)
        self._send(request)
        return request

    def _send(self, request: Open) -> None:
        """To the engine that has least to do; where none is ready, when one is."""
        ready = [e for e in self.engines if e.is_ready]
        if not ready:
            if not self.engines and not self._timers and not self._tasks:
                self._refuse(request, self._no_engine())
            else:
                self.waiting.append(request)
            return
        load = {id(e): 0 for e in ready}
        for other, _ in self.open.values():
            if other.engine is not None and id(other.engine) in load:
                load[id(other.engine)] += 1
        request.engine = min(ready, key=lambda e: load[id(e)])
        for message in request.messages():
            request.engine.send(message)

    def cancel(self, request: Open, names: Sequence[int]) -> None:
        known = [name for name in names if self.open.pop(name, None) is not None]
        if known and request.engine is not None and not request.engine.is_gone:
            request.engine.send({"do": "cancel", "names": known})
        if request in self.waiting and not request.left:
            self.waiting.remove(request)

    def _refuse(self, request: Open, refusal: Refusal) -> None:
        for name in request.names:
            self.open.pop(name, None)
        request.left = set()
        request.events.put_nowait(refusal)

    def _refuse_all(self, refusal: Refusal) -> None:
        self.waiting = []
        for request in {id(r): r for r, _ in self.open.values()}.values():
            self._refuse(request, refusal)

    def _no_engine(self) -> Refusal:
        why = f": {self._why}" if self._why else ""
        return Refusal(503, f"model {self.name!r} has no engine now{why}. Ask again later.")

    # --- counting

    def _note(self, request: Open, now: float, finish: str | None) -> None:
        if not self._meters:
            return
        kind = "time_per_output_token_seconds" if request.has_begun else "time_to_first_token_seconds"
        self._meters[kind].observe(now - request.latest)
        request.latest = now
        if finish is not None:
            self._meters["generation_seconds"].observe(now - request.started)

    def _count(self, engine: Worker, stats: dict[str, Any]) -> None:
        before = self.stats.pop(engine, {})
        if stats:
            self.stats[engine] = stats
        if not self._meters:
            return
        for theirs, ours in FROM_STATS.items():
            more = stats.get(theirs, 0) - before.get(theirs, 0)
            if more > 0:
                self._meters[ours].inc(more)
        every = self.stats.values()
        self._meters["requests_running"].set(sum(s["running"] for s in every))
        self._meters["requests_waiting"].set(sum(s["waiting"] for s in every))
        self._meters["kv_cache_usage"].set(max((s["usage"] for s in every), default=0.0))


def as_chosen(said: list[Any]) -> Chosen:
    word, logprob, likeliest = said
    return Chosen(word, logprob, None if likeliest is None else [(w, p) for w, p in likeliest])


def load(name: str, folder: Path, options: dict[str, Any], registry: Any) -> LanguageModel:
    """A model of a folder, not started."""
    return LanguageModel(name, folder, options, registry)
