"""The collectives as programs call them: arguments checked and named, then the group's methods."""

from __future__ import annotations

import contextlib
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from .. import _C
from ..op import find_op
from ..tensors.interop import frombuffer
from . import options as opt
from .errors import DistBackendError
from .group import ProcessGroup
from .groups import (
    GroupMember,
    default_group,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    resolve,
)
from .reduce_op import ReduceOp
from .work import Work

__all__ = [
    "P2POp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object",
    "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather", "gather_object", "irecv", "isend",
    "monitored_barrier", "recv", "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
]

Tensor = _C.Tensor
_empty = find_op("empty")


def _is_outsider(group: Any, name: str) -> bool:
    """Whether this process is not in the group: its call does nothing, and says so."""
    if group is GroupMember.NON_GROUP_MEMBER:
        warnings.warn(f"{name}: this process is not in the group, so that the call does nothing", stacklevel=3)
        return True
    return False


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a Tensor, got {type(value).__name__}")


def _check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(f"{name} must be a list of Tensors, got {type(values).__name__}")


def _check_alike(tensors: list[Tensor], name: str) -> None:
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        raise ValueError(f"{name}: all tensors must have one dtype, got {sorted(map(str, kinds))}")


def _check_count(tensors: list[Tensor], size: int, name: str) -> None:
    if len(tensors) != size:
        raise ValueError(f"{name} must have a tensor per rank of the group ({size}), got {len(tensors)}")


def _check_numel(tensors: list[Tensor], like: Tensor, name: str) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.numel() != like.numel():
            raise ValueError(
                f"{name}[{i}] has shape {tuple(tensor.shape)}, which does not match {tuple(like.shape)}"
            )


def _peer(group: Any, name: str, of_world: int | None, of_group: int | None) -> int:
    """The rank in the group that a call means, given as rank of the world or of the group."""
    if of_group is not None:
        if of_world is not None:
            raise ValueError(f"give {name} or group_{name}, not both")
        size = resolve(group).size()
        if not 0 <= of_group < size:
            raise ValueError(f"group_{name} {of_group} is not between 0 and {size - 1}")
        return of_group
    if of_world is None:
        raise ValueError(f"{name} is missing: give {name} (a rank of the world) or group_{name}")
    resolved = resolve(group)
    rank = get_group_rank(resolved if resolved is not default_group() else None, of_world)
    if not 0 <= rank < resolved.size():
        ranks = get_process_group_ranks(resolved)
        raise ValueError(f"{name} {of_world} is not a rank of the group, which has ranks {ranks}")
    return rank


def _end(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Every rank's tensor becomes the reduction of all, in place."""
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "all_reduce"):
        return None
    options = opt.AllreduceOptions(reduceOp=op, asyncOp=async_op)
    return _end(resolve(group).allreduce([tensor], options), async_op)


