"""The iterator that loads in worker processes.

Enters: a DataLoader with `num_workers` > 0. Leaves: its batches, by default in the order of the sampler. Each worker
has two pipes (tasks, results) and an arena, none of them shared with another worker, so one that is killed can leave
nothing locked. A worker's end is noticed at once, by its pidfd, and raised as RuntimeError.

Workers are gone, with everything they shared, when the iterator is exhausted or dropped, when the loop over it raises,
at the program's exit, and when this process is killed: their task pipe then reads as ended. Arenas and pipes have no
names, so nothing can be left in the file system.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import functools
import itertools
import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
import weakref
from multiprocessing.reduction import DupFd
from typing import Any

from .... import multiprocessing as _reductions  # noqa: F401 - pickled datasets share their tensors
from ...._C import SharedArena, forking_worker, leased_storages
from ....base.errors import ExceptionWrapper
from . import channel
from .iterate import _BaseDataLoaderIter, graph_settings, is_datapipe
from .loop import Setup, _worker_loop
from .pin_memory import pin_memory
from .worker import _IterableDatasetStopIteration, _ResumeIteration, get_worker_info

_keys = itertools.count()
# Arenas of a loader's last workers: their pages are there already,
# and filling fresh ones would slow the next pass down.
_spare: weakref.WeakKeyDictionary[Any, list[SharedArena]] = weakref.WeakKeyDictionary()
_links: weakref.WeakSet[Link] = weakref.WeakSet()
# Held from the making of a worker's pipes until it runs: another thread's worker forked meanwhile would keep their
# ends, and each then wait for the other to let go.
_starting = threading.Lock()


def _attach_arena(fd: Any, length: int) -> SharedArena:
    return SharedArena(fd.detach(), length)


class _ArenaForSpawn:
    """An arena on its way to a process that is not forked. Pickled while that process is being started."""

    def __init__(self, arena: SharedArena) -> None:
        self.arena = arena

    def __reduce__(self) -> tuple:
        return _attach_arena, (DupFd(self.arena.fd), self.arena.length)


def _arena_from(spare: list[SharedArena]) -> SharedArena:
    while spare:
        arena = spare.pop()
        if arena.restart():
            return arena
    return SharedArena()


class Link:
    """The loader's side of one worker."""

    def __init__(self, context: Any, setup: Setup, spare: list[SharedArena]) -> None:
        self.key = next(_keys)
        self.pidfd = -1
        self.process = None
        by_fork = (context.get_start_method() if hasattr(context, "get_start_method") else "fork") == "fork"
        self.arena = arena = _arena_from(spare if by_fork else [])
        channel.arenas[self.key] = arena
        with _starting:
            task_end, self.tasks = context.Pipe(duplex=False)
            self.results, result_end = context.Pipe(duplex=False)
            self._prepare_ends()
            _links.add(self)
            process = context.Process(
                target=_worker_loop,
                args=(setup, task_end, result_end, arena if by_fork else _ArenaForSpawn(arena), self.key),
                daemon=True,
            )
            if by_fork:
                forking_worker(True)
            try:
                process.start()
                self.process = process
            finally:
                forking_worker(False)
                task_end.close()
                result_end.close()
                arena.close()
        with contextlib.suppress(OSError, AttributeError):
            self.pidfd = os.pidfd_open(process.pid)

    def _prepare_ends(self) -> None:
        for end in (self.tasks, self.results):
            os.set_blocking(end.fileno(), False)
        with contextlib.suppress(OSError):  # a larger pipe holds the tasks of large batches; the usual one works too
            fcntl.fcntl(self.tasks.fileno(), getattr(fcntl, "F_SETPIPE_SZ", 1031), 1 << 20)
        self.reader = channel.Reader(self.results.fileno())
        self.writer = channel.Writer(self.tasks.fileno())
        self.pipes = [(end, os.fstat(end.fileno()).st_ino) for end in (self.tasks, self.results)]

    @property
    def ended_fd(self) -> int:
        """Readable once the process has ended."""
        return self.pidfd if self.pidfd >= 0 else self.process.sentinel

    def send(self, message: Any) -> None:
        self.writer.send(pickle.dumps(message, 5))

    def dismiss(self) -> None:
        """Tell the worker that there is nothing more to do."""
        self.writer.close()
        self.tasks.close()

    def close(self) -> None:
        if not self.tasks.closed:
            self.dismiss()
        self.results.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        channel.arenas.pop(self.key, None)


