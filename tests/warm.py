"""New processes that need not import anything: forked from a helper that has done so.

A `Helper` is a process that imports modules and waits. `start` forks a child of it that calls a function (of a module,
by reference) in the caller's folder and with the caller's environment and output as they are now. A child has the state
of modules just imported, as that of `multiprocessing`'s spawn has, but for variables that are read during the import:
those are the ones of when the helper began. It ends like any program, and hands back what the pipes it was given carry.

A helper lives until it is closed or its owner ends. Processes it has forked are waited for through it (`wait`), which
also makes their time count as the owner's.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LENGTH = struct.Struct("<Q")


def _send(to: socket.socket, message: Any, files: Sequence[int] = ()) -> None:
    """A message and open files; files go with its length, since only a part that has bytes can carry them."""
    payload = pickle.dumps(message)
    socket.send_fds(to, [LENGTH.pack(len(payload))], files)
    to.sendall(payload)


def _receive(of: socket.socket) -> tuple[Any, list[int]]:
    """The next message and its files; EOFError where the other side has ended."""
    head, files, _, _ = socket.recv_fds(of, LENGTH.size, 16)
    if len(head) < LENGTH.size:
        raise EOFError
    payload, (length,) = bytearray(), LENGTH.unpack(head)
    while len(payload) < length:
        if not (part := of.recv(length - len(payload))):
            raise EOFError
        payload += part
    return pickle.loads(payload), files


class Helper:
    """A process that has imported `modules`; with `source` one forked from that helper, and as new as its others."""

    def __init__(self, modules: Sequence[str], source: Helper | None = None) -> None:
        self.socket, theirs = socket.socketpair()
        if source is None:
            command = [sys.executable, "-m", "tests.warm", *modules, str(theirs.fileno())]
            path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])   # pytest adds to it
            environment = {**os.environ, "PYTHONPATH": path}
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
            self.await_end = process.wait
        else:
            self.await_end = partial(source.wait, source.start(become_helper, *modules, files=[theirs.fileno()]), 10)
        theirs.close()

    def start(self, function: Callable, *args: Any, files: Sequence[int] = (), out: int = 1, err: int = 2) -> int:
        """The id of a new process that calls `function(*args, *files)`, its files being its own copies of ours."""
        call = pickle.dumps((function, args))
        _send(self.socket, ("start", call, os.getcwd(), dict(os.environ)), [out, err, *files])
        return _receive(self.socket)[0]

    def wait(self, process: int, seconds: float) -> int:
        """The exit status as `subprocess` has it; one that does not end in time is killed."""
        _send(self.socket, ("wait", process, seconds))
        return _receive(self.socket)[0]

    def close(self) -> None:
        self.socket.close()
        self.await_end()


def _await(process: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            end = float("inf")
        time.sleep(0.002)


def _become(folder: str, environment: dict[str, str], files: list[int]) -> list[int]:
    """This process, just forked, takes on what the caller gave; leaves the files that are the function's."""
    for place, file in enumerate(files[:2], 1):
        os.dup2(file, place)
        os.close(file)
    os.chdir(folder)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    return files[2:]


def serve(control: socket.socket) -> tuple[Callable, tuple] | None:
    """Answers requests. Returns None when there will be no more, and in a new process what that is to call."""
    while True:
        try:
            (verb, *rest), files = _receive(control)
        except (EOFError, ConnectionError):
            return None
        if verb == "wait":
            _send(control, _await(*rest))
            continue
        if (process := os.fork()) == 0:
            control.close()
            call, *given = rest
            own = _become(*given, files)
            function, args = pickle.loads(call)   # here: what it imports, or fails to, is this process's alone
            return function, (*args, *own)
        _send(control, process)
        for file in files:
            os.close(file)


def become_helper(*given: str | int) -> None:
    """Imports modules, then serves; the last is the open file to serve. In a process forked later: does what that is
    for."""
    *modules, control = given
    for module in modules:
        with suppress(ImportError):   # a process that needs it says so
            importlib.import_module(module)
    if call := serve(socket.socket(fileno=int(control))):
        function, args = call
        function(*args)


if __name__ == "__main__":
    become_helper(*sys.argv[1:])
