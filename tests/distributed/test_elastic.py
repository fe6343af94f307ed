"""Jobs whose machines come and go: launchers of one machine each stand for machines."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rushlight.distributed.elastic import events
from rushlight.distributed.elastic.membership import ClosedError, Limits, Membership
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from rushlight.distributed.store import HashStore

from .etcd_server import etcd_port

# --- agreement on who takes part, in one process ----------------------------------------------------------------------


def _members(store, count, limits):
    return [Membership(store, "job", 2, limits) for _ in range(count)]


def _join_all(members):
    rounds = [None] * len(members)

    def join(at):
        rounds[at] = members[at].join()

    threads = [threading.Thread(target=join, args=(i,)) for i in range(len(members))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return rounds


QUICK = {"last_call": 0.3, "beat": 0.05, "silence": 0.6}


def test_a_round_runs_with_as_many_as_come():
    members = _members(HashStore(), 3, Limits(1, 3, **QUICK))
    rounds = _join_all(members)
    assert all(r == rounds[0] for r in rounds) and len(rounds[0].machines) == 3
    places = sorted(r.place(m.name) for r, m in zip(rounds, members, strict=True))
    assert places == [(0, 3, 0, 6), (1, 3, 2, 6), (2, 3, 4, 6)]
    assert not members[0].is_over(rounds[0])
    members[0].close("done")


def test_one_that_comes_later_ends_the_round():
    store, limits = HashStore(), Limits(1, 2, **QUICK)
    first, second = _members(store, 2, limits)
    running = first.join()
    assert len(running.machines) == 1
    later = threading.Thread(target=second.join)
    later.start()
    _until(lambda: first.is_over(running))
    assert "1 more machine" in first.is_over(running)
    first.leave(running, failed=False)
    following = first.join()
    later.join(20)
    assert following.number == running.number + 1 and len(following.machines) == 2 and following.restarts == 0
    first.leave(following, failed=True)
    assert _join_all([first, second])[0].restarts == 1
    first.close("enough")
    with pytest.raises(ClosedError, match="enough"):
        second.join()


def test_one_that_gives_no_sign_of_life_is_left_out():
    store = HashStore()
    first, second = _members(store, 2, Limits(1, 2, **QUICK))
    running = _join_all([first, second])[0]
    assert len(running.machines) == 2 and not first.is_over(running)
    second._stop.set()
    _until(lambda: first.is_over(running))
    assert "no sign of life" in first.is_over(running)
    first.leave(running, failed=False)
    assert len(first.join().machines) == 1
    first.close("done")


def test_too_few_is_an_error():
    alone = Membership(HashStore(), "job", 1, Limits(2, 2, join=0.5, **QUICK))
    with pytest.raises(TimeoutError, match="1 of at least 2 machines"):
        alone.join()
    alone._stop.set()


def _until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


# --- launchers --------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys, time
folder = sys.argv[1]
line = " ".join(os.environ[n] for n in ("RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"))
with open(os.path.join(folder, f"seen-{os.getpid()}"), "w") as file:
    file.write(line)
while not os.path.exists(os.path.join(folder, "stop")):
    time.sleep(0.02)
    if os.environ["RANK"] == "1" and os.path.exists(os.path.join(folder, "fail")):
        os.unlink(os.path.join(folder, "fail"))
        sys.exit(7)
"""


