"""Workers that die, raise or hang, and loaders that are left: a clear error, no hang, no process, no shared memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("scenarios.py")
LIMIT = 60


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie waiting for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def all_gone(pids, seconds=15.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(is_running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def pids_in(text: str) -> list[int]:
    found = re.search(r"PIDS ([\d ]+)", text)
    return [int(p) for p in found.group(1).split()] if found else []


@pytest.fixture
def no_leftovers():
    before = set(os.listdir("/dev/shm"))
    yield
    left = {name for name in set(os.listdir("/dev/shm")) - before if "rushlight" in name or "torch" in name}
    assert not left


def start(name: str, **options) -> subprocess.Popen:
    environment = dict(os.environ, PYTHONPATH=str(SCRIPT.parents[2]))
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        **options,
    )


def run(name: str) -> str:
    process = start(name)
    try:
        text = process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{name} hangs: {process.communicate()[0]}")
    assert process.returncode == 0, text
    assert "DONE" in text
    assert all_gone(pids_in(text)), "workers are left running"
    return text


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("exit", r"RuntimeError DataLoader worker \(pid\(s\) \d+\) exited unexpectedly with exit code 3"),
        ("exit_unordered", r"RuntimeError DataLoader worker \(pid\(s\) \d+\) exited unexpectedly with exit code 3"),
        ("kill", r"RuntimeError DataLoader worker \(pid \d+\) is killed by signal: Killed"),
        ("segfault", r"RuntimeError DataLoader worker \(pid \d+\) is killed by signal: Segmentation fault"),
        (
            "key_error",
            (
                r"KeyError Caught KeyError in DataLoader worker process 0\. \| Original Traceback"
                r" .*raise_key.*KeyError: 'no such key'"
            ),
        ),
        ("odd_error", r"RuntimeError Caught TwoArguments in DataLoader worker process 0\. \| Original Traceback"),
        ("timeout", r"RuntimeError DataLoader timed out after 1 seconds"),
        ("init_fails", r"OSError Caught OSError in DataLoader worker process 1\..*worker_init_fn of 1"),
        ("unpicklable", r"Error Caught .*Error in DataLoader worker process 0\..*lambda"),
        ("stop_half_way", r"kept \[0.0, 1.0, 2.0, 3.0\]"),
        ("raise_in_loop", r"ValueError at 0.0"),
        ("persistent_exit", r"0.0"),
        ("endless", r"DONE"),
    ],
)
def test_bad_end_is_reported_and_cleaned_up(name, pattern, no_leftovers):
    assert re.search(pattern, run(name))


def test_iterators_made_and_dropped_leave_no_descriptors():
    used = int(re.search(r"descriptors (\d+)", run("many")).group(1))
    assert used < 20


@pytest.mark.parametrize("how", ["ctrl_c", "terminated", "killed"])
def test_main_process_ended_from_outside_takes_its_workers_along(how, no_leftovers):
    process = start("interrupted", start_new_session=True)
    try:
        said = ""
        while "READY" not in said:
            said += process.stdout.readline()
        time.sleep(0.3)
        if how == "ctrl_c":  # a terminal interrupts the whole group
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGTERM if how == "terminated" else signal.SIGKILL)
        process.wait(timeout=LIMIT)
        if how == "ctrl_c":
            rest = process.stdout.read()
            assert "KeyboardInterrupt" in rest
            assert "sleep_long" not in rest, "a worker prints its own traceback"
        assert all_gone(pids_in(said)), "a worker has not noticed, though it is busy, that the loader is gone"
    finally:
        for pid in pids_in(said):
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        if process.poll() is None:
            process.kill()
        process.stdout.close()
