"""The `nccl` back end: collectives between cards, through NVIDIA's library (`pip install rushlight[nccl]`).

The first call of a group makes a communicator, whose id the ranks exchange through the store. Calls are queued on a
stream of the group's own, behind what the current stream had queued; to wait for one makes the current stream wait.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from .. import _C
from ..devices import find_accelerator
from ..devices.cuda import nccl
from ..op import find_op
from ..torch_names.streams import Stream
from . import options as opt
from .errors import DistBackendError, DistStoreError
from .group import BackendBase, flat_of, put_back, split_of
from .nccl_work import NcclWork, Watch
from .reduce_op import RedOpType, kind_of
from .store import PrefixStore, Store
from .work import Work

_empty = find_op("empty")
_REDUCTIONS = {
    RedOpType.SUM: nccl.SUM, RedOpType.AVG: nccl.AVERAGE, RedOpType.PRODUCT: nccl.PRODUCT, RedOpType.MIN: nccl.MIN,
    RedOpType.MAX: nccl.MAX,
}
_BOOL = {RedOpType.SUM: nccl.MAX, RedOpType.MAX: nccl.MAX, RedOpType.PRODUCT: nccl.MIN, RedOpType.MIN: nccl.MIN}


def is_installed() -> bool:
    """Whether there is a CUDA device, and the library."""
    return _has_cards() and nccl.library() is not None


def _has_cards() -> bool:
    found = find_accelerator()
    return found is not None and found.name == "cuda" and found.device_count() > 0


def what_is_missing() -> str:
    """Why the back end cannot be used here; empty where it can."""
    if not _has_cards():
        return "backend 'nccl' needs an NVIDIA GPU, and there is none here: use 'gloo' for tensors on the CPU"
    if nccl.library() is None:
        return (
            "backend 'nccl' needs NVIDIA's library libnccl.so.2: pip install rushlight[nccl], or name it in "
            "RUSHLIGHT_NCCL_LIBRARY"
        )
    return ""


class Options:
    """What `pg_options` may say."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream


class _Line:
    """A communicator and the stream its calls are queued on."""

    def __init__(self, communicator: nccl.Communicator, stream: Stream) -> None:
        self.communicator, self.stream = communicator, stream
        self.handle = _C.stream_handle(stream.device, stream.stream_id)

    def __call__(self, name: str, *arguments: Any) -> None:
        self.communicator(name, *arguments, stream=self.handle)

    @contextmanager
    def together(self) -> Any:
        """Calls inside are one: none waits for another."""
        self.communicator.group_start()
        try:
            yield
        finally:
            self.communicator.group_end()


Call = Callable[[_Line], Any]


def _counted(flat: Any) -> tuple[int, int]:
    """(how many elements, which type), for a call that moves elements: what NCCL does not know, as bytes."""
    code = nccl.TYPES.get(flat.dtype)
    return (flat.numel(), code) if code is not None else (flat.numel() * flat.element_size(), nccl.BYTE)