def _forget_in_child() -> None:
    """A forked process must not hold the loader's pipe ends: workers learn from them that the loader is gone."""
    global _starting
    _starting = threading.Lock()  # the thread that forked, or one that is not here, may hold the other
    for link in list(_links):
        for end, inode in link.pipes:
            _leave(end, inode)
        link.reader.fd = link.writer.fd = -1  # their numbers may soon be other files'


def _leave(end: Any, inode: int) -> None:
    """Close `end` if its number still is that pipe's: a thread that was closing it may have been forked halfway."""
    if end.closed:
        return
    with contextlib.suppress(OSError):
        if os.fstat(end.fileno()).st_ino == inode:
            end.close()
            return
    end._handle = None  # another file has that number, or none: nothing to close, now or when collected


os.register_at_fork(after_in_child=_forget_in_child)


def _stop(links: list[Link], spare: list[SharedArena], owner: int, patience: float) -> None:
    """End the workers: first they are asked to, after `patience` seconds made to. Their arenas become spare ones."""
    if os.getpid() != owner:
        return
    for link in links:
        link.close()
    processes = [link.process for link in links if link.process is not None]
    arenas = [link.arena for link in links]
    links.clear()
    deadline = time.monotonic() + patience
    for act in (None, "terminate", "kill"):
        for process in processes:
            if act is not None and process.is_alive():
                getattr(process, act)()
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
        if not any(process.is_alive() for process in processes):
            spare.extend(arena for arena in arenas if arena.restart())
            return
        deadline = time.monotonic() + 1.0


def _describe_end(process: Any) -> str:
    process.join(1.0)
    code = process.exitcode
    if code is not None and code < 0:
        return f"DataLoader worker (pid {process.pid}) is killed by signal: {signal.strsignal(-code)}. "
    how = "" if code is None else f" with exit code {code}"
    return (
        f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly{how}. Its traceback, if there was one, went to"
        " its own standard error. Rerunning with num_workers=0 may give a better one."
    )


