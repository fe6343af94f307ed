"""`context_parallel`: attention over sequences that are spread over processes, keys and values going round.

Enters: within the context, `scaled_dot_product_attention` of this process's positions. Leaves: what attention over the
whole sequence gives for them. Keys and values of the others come one after another (`"alltoall"`: each process hands on
what it has; `"allgather"`: all at once); results of parts are joined by their logarithms of the sums of exponentials,
so that no process ever holds all scores. In the backward pass the gradients of keys and values go round with them.

Causal attention has twice as much to do at the end of a sequence as at its middle. So the sequence is cut into twice as
many pieces as there are processes, and process r has piece r and the r-th from the end: each does the same work. Of two
processes' pieces, then, all positions of one attend the first piece of the other, or the second piece of one attends
all of the other: no mask is needed but at home.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...._C import Tensor
from ....autograd.function import Function
from ....autograd.grad_mode import no_grad
from ....dispatch.modes import TorchFunctionMode
from ....op import find_op
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import _functional_collectives as functional
from ...device_mesh import DeviceMesh
from ._load_balancer import _HeadTailLoadBalancer, _LoadBalancer, arranged

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]
_attention, _arange, _matmul = find_op("scaled_dot_product_attention"), find_op("arange"), find_op("matmul")
_flash = find_op("_scaled_dot_product_flash_attention_for_cpu")
_flash_backward = find_op("_scaled_dot_product_flash_attention_for_cpu_backward")


class _Options:
    enable_load_balance = True
    rotate_method = "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values reach everyone: "allgather", at once, or "alltoall", one process's after another's."""
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"set_rotate_method: expected 'allgather' or 'alltoall', got {rotate_method!r}")
    _cp_options.rotate_method = rotate_method


# --- sequences spread and gathered ------------------------------------------------------------------------------------


def _is_balanced(length: int, count: int) -> bool:
    return _cp_options.enable_load_balance and length % (2 * count) == 0


def _cut(buffer: Any, dim: int, mesh: DeviceMesh, balanced: bool) -> Any:
    """This process's positions of a buffer."""
    count = mesh.size()
    if balanced:
        balancer = _HeadTailLoadBalancer(buffer.shape[dim], count, buffer.device)
        buffer = arranged(buffer, dim, balancer._generate_indices())
    return buffer.tensor_split(count, dim)[mesh.get_local_rank()].clone()


