"""Workers that stand ready without a model: what takes longest, importing, is behind them.

Enters: how many are wanted. Leaves: a process and our end of its pair of sockets, at once where one stands ready. It is
imported before all that is heavy, so that workers start while the server itself does. Refuses: nothing; a spare that
has died is not handed out.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

PACKAGE_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKER = "rushlight.serve.worker"
Started = tuple[subprocess.Popen, socket.socket]


def started(module: str) -> Started:
    """A new process that runs a module, whose argument is the number of its end."""
    ours, theirs = socket.socketpair()
    path = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": PACKAGE_HOME + (os.pathsep + path if path else "")}
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", module, str(theirs.fileno())], stdin=subprocess.DEVNULL,
                                   env=environment, pass_fds=(theirs.fileno(),), start_new_session=True)
    return process, ours


class Spares:
    """Processes of `worker.py` that wait for a model."""

    def __init__(self) -> None:
        self._standing: list[Started] = []
        self._is_closed = False

    def fill(self, count: int) -> None:
        """Have so many stand ready."""
        while len(self._standing) < count and not self._is_closed:
            self._standing.append(started(WORKER))

    def take(self) -> Started:
        """One of them, or a new one."""
        while self._standing:
            process, ours = self._standing.pop(0)
            if process.poll() is None:
                return process, ours
            ours.close()
        return started(WORKER)

    def close(self) -> None:
        """End those that nobody took."""
        self._is_closed = True
        for process, ours in self._standing:
            ours.close()
            process.kill()
            process.wait()
        self._standing.clear()
