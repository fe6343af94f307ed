"""`RRef`: a value that another worker has, and how long it keeps it.

Whoever has a reference to a value of another worker has a fork of it, and the owner counts forks: it keeps the value
while there are any. A fork that goes to another worker is counted before it is sent, so that the count is never too
low.
"""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any, Generic, TypeVar

from ...futures import Future
from . import messages
from .agent import WorkerInfo
from .constants import UNSET_RPC_TIMEOUT

T = TypeVar("T")


class _Owned:
    """A value that this worker has for others: it may still be computed."""

    def __init__(self) -> None:
        self.value: Future = Future()
        self.forks: set[tuple[int, int]] = set()


class Table:
    """The values that others refer to, and the numbers for new ones."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._numbers = itertools.count()
        self._owned: dict[tuple[int, int], _Owned] = {}
        self._lock = threading.Lock()

    def new_id(self) -> tuple[int, int]:
        return self._rank, next(self._numbers)

    def entry(self, rref: tuple[int, int]) -> _Owned:
        """A value, or the place where it will be."""
        with self._lock:
            return self._owned.setdefault(rref, _Owned())

    def add(self, rref: tuple[int, int], fork: tuple[int, int]) -> None:
        """Somebody has a reference."""
        with self._lock:
            self._owned.setdefault(rref, _Owned()).forks.add(fork)

    def drop(self, rref: tuple[int, int], fork: tuple[int, int]) -> None:
        """Somebody has one no more; the last takes the value with it."""
        with self._lock:
            entry = self._owned.get(rref)
            if entry is None:
                return
            entry.forks.discard(fork)
            if not entry.forks:
                del self._owned[rref]

    def __len__(self) -> int:
        return len(self._owned)

    def clear(self) -> None:
        with self._lock:
            self._owned.clear()


class State:
    """What references need of this worker; set by `init_rpc`."""

    agent: Any = None
    table: Table = Table(-1)
    api: Any = None


def _require() -> Any:
    if State.agent is None:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return State.agent


class RRef(Generic[T]):
    """A reference to a value: `RRef(value)` here, or what `remote` returns. It can be an argument of calls."""

    def __init__(self, value: T, type_hint: Any = None) -> None:
        agent = _require()
        self._owner = agent.me
        self._id: tuple[int, int] | None = None
        self._fork: tuple[int, int] | None = None
        self._future: Future = Future()
        self._future.set_result(value)
        self._created: Future = self._future

    # --- where it is --------------------------------------------------------------------------------------------------

    @classmethod
    def _of(cls, owner: WorkerInfo, rref: Any, fork: Any, future: Future | None, created: Future) -> RRef:
        result = cls.__new__(cls)
        result._owner, result._id, result._fork = owner, rref, fork
        result._future, result._created = future, created      # type: ignore[assignment]
        return result

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._owner

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether the value is here."""
        return self._owner == _require().me

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this reference."""
        return self.is_owner() or self._created.done()

    # --- the value ----------------------------------------------------------------------------------------------------

    def local_value(self) -> T:
        """The value, on its owner; it may have to be waited for."""
        if not self.is_owner():
            raise RuntimeError(f"local_value: the value is on {self._owner.name}, not here: use to_here()")
        return self._future.wait()

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> T:
        """The value, copied from its owner."""
        if self.is_owner():
            return self._future.wait()
        return State.api.rpc_sync(self._owner, _fetched, (self._id,), timeout=timeout)

    def _get_future(self) -> Future:
        return self._created

    def _get_type(self, timeout: float = UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """The class of the value."""
        future = State.api.rpc_async(self._owner, _type_of, (self,), timeout=timeout)
        return future.wait() if blocking else future

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Go back from a value of one element: in this process, or in a context of several."""
        if not self.is_owner():
            State.api.rpc_sync(self._owner, _backward_on_owner, (self, dist_autograd_ctx_id, retain_graph))
            return
        value: Any = self.local_value()
        if not hasattr(value, "backward"):
            raise RuntimeError(f"RRef.backward: expected a tensor, the value is a {type(value).__name__}")
        if dist_autograd_ctx_id == -1:
            value.backward(retain_graph=retain_graph)
        else:
            from .. import autograd

            autograd.backward(dist_autograd_ctx_id, [value], retain_graph)

    # --- calls of its methods -----------------------------------------------------------------------------------------

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Methods:
        """`rref.rpc_sync().method(...)` calls it on the owner and waits."""
        return _Methods(self, State.api.rpc_sync, timeout)

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Methods:
        """The same without waiting: a future."""
        return _Methods(self, State.api.rpc_async, timeout)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> _Methods:
        """The same, with the result left on the owner: a reference."""
        return _Methods(self, State.api.remote, timeout)

    # --- its life -----------------------------------------------------------------------------------------------------

    def __del__(self) -> None:
        agent, fork = State.agent, getattr(self, "_fork", None)
        if agent is None or fork is None:
            return
        owner, rref = self._owner, self._id
        if owner == agent.me:
            State.table.drop(rref, fork)      # type: ignore[arg-type]
        else:        # not from here: whatever was being done may hold a lock
            agent.run_here(lambda: _tell_dropped(agent, owner, rref, fork))

    def __reduce__(self) -> Any:
        raise RuntimeError("an RRef can be pickled as a part of a call to another worker only")

    def __repr__(self) -> str:
        kind = "OwnerRRef" if State.agent is not None and self.is_owner() else "UserRRef"
        return f"{kind}(RRefId = {self._id}, ForkId = {self._fork}, owner = {self._owner.name})"


