"""The `mpi` back end, through mpi4py (`pip install rushlight[mpi]`): `mpiexec -n 4 python train.py`, and
`init_process_group("mpi")` without further arguments.

Ranks are MPI's. Collectives are MPI's where it knows the dtype and the reduction, and else ours over its messages. A
call that is not done within the group's timeout is an error; what MPI does when a process dies, it does: it ends the
job.
"""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from .. import _C
from .errors import DistBackendError
from .group import HostBackend
from .mailbox import view_of
from .reduce_op import ReduceOp
from .socket_transport import SocketTransport

_NATIVE = {_C.float32: "FLOAT", _C.float64: "DOUBLE", _C.int32: "INT32_T", _C.int64: "INT64_T", _C.uint8: "UINT8_T",
           _C.int8: "INT8_T"}
_COLLECTIVE_TAGS = 1 << 20      # tags of programs are below, those of collectives above
_PAUSE = 0.0002


def is_installed() -> bool:
    """Whether mpi4py is there."""
    return importlib.util.find_spec("mpi4py") is not None


def world() -> tuple[int, int]:
    """(this process's rank, how many there are)."""
    from mpi4py import MPI

    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise DistBackendError("the mpi back end needs an MPI with THREAD_MULTIPLE")
    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def _await(request: Any, timeout: float, what: str) -> Any:
    """Wait for a call that MPI has begun; its status."""
    from mpi4py import MPI

    status, deadline, pause = MPI.Status(), time.monotonic() + timeout, 0.0
    while not request.Test(status):
        if time.monotonic() > deadline:
            raise DistBackendError(f"{what}: not done within {timeout:g} s: has another rank ended, or not called it?")
        time.sleep(pause)
        pause = min(_PAUSE, pause + _PAUSE / 20)
    return status


class _Messages:
    """Messages of MPI, as a mailbox has them."""

    def __init__(self, comm: Any, name: str) -> None:
        self._comm, self._name = comm, name

    @staticmethod
    def _tag(tag: int) -> int:
        if tag >= _COLLECTIVE_TAGS:
            raise ValueError(f"the mpi back end takes tags below {_COLLECTIVE_TAGS}, got {tag}")
        return tag if tag >= 0 else _COLLECTIVE_TAGS + -tag % _COLLECTIVE_TAGS

    def send(self, flat: Any, to: int, tag: int, timeout: float) -> None:
        _await(self._comm.Isend(view_of(flat), to, self._tag(tag)), timeout, f"{self._name}: send to rank {to}")

    def receive(self, flat: Any, source: int | None, tag: int, timeout: float) -> int:
        from mpi4py import MPI

        wanted = MPI.ANY_SOURCE if source is None else source
        what = f"{self._name}: receive from {'any rank' if source is None else f'rank {source}'}"
        return _await(self._comm.Irecv(view_of(flat), wanted, self._tag(tag)), timeout, what).Get_source()

    def close(self) -> None:
        """MPI ends with the process."""


class _Transport(SocketTransport):
    """MPI's own collectives, for what it knows."""

    def __init__(self, comm: Any, mailbox: Any, rank: int, size: int, name: str) -> None:
        super().__init__(mailbox, rank, size)
        self._comm, self._name = comm, name

    def _native(self, flat: Any, op: Any) -> tuple[Any, Any] | None:
        """(buffer, reduction) as MPI takes them, if it does."""
        from mpi4py import MPI

        ops = {ReduceOp.SUM: MPI.SUM, ReduceOp.MIN: MPI.MIN, ReduceOp.MAX: MPI.MAX, ReduceOp.PRODUCT: MPI.PROD}
        kind = next((native for known, native in ops.items() if op == known), None)
        if flat.dtype not in _NATIVE or kind is None:
            return None
        return [view_of(flat), flat.numel(), getattr(MPI, _NATIVE[flat.dtype])], kind

    def barrier(self, timeout: float) -> None:
        _await(self._comm.Ibarrier(), timeout, f"{self._name}: barrier")

    def all_reduce(self, flat: Any, op: Any, timeout: float) -> None:
        from mpi4py import MPI

        native = self._native(flat, op)
        if native is None:
            return super().all_reduce(flat, op, timeout)
        _await(self._comm.Iallreduce(MPI.IN_PLACE, native[0], native[1]), timeout, f"{self._name}: all_reduce")

    def reduce(self, flat: Any, root: int, op: Any, timeout: float) -> None:
        from mpi4py import MPI

        native = self._native(flat, op)
        if native is None:
            return super().reduce(flat, root, op, timeout)
        pair = (MPI.IN_PLACE, native[0]) if self.rank == root else (native[0], None)
        _await(self._comm.Ireduce(*pair, native[1], root), timeout, f"{self._name}: reduce")

    def broadcast(self, flat: Any, root: int, timeout: float) -> None:
        _await(self._comm.Ibcast(view_of(flat), root), timeout, f"{self._name}: broadcast")


class MpiBackend(HostBackend):
    """A group of ranks of an MPI job. Every member makes it at the same time."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any, name: str, ranks: list[int]) -> None:
        super().__init__(store, rank, size, timeout, name, ranks)
        from mpi4py import MPI

        members = MPI.COMM_WORLD.Get_group().Incl(ranks)
        self._comm = MPI.COMM_WORLD.Create_group(members, abs(hash(tuple(ranks))) % 32000)

    def name(self) -> str:
        return "mpi"

    def mailbox(self) -> Any:
        if self._mailbox is None:
            self._mailbox = _Messages(self._comm, self._name)      # type: ignore[assignment]
        return self._mailbox

    def transport(self) -> Any:
        if self._transport is None:
            self._transport = _Transport(self._comm, self.mailbox(), self._rank, self._size, self._name)
        return self._transport
