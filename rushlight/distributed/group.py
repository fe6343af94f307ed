"""`ProcessGroup`: the ranks that take part in collectives, and the back ends that carry them out by kind of device.

A back end has one method per collective, with PyTorch's names and arguments (lists of tensors, options), and returns a
`Work`. `HostBackend` is the one for tensors in host memory ("gloo"); others register in Python
(`Backend.register_backend`).
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .. import _C, _extras
from ..autograd.grad_mode import no_grad
from ..op import find_op
from . import flight_recorder, options as opt
from .doors import announce
from .errors import DistBackendError
from .mailbox import Mailbox
from .reduce_op import after, before, kind_of
from .segment import meet
from .shared_transport import SharedTransport
from .socket_transport import SocketTransport
from .store import PrefixStore, Store
from .work import Lane, Work

_empty, _sparse = find_op("empty"), find_op("sparse_coo_tensor")
Call = Callable[[float], Any]
DEFAULT_TIMEOUT = timedelta(minutes=30)


class BackendType(enum.Enum):
    """Which engine carries the collectives out."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    UCC = 3
    MPI = 4
    CUSTOM = 5
    XCCL = 6


class CollectiveMethods:
    """The methods that a process group has: each one refuses until a subclass, or a back end, says what it does."""

    def _refuse(self, name: str) -> Any:
        raise RuntimeError(f"{type(self).__name__} does not implement {name}")


_NAMES = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "gather", "scatter", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base", "send", "recv", "recv_anysource", "barrier",
    "monitored_barrier",
)
for _name in _NAMES:
    setattr(CollectiveMethods, _name, lambda self, *args, _name=_name, **kwargs: self._refuse(_name))


class BackendBase(CollectiveMethods):
    """What carries collectives out for one kind of device. A back end in a program subclasses this."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        """This process's place in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    def name(self) -> str:
        """Its name, as `get_backend` gives it."""
        return getattr(self, "getBackendName", lambda: type(self).__name__)()

    def shutdown(self) -> None:
        """Leave."""

    abort = shutdown


def flat_of(tensor: Any) -> Any:
    """A tensor's elements in order, as one dimension without a history: itself where it is dense, else a copy."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.contiguous().view(-1)


def _is_dense(tensor: Any) -> bool:
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def put_back(flat: Any, tensor: Any) -> None:
    """Bring results from `flat_of`'s copy home."""
    if not _is_dense(tensor):
        tensor.detach().copy_(flat.view(tensor.shape))


