"""Which positions of a sequence a process gets, so that causal attention is as much work for each.

Enters: the length of a sequence (or of the documents in it) and the number of processes. Leaves: an order of positions,
[1, length], or [batch, length] where rows of a batch have orders of their own. Cut into equal parts it gives each
process its positions; `restore=True` is the way back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ....op import find_op

_arange, _cat, _stack = find_op("arange"), find_op("cat"), find_op("stack")


class _LoadBalancer(ABC):
    """An order of positions."""

    @abstractmethod
    def _generate_indices(self, restore: bool = False) -> Any:
        """The order, or the way back from it; None for the order that there is."""


def _head_and_tail(length: int, start: int, count: int, device: Any) -> Any:
    """Pieces r and 2 count - 1 - r for each process r."""
    if length % (2 * count):
        raise AssertionError(f"{length} positions are not {2 * count} equal pieces, two for each of {count} processes")
    pieces = (_arange(length, device=device) + start).view(2 * count, -1)
    return _stack([pieces[[r, 2 * count - 1 - r]] for r in range(count)]).reshape(-1)


class _HeadTailLoadBalancer(_LoadBalancer):
    """An early and a late piece for each process."""

    def __init__(self, seq_length: int, world_size: int, device: Any) -> None:
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Any:
        order = _head_and_tail(self.seq_length, 0, self.world_size, self.device)
        return (order.argsort() if restore else order).unsqueeze(0)


class _PerDocumentHeadTailLoadBalancer(_LoadBalancer):
    """The same for each document of a sequence: `seq_length_per_doc` has a row of lengths per row of the batch, or
    one for all."""

    def __init__(self, seq_length_per_doc: Sequence[Sequence[int]], world_size: int, device: Any) -> None:
        self.seq_length_per_doc, self.world_size, self.device = seq_length_per_doc, world_size, device

    def _generate_indices(self, restore: bool = False) -> Any:
        rows = []
        for lengths in self.seq_length_per_doc:
            starts = [sum(lengths[:i]) for i in range(len(lengths))]
            parts = [_head_and_tail(n, s, self.world_size, self.device) for n, s in zip(lengths, starts, strict=True)]
            order = _cat(parts)
            rows.append(order.argsort() if restore else order)
        return _stack(rows)


def arranged(buffer: Any, dim: int, order: Any) -> Any:
    """A buffer with its positions along `dim` in another order: [1, length], or a row per row of the batch."""
    if order is None:
        return buffer
    if order.ndim != 2:
        raise AssertionError(f"load_balancer: an order is [1, length] or [batch, length], got {tuple(order.shape)}")
    order = order.to(buffer.device)
    if order.shape[0] == 1:
        return buffer.index_select(dim, order[0])
    if dim == 0 or order.shape[0] != buffer.shape[0]:
        raise ValueError(
            f"load_balancer: it has an order for each of {order.shape[0]} rows, and the buffer is {tuple(buffer.shape)}"
            f" with positions along dimension {dim}"
        )
    return _stack([row.index_select(dim - 1, places) for row, places in zip(buffer, order, strict=True)])
