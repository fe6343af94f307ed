"""`torch.distributed.rpc.api`: calls of functions on other workers."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from ...futures import Future, wait_all
from .. import autograd
from . import messages, rref as references
from .agent import Agent, RemoteException, WorkerInfo
from .constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from .messages import Message
from .rref import RRef, State, Table, _Later

__all__ = ["RRef", "get_rpc_timeout", "get_worker_info", "remote", "rpc_async", "rpc_sync", "shutdown"]

_local = threading.local()


def _require_initialized(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that needs `init_rpc` to have been called."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if State.agent is None:
            raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
        return function(*args, **kwargs)

    return checked


def _is_current_rpc_agent_set() -> bool:
    return State.agent is not None


def start(agent_of: Callable[..., Agent], rank: int) -> None:
    """Become a worker."""
    State.table, State.api = Table(rank), sys.modules[__name__]
    autograd._init(rank, rpc_async)
    _Gathering.reset()
    State.agent = agent_of(serve=_serve, take=_take)
    State.agent.start()


# --- calling ----------------------------------------------------------------------------------------------------------


def _request(to: WorkerInfo, kind: str, about: tuple, item: Any, timeout: float) -> Future:
    """Send a call, with the gradient context of this thread; a future of the answer's value."""
    body, tensors = messages.packed(item)
    context = autograd._current_id()
    sent = autograd._sent(context, to.id, tensors)
    answer = State.agent.call(to, kind, (context, sent, *about), body, tensors, timeout)
    result: Future = Future()

    def settle(done: Future) -> None:
        try:
            value = _answered(done.value(), to, context)
        except Exception as error:
            result.set_exception(error)
            return
        result.set_result(value)

    answer.add_done_callback(settle)
    return result


def _answered(message: Message, source: WorkerInfo, context: int) -> Any:
    _, _, sent = message.head
    tensors = autograd._received(context, source.id, sent, message.tensors)
    value = messages.unpacked(message.body, tensors)
    if isinstance(value, RemoteException):
        raise value.as_error()
    return value


def _check_call(func: Any, args: Any, kwargs: Any) -> tuple[tuple, dict]:
    if not callable(func):
        raise TypeError(f"function should be callable, got {func!r}")
    return tuple(args or ()), dict(kwargs or {})


