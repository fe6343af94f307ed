"""What may happen while a frame is captured: signals, finalizers, forks, other threads. Programs see no capture."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as torch

X = torch.linspace(-1, 1, 4)


@pytest.fixture
def on_signal() -> Iterator[list[Callable[[], Any]]]:
    """What a handler of SIGUSR1 does."""
    todo: list[Callable[[], Any]] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: todo[0]())
    handler = signal.getsignal(signal.SIGUSR1)
    yield todo
    assert signal.getsignal(signal.SIGUSR1) is handler
    signal.signal(signal.SIGUSR1, before)


def interrupted(fn: Callable, interrupt: Callable[[], Any]) -> Callable:
    """The function compiled, with something that happens while its graph is compiled."""
    def backend(graph: Any, inputs: list[Any]) -> Callable:
        interrupt()
        return graph.forward

    return torch.compile(fn, backend=backend)


def wave(x: Any) -> Any:
    return x.sin() + x.shape[0]


@torch.library.custom_op("interruptions::rings", mutates_args=())
def rings(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@rings.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    signal.raise_signal(signal.SIGUSR1)      # in the middle of a capture
    return torch.empty_like(x)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_handlers_of_signals_see_tensors_and_no_capture(on_signal: list, backend: str) -> None:
    compiled = torch.compile(wave)
    compiled(X)
    found: list[Any] = []

    def handler() -> None:
        found.append((torch.compiler.is_compiling(), torch.is_grad_enabled(), type(X + 1), compiled(X).tolist(),
                      (torch.ones(2) * 3).tolist(), compiled(X[:3]).tolist()))

    on_signal.append(handler)

    def program(x: Any) -> Any:
        with torch.no_grad():
            return rings(x) + 1

    for _ in range(2):
        torch.testing.assert_close(torch.compile(program, backend=backend)(X), X * 2 + 1)
    assert found and all(one == (False, True, torch.Tensor, wave(X).tolist(), [3, 3], wave(X[:3]).tolist())
                         for one in found)


def test_exceptions_of_handlers_end_the_capture(on_signal: list) -> None:
    def handler() -> None:
        raise TimeoutError("too late")

    on_signal.append(handler)
    compiled = torch.compile(lambda x: rings(x) + 1, backend="eager")
    with pytest.raises(TimeoutError, match="too late"):
        compiled(X)
    assert not torch.compiler.is_compiling() and type(X + 1) is torch.Tensor
    on_signal[0] = lambda: None
    torch.testing.assert_close(compiled(X), X * 2 + 1)


def test_handlers_may_install_others(on_signal: list) -> None:
    """What was there before is a handler like any other, also when the capture is over."""
    told: list[str] = []
    kept: list[Any] = []

    def other(number: int, frame: Any) -> None:
        told.append("other")

    def handler() -> None:
        told.append("first")
        kept.append(signal.signal(signal.SIGUSR1, other))

    on_signal.append(handler)
    compiled = torch.compile(lambda x: rings(x) + 1, backend="eager")
    compiled(X)
    assert signal.getsignal(signal.SIGUSR1) is other and told[0] == "first" and set(told[1:]) <= {"other"}
    on_signal[0] = lambda: told.append("again")
    signal.signal(signal.SIGUSR1, kept[0])
    signal.raise_signal(signal.SIGUSR1)
    assert told[-1] == "again"
    signal.signal(signal.SIGUSR1, kept[0].handler)


def test_keyboard_interrupts_leave_nothing_behind() -> None:
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise KeyboardInterrupt

    compiled = interrupted(wave, interrupt)
    with pytest.raises(KeyboardInterrupt):
        compiled(X)
    assert not torch.compiler.is_compiling() and type(X + 1) is torch.Tensor and torch.is_grad_enabled()
    torch.testing.assert_close(compiled(X), wave(X))
    assert count == 2


def test_finalizers_run_compiled_code() -> None:
    double = torch.compile(lambda x: x * 2, backend="eager")
    found: list[Any] = []

    class Told:
        def __del__(self) -> None:
            found.append(double(X).tolist())

    def collect() -> None:
        one = Told()
        one.itself = one
        del one
        gc.collect()

    torch.testing.assert_close(interrupted(wave, collect)(X), wave(X))
    assert found == [(X * 2).tolist()]


def test_compiled_functions_are_called_while_another_is_compiled() -> None:
    double = torch.compile(lambda x: x * 2, backend="eager")
    found: list[Any] = []
    torch.testing.assert_close(interrupted(wave, lambda: found.append(double(X).tolist()))(X), wave(X))
    assert found == [(X * 2).tolist()]


def child(todo: Callable[[], bool]) -> int:
    """The status of a child process that does this."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.alarm(60)      # a lock that nobody holds any more would be waited for
            code = 0 if todo() else 2
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitpid(pid, 0)[1]


def compiles() -> bool:
    return torch.allclose(torch.compile(wave, backend="aot_eager")(X), wave(X))


def test_forks_while_frames_are_compiled() -> None:
    statuses: list[int] = []
    compiled = interrupted(wave, lambda: statuses.append(child(compiles)))
    torch.testing.assert_close(compiled(X), wave(X))
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        goes_on.wait(60)

    slow = interrupted(wave, wait)
    thread = threading.Thread(target=slow, args=(X,))
    thread.start()
    begun.wait(60)
    statuses.append(child(compiles))
    goes_on.set()
    thread.join()
    assert statuses == [0, 0]


def test_frames_that_fork_go_on_in_both_processes() -> None:
    def program(x: Any) -> Any:
        y = x + 1
        pid = os.fork()
        if not pid:
            os._exit(0 if (y * 2).tolist() == (X * 2 + 2).tolist() and compiles() else 3)
        return y * 2, os.waitpid(pid, 0)[1]

    y, status = torch.compile(program, backend="eager")(X)
    torch.testing.assert_close(y, X * 2 + 2)
    assert status == 0


def test_threads_compile_and_forget_at_once() -> None:
    def program(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break()
        return y * x.shape[0]

    compiled = torch.compile(program, backend="eager")
    wrong: list[Any] = []

    def work() -> None:
        for i in range(30):
            x = torch.ones(2 + i % 5)
            if not torch.equal(compiled(x), program(x)):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        torch._dynamo.reset()
        threads[0].join(0.01)
    assert not wrong


def test_coroutines_take_turns() -> None:
    scaled = torch.compile(lambda x, n: x * n, backend="eager")

    async def one(i: int) -> Any:
        await asyncio.sleep(0)
        y = scaled(torch.ones(i + 1), i)
        await asyncio.sleep(0)
        return scaled(y, 2).tolist()

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(one, range(5)))

    assert asyncio.run(all_of_them()) == [[2.0 * i] * (i + 1) for i in range(5)]


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
def test_tracers_and_profilers_stay(install: Callable) -> None:
    events: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        events.append(event)
        return trace

    before = sys.gettrace(), sys.getprofile()
    compiled = torch.compile(wave, backend="eager")
    install(trace)
    try:
        results = [compiled(X) for _ in range(2)]
        assert (sys.gettrace() if install is sys.settrace else sys.getprofile()) is trace
    finally:
        install(before[install is sys.setprofile])
    for result in results:
        torch.testing.assert_close(result, wave(X))
    assert "call" in events