@contextmanager
def context_parallel(
    mesh: DeviceMesh, *, buffers: Sequence[Tensor] | None = None, buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Within, `buffers` hold this process's positions (they are given back whole afterwards, but for those in
    `no_restore_buffers`), and attention is over the whole sequence."""
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel: a mesh of one dimension is needed, got {mesh}")
    given, dims = list(buffers or ()), list(buffer_seq_dims or ())
    if len(given) != len(dims):
        raise ValueError(f"context_parallel: {len(given)} buffers but {len(dims)} buffer_seq_dims")
    kept = list(no_restore_buffers or ())
    if any(all(b is not k for b in given) for k in kept):
        raise ValueError("context_parallel: no_restore_buffers must be among buffers")
    lengths = {b.shape[d] for b, d in zip(given, dims, strict=True)}
    if any(length % mesh.size() for length in lengths):
        raise ValueError(f"context_parallel: {sorted(lengths)} positions cannot be cut into {mesh.size()} equal parts")
    balanced = _cp_options.enable_load_balance and all(_is_balanced(length, mesh.size()) for length in lengths)
    whole = [None if any(b is k for k in kept) else b.detach().clone() for b in given]
    with no_grad():
        for buffer, dim in zip(given, dims, strict=True):
            part = _cut(buffer, dim, mesh, balanced)
            buffer.resize_(part.shape)
            buffer.copy_(part)
    try:
        with _RingMode(mesh, balanced):
            yield
    finally:
        with no_grad():
            for buffer, old in zip(given, whole, strict=True):
                if old is not None:
                    buffer.resize_(old.shape)
                    buffer.copy_(old)


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """Buffers of this process's positions, whole and in order: that of `load_balancer`, or that of
    `context_parallel`."""
    _check_dims("context_parallel_unshard", buffers, seq_dims)
    found = []
    with no_grad():
        for buffer, dim in zip(buffers, seq_dims, strict=True):
            gathered = functional.all_gather_tensor(buffer.contiguous(), dim, mesh)
            length = gathered.shape[dim]
            balancer = load_balancer
            if balancer is None and _is_balanced(length, mesh.size()):
                balancer = _HeadTailLoadBalancer(length, mesh.size(), gathered.device)
            order = None if balancer is None else balancer._generate_indices(restore=True)
            found.append(arranged(gathered, dim % gathered.ndim, order))
    return found


def _context_parallel_shard(
    mesh: DeviceMesh, buffers: Any, seq_dims: Any, load_balancer: _LoadBalancer | None = None
) -> Any:
    """This process's positions of buffers (a list or dict of tensors), in the order of `load_balancer` where there is
    one."""
    given, shape = tree_flatten(buffers)
    dims, _ = tree_flatten(seq_dims)
    _check_dims("_context_parallel_shard", given, dims)
    order = None if load_balancer is None else load_balancer._generate_indices()
    parts = []
    for buffer, dim in zip(given, dims, strict=True):
        if buffer.shape[dim] % mesh.size():
            raise ValueError(
                f"_context_parallel_shard: {buffer.shape[dim]} positions cannot be cut into {mesh.size()} equal parts"
            )
        parts.append(arranged(buffer, dim % buffer.ndim, order).chunk(mesh.size(), dim)[mesh.get_local_rank()])
    return tree_unflatten(parts, shape)


def _check_dims(name: str, buffers: Sequence[Any], dims: Sequence[int]) -> None:
    if len(buffers) != len(dims):
        raise ValueError(f"{name}: {len(buffers)} buffers but {len(dims)} seq_dims")


class _RingMode(TorchFunctionMode):
    """Attention over the whole sequence, wherever it is called."""

    def __init__(self, mesh: DeviceMesh, balanced: bool) -> None:
        self.mesh, self.balanced = mesh, balanced

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is not _attention:
            return func(*args, **(kwargs or {}))
        return self.attend(*args, **(kwargs or {}))

    def attend(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:
        if attn_mask is not None or dropout_p:
            raise NotImplementedError(
                "context_parallel: attention with attn_mask or dropout_p is not written yet; is_causal is"
            )
        if query.ndim != 4 or query.shape[2] != key.shape[2]:
            raise ValueError(
                "context_parallel: expected [batch, heads, positions, features] with as many queries as keys, got "
                f"{tuple(query.shape)} and {tuple(key.shape)}"
            )
        if query.shape[1] != key.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
            raise ValueError(
                f"context_parallel: {query.shape[1]} heads of queries and {key.shape[1]} of keys need enable_gqa=True, "
                "and one to be a multiple of the other"
            )
        if is_causal and self.balanced and query.shape[2] % 2:
            raise ValueError(f"context_parallel: {query.shape[2]} positions a process are not two equal pieces")
        scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
        return RingAttention.apply(query, key, value, self.mesh, bool(is_causal), self.balanced, scale)


# --- the ring ---------------------------------------------------------------------------------------------------------


class Meeting(NamedTuple):
    """What this process's queries have to do with another's keys: slices of both, and whether later ones are hidden."""

    queries: slice
    keys: slice
    is_causal: bool


def meeting(rank: int, source: int, length: int, is_causal: bool, balanced: bool) -> Meeting | None:
    """None where every key comes after every query."""
    everything = slice(0, length)
    if not is_causal or rank == source:
        return Meeting(everything, everything, is_causal)
    if not balanced:
        return Meeting(everything, everything, False) if source < rank else None
    if source < rank:
        return Meeting(everything, slice(0, length // 2), False)
    return Meeting(slice(length // 2, length), everything, False)


def _travelling(pair: Any, mesh: DeviceMesh) -> Iterator[tuple[int, Any]]:
    """(whose, keys and values), one's own first."""
    rank, count = mesh.get_local_rank(), mesh.size()
    if _cp_options.rotate_method == "allgather":
        yield rank, pair
        all_pairs = functional.all_gather_tensor(pair.unsqueeze(0), 0, mesh) if count > 1 else None
        for step in range(1, count):
            source = (rank - step) % count
            yield source, all_pairs[source]
        return
    for step in range(count):
        yield (rank - step) % count, pair
        if step + 1 < count:
            pair = _handed_on(pair, mesh)


def _handed_on(tensor: Any, mesh: DeviceMesh) -> Any:
    """The previous process's tensor; this one's goes to the next."""
    count = mesh.size()
    return functional.permute_tensor(tensor, [(r + 1) % count for r in range(count)], mesh) if count > 1 else tensor


