"""Locks in captured frames: held while the effects of their blocks are written, by no thread for longer than asked."""

from __future__ import annotations

import threading
import time

import pytest

import rushlight as torch
from rushlight._dynamo.exc import Unsupported

LOCK, OTHER, AGAIN = threading.Lock(), threading.Lock(), threading.RLock()


class State:
    def __init__(self):
        self.count, self.is_ready, self.log = 0, False, []


def compiled(function, **options):
    torch.compiler.reset()
    return torch.compile(function, backend="eager", **options)


def install(x, state):
    y = x * 2
    if not state.is_ready:
        with LOCK:
            if not state.is_ready:
                state.count += 1
                state.is_ready = True
    return y + state.count


def test_lock_is_taken_for_effects_and_let_go():
    state, run = State(), compiled(install, fullgraph=True)
    for _ in range(3):
        assert run(torch.ones(2), state).tolist() == [3.0, 3.0]
        assert not LOCK.locked()
    assert state.count == 1


def test_what_changed_while_the_lock_was_waited_for_is_seen():
    run = compiled(install, fullgraph=True)
    run(torch.ones(2), State())      # compiled for a state that is not ready
    state, found = State(), []
    LOCK.acquire()
    thread = threading.Thread(target=lambda: found.append(run(torch.ones(2), state)))
    thread.start()
    time.sleep(0.2)
    assert not found      # its guards held, and it waits
    state.count, state.is_ready = 10, True
    LOCK.release()
    thread.join(20)
    assert state.count == 10 and found[0].tolist() == [12.0, 12.0]


def test_many_threads_install_once():
    run = compiled(install)
    run(torch.ones(2), State())
    for _ in range(10):
        state, start = State(), threading.Barrier(4)

        def work(state=state, start=start):
            start.wait()
            run(torch.ones(2), state)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(20)
        assert state.count == 1


def test_reentrant_lock_and_calls_of_its_methods():
    def f(x, state):
        with AGAIN:
            AGAIN.acquire()
            state.count += 1
            AGAIN.release()
        return x + state.count

    state = State()
    run = compiled(f, fullgraph=True)
    assert [run(torch.zeros(1), state).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert AGAIN.acquire(blocking=False)
    AGAIN.release()
    assert not AGAIN._is_owned()


def test_lock_that_stays_taken():
    def f(x, state):
        LOCK.acquire()
        state.count += 1
        return x + 1

    state, run = State(), compiled(f, fullgraph=True)
    for _ in range(2):
        run(torch.ones(2), state)
        assert LOCK.locked()
        LOCK.release()
    assert state.count == 2


def test_break_inside_of_the_block():
    def f(x, state):
        with LOCK:
            state.count += 1
            y = x * state.count
            torch._dynamo.graph_break()
            state.log.append(LOCK.locked())
            y = y + 1
        return y

    state, run = State(), compiled(f)
    assert [run(torch.ones(1), state).item() for _ in range(2)] == [2.0, 3.0]
    assert state.log == [True, True] and not LOCK.locked()


def test_exception_of_the_graph_lets_go():
    def failing(graph, inputs):
        def run(*args):
            raise RuntimeError("from the graph")

        return run

    def f(x, state):
        with LOCK:
            state.count += 1
            y = x.sin()
        return y

    state = State()
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="from the graph"):
        torch.compile(f, backend=failing)(torch.ones(2), state)
    assert state.count == 0 and not LOCK.locked()


def test_exception_of_the_program_inside_of_the_block():
    def f(x, state):
        try:
            with LOCK:
                state.count += 1
                raise ValueError("inside")
        except ValueError:
            return x + state.count
        return x

    state, run = State(), compiled(f, fullgraph=True)
    assert run(torch.zeros(1), state).item() == 1.0 and not LOCK.locked()


@pytest.mark.parametrize("what", ["one after the other", "timeout", "asked"])
def test_what_depends_on_other_threads_breaks(what):
    def f(x):
        if what == "one after the other":
            with LOCK:
                y = x + 1
            with OTHER:
                return y + 1
        if what == "timeout":
            got = LOCK.acquire(timeout=1)
            LOCK.release()
            return x + int(got)
        return x + int(LOCK.locked())

    expected = f(torch.zeros(1))
    with pytest.raises(Unsupported, match="lock"):
        compiled(f, fullgraph=True)(torch.zeros(1))
    assert torch.equal(compiled(f)(torch.zeros(1)), expected)
    assert not LOCK.locked() and not OTHER.locked()


def test_nested_locks_are_taken_in_the_order_of_the_program():
    order = []

    def f(x, state):
        with OTHER, LOCK:
            state.count += 1
        return x + state.count

    state, run = State(), compiled(f, fullgraph=True)
    run(torch.zeros(1), state)
    LOCK.acquire()
    thread = threading.Thread(target=lambda: order.append(run(torch.zeros(1), state).item()))
    thread.start()
    deadline = time.time() + 10
    while not OTHER.locked() and time.time() < deadline:
        time.sleep(0.01)
    assert OTHER.locked() and not order
    LOCK.release()
    thread.join(20)
    assert order == [2.0] and not OTHER.locked()