class HostBackend(BackendBase):
    """Collectives on host memory: shared memory between processes of one machine, sockets between machines."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta, name: str, ranks: list[int]) -> None:
        super().__init__(rank, size)
        self._store, self._name, self._ranks, self._timeout = store, name, ranks, timeout
        self._lane = Lane(f"{name} collectives")
        self._peer_lanes: dict[tuple[int | None, str], Lane] = {}
        self._transport: Any = None
        self._mailbox: Mailbox | None = None
        self._making = threading.Lock()
        self._is_open = True
        announce(store, rank)      # for ranks that open doors: they need not wait until this one opens its own

    def name(self) -> str:
        return "gloo"

    def supports_splitting(self) -> bool:
        """New groups are made through the store."""
        return False

    def transport(self) -> Any:
        """How ranks exchange bytes; they agree on it at their first collective."""
        if not self._is_open:
            raise DistBackendError(f"{self._name}: it was destroyed")
        if self._transport is None:
            segment = meet(self._store, self._rank, self._size, self._name, self._ranks)
            if segment is not None:
                self._transport = SharedTransport(segment)
            else:
                self._transport = SocketTransport(self.mailbox(), self._rank, self._size)
        return self._transport

    def mailbox(self) -> Mailbox:
        """The door for messages, opened at the first one; ranks need not do this at the same time."""
        with self._making:      # threads that send and receive may be the first to ask, several at once
            if self._mailbox is None:
                self._mailbox = Mailbox(self._store, self._rank, self._ranks, self._name)
            return self._mailbox

    def _run(self, call: Call, result: list[Any], options: Any) -> Work:
        seconds = self._seconds(options)
        in_background = bool(getattr(options, "asyncOp", False))
        return self._lane.run(lambda: call(seconds), result, in_background)

    def _seconds(self, options: Any) -> float:
        timeout = getattr(options, "timeout", opt.UNSET)
        return (self._timeout if timeout in (None, opt.UNSET) else timeout).total_seconds()

    def allreduce(self, tensors: list[Any], options: Any = None) -> Work:
        """All tensors are reduced over the ranks, in place."""
        options = options or opt.AllreduceOptions()
        op = options.reduceOp
        tensors = [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)

        def call(seconds: float) -> None:
            transport = self.transport()
            for tensor in tensors:
                if tensor.is_sparse:
                    self._sparse_all_reduce(tensor, op, seconds)
                    continue
                flat = before(op, flat_of(tensor))
                transport.all_reduce(flat, op, seconds)
                after(op, flat, self._size)
                put_back(flat, tensor)

        return self._run(call, tensors, options)

    allreduce_coalesced = allreduce

    def _sparse_all_reduce(self, tensor: Any, op: Any, seconds: float) -> None:
        """Sums only: every rank gets all entries and adds them up."""
        if kind_of(op).name != "SUM":
            raise RuntimeError(f"{self._name}: sparse tensors can be summed only, got ReduceOp.{kind_of(op).name}")
        mine = tensor.detach().coalesce()
        transport = self.transport()
        counts = [_empty(1, dtype=_C.int64) for _ in range(self._size)]
        own = _empty(1, dtype=_C.int64).fill_(mine._nnz())
        transport.all_gather(counts, own, seconds)
        sizes = [int(c) for c in counts]
        total = None
        for source, count in enumerate(sizes):
            indices = mine.indices().contiguous() if source == self._rank else mine.indices().new_empty(
                (mine.sparse_dim(), count)
            )
            values = mine.values().contiguous() if source == self._rank else mine.values().new_empty(
                (count, *mine.values().shape[1:])
            )
            transport.broadcast(indices.view(-1), source, seconds)
            transport.broadcast(values.view(-1), source, seconds)
            part = _sparse(indices, values, mine.shape)
            total = part if total is None else total + part
        with no_grad():     # a sparse tensor without its history is another one: written to itself
            tensor.copy_(total.coalesce())

    def broadcast(self, tensors: list[Any], options: Any = None) -> Work:
        """Every rank's tensors become the root's."""
        options = options or opt.BroadcastOptions()
        root = options.rootRank

        def call(seconds: float) -> None:
            for tensor in tensors:
                flat = flat_of(tensor)
                self.transport().broadcast(flat, root, seconds)
                put_back(flat, tensor)

        return self._run(call, list(tensors), options)

    def reduce(self, tensors: list[Any], options: Any = None) -> Work:
        """The root's tensor becomes the reduction of all ranks'."""
        options = options or opt.ReduceOptions()
        op, root = options.reduceOp, options.rootRank

        def call(seconds: float) -> None:
            for tensor in tensors:
                # Other ranks keep their tensors as they are.
                flat = before(op, flat_of(tensor).clone() if self._rank != root else flat_of(tensor))
                self.transport().reduce(flat, root, op, seconds)
                if self._rank == root:
                    after(op, flat, self._size)
                    put_back(flat, tensor)

        return self._run(call, list(tensors), options)

    def allgather(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """Every rank gets every rank's tensor."""
        options = options or opt.AllgatherOptions()

        def call(seconds: float) -> None:
            for outputs, tensor in zip(output_lists, inputs, strict=True):
                flats = [flat_of(o) for o in outputs]
                self.transport().all_gather(flats, flat_of(tensor), seconds)
                for flat, output in zip(flats, outputs, strict=True):
                    put_back(flat, output)

        return self._run(call, [o for outputs in output_lists for o in outputs], options)

    def allgather_coalesced(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """The same for several tensors: output_lists[r] holds rank r's."""
        return self.allgather([list(column) for column in zip(*output_lists)], inputs, options)

    def _allgather_base(self, output: Any, tensor: Any, options: Any = None) -> Work:
        """Every rank gets every rank's tensor, one behind the other."""
        options = options or opt.AllgatherOptions()

        def call(seconds: float) -> None:
            flat = flat_of(output)
            self.transport().all_gather(list(flat.chunk(self._size)), flat_of(tensor), seconds)
            put_back(flat, output)

        return self._run(call, [output], options)

    def allgather_into_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """The same for several tensors."""
        return _Together([self._allgather_base(o, i, options) for o, i in zip(outputs, inputs, strict=True)])

    def gather(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """The root gets every rank's tensor."""
        options = options or opt.GatherOptions()
        outputs = list(output_lists[0]) if output_lists else []

        def call(seconds: float) -> None:
            flats = [flat_of(o) for o in outputs] or None
            self.transport().gather(flats, flat_of(inputs[0]), options.rootRank, seconds)
            for flat, output in zip(flats or (), outputs):
                put_back(flat, output)

        return self._run(call, outputs, options)

    def scatter(self, outputs: list[Any], input_lists: list[list[Any]], options: Any = None) -> Work:
        """Rank r gets the root's r-th tensor."""
        options = options or opt.ScatterOptions()
        inputs = list(input_lists[0]) if input_lists else []

        def call(seconds: float) -> None:
            flat = flat_of(outputs[0])
            self.transport().scatter(flat, [flat_of(i) for i in inputs] or None, options.rootRank, seconds)
            put_back(flat, outputs[0])

        return self._run(call, list(outputs), options)

    def reduce_scatter(self, outputs: list[Any], input_lists: list[list[Any]], options: Any = None) -> Work:
        """Rank r gets the reduction of all ranks' r-th tensors."""
        options = options or opt.ReduceScatterOptions()
        op = options.reduceOp

        def call(seconds: float) -> None:
            for output, inputs in zip(outputs, input_lists, strict=True):
                self._reduce_scatter(output, [flat_of(i) for i in inputs], op, seconds)

        return self._run(call, list(outputs), options)

    def _reduce_scatter(self, output: Any, parts: list[Any], op: Any, seconds: float) -> None:
        flat = flat_of(output)
        if kind_of(op).name == "PREMUL_SUM":
            parts = [part * op.factor for part in parts]
        self.transport().reduce_scatter(flat, parts, op, seconds)
        after(op, flat, self._size)
        put_back(flat, output)

    def _reduce_scatter_base(self, output: Any, tensor: Any, options: Any = None) -> Work:
        """The same for parts that lie one behind the other."""
        options = options or opt.ReduceScatterOptions()

        def call(seconds: float) -> None:
            self._reduce_scatter(output, list(flat_of(tensor).chunk(self._size)), options.reduceOp, seconds)

        return self._run(call, [output], options)

    def reduce_scatter_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """The same for several tensors."""
        return _Together([self._reduce_scatter_base(o, i, options) for o, i in zip(outputs, inputs, strict=True)])

    def alltoall(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """Rank r's s-th tensor goes to rank s as its r-th."""
        options = options or opt.AllToAllOptions()

        def call(seconds: float) -> None:
            flats = [flat_of(o) for o in outputs]
            self.transport().all_to_all(flats, [flat_of(i) for i in inputs], seconds)
            for flat, output in zip(flats, outputs, strict=True):
                put_back(flat, output)

        return self._run(call, list(outputs), options)

    def alltoall_base(
        self, output: Any, tensor: Any, output_sizes: list[int], input_sizes: list[int], options: Any = None
    ) -> Work:
        """The same for parts of one tensor along its first dimension."""
        options = options or opt.AllToAllOptions()

        def call(seconds: float) -> None:
            flat, source = flat_of(output), flat_of(tensor)
            into = split_of(flat, output, output_sizes, self._size)
            self.transport().all_to_all(into, split_of(source, tensor, input_sizes, self._size), seconds)
            put_back(flat, output)

        return self._run(call, [output], options)

    def _peer_lane(self, peer: int | None, way: str) -> Lane:
        with self._making:
            lane = self._peer_lanes.get((peer, way))
            if lane is None:
                lane = self._peer_lanes[peer, way] = Lane(f"{self._name} {way} {peer}")
            return lane

    def send(self, tensors: list[Any], to: int, tag: int = 0, in_background: bool = True) -> Work:
        """Send a tensor to a rank."""
        seconds, flat, mailbox = self._timeout.total_seconds(), flat_of(tensors[0]), self.mailbox()
        return self._peer_lane(to, "send").run(lambda: mailbox.send(flat, to, tag, seconds), tensors, in_background)

    def recv(self, tensors: list[Any], source: int | None, tag: int = 0, in_background: bool = True) -> Work:
        """Receive a tensor from a rank."""
        seconds, mailbox = self._timeout.total_seconds(), self.mailbox()

        def call() -> int:
            flat = flat_of(tensors[0])
            sender = mailbox.receive(flat, source, tag, seconds)
            put_back(flat, tensors[0])
            return sender

        return self._peer_lane(source, "receive").run(call, tensors, in_background)

    def recv_anysource(self, tensors: list[Any], tag: int = 0, in_background: bool = True) -> Work:
        """Receive a tensor from whoever sends one."""
        return self.recv(tensors, None, tag, in_background)

    def barrier(self, options: Any = None) -> Work:
        """Return when every rank is here."""
        return self._run(lambda seconds: self.transport().barrier(seconds), [], options or opt.BarrierOptions())

    def shutdown(self) -> None:
        """Leave the group."""
        self._is_open = False
        for lane in (self._lane, *self._peer_lanes.values()):
            lane.close()
        if self._transport is not None:
            self._transport.close()
        if self._mailbox is not None:
            self._mailbox.close()

    abort = shutdown


def split_of(flat: Any, tensor: Any, sizes: list[int], ranks: int) -> list[Any]:
    if not sizes:
        if tensor.dim() == 0 or tensor.shape[0] % ranks:
            raise ValueError(
                f"all_to_all_single: the first dimension of {tuple(tensor.shape)} cannot be split evenly over {ranks} "
                f"ranks; give split sizes"
            )
        return list(flat.chunk(ranks)) if flat.numel() else [flat] * ranks
    if len(sizes) != ranks or sum(sizes) != tensor.shape[0]:
        raise ValueError(
            f"all_to_all_single: split sizes {list(sizes)} must be {ranks} numbers whose sum is the first dimension of "
            f"{tuple(tensor.shape)}"
        )
    row = flat.numel() // tensor.shape[0] if tensor.shape[0] else 0
    return list(flat.split([s * row for s in sizes]))


class _Together(Work):
    """One work for several."""

    def __init__(self, works: list[Work]) -> None:
        super().__init__()
        self._works = works
        self._result = [tensor for work in works for tensor in work._result]

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((work._error for work in self._works if work._error), None)


class ProcessGroup(CollectiveMethods):
    """Ranks that make collectives together. One in a program's own words subclasses this and overrides them."""

    BackendType = BackendType

    def __init__(self, *args: Any) -> None:
        """`ProcessGroup(rank, size)`, or `ProcessGroup(store, rank, size)`."""
        if len(args) == 2:
            self._store, (self._rank, self._size) = None, args
        elif len(args) == 3:
            self._store, self._rank, self._size = args
        else:
            raise TypeError(f"ProcessGroup takes (rank, size) or (store, rank, size), got {len(args)} arguments")
        self._backends: dict[str, Any] = {}
        self._name = self._desc = "undefined"
        self.bound_device_id: Any = None
        self._monitored_barriers = 0

    def rank(self) -> int:
        """This process's place in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    def name(self) -> str:
        """The name of the back end."""
        return next(iter(self._backends.values())).name() if self._backends else "undefined"

    @property
    def group_name(self) -> str:
        """The name of the group, the same on every rank."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What the program called it."""
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def get_group_store(self) -> Store:
        """The part of the store that is the group's."""
        return self._store

    @property
    def _device_types(self) -> list[Any]:
        return [_C.device(kind) for kind in self._backends]

    def _register_backend(self, device: Any, kind: Any, backend: Any = None) -> None:
        self._backends[_C.device(device).type if not isinstance(device, str) else device] = backend

    def _get_backend(self, device: Any) -> Any:
        kind = device if isinstance(device, str) else device.type
        try:
            return self._backends[kind]
        except KeyError:
            there = ", ".join(self._backends) or "none"
            raise RuntimeError(
                f"the process group {self._name!r} has no back end for tensors on {kind!r}, only for: {there}. "
                f"Name one in init_process_group, as in backend='cpu:gloo,{kind}:...'"
            ) from None

    def _backend_of(self, tensors: Any) -> Any:
        while isinstance(tensors, (list, tuple)):
            if not tensors:
                return next(iter(self._backends.values()))
            tensors = tensors[0]
        return self._get_backend(tensors.device)

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait this long for other ranks from now on."""
        for backend in self._backends.values():
            backend._timeout = timeout

    def barrier(self, options: Any = None) -> Work:
        """Return when every rank is here."""
        handle = _extras.record_begin("c10d::barrier", None, _extras.COLLECTIVE)
        try:
            return self._barrier(options)
        finally:
            _extras.record_end(handle)

    def _barrier(self, options: Any) -> Work:
        backend = self._backends.get("cpu") or next(iter(self._backends.values()))
        recorder = flight_recorder.current
        if recorder is None:
            return backend.barrier(options)
        entry = recorder.begin(self, "barrier", ())
        work = backend.barrier(options)
        recorder.watch(entry, work)
        return work

    def shutdown(self) -> None:
        """Leave."""
        for backend in self._backends.values():
            backend.shutdown()

    abort = shutdown

    def __repr__(self) -> str:
        return f"<ProcessGroup {self._name!r}: rank {self._rank} of {self._size}, {self._backends or 'no back end'}>"


def _by_device(name: str, first: int) -> Any:
    """A method that asks the back end of its tensors' device; they are argument `first`."""

    def call(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if not _extras.profile_is_on():
            return run(self, *args, **kwargs)
        handle = _extras.record_begin(shown, None, _extras.COLLECTIVE)
        try:
            return run(self, *args, **kwargs)
        finally:
            _extras.record_end(handle)

    def run(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        recorder = flight_recorder.current
        if recorder is None:
            return getattr(self._backend_of(args[first]), name)(*args, **kwargs)
        entry = recorder.begin(self, name, args)
        work = getattr(self._backend_of(args[first]), name)(*args, **kwargs)
        recorder.watch(entry, work)
        return work

    shown = f"c10d::{name}" if name == "send" else f"c10d::{name}_"      # as PyTorch's ops are called
    call.__name__ = name
    return call


for _name in _NAMES:
    if _name not in ("barrier", "monitored_barrier"):
        # Outputs may be missing where only the root has them: the inputs always say the device.
        setattr(ProcessGroup, _name, _by_device(_name, 1 if _name in ("gather",) else 0))


def make_host_backend(store: Store, rank: int, size: int, timeout: timedelta, name: str, ranks: list[int]) -> Any:
    """The back end called "gloo"."""
    return HostBackend(PrefixStore("host", store), rank, size, timeout, name, ranks)