PyRRef = RRef


def _tell_dropped(agent: Any, owner: WorkerInfo, rref: Any, fork: Any) -> None:
    try:
        agent.tell(owner, "drop", (rref, fork))
    except (RuntimeError, OSError):       # the owner has gone, and what it had with it
        pass


def _reduced(rref: RRef) -> Any:
    """A fork for another worker, counted by the owner before it is sent."""
    agent, table = _require(), State.table
    fork = table.new_id()
    if rref.is_owner():
        if rref._id is None:
            rref._id = table.new_id()
            table.entry(rref._id).value = rref._future
        table.add(rref._id, fork)
    else:
        rref._created.wait()
        State.api.rpc_sync(rref._owner, _add_fork, (rref._id, fork))
    return _rebuilt, (rref._owner.id, rref._id, fork, agent.me.id)


def _rebuilt(owner: int, rref: tuple[int, int], fork: tuple[int, int], source: int) -> RRef:
    agent, table = _require(), State.table
    done: Future = Future()
    done.set_result(None)
    if owner == agent.me.id:
        return RRef._of(agent.me, rref, fork, table.entry(rref).value, done)
    return RRef._of(agent.info(owner), rref, fork, None, done)


messages.register_reducer(RRef, _reduced)


def _add_fork(rref: tuple[int, int], fork: tuple[int, int]) -> None:
    State.table.add(rref, fork)


def _fetched(rref: tuple[int, int]) -> Any:
    return State.table.entry(rref).value.wait()


def _type_of(rref: RRef) -> Any:
    return type(rref.local_value())


def _backward_on_owner(rref: RRef, context: int, retain_graph: bool) -> None:
    rref.backward(context, retain_graph)


class _Methods:
    """The methods of a reference's value, called on its owner."""

    def __init__(self, rref: RRef, how: Any, timeout: float) -> None:
        self._rref, self._how, self._timeout = rref, how, timeout

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, name)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._how(
            self._rref._owner, _invoke, (self._rref, name, args, kwargs), timeout=self._timeout
        )


def _invoke(rref: RRef, name: str, args: tuple, kwargs: dict) -> Any:
    """What a method returns; of one marked `async_execution`, what its future gives."""
    value: Any = rref.local_value()
    result = getattr(value, name)(*args, **kwargs)
    marked = getattr(getattr(type(value), name, None), "_wrapped_async_rpc_function", None)
    return _Later(result) if marked is not None else result


class _Later:
    """A result that a future will give: the answer waits for it."""

    def __init__(self, future: Any) -> None:
        self.future = future
