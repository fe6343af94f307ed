"""Locks held elsewhere at the moment of a fork, ops reset while they run, pages returned while others allocate."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

import rushlight as rl


def run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_compiles_can_compile(tmp_path):
    run(f"""
        import os, threading
        os.environ["RUSHLIGHT_CACHE"] = {str(tmp_path)!r}
        import rushlight as rl
        from rushlight.codegen import cpu
        held = threading.Event()
        def hold():
            with cpu._LOCK:
                held.set()
                __import__("time").sleep(0.5)
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if not child:
            assert (rl.arange(5.0).sinh() * 2).shape == (5,)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
        assert (rl.arange(5.0).cosh()).shape == (5,)
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_imports_a_family_of_ops_can_import_it(tmp_path):
    (tmp_path / "slow_family.py").write_text("import time; time.sleep(0.5); value = 3\n")
    run(f"""
        import os, signal, sys, threading, time
        sys.path.insert(0, {str(tmp_path)!r})
        from rushlight.base import late
        thread = threading.Thread(target=late.import_module, args=("slow_family",))
        thread.start()
        while "slow_family" not in sys.modules:
            time.sleep(0.001)
        child = os.fork()
        if not child:
            signal.alarm(5)
            assert late.import_module("slow_family").value == 3
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
    """)


def test_an_op_may_be_reset_while_it_runs():
    class Resetting:
        def __index__(self):
            rl.narrow._reset()
            return 1

    x = rl.arange(6.0)
    for _ in range(50):
        assert rl.narrow(x, 0, Resetting(), 2).tolist() == [1, 2]


def test_pages_go_back_while_others_allocate():
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for n in (1 << 17, 1 << 19, 1 << 21):
                assert rl.ones(n)[-1].item() == 1

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        rl._C.empty_cache()
    stop.set()
    for thread in threads:
        thread.join()


def test_the_pool_starts_once_for_many_first_users():
    run("""
        import threading
        import rushlight as rl
        xs = [rl.empty(200_000).fill_(1.0) for _ in range(8)]
        results = []
        threads = [threading.Thread(target=lambda x=x: results.append((x + 1).sum().item())) for x in xs]
        for t in threads: t.start()
        for t in threads: t.join()
        assert results == [400_000.0] * 8
    """)