def _sharding_worker_init_fn(worker_init_fn: Any, world_size: int, rank: int, worker_id: int) -> None:
    """Give this worker of this rank its part of a datapipe, then do what the user asked for."""
    info = get_worker_info()
    graph_settings().apply_sharding(info.dataset, info.num_workers * world_size, worker_id * world_size + rank)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Keeps `prefetch_factor` tasks in every worker's hands and returns their results."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        if self._num_workers <= 0:
            raise AssertionError("num_workers: expected at least 1 to load in processes")
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor: expected at least 1 to load in processes")
        self._worker_init_fn = loader.worker_init_fn
        if is_datapipe(self._dataset, "IterDataPipe", "MapDataPipe"):
            self._worker_init_fn = functools.partial(
                _sharding_worker_init_fn, loader.worker_init_fn, self._world_size, self._rank
            )
        self._links: list[Link] = []
        # Forked workers see what this process holds of other arenas now: it stays as it is while they run.
        self._held = leased_storages()
        self._owner = os.getpid()
        self._spare = _spare.setdefault(loader, [])
        self._finalizer = weakref.finalize(self, _stop, self._links, self._spare, self._owner, 0.2)
        context = loader.multiprocessing_context or multiprocessing
        try:
            for worker_id in range(self._num_workers):
                self._links.append(Link(context, self._setup(worker_id), self._spare))
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    def _setup(self, worker_id: int) -> Setup:
        return Setup(
            kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=self._base_seed,
            init_fn=self._worker_init_fn,
            worker_id=worker_id,
            num_workers=self._num_workers,
            shared_seed=self._shared_seed,
            ends_with_parent=threading.current_thread() is threading.main_thread(),
        )

    def _can_resume(self) -> bool:
        """Whether the workers are there, and this process's."""
        return bool(self._links) and os.getpid() == self._owner

    @property
    def _workers(self) -> list[Any]:
        return [link.process for link in self._links]

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._tasks: collections.deque[tuple[int, int]] = collections.deque()  # (number, worker), in the order sent
        self._send_idx = 0
        self._workers_status = [True] * self._num_workers  # whether each still has something to give in this epoch
        self._workers_num_tasks = [0] * self._num_workers
        self._worker_queue_idx_cycle = itertools.cycle(range(self._num_workers))
        if not first_iter:
            self._resume_workers()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _resume_workers(self) -> None:
        for link in self._links:
            link.send(_ResumeIteration(self._shared_seed))
        for worker in range(self._num_workers):
            # What a worker had still to give in the last epoch comes first, and is let go of.
            while not isinstance(self._receive([worker])[1][0], _ResumeIteration):
                pass

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _receive(self, workers: list[int]) -> tuple[int, Any]:
        """(worker, message) from whichever of `workers` has one first. Raises if a worker died or the time is up."""
        if not self._can_resume():
            raise RuntimeError(
                "DataLoader: the workers of this iterator are gone, or another process's. Make a new iterator."
            )
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            for worker in workers:
                try:
                    payload = self._links[worker].reader.read()
                except EOFError:
                    self._raise_dead(worker)
                if payload is not None:
                    return worker, channel.decode(payload)
            self._wait(workers, deadline)

    def _wait(self, workers: list[int], deadline: float | None) -> None:
        ready = select.poll()
        for worker in workers:
            ready.register(self._links[worker].results.fileno(), select.POLLIN)
        # Any worker's end is worth waking up for, but one whose stream has ended may leave.
        watched = {
            link.ended_fd: i
            for i, link in enumerate(self._links)
            if self._workers_status[i] or self._persistent_workers
        }
        for fd in watched:
            ready.register(fd, select.POLLIN)
        limit = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        events = ready.poll(limit)
        if not events:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        if all(fd in watched for fd, _ in events):
            self._raise_dead(watched[events[0][0]])

    def _raise_dead(self, worker: int) -> None:
        text = _describe_end(self._links[worker].process)
        self._shutdown_workers()
        raise RuntimeError(text)

    # --- tasks and results --------------------------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while True:
            while self._tasks and not self._workers_status[self._tasks[0][1]]:
                self._tasks.popleft()  # the stream of that worker has ended: nothing will come
            if not self._tasks:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            worker, (task, data) = self._receive(self._candidates())
            self._workers_num_tasks[worker] -= 1
            if self._tasks[0][0] == task:
                self._tasks.popleft()
            else:
                self._tasks.remove((task, worker))
            if isinstance(data, _IterableDatasetStopIteration):
                self._end_stream(worker)
                self._try_put_index()
                continue
            self._try_put_index()
            if isinstance(data, ExceptionWrapper):
                data.reraise()
            return pin_memory(data, self._pin_memory_device) if self._pin_memory else data

    def _candidates(self) -> list[int]:
        """Workers whose next result may be returned: results of one worker come in the order of its tasks."""
        if self._in_order:
            return [self._tasks[0][1]]
        return list(dict.fromkeys(worker for _, worker in self._tasks if self._workers_status[worker]))

    def _end_stream(self, worker: int) -> None:
        self._workers_status[worker] = False
        if not self._persistent_workers:
            self._links[worker].dismiss()

    def _try_put_index(self) -> None:
        """Hand the next index to the next worker that can take one, if there are any of both."""
        if not any(self._workers_status):
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        share = self._prefetch_factor * self._num_workers // sum(self._workers_status)
        for _ in range(self._num_workers):
            worker = next(self._worker_queue_idx_cycle)
            if self._workers_status[worker] and (self._in_order or self._workers_num_tasks[worker] < share):
                break
        else:
            return
        self._links[worker].send((self._send_idx, index))
        self._tasks.append((self._send_idx, worker))
        self._workers_num_tasks[worker] += 1
        self._send_idx += 1

    # --- the end ------------------------------------------------------------------------------------------------------

    def _shutdown_workers(self) -> None:
        from . import MP_STATUS_CHECK_INTERVAL

        self._finalizer.detach()
        _stop(self._links, self._spare, self._owner, MP_STATUS_CHECK_INTERVAL)
        self._held = []

    def __del__(self) -> None:
        if getattr(self, "_links", None):
            self._shutdown_workers()