class RingAttention(Function):
    """Attention of this process's queries over everyone's keys."""

    @staticmethod
    def forward(
        ctx: Any, query: Any, key: Any, value: Any, mesh: DeviceMesh, is_causal: bool, balanced: bool, scale: float
    ) -> Any:
        rank, length = mesh.get_local_rank(), query.shape[2]
        out = query.new_zeros(query.shape, dtype=_wide(query))
        log = out.new_full(query.shape[:3], -math.inf)
        for source, (k, v) in _travelling(functional.stack([key, value]), mesh):
            met = meeting(rank, source, length, is_causal, balanced)
            if met is not None:
                part = _block(query[:, :, met.queries], k[:, :, met.keys], v[:, :, met.keys], met.is_causal, scale)
                _join(out[:, :, met.queries], log[:, :, met.queries], *part)
        result = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, log)
        ctx.rest = mesh, is_causal, balanced, scale
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple:
        query, key, value, out, log = ctx.saved_tensors
        mesh, is_causal, balanced, scale = ctx.rest
        rank, count, length = mesh.get_local_rank(), mesh.size(), query.shape[2]
        pair = functional.stack([key, value])
        own = query.new_zeros(query.shape, dtype=_wide(query))
        theirs = pair.new_zeros(pair.shape, dtype=own.dtype)      # goes round with the keys and values it is of
        for step in range(count):
            met = meeting(rank, (rank - step) % count, length, is_causal, balanced)
            if met is not None:
                q, g, o = (t[:, :, met.queries] for t in (query, gradient, out))
                k, v = (t[:, :, met.keys] for t in pair)
                dq, dk, dv = _block_backward(g, q, k, v, o, log[:, :, met.queries], met.is_causal, scale)
                own[:, :, met.queries] += dq
                theirs[0][:, :, met.keys] += dk
                theirs[1][:, :, met.keys] += dv
            theirs = _handed_on(theirs, mesh)
            if step + 1 < count:
                pair = _handed_on(pair, mesh)
        dk, dv = theirs.to(key.dtype)
        return own.to(query.dtype), dk, dv, None, None, None, None


def _wide(tensor: Any) -> Any:
    """The type that parts are joined in."""
    return tensor.float().dtype if tensor.itemsize < 4 else tensor.dtype


def _join(out: Any, log: Any, part: Any, part_log: Any) -> None:
    """Attention over some keys joined, in place, with attention over others."""
    total = log.logaddexp(part_log)
    out.mul_((log - total).exp().unsqueeze(-1)).add_(part * (part_log - total).exp().unsqueeze(-1))
    log.copy_(total)


def _shared(tensor: Any, query: Any) -> Any:
    """Keys or values once per head of the queries."""
    groups = query.shape[1] // tensor.shape[1]
    return tensor if groups == 1 else tensor.repeat_interleave(groups, 1)


def _hidden(scores: Any) -> Any:
    """Scores of later keys, which count nothing."""
    rows, columns = scores.shape[-2:]
    places = _arange(rows, device=scores.device).unsqueeze(1), _arange(columns, device=scores.device)
    return scores.masked_fill(places[1] > places[0], -math.inf)


def _block(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """(attention, logarithm of the sum of exponentials) over some keys."""
    k, v = _shared(key, query).contiguous(), _shared(value, query).contiguous()
    if query.device.type == "cpu":
        out, log = _flash(query.contiguous(), k, v, 0.0, is_causal, scale=scale)
        return out, log
    scores = _matmul(query, k.transpose(-1, -2)).to(_wide(query)) * scale
    scores = _hidden(scores) if is_causal else scores
    log = scores.logsumexp(-1)
    return _matmul((scores - log.unsqueeze(-1)).exp().to(v.dtype), v), log


def _block_backward(
    gradient: Any, query: Any, key: Any, value: Any, out: Any, log: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """Gradients of queries, keys and values; `out` and `log` are those over all keys."""
    k, v = _shared(key, query).contiguous(), _shared(value, query).contiguous()
    if query.device.type == "cpu":
        given = (t.contiguous() for t in (gradient, query, k, v, out, log))
        dq, dk, dv = _flash_backward(*given, 0.0, is_causal, scale=scale)
    else:
        scores = _matmul(query, k.transpose(-1, -2)).to(_wide(query)) * scale
        weights = ((_hidden(scores) if is_causal else scores) - log.unsqueeze(-1)).exp()
        along = (gradient * out).to(weights.dtype).sum(-1, keepdim=True)
        slope = weights * (_matmul(gradient, v.transpose(-1, -2)).to(weights.dtype) - along) * scale
        dq, dk = _matmul(slope.to(k.dtype), k), _matmul(slope.transpose(-1, -2).to(query.dtype), query)
        dv = _matmul(weights.transpose(-1, -2).to(gradient.dtype), gradient)
    if k.shape[1] != key.shape[1]:
        dk, dv = (t.unflatten(1, (key.shape[1], -1)).sum(2) for t in (dk, dv))
    return dq, dk, dv
