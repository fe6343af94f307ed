"""A version of a model: its workers, those that wait for them, and what has been counted.

Enters: jobs. Leaves: their results, each job's own, whether it ran alone or with others in a batch. Refuses: jobs where
no worker runs or is about to (503); a job that was begun when its worker died is not run again, one that was not is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .metrics import Counted, Metrics
from .processes import Worker
from .refusals import LoadError, Refusal, homeless, no_worker
from .spares import WORKER, Spares

PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)     # before a worker is started again, by deaths in a row
SETTLED = 20.0        # a worker that lived so many seconds ends a row of deaths
SLOWEST_LOAD = 600.0  # seconds until a worker must be ready
MAX_WAITING = 10_000  # jobs of one model


@dataclass
class Settings:
    """How a model is run."""

    batch_size: int = 1
    max_batch_delay: float = 100.0    # milliseconds
    response_timeout: float = 120.0   # seconds
    min_workers: int = 1
    max_workers: int = 1


@dataclass
class Source:
    """A file that was opened. `said` are settings that it brings itself."""

    name: str
    version: str
    wanted: dict[str, Any]
    together: Callable
    apart: Callable
    descriptors: tuple[int, ...] = ()
    folder: str | None = None
    said: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = ()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way: `said` and `buffers` as a worker reads them. `answer` is a future, or what has its `done`,
    `set_result` and `set_exception`. Jobs of one `key` (None: of none) may run together; `rows` says how many rows of
    a batch this is."""

    said: dict[str, Any]
    buffers: Sequence[Any]
    answer: Any
    key: Any = None
    rows: int = 1
    part: Callable[[Any], None] | None = None      # is told parts of the result that come before its end
    sequence: str = ""       # requests of one sequence go to one worker, `home`, which remembers what came before
    home: Worker | None = None
    arrived: int = field(default_factory=time.perf_counter_ns)
    sent: int = 0
    queued: int = 0          # nanoseconds it waited
    took: int = 0            # nanoseconds it ran


@dataclass(slots=True)
class Batch:
    """Jobs that run together."""

    number: int
    jobs: list[Job]
    has_parts: bool = False


@dataclass
class Counts:
    """What the statistics of KServe's protocol ask."""

    inferences: int = 0
    executions: int = 0
    last: int = 0
    succeeded: int = 0
    failed: int = 0
    success_ns: int = 0
    fail_ns: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    batches: dict[int, list[int]] = field(default_factory=dict)     # by size: how many, and nanoseconds


