"""A worker as the server sees it: a process, a socket, and the jobs it has not answered yet.

Enters: what to load, and messages. Leaves: calls of the owner when the worker is ready, has answered, could not load,
or has gone. Refuses: to wait for a process that hangs: it is killed, and its end is told like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections import deque
from typing import Any

from .spares import Spares, started
from .wire import Frames, packed


class Worker(asyncio.Protocol):
    """One process. `owner` has `worker_ready`, `worker_answered`, `worker_failed` and `worker_gone`, and
    `worker_went_on` where a worker's model answers in parts."""

    def __init__(self, number: int, owner: Any, device: str = "cpu") -> None:
        self.number, self.owner, self.device = number, owner, device
        self.jobs: deque[Any] = deque()          # the first has begun, those after it have not
        self.is_ready = self.is_gone = self.is_stopping = False
        self.started = time.time()
        self.timer: asyncio.TimerHandle | None = None
        self.timed_out = False
        self._frames, self._watched = Frames(), None
        self._transport: Any = None
        self._finished = asyncio.get_running_loop().create_future()

    async def start(self, module: str, wanted: dict[str, Any], descriptors: tuple[int, ...] = (),
                    spares: Spares | None = None) -> None:
        """Start a process, or take a spare one, and tell it what to load. Descriptors go to spares alone."""
        if spares is None:
            self.process, ours = started(module)
        else:
            self.process, ours = spares.take()
            if descriptors:
                socket.send_fds(ours, [b"F"], descriptors)
            else:
                ours.send(b"F")
        loop = asyncio.get_running_loop()
        if hasattr(os, "pidfd_open"):       # children of a handler may keep the socket open; this tells the end anyway
            self._watched = os.pidfd_open(self.process.pid)
            loop.add_reader(self._watched, self._end)
        await loop.create_unix_connection(lambda: self, sock=ours)
        self.send(wanted)

    @property
    def has_begun(self) -> bool:
        return hasattr(self, "process")

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def state(self) -> str:
        """What it does, in TorchServe's words."""
        return "UNLOADING" if self.is_stopping else "READY" if self.is_ready else "LOADING"

    # --- the socket ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for said, buffers in self._frames.feed(data):
            if "ready" in said:
                self.is_ready = True
                self.owner.worker_ready(self, said["ready"])
            elif "failed" in said:
                self.owner.worker_failed(self, said["failed"])
            elif "is_part" in said:
                self.owner.worker_went_on(self, said, buffers)
            else:
                self.owner.worker_answered(self, said, buffers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def send(self, said: dict[str, Any], buffers: Any = ()) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(packed(said, buffers))

    # --- its end ------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        if self.has_begun and not self.is_gone:
            self.process.kill()

    def end_late(self) -> None:
        """It took too long."""
        self.timed_out = True
        self.kill()

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _end(self) -> None:
        """The process has ended, or has closed its socket and is ended now."""
        if self.is_gone:
            return
        self.is_gone, self.is_ready = True, False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)      # with what it started; before its number is free again
        self.process.wait()
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            os.close(self._watched)
        self.stop_timer()
        if self._transport is not None:
            self._transport.close()
        if not self._finished.done():
            self._finished.set_result(None)
        self.owner.worker_gone(self)

    async def stop(self, patience: float = 3.0) -> None:
        """Let it finish what it does, and end it."""
        self.is_stopping = True
        if self.is_gone or not self.has_begun:
            return
        self.send({"do": "stop"})
        try:
            await asyncio.wait_for(asyncio.shield(self._finished), patience)
        except TimeoutError:
            self.kill()
            await asyncio.wait_for(asyncio.shield(self._finished), patience)

    def memory(self) -> int:
        """Bytes of memory it has to itself and shares, as the system counts them; 0 where that is not told."""
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    def why(self) -> str:
        """How it ended."""
        code = self.process.returncode
        if self.timed_out:
            return "did not answer in time and was ended"
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"