def all_reduce_coalesced(
    tensors: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The same for several tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    _check_tensors(tensors, "tensors")
    _check_alike(tensors, "all_reduce_coalesced")
    if _is_outsider(group, "all_reduce_coalesced"):
        return None
    options = opt.AllreduceCoalescedOptions(reduceOp=op, asyncOp=async_op)
    return _end(resolve(group).allreduce_coalesced(tensors, options), async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Every rank's tensor becomes that of rank `src`, in place."""
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "broadcast"):
        return None
    options = opt.BroadcastOptions(rootRank=_peer(group, "src", src, group_src), asyncOp=async_op)
    return _end(resolve(group).broadcast([tensor], options), async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """The tensor of rank `dst` becomes the reduction of all, in place."""
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "reduce"):
        return None
    options = opt.ReduceOptions(reduceOp=op, rootRank=_peer(group, "dst", dst, group_dst), asyncOp=async_op)
    return _end(resolve(group).reduce([tensor], options), async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """`tensor_list[r]` becomes the tensor of rank r, on every rank."""
    _check_tensors(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "all_gather"):
        return None
    resolved = resolve(group)
    _check_count(tensor_list, resolved.size(), "tensor_list")
    _check_alike([*tensor_list, tensor], "all_gather")
    _check_numel(tensor_list, tensor, "tensor_list")
    options = opt.AllgatherOptions(asyncOp=async_op)
    return _end(resolved.allgather([tensor_list], [tensor], options), async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """The same for several tensors: `output_tensor_lists[r]` becomes those of rank r."""
    _check_tensors(input_tensor_list, "input_tensor_list")
    for outputs in output_tensor_lists:
        _check_tensors(outputs, "output_tensor_lists")
    if _is_outsider(group, "all_gather_coalesced"):
        return None
    options = opt.AllgatherOptions(asyncOp=async_op)
    return _end(resolve(group).allgather_coalesced(output_tensor_lists, input_tensor_list, options), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """All ranks' tensors one behind the other (or stacked), in one tensor."""
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    if _is_outsider(group, "all_gather_into_tensor"):
        return None
    resolved = resolve(group)
    _check_alike([output_tensor, input_tensor], "all_gather_into_tensor")
    if output_tensor.numel() != resolved.size() * input_tensor.numel():
        raise ValueError(
            f"all_gather_into_tensor: output_tensor {tuple(output_tensor.shape)} must hold {resolved.size()} times the "
            f"elements of input_tensor {tuple(input_tensor.shape)}"
        )
    options = opt.AllgatherOptions(asyncOp=async_op)
    return _end(resolved._allgather_base(output_tensor, input_tensor, options), async_op)


def _roots_list(
    what: str, root_name: str, name: str, given: list[Tensor] | None, tensor: Tensor, resolved: ProcessGroup, root: int
) -> list[list[Tensor]]:
    """The list of tensors, one per rank, that the root gives and nobody else: as back ends take it."""
    if resolved.rank() != root:
        if given:
            raise ValueError(f"{what}: only rank {root_name} may give {name}")
        return []
    if not given:
        raise ValueError(f"{what}: rank {root_name} must give {name}, a tensor per rank")
    _check_tensors(given, name)
    _check_count(given, resolved.size(), name)
    _check_alike([*given, tensor], what)
    _check_numel(given, tensor, name)
    return [given]


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Any:
    """Rank `dst` gets every rank's tensor in its `gather_list`; other ranks give none."""
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "gather"):
        return None
    resolved = resolve(group)
    root = _peer(group, "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    lists = _roots_list("gather", "dst", "gather_list", gather_list, tensor, resolved, root)
    options = opt.GatherOptions(rootRank=root, asyncOp=async_op)
    return _end(resolved.gather(lists, [tensor], options), async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Any:
    """Rank r's tensor becomes `scatter_list[r]` of rank `src`; other ranks give none."""
    _check_tensor(tensor, "tensor")
    if _is_outsider(group, "scatter"):
        return None
    resolved = resolve(group)
    root = _peer(group, "src", 0 if src is None and group_src is None else src, group_src)
    lists = _roots_list("scatter", "src", "scatter_list", scatter_list, tensor, resolved, root)
    options = opt.ScatterOptions(rootRank=root, asyncOp=async_op)
    return _end(resolved.scatter([tensor], lists, options), async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Rank r's `output` becomes the reduction of all ranks' `input_list[r]`."""
    _check_tensor(output, "output")
    _check_tensors(input_list, "input_list")
    if _is_outsider(group, "reduce_scatter"):
        return None
    resolved = resolve(group)
    _check_count(input_list, resolved.size(), "input_list")
    _check_alike([output, *input_list], "reduce_scatter")
    _check_numel([input_list[resolved.rank()]], output, "input_list")
    options = opt.ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    return _end(resolved.reduce_scatter([output], [input_list], options), async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The same for parts that lie one behind the other in `input`."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if _is_outsider(group, "reduce_scatter_tensor"):
        return None
    resolved = resolve(group)
    _check_alike([output, input], "reduce_scatter_tensor")
    if input.numel() != resolved.size() * output.numel():
        raise ValueError(
            f"reduce_scatter_tensor: input {tuple(input.shape)} must hold {resolved.size()} times the elements of "
            f"output {tuple(output.shape)}"
        )
    options = opt.ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    return _end(resolved._reduce_scatter_base(output, input, options), async_op)


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """`output_tensor_list[r]` becomes rank r's `input_tensor_list` at this rank's place."""
    _check_tensors(output_tensor_list, "output_tensor_list")
    _check_tensors(input_tensor_list, "input_tensor_list")
    if _is_outsider(group, "all_to_all"):
        return None
    resolved = resolve(group)
    _check_count(output_tensor_list, resolved.size(), "output_tensor_list")
    _check_count(input_tensor_list, resolved.size(), "input_tensor_list")
    _check_alike([*output_tensor_list, *input_tensor_list], "all_to_all")
    options = opt.AllToAllOptions(asyncOp=async_op)
    return _end(resolved.alltoall(output_tensor_list, input_tensor_list, options), async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Any:
    """The same for parts of one tensor along its first dimension: equal ones, or of the sizes given."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if _is_outsider(group, "all_to_all_single"):
        return None
    _check_alike([output, input], "all_to_all_single")
    options = opt.AllToAllOptions(asyncOp=async_op)
    sizes = list(output_split_sizes or []), list(input_split_sizes or [])
    return _end(resolve(group).alltoall_base(output, input, *sizes, options), async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: list[int] | None = None, timeout: timedelta | None = None
) -> Any:
    """Return when every rank of the group is here."""
    if _is_outsider(group, "barrier"):
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError(f"barrier: device_ids must be a list of integers, got {type(device_ids).__name__}")
    options = opt.BarrierOptions(asyncOp=async_op, device_ids=device_ids or [])
    if timeout is not None:
        options.timeout = timeout
    return _end(resolve(group).barrier(options), async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier at which rank 0 hears from each rank, and names those that do not come in time.

    The first one that is missing, or with `wait_all_ranks` all of them; then every rank's call fails."""
    if _is_outsider(group, "monitored_barrier"):
        return
    resolved = resolve(group)
    backend = resolved._get_backend("cpu")
    seconds = (timeout or backend._timeout).total_seconds()
    resolved._monitored_barriers += 1
    store, turn = resolved.get_group_store(), resolved._monitored_barriers
    if resolved.rank() != 0:
        store.set(f"monitor/{turn}/{resolved.rank()}", "1")
        try:
            store.wait([f"monitor/{turn}/go"], timedelta(seconds=2 * seconds))
        except RuntimeError:
            raise DistBackendError(
                f"monitored_barrier: rank {get_global_rank(resolved, resolved.rank())} came, and rank 0 did not let it "
                f"go within {2 * seconds:g} s"
            ) from None
        if store.get(f"monitor/{turn}/go") != b"1":
            raise DistBackendError("monitored_barrier: " + store.get(f"monitor/{turn}/go").decode())
        return
    missing = _missing_ranks(resolved, store, turn, seconds, wait_all_ranks)
    if missing:
        text = f"ranks {missing} did not come within {seconds:g} s"
        store.set(f"monitor/{turn}/go", text)
        raise DistBackendError("monitored_barrier: " + text)
    store.set(f"monitor/{turn}/go", "1")


def _missing_ranks(resolved: ProcessGroup, store: Any, turn: int, seconds: float, all_of_them: bool) -> list[int]:
    import time

    deadline, missing = time.monotonic() + seconds, []
    for rank in range(1, resolved.size()):
        left = max(0.001, deadline - time.monotonic())
        try:
            store.wait([f"monitor/{turn}/{rank}"], timedelta(seconds=left))
        except RuntimeError:
            missing.append(get_global_rank(resolved, rank))
            if not all_of_them:
                break
    return missing


# --- messages --------------------------------------------------------------------------------------------------------


def _send(tensor: Tensor, to: int | None, group: Any, tag: int, to_in_group: int | None, is_async: bool) -> Any:
    _check_tensor(tensor, "tensor")
    resolved = resolve(group)
    peer = _peer(group, "dst", to, to_in_group)
    if peer == resolved.rank():
        raise ValueError(f"send: rank {get_global_rank(resolved, peer)} cannot send to itself")
    return resolved.send([tensor], peer, tag, is_async)


def _recv(tensor: Tensor, source: int | None, group: Any, tag: int, in_group: int | None, is_async: bool) -> Any:
    _check_tensor(tensor, "tensor")
    resolved = resolve(group)
    if source is None and in_group is None:
        return resolved.recv_anysource([tensor], tag, is_async)
    return resolved.recv([tensor], _peer(group, "src", source, in_group), tag, is_async)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to a rank, and return when it is on its way."""
    if not _is_outsider(group, "send"):
        _send(tensor, dst, group, tag, group_dst, False).wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Fill a tensor with what a rank sends, or any rank; the rank that did."""
    if _is_outsider(group, "recv"):
        return -1
    work = _recv(tensor, src, group, tag, group_src, False)
    work.wait()
    return get_global_rank(group, work._source_rank())


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send; the tensor must not change until the work is done."""
    return None if _is_outsider(group, "isend") else _send(tensor, dst, group, tag, group_dst, True)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive; the tensor must not be used until the work is done."""
    return None if _is_outsider(group, "irecv") else _recv(tensor, src, group, tag, group_src, True)


class P2POp:
    """One message of a batch: `isend` or `irecv`, the tensor and the other rank."""

    def __init__(
        self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be isend or irecv, got {op!r}")
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = _peer(group, "peer", peer, group_peer)
        self.peer = get_global_rank(group, self.group_peer)

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, tag={self.tag}, {tuple(self.tensor.shape)})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages at once."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("batch_isend_irecv: expected a list of at least one P2POp")
    if any(p.group is not p2p_op_list[0].group for p in p2p_op_list):
        raise ValueError("batch_isend_irecv: all messages must be of one group")
    with _together(resolve(p2p_op_list[0].group), p2p_op_list[0].tensor.device):
        return [
            p.op(p.tensor, group=p.group, tag=p.tag, **{"group_dst" if p.op is isend else "group_src": p.group_peer})
            for p in p2p_op_list
        ]


@contextlib.contextmanager
def _together(resolved: ProcessGroup, device: Any) -> Iterator[None]:
    """Messages begun inside are one call, for a back end where each would wait for the one before."""
    backend = resolved._get_backend(device)
    if not hasattr(backend, "_start_coalescing"):
        yield
        return
    backend._start_coalescing(device)
    try:
        yield
    finally:
        backend._end_coalescing(device)


# --- objects ---------------------------------------------------------------------------------------------------------
# Objects travel pickled between processes of one job, which run one program: what is read here was written by it.


def _carried(
    call: Callable[[list[Tensor], list[Tensor]], Any], written: list[Tensor], read: list[Tensor], group: Any,
    device: Any = None,
) -> Any:
    """`call(written, read)` with tensors of host memory, where the group's back end can reach them: on the device that
    is named, on the group's, or on the current one of its kind."""
    resolved = resolve(group)
    kinds = list(resolved._backends)
    if device is None and ("cpu" in kinds or not kinds):
        return call(written, read)
    place = _C.device(device) if device is not None else resolved.bound_device_id or _C.device(kinds[0])
    away = [tensor.to(place) for tensor in written]
    result = call(away, [tensor.to(place) for tensor in read])
    for tensor, moved in zip(written, away, strict=True):
        tensor.copy_(moved)
    return result


def _to_bytes(obj: Any) -> Tensor:
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(obj)
    return frombuffer(bytearray(buffer.getvalue()), dtype=_C.uint8)


def _from_bytes(tensor: Tensor, size: int) -> Any:
    return pickle.loads(tensor[:size].numpy().tobytes())


def _number(value: int) -> Tensor:
    return _empty(1, dtype=_C.int64).fill_(value)


def _gathered_sizes(data: Tensor, group: Any) -> list[int]:
    resolved = resolve(group)
    sizes = [_number(0) for _ in range(resolved.size())]
    _carried(lambda out, own: all_gather(out, own[0], group=group), sizes, [_number(data.numel())], group)
    return [int(s) for s in sizes]


def _padded(data: Tensor, size: int) -> Tensor:
    room = _empty(size, dtype=_C.uint8)
    room[: data.numel()].copy_(data)
    return room


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """`object_list[r]` becomes the object of rank r, on every rank."""
    if _is_outsider(group, "all_gather_object"):
        return
    data = _to_bytes(obj)
    sizes = _gathered_sizes(data, group)
    _check_count(object_list, len(sizes), "object_list")
    rooms = [_empty(max(sizes), dtype=_C.uint8) for _ in sizes]
    _carried(lambda out, own: all_gather(out, own[0], group=group), rooms, [_padded(data, max(sizes))], group)
    for i, (room, size) in enumerate(zip(rooms, sizes)):
        object_list[i] = _from_bytes(room, size)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Rank `dst` gets every rank's object in its list; other ranks give none."""
    if _is_outsider(group, "gather_object"):
        return
    root = _peer(group, "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    is_root = resolve(group).rank() == root
    if is_root and object_gather_list is None:
        raise ValueError("gather_object: rank dst must give object_gather_list")
    data = _to_bytes(obj)
    sizes = _gathered_sizes(data, group)
    rooms = [_empty(max(sizes), dtype=_C.uint8) for _ in sizes] if is_root else []
    _carried(
        lambda out, own: gather(own[0], out or None, group=group, group_dst=root), rooms,
        [_padded(data, max(sizes))], group,
    )
    for i, room in enumerate(rooms):
        object_gather_list[i] = _from_bytes(room, sizes[i])     # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:
    """The objects in the list become those of rank `src`, on every rank."""
    if _is_outsider(group, "broadcast_object_list"):
        return
    root = _peer(group, "src", 0 if src is None and group_src is None else src, group_src)
    is_root = resolve(group).rank() == root
    parts = [_to_bytes(o) for o in object_list] if is_root else []
    sizes = _empty(len(object_list), dtype=_C.int64)
    for i, part in enumerate(parts):
        sizes[i] = part.numel()
    _carried(lambda out, _: broadcast(out[0], group=group, group_src=root), [sizes], [], group, device)
    lengths = sizes.tolist()
    data = _empty(sum(lengths), dtype=_C.uint8)
    for part, place in zip(parts, data.split(lengths)):
        place.copy_(part)
    _carried(lambda out, _: broadcast(out[0], group=group, group_src=root), [data], [], group, device)
    if not is_root:
        for i, place in enumerate(data.split(lengths)):
            object_list[i] = _from_bytes(place, lengths[i])


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:
    """The first place of each rank's output list becomes its object of rank `src`'s input list."""
    if _is_outsider(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list must be a list with room for one object")
    resolved = resolve(group)
    root = _peer(group, "src", 0 if src is None and group_src is None else src, group_src)
    parts = None
    size = _number(0)
    if resolved.rank() == root:
        _check_count(scatter_object_input_list or [], resolved.size(), "scatter_object_input_list")
        parts = [_to_bytes(o) for o in scatter_object_input_list or []]
        size = _number(max(p.numel() for p in parts))
    _carried(lambda out, _: broadcast(out[0], group=group, group_src=root), [size], [], group)
    own, room = _number(0), _empty(int(size), dtype=_C.uint8)

    def spread(out: list[Tensor], given: list[Tensor]) -> None:
        scatter(out[0], given or None, group=group, group_src=root)

    _carried(spread, [own], [_number(p.numel()) for p in parts or ()], group)
    _carried(spread, [room], [_padded(p, int(size)) for p in parts or ()], group)
    scatter_object_output_list[0] = _from_bytes(room, int(own))


def _post(op: Callable, tensor: Tensor, group: Any, peer: int | None, as_batch: bool) -> int:
    """Send or receive, by itself or as a batch of one; the rank at the other end."""
    if as_batch:
        batch_isend_irecv([P2POp(op, tensor, group=group, group_peer=peer)])[0].wait()
        return get_global_rank(group, peer)      # type: ignore[arg-type]
    if op is isend:
        send(tensor, group=group, group_dst=peer)
        return get_global_rank(group, peer)      # type: ignore[arg-type]
    return recv(tensor, group=group, group_src=peer)


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:
    """Send objects to a rank."""
    if _is_outsider(group, "send_object_list"):
        return
    peer = _peer(group, "dst", dst, group_dst)
    parts = [_to_bytes(o) for o in object_list]
    sizes = _empty(len(parts), dtype=_C.int64)
    for i, part in enumerate(parts):
        sizes[i] = part.numel()
    for part in [sizes, *parts]:
        _carried(lambda _, own: _post(isend, own[0], group, peer, use_batch), [], [part], group, device)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:
    """Fill a list with the objects that a rank sends; the rank."""
    if _is_outsider(group, "recv_object_list"):
        return -1
    peer = None if src is None and group_src is None else _peer(group, "src", src, group_src)
    sizes = _empty(len(object_list), dtype=_C.int64)
    sender = _carried(lambda out, _: _post(irecv, out[0], group, peer, use_batch), [sizes], [], group, device)
    peer = get_group_rank(group, sender)
    for i, size in enumerate(sizes.tolist()):
        data = _empty(size, dtype=_C.uint8)
        _carried(lambda out, _: _post(irecv, out[0], group, peer, use_batch), [data], [], group, device)
        object_list[i] = _from_bytes(data, size)
    return sender


class _CoalescingManager:
    """What `_coalescing_manager` gives: the works begun inside."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work) -> None:
        """One more."""
        self.works.append(work)

    def wait(self) -> None:
        """Return when all are done."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Collectives inside belong together. There is nothing to gain here from sending them as one: each is begun when
    it is called."""
    yield _CoalescingManager()
