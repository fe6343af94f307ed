"""Threads that draw random numbers or run kernels while the process forks, or ends."""

from __future__ import annotations

import subprocess
import sys

FORK = """
import os, signal, threading, time
import rushlight as rl

rl.randn(10)
def draw():
    while True:
        rl.randn(100_000)
threading.Thread(target=draw, daemon=True).start()
for _ in range(20):
    child = os.fork()
    if not child:
        rl.randn(10)
        os._exit(0)
    deadline = time.time() + 60
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.time() > deadline:
            os.kill(child, signal.SIGKILL)
            print("hung", flush=True)
            os._exit(1)
        time.sleep(0.002)
os._exit(0)
"""

EXIT = """
import threading, time
import rushlight as rl

x = rl.ones(1 << 20)
def work():
    while True:
        {call}
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)


def test_a_child_forked_while_another_thread_draws_can_draw() -> None:
    done = run(FORK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_process_ends_well_while_a_daemon_thread_works() -> None:
    for call in ("rl.randn(100_000)", "x.exp()", "x.sum()"):
        for _ in range(2):
            done = run(EXIT.format(call=call))
            assert done.returncode == 0, (call, done.returncode, done.stderr)
