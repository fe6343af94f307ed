"""A server of the command, as its users start it, for the tests of this folder.

Enters: options of the command. Leaves: a running server with free ports, and what clients ask it. Refuses: nothing; a
server that does not start fails the test with what it said.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "rushlight", "serve"]
FREE = ["--port", "0", "--management-port", "0", "--metrics-port", "0", "--grpc-port", "0", "--threads", "1"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class Running:
    """A server that is ready."""

    def __init__(self, process: subprocess.Popen, line: str) -> None:
        self.process, self.line = process, line
        found = {name: int(number) for name, number in re.findall(r"(http|management|metrics|grpc) (\d+)", line)}
        self.http, self.management = found["http"], found["management"]
        self.metrics, self.grpc = found["metrics"], found.get("grpc", 0)

    def ask(self, path: str, data: Any = None, *, port: int | None = None, method: str | None = None,
            headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and what was answered, JSON as values."""
        body = data if data is None or isinstance(data, bytes) else json.dumps(data).encode()
        headers = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers or {}
        asked = urllib.request.Request(f"http://127.0.0.1:{port or self.http}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, _read(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, _read(refused)

    def manage(self, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        return self.ask(path, port=self.management, method=method, headers=headers)

    def workers(self, model: str) -> list[dict[str, Any]]:
        return self.manage("GET", f"/models/{model}")[1][0]["workers"]

    def counted(self) -> str:
        return self.ask("/metrics", port=self.metrics)[1]


def _read(answer: Any) -> Any:
    content = answer.read()
    kind = answer.headers.get("Content-Type", "")
    return json.loads(content) if kind.startswith("application/json") else content.decode("utf-8", "replace") \
        if kind.startswith("text/") else content


@contextlib.contextmanager
def server(*options: Any) -> Iterator[Running]:
    """A server with these options, ended by SIGTERM; it must then end well and soon."""
    process = subprocess.Popen([*COMMAND, *FREE, *map(str, options)], stdout=subprocess.PIPE, text=True,
                               env=environment(), cwd=ROOT)
    try:
        line = process.stdout.readline()
        assert line.startswith("rushlight serve: ready"), f"the server did not start: {line!r}"
        yield Running(process, line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def refused_start(*options: Any) -> subprocess.CompletedProcess:
    """What the command says and ends with where it cannot start."""
    return subprocess.run([*COMMAND, *FREE, *map(str, options)], capture_output=True, text=True, env=environment(),
                          cwd=ROOT, timeout=60)
