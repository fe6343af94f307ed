"""Starts the processes of a job on this machine, watches them, and starts them again when one fails.

Enters: a `Job`. Leaves: the exit status; on failure a line per process that failed, by rank. All processes get the
environment by which `init_process_group` meets. When one fails the others are ended, and all are started again as often
as the job allows. On several machines each runs a launcher; they meet at a store, which also tells them of failures.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any

from ..base import environment
from .doors import own_address
from .etcd_store import EtcdStore
from .store import Store
from .tcp_store import TCPStore

END_SECONDS = 30.0      # between asking processes to end and ending them


LOCAL_RANK = "${local_rank}"      # what stands for it in a command


@dataclass
class Job:
    """What to run, where, and how often."""

    command: list[str]
    processes: int = 1
    machines: int = 1
    machine: int | None = None          # None: the store gives numbers out
    address: str = "127.0.0.1"
    port: int = 0                       # 0: any free one
    meeting: tuple[str, int] | None = None      # where launchers of several machines meet
    meets_in_etcd: bool = False         # there is an etcd there; otherwise one of the launchers serves a store
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    max_restarts: int = 0
    interval: float = 0.1
    role: str = "default"
    log_folder: str | None = None
    redirects: dict[int, int] = field(default_factory=dict)     # local rank -> 1 (stdout), 2 (stderr) or 3


@dataclass
class Failure:
    """A process that ended badly."""

    rank: int
    local_rank: int
    pid: int
    code: int
    said: str = ""

    def __str__(self) -> str:
        how = f"signal {signal.Signals(-self.code).name}" if self.code < 0 else f"exit status {self.code}"
        more = f": {self.said}" if self.said else ""
        return f"rank {self.rank} (local rank {self.local_rank}, process {self.pid}) ended with {how}{more}"


class Launcher:
    """One machine's part of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store: Store | None = None
        self.machine = job.machine or 0
        if job.meeting is not None:
            self._meet(*job.meeting)
        self.machines = job.machines
        self.first_rank, self.total = self.machine * job.processes, job.machines * job.processes
        self.errors = ""      # the folder where processes say what went wrong
        self.processes: list[subprocess.Popen] = []
        self.files: list[Any] = []

    def _meet(self, host: str, port: int) -> None:
        if self.job.meets_in_etcd:
            self.store = EtcdStore(host, port, f"/torch/elastic/{self.job.name}", timedelta(minutes=10))
            return
        serves = self.job.machine == 0 or (self.job.machine is None and _is_this_machine(host))
        try:
            self.store = TCPStore(host, port, None, serves, timedelta(minutes=10))
        except RuntimeError:
            if not serves or self.job.machine == 0:
                raise
            self.store = TCPStore(host, port, None, False, timedelta(minutes=10))   # another launcher here serves it
        if self.job.machine is None:
            self.machine = self.store.add(f"{self.job.name}/machines", 1) - 1

    def run(self) -> int:
        """The exit status of the job."""
        with _signals_as_exceptions(), tempfile.TemporaryDirectory(prefix="rushlight-errors-") as self.errors:
            return self._run()

    def _run(self) -> int:
        for attempt in range(self.job.max_restarts + 1):
            failures = self._attempt(attempt)
            if not failures:
                return 0
            again = attempt < self.job.max_restarts
            for failure in failures:
                print(f"rushlight: {failure}", file=sys.stderr)
            if again:
                left = self.job.max_restarts - attempt - 1
                print(f"rushlight: starting all processes again, {left} more times if need be", file=sys.stderr)
        return 1

    def _attempt(self, attempt: int) -> list[Any]:
        address, port = self._agree(attempt)
        try:
            for local_rank in range(self.job.processes):
                self.processes.append(self._start(local_rank, attempt, address, port))
            return self._watch(attempt)
        finally:
            self._clear()

    def _clear(self) -> None:
        """End what still runs of an attempt."""
        self._end_all()
        for file in self.files:
            file.close()
        self.processes, self.files = [], []

    def _agree(self, attempt: int) -> tuple[str, int]:
        """Where rank 0 will serve, in this attempt: the first machine's choice."""
        job = self.job
        if self.store is None:
            return job.address, job.port or free_port()
        key = f"{job.name}/{attempt}/master"
        if self.machine == 0:
            self.store.set(key, f"{own_address()} {job.port or free_port()}")
        address, port = self.store.get(key).decode().split()
        return address, int(port)

    def _start(self, local_rank: int, attempt: int, address: str, port: int) -> subprocess.Popen:
        job = self.job
        rank, total = self.first_rank + local_rank, self.total
        variables = {
            "RANK": rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": total, "LOCAL_WORLD_SIZE": job.processes,
            "GROUP_RANK": self.machine, "GROUP_WORLD_SIZE": self.machines, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": total,
            "ROLE_NAME": job.role, "MASTER_ADDR": address, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": job.name,
            "TORCHELASTIC_RESTART_COUNT": attempt, "TORCHELASTIC_MAX_RESTARTS": job.max_restarts,
            "TORCHELASTIC_USE_AGENT_STORE": False, "TORCHELASTIC_ERROR_FILE": self._error_file(local_rank),
        }
        if job.processes > 1 and not environment.is_set("OMP_NUM_THREADS"):
            variables["OMP_NUM_THREADS"] = 1       # the processes share the cores
        outputs = self._outputs(local_rank, rank, attempt)
        everything = environment.with_changes({name: str(value) for name, value in variables.items()})
        try:
            command = [part.replace(LOCAL_RANK, str(local_rank)) for part in job.command]
            return subprocess.Popen(command, env=everything, start_new_session=True, **outputs)
        except OSError as error:
            raise SystemExit(f"rushlight: cannot start {job.command[0]!r} ({error.strerror})") from None

    def _outputs(self, local_rank: int, rank: int, attempt: int) -> dict[str, Any]:
        wanted = self.job.redirects.get(local_rank, 0)
        if not wanted or self.job.log_folder is None:
            return {}
        folder = os.path.join(self.job.log_folder, self.job.name, f"attempt_{attempt}", str(rank))
        os.makedirs(folder, exist_ok=True)
        outputs = {}
        for bit, name in ((1, "stdout"), (2, "stderr")):
            if wanted & bit:
                outputs[name] = open(os.path.join(folder, f"{name}.log"), "wb")
                self.files.append(outputs[name])
        return outputs

    def _watch(self, attempt: int) -> list[Any]:
        """Wait until all have ended well (nothing), or one has not: who."""
        failed_elsewhere = f"{self.job.name}/{attempt}/failed"
        looked = time.monotonic()
        while True:
            failures, are_done = self._look()
            if failures:
                if self.store is not None:
                    self.store.set(failed_elsewhere, "; ".join(map(str, failures)))
                return failures
            if are_done:
                return []
            if self.store is not None and time.monotonic() - looked > 1:
                looked = time.monotonic()
                if self.store.check([failed_elsewhere]):
                    return [f"on another machine: {self.store.get(failed_elsewhere).decode()}"]
            time.sleep(self.job.interval)

    def _look(self) -> tuple[list[Any], bool]:
        """The processes that failed, and whether all have ended well."""
        codes = [process.poll() for process in self.processes]
        failures = [
            Failure(self.first_rank + i, i, self.processes[i].pid, code, self._said(i))
            for i, code in enumerate(codes)
            if code
        ]
        return failures, all(code == 0 for code in codes)

    def _error_file(self, local_rank: int) -> str:
        """Where a process may say what went wrong (`elastic.multiprocessing.errors.record`)."""
        return os.path.join(self.errors, f"{local_rank}.json")

    def _said(self, local_rank: int) -> str:
        """What a process said of its end, if anything."""
        try:
            with open(self._error_file(local_rank)) as file:
                message = json.load(file)["message"]
            os.unlink(self._error_file(local_rank))
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        return str(message.get("message", "") if isinstance(message, dict) else message)

    def _end_all(self) -> None:
        """Ask those that still run to end, with all that they started; then end them."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
                process.wait()


def _signal_group(process: subprocess.Popen, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("", 0)) as free:
        return free.getsockname()[1]


def _is_this_machine(host: str) -> bool:
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    with contextlib.suppress(OSError):
        return socket.gethostbyname(host) in (own_address(), "127.0.0.1")
    return False


class _signals_as_exceptions:   # noqa: N801
    """The launcher's own end is its processes' end."""

    def __enter__(self) -> None:
        def stop(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        self.before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def __exit__(self, *_: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