class NcclBackend(BackendBase):
    """Collectives on tensors of NVIDIA GPUs, one per rank."""

    Options = Options

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, name: str, ranks: list[int], options: Any = None
    ) -> None:
        super().__init__(rank, size)
        wrong = what_is_missing()
        if wrong:
            raise RuntimeError(wrong)
        self._store, self._name, self._ranks, self._timeout = store, name, ranks, timeout
        self._priority = -1 if getattr(options, "is_high_priority_stream", False) else 0
        self._lines: dict[tuple[Any, str], _Line] = {}
        self._made: dict[str, int] = {}
        self._making = threading.RLock()
        self._watch = Watch(name, PrefixStore("watch", store), rank, ranks, self.abort)
        self._batch: list[tuple[Any, Call, list[Any]]] | None = None
        self._is_open = True

    def name(self) -> str:
        return "nccl"

    def supports_splitting(self) -> bool:
        """New groups are made through the store."""
        return False

    # --- communicators ------------------------------------------------------------------------------------------------

    def _line(self, device: Any, members: list[int] | None = None) -> _Line:
        """The communicator of all ranks, or of two that exchange messages; made when it is first needed."""
        members = members or list(range(self._size))
        key = device, "-".join(map(str, members)) if len(members) != self._size else "all"
        with self._making:
            if not self._is_open:
                raise DistBackendError(f"{self._name}: it was destroyed")
            if key not in self._lines:
                self._lines[key] = _Line(self._meet(device, members, key[1]), Stream(device, priority=self._priority))
            return self._lines[key]

    def _meet(self, device: Any, members: list[int], which: str) -> nccl.Communicator:
        count = self._made[which] = self._made.get(which, 0) + 1
        store, place = PrefixStore(f"{which}/{count}", self._store), members.index(self._rank)
        library = nccl.library()
        assert library is not None, "what_is_missing() was asked"
        if place == 0:
            store.set("id", library.unique_id().hex())
        store.set(f"card/{place}", f"{socket.gethostname()} {_card(device)}")
        cards = []
        for other, rank in enumerate(members):
            try:
                store.wait([f"card/{other}"], self._timeout)
            except DistStoreError:
                raise DistBackendError(
                    f"{self._name}: rank {self._ranks[rank]} did not come to make an NCCL communicator within "
                    f"{self._timeout.total_seconds():g} s"
                ) from None
            cards.append(store.get(f"card/{other}").decode())
        results = bytes.fromhex(store.get("id").decode())
        try:
            return nccl.Communicator(library, len(members), place, results, device.index)
        except nccl.NcclError as error:
            twice = [self._ranks[r] for r, card in zip(members, cards) if cards.count(card) > 1]
            hint = f". Ranks {twice} share a GPU, and NCCL wants one each: cuda.set_device(LOCAL_RANK)" if twice else ""
            raise DistBackendError(f"{self._name}: no NCCL communicator could be made: {error}{hint}") from None

    def eager_connect_single_device(self, device: Any) -> None:
        """Make the communicator now, not at the first collective."""
        self._line(_C.device(device))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _seconds(self, options: Any) -> float:
        timeout = getattr(options, "timeout", opt.UNSET)
        return (self._timeout if timeout in (None, opt.UNSET) else timeout).total_seconds()

    def _queue(
        self, name: str, call: Call, written: list[Any], read: list[Any], options: Any = None,
        members: list[int] | None = None,
    ) -> Work:
        """Queue a call on the group's stream, between what the current stream has queued and what waits for it."""
        if self._watch.error is not None:
            raise self._watch.error
        device = self._device_of(name, [*written, *read])
        line = self._line(device, members)
        stream = line.stream
        self._watch.number += 1
        work = NcclWork(name, self._watch.number, stream, self._seconds(options), written)
        self._watch.add(work, line.communicator.failure)
        _C.wait_event(device, stream.stream_id, _C.record_event(device, _C.current_stream(device)))
        for tensor in (*written, *read):
            tensor.detach().record_stream(stream)
        try:
            with stream:
                call(line)
                work.queued()
        except nccl.NcclError as error:
            self._watch.drop(work)
            raise (self._watch.error or DistBackendError(f"{self._name}: {error}")) from None
        return work

    def _device_of(self, name: str, tensors: list[Any]) -> Any:
        devices = {tensor.device for tensor in tensors}
        for tensor in tensors:
            if tensor.is_sparse:
                raise RuntimeError(f"{self._name}: {name}: NCCL knows no sparse tensors; use to_dense() first")
        if len(devices) != 1 or next(iter(devices)).type != "cuda":
            raise ValueError(
                f"{self._name}: {name}: all tensors of a call must be on one GPU, got {sorted(map(str, devices))}"
            )
        return devices.pop()

    def _reducing(self, name: str, op: Any, flat: Any, line: _Line) -> tuple[Any, int, int, Callable[[], None]]:
        """(elements, their type, the reduction, what to do when it is queued), as NCCL takes them."""
        kind, done = kind_of(op), lambda: None
        if flat.dtype.is_complex and kind in (RedOpType.SUM, RedOpType.AVG):
            flat = flat.view(_C.float64 if flat.dtype == _C.complex128 else _C.float32)
        if flat.dtype == _C.bool and kind in _BOOL:
            return flat, nccl.BYTE, _BOOL[kind], done
        code = nccl.TYPES.get(flat.dtype)
        if code is None:
            raise RuntimeError(f"{self._name}: {name}: NCCL cannot reduce {flat.dtype}")
        if kind is RedOpType.PREMUL_SUM:
            result = line.communicator.scaled_sum(float(op.factor), code)
            return flat, code, result, lambda: line.communicator.forget(result)
        if kind not in _REDUCTIONS:
            raise RuntimeError(f"{self._name}: {name}: NCCL knows no ReduceOp.{kind.name}; use 'gloo' for it")
        return flat, code, _REDUCTIONS[kind], done

    def allreduce(self, tensors: list[Any], options: Any = None) -> Work:
        """All tensors are reduced over the ranks, in place."""
        options = options or opt.AllreduceOptions()
        tensors = [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)

        def call(line: _Line) -> None:
            flats = [flat_of(tensor) for tensor in tensors]
            rows = [self._reducing("allreduce", options.reduceOp, flat, line) for flat in flats]
            with line.together():
                for flat, code, op, _ in rows:
                    line("ncclAllReduce", flat.data_ptr(), flat.data_ptr(), flat.numel(), code, op)
            for (*_, done), flat, tensor in zip(rows, flats, tensors, strict=True):
                done()
                put_back(flat, tensor)

        return self._queue("allreduce", call, tensors, [], options)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: list[Any], options: Any = None) -> Work:
        """Every rank's tensors become the root's."""
        options = options or opt.BroadcastOptions()

        def call(line: _Line) -> None:
            flats = [flat_of(tensor) for tensor in tensors]
            with line.together():
                for flat in flats:
                    line("ncclBroadcast", flat.data_ptr(), flat.data_ptr(), *_counted(flat), options.rootRank)
            for flat, tensor in zip(flats, tensors, strict=True):
                put_back(flat, tensor)

        return self._queue("broadcast", call, list(tensors), [], options)

    def reduce(self, tensors: list[Any], options: Any = None) -> Work:
        """The root's tensor becomes the reduction of all ranks'."""
        options = options or opt.ReduceOptions()

        def call(line: _Line) -> None:
            for tensor in tensors:
                own = flat_of(tensor)
                flat, code, op, done = self._reducing("reduce", options.reduceOp, own, line)
                line("ncclReduce", flat.data_ptr(), flat.data_ptr(), flat.numel(), code, op, options.rootRank)
                done()
                if self._rank == options.rootRank:
                    put_back(own, tensor)

        return self._queue("reduce", call, list(tensors), [], options)

    def allgather(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """Every rank gets every rank's tensor; they may be of different sizes."""

        def call(line: _Line) -> None:
            for outputs, tensor in zip(output_lists, inputs, strict=True):
                flats, own = [flat_of(o) for o in outputs], flat_of(tensor)
                with line.together():
                    for rank, flat in enumerate(flats):
                        source = own if rank == self._rank else flat
                        line("ncclBroadcast", source.data_ptr(), flat.data_ptr(), *_counted(flat), rank)
                for flat, output in zip(flats, outputs, strict=True):
                    put_back(flat, output)

        return self._queue("allgather", call, [o for outputs in output_lists for o in outputs], list(inputs), options)

    def allgather_coalesced(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """The same for several tensors: output_lists[r] holds rank r's."""
        return self.allgather([list(column) for column in zip(*output_lists)], inputs, options)

    def allgather_into_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """Every rank gets every rank's tensors, one behind the other, for several tensors."""

        def call(line: _Line) -> None:
            flats = [(flat_of(output), flat_of(tensor)) for output, tensor in zip(outputs, inputs, strict=True)]
            with line.together():
                for flat, own in flats:
                    line("ncclAllGather", own.data_ptr(), flat.data_ptr(), *_counted(own))
            for (flat, _), output in zip(flats, outputs, strict=True):
                put_back(flat, output)

        return self._queue("all_gather_into_tensor", call, list(outputs), list(inputs), options)

    def _allgather_base(self, output: Any, tensor: Any, options: Any = None) -> Work:
        """Every rank gets every rank's tensor, one behind the other."""
        return self.allgather_into_tensor_coalesced([output], [tensor], options)

    def gather(self, output_lists: list[list[Any]], inputs: list[Any], options: Any = None) -> Work:
        """The root gets every rank's tensor."""
        options = options or opt.GatherOptions()
        outputs = list(output_lists[0]) if output_lists else []

        def call(line: _Line) -> None:
            flats, own = [flat_of(o) for o in outputs], flat_of(inputs[0])
            with line.together():
                for rank, flat in enumerate(flats):
                    line("ncclRecv", flat.data_ptr(), *_counted(flat), rank)
                line("ncclSend", own.data_ptr(), *_counted(own), options.rootRank)
            for flat, output in zip(flats, outputs, strict=True):
                put_back(flat, output)

        return self._queue("gather", call, outputs, list(inputs), options)

    def scatter(self, outputs: list[Any], input_lists: list[list[Any]], options: Any = None) -> Work:
        """Rank r gets the root's r-th tensor."""
        options = options or opt.ScatterOptions()
        inputs = list(input_lists[0]) if input_lists else []

        def call(line: _Line) -> None:
            flat, sources = flat_of(outputs[0]), [flat_of(i) for i in inputs]
            with line.together():
                for rank, source in enumerate(sources):
                    line("ncclSend", source.data_ptr(), *_counted(source), rank)
                line("ncclRecv", flat.data_ptr(), *_counted(flat), options.rootRank)
            put_back(flat, outputs[0])

        return self._queue("scatter", call, list(outputs), inputs, options)

    def reduce_scatter(self, outputs: list[Any], input_lists: list[list[Any]], options: Any = None) -> Work:
        """Rank r gets the reduction of all ranks' r-th tensors, which may be of different sizes."""
        options = options or opt.ReduceScatterOptions()

        def call(line: _Line) -> None:
            for output, inputs in zip(outputs, input_lists, strict=True):
                own, sources = flat_of(output), [flat_of(i) for i in inputs]
                flat, code, op, done = self._reducing("reduce_scatter", options.reduceOp, own, line)
                parts = flat.numel() // max(own.numel(), 1)      # two per complex number
                with line.together():
                    for rank, source in enumerate(sources):
                        line("ncclReduce", source.data_ptr(), flat.data_ptr(), source.numel() * parts, code, op, rank)
                done()
                put_back(own, output)

        return self._queue("reduce_scatter", call, list(outputs), [t for row in input_lists for t in row], options)

    def reduce_scatter_tensor_coalesced(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """The same for parts that lie one behind the other, for several tensors."""
        options = options or opt.ReduceScatterOptions()

        def call(line: _Line) -> None:
            rows = []
            for output, tensor in zip(outputs, inputs, strict=True):
                own = flat_of(output)
                rows.append((own, flat_of(tensor), *self._reducing("reduce_scatter", options.reduceOp, own, line)))
            with line.together():
                for _, source, flat, code, op, _ in rows:
                    line("ncclReduceScatter", source.data_ptr(), flat.data_ptr(), flat.numel(), code, op)
            for (own, *_, done), output in zip(rows, outputs, strict=True):
                done()
                put_back(own, output)

        return self._queue("reduce_scatter_tensor", call, list(outputs), list(inputs), options)

    def _reduce_scatter_base(self, output: Any, tensor: Any, options: Any = None) -> Work:
        """The same for one tensor."""
        return self.reduce_scatter_tensor_coalesced([output], [tensor], options)

    def _exchange(self, line: _Line, into: list[Any], out: list[Any]) -> None:
        with line.together():
            for rank in range(self._size):
                line("ncclSend", out[rank].data_ptr(), *_counted(out[rank]), rank)
                line("ncclRecv", into[rank].data_ptr(), *_counted(into[rank]), rank)

    def alltoall(self, outputs: list[Any], inputs: list[Any], options: Any = None) -> Work:
        """Rank r's s-th tensor goes to rank s as its r-th."""

        def call(line: _Line) -> None:
            flats = [flat_of(o) for o in outputs]
            self._exchange(line, flats, [flat_of(i) for i in inputs])
            for flat, output in zip(flats, outputs, strict=True):
                put_back(flat, output)

        return self._queue("alltoall", call, list(outputs), list(inputs), options)

    def alltoall_base(
        self, output: Any, tensor: Any, output_sizes: list[int], input_sizes: list[int], options: Any = None
    ) -> Work:
        """The same for parts of one tensor along its first dimension."""

        def call(line: _Line) -> None:
            flat, source = flat_of(output), flat_of(tensor)
            into = split_of(flat, output, output_sizes, self._size)
            self._exchange(line, into, split_of(source, tensor, input_sizes, self._size))
            put_back(flat, output)

        return self._queue("alltoall_base", call, [output], [tensor], options)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _message(self, name: str, call: Call, written: list[Any], read: list[Any], peer: int, tag: int) -> Work:
        """A message: one of a batch, or by itself between two ranks, who alone need to be there."""
        if tag:
            raise ValueError(f"{self._name}: {name}: NCCL's messages have no tags: they come in order; got tag={tag}")
        if self._batch is not None:
            work = _Batched()
            self._batch.append((work, call, [*written, *read]))
            return work
        members = sorted({self._rank, peer})
        return self._queue(name, lambda line: _finish([call(line)]), written, read, members=members)

    def _place(self, line: _Line, peer: int) -> int:
        """A rank's place in the communicator that carries a message."""
        return peer if line.communicator.ranks == self._size else int(peer > self._rank)

    def send(self, tensors: list[Any], to: int, tag: int = 0, in_background: bool = True) -> Work:
        """Send a tensor to a rank."""

        def call(line: _Line) -> None:
            flat = flat_of(tensors[0])
            line("ncclSend", flat.data_ptr(), *_counted(flat), self._place(line, to))

        return self._message(f"send to rank {self._ranks[to]}", call, [], list(tensors), to, tag)

    def recv(self, tensors: list[Any], source: int | None, tag: int = 0, in_background: bool = True) -> Work:
        """Receive a tensor from a rank."""
        if source is None:
            return self.recv_anysource(tensors, tag, in_background)

        def call(line: _Line) -> Callable[[], None]:
            flat = flat_of(tensors[0])
            line("ncclRecv", flat.data_ptr(), *_counted(flat), self._place(line, source))
            return lambda: put_back(flat, tensors[0])

        work = self._message(f"receive from rank {self._ranks[source]}", call, list(tensors), [], source, tag)
        work._source = source
        return work

    def recv_anysource(self, tensors: list[Any], tag: int = 0, in_background: bool = True) -> Work:
        """NCCL has no such message."""
        raise RuntimeError(f"{self._name}: NCCL receives from a rank that is named, not from any: give src")

    def _start_coalescing(self, device: Any = None) -> None:
        """Messages from here to `_end_coalescing` are one call, which all ranks of the group make."""
        self._batch = []

    def _end_coalescing(self, device: Any = None) -> Work:
        batch, self._batch = self._batch or [], None

        def call(line: _Line) -> None:
            with line.together():
                received = [one(line) for _, one, _ in batch]
            _finish(received)

        work = self._queue("messages", call, [t for _, _, tensors in batch for t in tensors], [])
        for part, _, _ in batch:
            part.whole = work
        return work

    # --- the rest -----------------------------------------------------------------------------------------------------

    def barrier(self, options: Any = None) -> Work:
        """Return when every rank is here: the host waits, too."""
        options = options or opt.BarrierOptions()
        named = options.device_ids[0] if options.device_ids else _C.current_unit("cuda")
        token = _empty(1, dtype=_C.float32, device=_C.device("cuda", named))
        work = self.allreduce([token], opt.AllreduceOptions(timeout=options.timeout))
        work._wait_on_host(self._seconds(options))      # type: ignore[attr-defined]
        return work

    def shutdown(self) -> None:
        """Leave the group, when what was queued is done."""
        self._is_open = False
        self._watch.close()
        with self._making:
            for line in self._lines.values():
                line.communicator.destroy()
            self._lines.clear()

    def abort(self) -> None:
        """Leave at once: what was queued ends without a result."""
        self._is_open = False
        for line in list(self._lines.values()):
            line.communicator.abort()


class _Batched(Work):
    """One message of a batch: done when the batch is."""

    whole: Work | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        if self.whole is None:
            raise RuntimeError("a message of a batch can be waited for when the batch is complete")
        return self.whole.wait(timeout)

    synchronize = block_current_stream = wait

    def is_completed(self) -> bool:
        return self.whole is not None and self.whole.is_completed()

    def exception(self) -> BaseException | None:
        return None if self.whole is None else self.whole.exception()


def _finish(received: list[Callable[[], None] | None]) -> None:
    """What is left to do once messages are queued: those for tensors with gaps lie in a copy."""
    for put in received:
        if put is not None:
            put()


def _card(device: Any) -> str:
    found = find_accelerator()
    assert found is not None, "a CUDA tensor came from somewhere"
    return found.driver.uuid(device.index).hex()