@_require_initialized
def rpc_async(
    to: Any, func: Callable[..., Any], args: tuple | None = None, kwargs: dict | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:
    """Call a function on a worker; a future of what it returns. `timeout` is in seconds, 0 for none."""
    call = (func, *_check_call(func, args, kwargs))
    future = _request(State.agent.info(to), "call", (), call, timeout)
    if hasattr(_local, "futures"):
        _local.futures.append(future)
    return future


@_require_initialized
def rpc_sync(
    to: Any, func: Callable[..., Any], args: tuple | None = None, kwargs: dict | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Call a function on a worker, and wait for what it returns."""
    call = (func, *_check_call(func, args, kwargs))
    return _request(State.agent.info(to), "call", (), call, timeout).wait()


@_require_initialized
def remote(
    to: Any, func: Callable[..., Any], args: tuple | None = None, kwargs: dict | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef:
    """Call a function on a worker, and leave what it returns there: a reference to it, at once."""
    call = (func, *_check_call(func, args, kwargs))
    owner, table = State.agent.info(to), State.table
    rref, fork = table.new_id(), table.new_id()
    future = None
    if owner == State.agent.me:
        table.add(rref, fork)
        future = table.entry(rref).value
    created = _request(owner, "remote", (rref, fork), call, timeout)
    return RRef._of(owner, rref, fork, future, created)


@contextlib.contextmanager
def _wait_all() -> Iterator[None]:
    """Inside, futures of `rpc_async` are collected; they are waited for at the end."""
    _local.futures = []
    try:
        yield
    finally:
        futures = _local.futures
        del _local.futures
        wait_all(futures)


# --- serving ----------------------------------------------------------------------------------------------------------


def _take(message: Message, source: WorkerInfo) -> bool:
    """What is done in the order of messages: values that will be referred to, and that are no more."""
    kind, _, *about = message.head
    if kind == "drop":
        State.table.drop(*about)
        return True
    if kind == "remote":
        _, _, rref, fork = about
        State.table.add(rref, fork)
    return False


def _serve(message: Message, source: WorkerInfo, answer: Callable[[Message], None]) -> None:
    kind, _, context, sent, *about = message.head

    def reply(value: Any) -> None:
        try:
            body, tensors = messages.packed(value)
        except Exception as error:
            body, tensors = messages.packed(_remote_error(error))
        answer(Message((autograd._sent(context, source.id, tensors),), body, tensors))

    with autograd._within(context):
        entry = State.table.entry(about[0]) if kind == "remote" else None
        try:
            tensors = autograd._received(context, source.id, sent, message.tensors)
            function, args, kwargs = messages.unpacked(message.body, tensors)
            if entry is not None:
                reply(None)      # the value is known of; what becomes of it, whoever fetches it is told
            result = function(*args, **kwargs)
        except Exception as error:
            if entry is not None:
                entry.value.set_exception(_remote_error(error).as_error())
            else:
                reply(_remote_error(error))
            return
        marked = getattr(function, "_wrapped_async_rpc_function", None) is not None
        future = result.future if isinstance(result, _Later) else result if marked else None
        if future is None:
            entry.value.set_result(result) if entry is not None else reply(result)
            return
        finish = _Finish(entry, reply, context)
        if isinstance(future, Future):
            future.add_done_callback(finish)
        else:
            finish.fail(RuntimeError(f"Functions decorated with @rpc.functions.async_execution must return a "
                                     f"torch.futures.Future object, got {type(future).__name__}"))


class _Finish:
    """Answers a call when a future has its value."""

    def __init__(self, entry: Any, reply: Callable[[Any], None], context: int) -> None:
        self.entry, self.reply, self.context = entry, reply, context

    def __call__(self, done: Future) -> None:
        with autograd._within(self.context):
            try:
                value = done.value()
            except Exception as error:
                self.fail(error)
                return
            if self.entry is not None:
                self.entry.value.set_result(value)
            else:
                self.reply(value)

    def fail(self, error: Exception) -> None:
        if self.entry is not None:
            self.entry.value.set_exception(error)
        else:
            self.reply(_remote_error(error))


def _remote_error(error: BaseException) -> RemoteException:
    trace = "".join(traceback.format_exception(error))
    return RemoteException(f"On {State.agent.me}:\n{error!r}\n{trace}", type(error))


# --- workers ----------------------------------------------------------------------------------------------------------


@_require_initialized
def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker by its name; this one if none is given."""
    return State.agent.me if worker_name is None else State.agent.info(worker_name)


@_require_initialized
def get_rpc_timeout() -> float:
    """Seconds that a call may take if nobody says."""
    return State.agent.timeout


@_require_initialized
def _set_rpc_timeout(seconds: float) -> None:
    State.agent.timeout = float(seconds)


class _Gathering:
    """Objects of several workers on their way to all of them."""

    lock = threading.Lock()
    news = threading.Condition(lock)
    counts: dict[tuple, int] = {}      # noqa: RUF012 - of this worker's life
    boxes: dict[tuple, dict[str, Any]] = {}      # noqa: RUF012

    @classmethod
    def reset(cls) -> None:
        cls.counts, cls.boxes = {}, {}


def _put(key: tuple, name: str, item: Any) -> None:
    with _Gathering.news:
        _Gathering.boxes.setdefault(key, {})[name] = item
        _Gathering.news.notify_all()


@_require_initialized
def _all_gather(obj: Any, worker_names: set[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT) -> dict[str, Any]:
    """{name: object} of all workers, or of those named, on each of them."""
    names = sorted(worker_names or State.agent.workers)
    with _Gathering.lock:
        number = _Gathering.counts[tuple(names)] = _Gathering.counts.get(tuple(names), 0) + 1
    key, me = (number, *names), State.agent.me.name
    wait_all([rpc_async(name, _put, (key, me, obj), timeout=timeout) for name in names])
    limit = None if timeout == 0 else State.agent.timeout if timeout < 0 else timeout
    with _Gathering.news:
        is_whole = _Gathering.news.wait_for(lambda: len(_Gathering.boxes.get(key, ())) == len(names), limit or None)
        found = _Gathering.boxes.pop(key, {})
    if not is_whole:
        raise RuntimeError(f"{sorted(set(names) - set(found))} did not come within {limit:g} s")
    return found


@_require_initialized
def _barrier(worker_names: Any) -> None:
    """Wait for the workers named."""
    _all_gather(None, set(worker_names))


def _wait_all_workers(timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Until all workers are here, and none of them has anything to do."""
    _all_gather(None, timeout=timeout)
    State.agent.wait_until_idle()
    _all_gather(None, timeout=timeout)


@_require_initialized
def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Be a worker no more: if gracefully, when all others are done too (within `timeout` seconds, 0 for no limit)."""
    agent = State.agent
    try:
        if graceful:
            _wait_all_workers(timeout)
            agent.wait_until_served()
    finally:
        State.agent = None
        State.table.clear()
        autograd._forget()
        agent.close()


references.State.api = sys.modules[__name__]