class _Job:
    def __init__(self, folder: Path, nodes: str, *more: str, etcd: int = 0) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        with socket.create_server(("", 0)) as free:
            port = etcd or free.getsockname()[1]
        self.command = [
            sys.executable, "-m", "rushlight.distributed.run", "--nnodes", nodes, "--nproc-per-node", "1",
            "--rdzv-backend", "etcd" if etcd else "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
            "--monitor-interval", "0.05",
            "--rdzv-conf", "last_call_timeout=0.5,keep_alive_interval=0.2,keep_alive_timeout=3,join_timeout=60",
            *more, str(folder / "program.py"), str(self.folder),
        ]
        self.launchers: list[subprocess.Popen] = []

    def start(self) -> subprocess.Popen:
        self.launchers.append(subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True, start_new_session=True))
        return self.launchers[-1]

    def running(self) -> list[str]:
        """What the processes that are alive wrote."""
        found = []
        for path in self.folder.glob("seen-*"):
            try:
                os.kill(int(path.name.removeprefix("seen-")), 0)
            except ProcessLookupError:
                continue
            found.append(path.read_text())
        return sorted(found)

    def await_running(self, *lines: str) -> None:
        _until(lambda: self.running() == sorted(lines), 60)

    def kill(self, launcher: subprocess.Popen) -> None:
        """A machine is lost: the launcher and its processes at once."""
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        launcher.kill()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        launcher.communicate()
        self.launchers.remove(launcher)

    def stop(self) -> list[tuple[int, str]]:
        (self.folder / "stop").write_text("")
        return [(launcher.returncode, errors) for launcher in self.launchers
                for errors in [launcher.communicate(timeout=60)[1]]]


def test_machines_are_lost_and_come_back(tmp_path):
    job = _Job(tmp_path, "1:3")
    job.start()
    job.await_running("0 1 1 0")
    second = job.start()
    job.await_running("0 2 2 0", "1 2 2 0")
    job.kill(second)
    job.await_running("0 1 1 0")
    job.start()
    job.start()
    job.await_running("0 3 3 0", "1 3 3 0", "2 3 3 0")
    for status, errors in job.stop():
        assert status == 0, errors


def test_with_etcd_any_machine_may_be_lost(tmp_path):
    job = _Job(tmp_path, "1:2", "--rdzv-id", tmp_path.name, etcd=etcd_port())
    first = job.start()
    job.await_running("0 1 1 0")
    job.start()
    job.await_running("0 2 2 0", "1 2 2 0")
    job.kill(first)                     # with c10d the store, and the job, would go with it
    job.await_running("0 1 1 0")
    ((status, errors),) = job.stop()
    assert status == 0, errors


def test_an_etcd_that_is_not_there_is_named(tmp_path, capsys):
    from rushlight.distributed import run

    with pytest.raises(RuntimeError, match=r"etcd at 127.0.0.1:9 cannot be reached"):
        run.main(["--nnodes", "2", "--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "127.0.0.1:9", "program.py"])


def test_a_failure_is_a_restart_of_all(tmp_path):
    job = _Job(tmp_path, "2:2", "--max-restarts", "1")
    job.start()
    job.start()
    job.await_running("0 2 2 0", "1 2 2 0")
    (job.folder / "fail").write_text("")
    job.await_running("0 2 2 1", "1 2 2 1")
    (job.folder / "fail").write_text("")
    found = [(launcher.communicate(timeout=60)[1], launcher.returncode) for launcher in job.launchers]
    assert [status for _, status in found] == [1, 1]
    assert any("rank 1 (local rank 0" in errors and "exit status 7" in errors for errors, _ in found)
    assert all("max_restarts=1" in errors or "exit status 7" in errors for errors, _ in found)


# --- what processes say -----------------------------------------------------------------------------------------------


def test_the_launcher_shows_what_a_process_said(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from rushlight.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise ValueError('the disk is full')\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-m", "rushlight.distributed.run", str(program)], capture_output=True,
                          text=True, timeout=100)
    assert done.returncode == 1 and "exit status 1: ValueError: the disk is full" in done.stderr


def test_errors_are_written_and_read(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))

    @record
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert "KeyError" in json.loads(file.read_text())["message"]["message"]
    failure = ProcessFailure(0, 123, 1, str(file))
    killed = ProcessFailure(1, 124, -9, str(tmp_path / "none"))
    assert "KeyError" in failure.message and "SIGKILL" in killed.message
    text = str(ChildFailedError("trainer", {0: failure, 1: killed}))
    assert "rank 0" in text and "SIGKILL" in text
    assert record(lambda: 5)() == 5


def test_events(capsys):
    event = events.Event("started", events.EventSource.AGENT, 5, {"rank": 1})
    assert events.Event.deserialize(event.serialize()) == event
    events.record(event)
    with pytest.raises(ValueError, match="null"):
        events.record(event, "the moon")
