"""An etcd for tests, where one is installed (Debian: etcd-server): started once in each process of the tests."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time

import pytest


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@functools.cache
def _start() -> int | None:
    program = shutil.which("etcd")
    if program is None:
        return None
    port, peers = _free_port(), _free_port()
    folder = tempfile.mkdtemp(prefix="etcd-")
    process = subprocess.Popen(
        [program, "--data-dir", folder, "--listen-client-urls", f"http://127.0.0.1:{port}", "--advertise-client-urls",
         f"http://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peers}", "--initial-advertise-peer-urls",
         f"http://127.0.0.1:{peers}", "--initial-cluster", f"default=http://127.0.0.1:{peers}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"},
    )
    atexit.register(lambda: (process.kill(), shutil.rmtree(folder, ignore_errors=True)))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return port
        except OSError:
            time.sleep(0.05)
    return None


def etcd_port() -> int:
    """Where it answers; the test is skipped where there is none."""
    port = _start()
    if port is None:
        pytest.skip("needs an etcd")
    return port