class Served:
    """One version of one model."""

    def __init__(self, name: str, version: str, url: str, wanted: dict[str, Any], descriptors: tuple[int, ...],
                 settings: Settings, together: Callable[[Served, list[Job]], tuple[dict[str, Any], Sequence[Any]]],
                 apart: Callable[[Served, list[Job], dict[str, Any], list[memoryview]], list[Any]],
                 metrics: Metrics, spares: Spares) -> None:
        self.name, self.version, self.url, self.wanted, self.settings = name, version, url, wanted, settings
        self.description: dict[str, Any] | None = None
        self.fitting: dict[Any, Any] = {}      # what inputs were found to fit it (inference.py)
        self.counts, self.metrics = Counts(), metrics
        self.counted = Counted()
        self.waiting: deque[Job] = deque()
        self.waiting_rows = 0
        self._descriptors, self._together, self._apart, self._spares = descriptors, together, apart, spares
        self._numbers = self._batches = self._deaths = 0
        self._timer: asyncio.TimerHandle | None = None
        self._restarts: set[asyncio.TimerHandle] = set()
        self._homes: dict[str, Worker] = {}      # of the sequences that go on
        self._tasks: set[asyncio.Task] = set()
        self._scaled: list[asyncio.Future] = []
        self._is_closing = self._is_pump_due = False
        self.on_close: Callable[[], None] = lambda: None      # gives back what the model lay in
        self._failed_for_good = False
        self.workers: list[Worker] = []

    # --- workers ------------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return any(w.is_ready for w in self.workers)

    @property
    def is_handled(self) -> bool:
        """Whether requests go to a handler as they come, not as tensors."""
        return self.wanted["kind"] == "archive"

    async def scale(self, low: int, high: int | None = None) -> None:
        """So many workers. Waits until they run; LoadError where one cannot load the model."""
        self.settings.min_workers, self.settings.max_workers = low, max(low, high if high is not None else low)
        self._deaths, self._failed_for_good = 0, False
        surplus = self.workers[self.settings.max_workers:]
        for worker in surplus:
            worker.is_stopping = True
        retired = [self.begin(self._retire(worker)) for worker in surplus]
        done = asyncio.get_running_loop().create_future()
        self._scaled.append(done)
        self._fill()
        self._check_scaled()
        await asyncio.gather(done, *retired)

    async def _retire(self, worker: Worker) -> None:
        """End a worker when it has answered what it was given."""
        while worker.jobs and not worker.is_gone:
            await asyncio.sleep(0.01)
        await worker.stop()

    def begin(self, work: Any) -> asyncio.Task:
        """Run something that belongs to the model, and ends with it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _live(self) -> list[Worker]:
        return [w for w in self.workers if not w.is_gone and not w.is_stopping]

    def _fill(self) -> None:
        """Start what is missing."""
        missing = self.settings.min_workers - len(self._live()) - len(self._restarts)
        for _ in range(0 if self._is_closing or self._failed_for_good else missing):
            self._begin_worker()

    def _begin_worker(self) -> None:
        self._numbers += 1
        devices = self.wanted.get("devices", ("cpu",))
        device = min(devices, key=[w.device for w in self._live()].count)      # the first of those with fewest workers
        worker = Worker(self._numbers, self, device)
        self.workers.append(worker)
        worker.timer = asyncio.get_running_loop().call_later(SLOWEST_LOAD, worker.end_late)
        self.begin(worker.start(WORKER, {**self.wanted, "device": device}, self._descriptors, self._spares))

    def _check_scaled(self) -> None:
        if sum(w.is_ready for w in self._live()) >= self.settings.min_workers:
            waiting, self._scaled = self._scaled, []
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    def worker_ready(self, worker: Worker, description: dict[str, Any]) -> None:
        self.description = description
        self.fitting.clear()
        worker.stop_timer()
        self._check_scaled()
        self._pump()
        self._spares.fill(1)

    def worker_failed(self, worker: Worker, why: str) -> None:
        """A worker that says it cannot load: nobody waits for it any longer."""
        if self.description is None:       # it never could, so that trying again would change nothing
            self._failed_for_good = True
        self._disappoint(why)

    def _disappoint(self, why: str) -> None:
        """Tell those who wait for workers that there will be none."""
        waiting, self._scaled = self._scaled, []
        for done in waiting:
            if not done.done():
                done.set_exception(LoadError(why))

    def worker_gone(self, worker: Worker) -> None:
        """What a worker had begun is lost; what it had not goes to another."""
        self.workers.remove(worker)
        lost: list[Batch] = list(worker.jobs)
        worker.jobs.clear()
        for batch in reversed(lost[1:]):
            self._put_back(batch.jobs)
        for batch in lost[:1]:
            for job in batch.jobs:
                self._fail(job, Refusal(503, f"the worker of model {self.name!r} {worker.why()}. Ask again.",
                                        "InternalServerException" if worker.timed_out else None))
        if self._is_closing or worker.is_stopping:
            return self._check_scaled()
        self.metrics.deaths.labels(self.name, self.version).inc()
        lived = time.time() - worker.started
        self._deaths = 1 if lived > SETTLED else self._deaths + 1
        if self._deaths >= 3:      # it dies of loading
            self.worker_failed(worker, f"its worker {worker.why()} while loading")
        if not self._failed_for_good and len(self._live()) + len(self._restarts) < self.settings.min_workers:
            self._restart_after(PAUSES[min(self._deaths, len(PAUSES)) - 1])
        self._pump()

    def _restart_after(self, pause: float) -> None:
        def again() -> None:
            self._restarts.discard(timer)
            self._fill()

        timer = asyncio.get_running_loop().call_later(pause, again)
        self._restarts.add(timer)

    async def close(self, patience: float = 30.0) -> None:
        """Finish what waits and runs, then end the workers."""
        until = time.monotonic() + patience
        while (self.waiting or any(w.jobs for w in self.workers)) and self._live() and time.monotonic() < until:
            await asyncio.sleep(0.01)
        self._is_closing = True
        for timer in self._restarts:
            timer.cancel()
        self._restarts.clear()
        self._refuse_waiting()
        self._disappoint("it is served no longer")
        await asyncio.gather(*(w.stop() for w in self.workers), *self._tasks, return_exceptions=True)
        self.on_close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def can_run(self) -> bool:
        """Whether a worker runs or will in a moment."""
        if self._is_closing:
            return False
        return bool(self._live()) or any(t.when() - asyncio.get_running_loop().time() < 1.5 for t in self._restarts)

    def enqueue(self, job: Job) -> None:
        """Have a job run; its `answer` is told the result, as `apart` gives it, or why there is none."""
        if job.sequence:
            job.home = self._homes[job.sequence]
            job.key = (job.key, job.home.number)
        if not self.can_run() or len(self.waiting) >= MAX_WAITING:
            raise no_worker(self.name)
        self.waiting.append(job)
        self.waiting_rows += job.rows
        if self.settings.batch_size == 1:
            self._pump()
        elif not self._is_pump_due:      # what else has arrived already is to run with it
            self._is_pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def forget(self, job: Job) -> None:
        """The client hung up: a job that has not begun is left out."""
        if job in self.waiting:
            self.waiting.remove(job)
            self.waiting_rows -= job.rows

    def begin_sequence(self, name: str) -> bool:
        """The next request of a sequence comes. True for its first: it gets the worker that has fewest others. Where
        the worker is gone that knew the ones before, it cannot go on, and begins anew with the next."""
        home = self._homes.get(name)
        if home is None:
            ready = [w for w in self._live() if w.is_ready]
            if not ready:
                raise no_worker(self.name)
            self._homes[name] = min(ready, key=list(self._homes.values()).count)
            return True
        if home.is_gone or home.is_stopping:
            self.end_sequence(name)
            raise homeless(name)
        return False

    def end_sequence(self, name: str) -> None:
        self._homes.pop(name, None)

    async def run(self, job: Job) -> Any:
        """The result of a job, as `apart` gave it."""
        self.enqueue(job)
        try:
            return await job.answer
        except asyncio.CancelledError:       # the client hung up
            self.forget(job)
            raise

    def _put_back(self, jobs: list[Job]) -> None:
        self.waiting.extendleft(reversed(jobs))
        self.waiting_rows += sum(j.rows for j in jobs)

    def _refuse_waiting(self) -> None:
        while self.waiting:
            self._fail(self.waiting.popleft(), no_worker(self.name))
        self.waiting_rows = 0

    def _free_worker(self) -> Worker | None:
        # While a worker runs a batch the next one gathers. Without batches the next job lies ready in its socket.
        depth = 2 if self.settings.batch_size == 1 else 1
        best = None
        for worker in self.workers:
            if worker.is_ready and not worker.is_stopping and len(worker.jobs) < depth:
                if not worker.jobs:
                    return worker
                best = best or worker
        return best

    def _pump(self) -> None:
        """Hand out what can run now."""
        self._is_pump_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self.waiting:
            first, worker = self._next()
            if first is None or worker is None:
                if not self.can_run():
                    self._refuse_waiting()
                return
            jobs, rest = self._gathered(first)
            if rest > 0:
                self._timer = asyncio.get_running_loop().call_later(rest, self._pump)
                return
            self._hand(worker, jobs)

    def _next(self) -> tuple[Job | None, Worker | None]:
        """The first job that can run now, and where. One whose home is busy waits, and does not hold up others."""
        free = self._free_worker()
        first = self.waiting[0]
        for job in list(self.waiting) if self._homes or first.home is not None else (first,):
            if job.home is None:
                return (job, free) if free is not None else (None, None)
            if job.home.is_gone or job.home.is_stopping:
                self.forget(job)
                self._fail(job, homeless(job.sequence))
            elif free is not None and len(job.home.jobs) < (2 if self.settings.batch_size == 1 else 1):
                return job, job.home
        return None, None

    def _gathered(self, first: Job) -> tuple[list[Job], float]:
        """The jobs to run next, and for how many seconds it may still be waited for more of them."""
        size = self.settings.batch_size
        if size == 1 or first.key is None or first.rows >= size:
            return [first], 0.0
        jobs, rows, sequences = [], 0, set()
        for job in self.waiting:
            if job.key == first.key and rows + job.rows <= size and job.sequence not in sequences:
                sequences |= {job.sequence} if job.sequence else set()
                jobs.append(job)
                rows += job.rows
                if rows == size:
                    return jobs, 0.0
        waited = (time.perf_counter_ns() - first.arrived) / 1e9
        return jobs, self.settings.max_batch_delay / 1000 - waited

    def _hand(self, worker: Worker, jobs: list[Job]) -> None:
        now = time.perf_counter_ns()
        if len(jobs) == 1 and jobs[0] is self.waiting[0]:
            self.waiting.popleft()
        else:
            taken = {id(j) for j in jobs}
            self.waiting = deque(j for j in self.waiting if id(j) not in taken)
        for job in jobs:
            self.waiting_rows -= job.rows
            job.sent, job.queued = now, now - job.arrived
        self._batches += 1
        batch = Batch(self._batches, jobs)
        said, buffers = self._together(self, jobs)
        worker.jobs.append(batch)
        if len(worker.jobs) == 1:
            self._watch(worker)
        worker.send({"do": "run", "id": batch.number, **said}, buffers)

    def _watch(self, worker: Worker) -> None:
        worker.timer = asyncio.get_running_loop().call_later(self.settings.response_timeout, worker.end_late)

    def worker_answered(self, worker: Worker, said: dict[str, Any], buffers: list[memoryview]) -> None:
        batch: Batch = worker.jobs.popleft()
        assert batch.number == said["id"], "a worker answers in order"
        worker.stop_timer()
        if worker.jobs:
            self._watch(worker)
        self._settle(batch, said, buffers)
        self._pump()

    def worker_went_on(self, worker: Worker, said: dict[str, Any], buffers: list[memoryview]) -> None:
        """A part of each answer. The time that a worker has begins again."""
        batch: Batch = worker.jobs[0]
        batch.has_parts = True
        worker.stop_timer()
        self._watch(worker)
        for job, part in zip(batch.jobs, self._apart(self, batch.jobs, said, buffers), strict=True):
            if job.part is not None:
                job.part(part)

    def _settle(self, batch: Batch, said: dict[str, Any], buffers: list[memoryview]) -> None:
        took, rows = said["took"], sum(j.rows for j in batch.jobs)
        if "error" in said and len(batch.jobs) > 1 and not batch.has_parts:      # the bad one fails alone
            for job in batch.jobs:
                job.key = None
            return self._put_back(batch.jobs)
        self._count(batch, rows, took)
        if "error" in said:
            for job in batch.jobs:
                self._fail(job, Refusal(*said["error"]))
            return
        try:
            results = self._apart(self, batch.jobs, said, buffers)
        except Refusal as refused:
            for job in batch.jobs:
                self._fail(job, refused)
            return
        for job, result in zip(batch.jobs, results, strict=True):
            job.took = took
            if isinstance(result, Refusal):
                self._fail(job, result)
            else:
                self._succeed(job, result)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count(self, batch: Batch, rows: int, took: int) -> None:
        counts = self.counts
        counts.executions += 1
        counts.compute_ns += took
        counts.last = int(time.time() * 1000)
        by_size = counts.batches.setdefault(rows, [0, 0])
        by_size[0] += 1
        by_size[1] += took
        self.counted.rows.add(rows)

    def _succeed(self, job: Job, result: Any) -> None:
        spent = time.perf_counter_ns() - job.arrived
        counts = self.counts
        counts.inferences += job.rows
        counts.succeeded += 1
        counts.success_ns += spent
        counts.queue_ns += job.queued
        self.counted.answered(spent, job.queued)
        if not job.answer.done():
            job.answer.set_result(result)

    def _fail(self, job: Job, why: Refusal) -> None:
        self.counts.failed += 1
        self.counts.fail_ns += time.perf_counter_ns() - job.arrived
        self.metrics.refused(self, why.status)
        if not job.answer.done():
            job.answer.set_exception(why)
