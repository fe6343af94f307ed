"""What runs in a worker process.

Enters: tasks from the loader's process. Leaves: batches, or the exception that came up, back to it. The worker seeds
Python's, NumPy's and the framework's generators as PyTorch does, so random augmentations are the same. It ends when the
loader closes its pipe or dies, or on Ctrl-C.
"""

from __future__ import annotations

import importlib.util
import pickle
import select
import signal
import sys
from typing import Any

from ...._C import Generator, SharedArena, default_generator, end_with_parent, set_num_threads
from ....base.errors import ExceptionWrapper
from . import MP_STATUS_CHECK_INTERVAL, collate as _collate, worker
from .channel import Reader, encode, frame, write_all
from .fetch import _DatasetKind
from .iterate import graph_settings
from .worker import ManagerWatchdog, WorkerInfo, _IterableDatasetStopIteration, _ResumeIteration


class Setup:
    """Everything a worker is told once. Picklable, for start methods that need it."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)

    def fetcher(self) -> Any:
        return _DatasetKind.create_fetcher(
            self.kind, self.dataset, self.auto_collation, self.collate_fn, self.drop_last
        )

    def seed_datapipe(self, seed: int | None) -> None:
        """Give shuffling datapipes the seed all workers share."""
        if seed is not None:
            generator = Generator()
            generator.manual_seed(seed)
            self.dataset = graph_settings().apply_random_seed(self.dataset, generator)


# --- seeds ------------------------------------------------------------------------------------------------------------


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words for NumPy's generator, unlike those `random` and the framework get from the same seed."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4).tolist()


class _SeedNumpyWhenLoaded:
    """An import hook: seeds `numpy.random` right after it is loaded, so that no worker waits for NumPy unasked."""

    def __init__(self, base_seed: int, worker_id: int) -> None:
        self.arguments = (base_seed, worker_id)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "numpy.random":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module: Any) -> None:
                execute(module)
                module.seed(_generate_state(*self.arguments))

            spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


def _seed_all(base_seed: int, worker_id: int) -> int:
    import random

    seed = base_seed + worker_id
    random.seed(seed)
    default_generator.manual_seed(seed)
    loaded = sys.modules.get("numpy.random")
    if loaded is not None:
        loaded.seed(_generate_state(base_seed, worker_id))
    else:
        sys.meta_path.insert(0, _SeedNumpyWhenLoaded(base_seed, worker_id))
    return seed


# --- the loop ---------------------------------------------------------------------------------------------------------


class _Worker:
    """One worker's state: its pipes, its part of the dataset, whether its stream has ended."""

    def __init__(self, setup: Setup, tasks: Any, results: Any, arena: SharedArena, key: int) -> None:
        self.setup = setup
        self.reader = Reader(tasks.fileno())
        self.results = results.fileno()
        self.arena = arena
        self.key = key
        self.where = f"in DataLoader worker process {setup.worker_id}"
        self.ended = False
        self.init_error: ExceptionWrapper | None = None
        self.fetcher: Any = None

    def start(self) -> None:
        setup = self.setup
        if setup.ends_with_parent:
            end_with_parent(int(signal.SIGTERM))
        set_num_threads(1)
        seed = _seed_all(setup.base_seed, setup.worker_id)
        setup.seed_datapipe(setup.shared_seed)
        worker._worker_info = WorkerInfo(setup.worker_id, setup.num_workers, seed, setup.dataset)
        _collate.call_in_shared = self.arena.call
        self.arena.prefer()  # collate functions of libraries make shared storages themselves
        try:
            if setup.init_fn is not None:
                setup.init_fn(setup.worker_id)
            self.fetcher = setup.fetcher()
        except Exception:
            self.init_error = ExceptionWrapper(where=self.where)

    def messages(self) -> Any:
        """Tasks as they come in, until the loader closes the pipe or its process is gone."""
        watchdog = ManagerWatchdog()
        ready = select.poll()
        ready.register(self.reader.fd, select.POLLIN)
        while watchdog.is_alive():
            if not ready.poll(MP_STATUS_CHECK_INTERVAL * 1000):
                continue
            try:
                # Blocking, but something has come: a message is written whole, or its writer is at it.
                yield pickle.loads(self.reader.read())
            except EOFError:
                return
            while (waiting := self.reader._pop()) is not None:
                yield pickle.loads(waiting)

    def fetch(self, index: Any) -> Any:
        if self.init_error is not None:
            error, self.init_error = self.init_error, None
            return error
        try:
            return self.fetcher.fetch(index)
        except Exception as e:
            if isinstance(e, StopIteration) and self.setup.kind == _DatasetKind.Iterable:
                self.ended = True
                return _IterableDatasetStopIteration(self.setup.worker_id)
            return ExceptionWrapper(where=self.where)

    def send(self, task: Any, data: Any) -> None:
        try:
            payload = encode(task, data, self.arena, self.key)
        except Exception:
            problem = ExceptionWrapper(where=self.where)
            if isinstance(data, ExceptionWrapper):  # a class that cannot be named elsewhere: its text still can
                problem.exc_type, problem.exc_msg = RuntimeError, data.exc_msg
            try:
                payload = encode(task, problem, self.arena, self.key)
            except Exception:
                problem.exc_type = RuntimeError
                payload = encode(task, problem, self.arena, self.key)
        write_all(self.results, frame(payload))

    def resume(self, message: _ResumeIteration) -> None:
        self.send(message, None)
        self.ended = False
        try:
            self.setup.seed_datapipe(message.seed)
            self.fetcher = self.setup.fetcher()
        except Exception:
            self.init_error = ExceptionWrapper(where=self.where)

    def run(self) -> None:
        self.start()
        for message in self.messages():
            if isinstance(message, _ResumeIteration):
                self.resume(message)
            elif not self.ended:
                task, index = message
                self.send(task, self.fetch(index))


def _worker_loop(setup: Setup, tasks: Any, results: Any, arena: SharedArena, key: int) -> None:
    """The target of a worker process."""
    try:
        _Worker(setup, tasks, results, arena, key).run()
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the loader's process is interrupted itself, or has gone
