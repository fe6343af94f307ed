"""Messages between the stages of a pipeline: lists of tensors, each with its shape and dtype, in the order that the
schedule gives.

Sending does not wait. What will come from each rank is known beforehand, so that one thread per rank takes messages as
they come, and a stage waits only for the one that it needs next.
"""

from __future__ import annotations

import threading
from typing import Any

from ... import _C
from ..._C import Tensor
from ...op import find_op
from ...tensors.interop import tensor
from .. import collectives, groups
from ..errors import DistBackendError

__all__: list[str] = []

_empty = find_op("empty")
Key = tuple[str, int, int]      # "F" or "B", the stage that sends, the part of the batch
_KINDS = {"F": 0, "B": 1}
_DTYPES = [
    _C.float32, _C.float64, _C.float16, _C.bfloat16, _C.int64, _C.int32, _C.int16, _C.int8, _C.uint8, _C.bool,
    _C.complex64, _C.complex128,
]


class Wire:
    """A rank's messages of one pipeline step."""

    def __init__(self, group: Any, device: Any, expected: dict[int, list[Key]]) -> None:
        self._group, self._device = group, device
        self._news = threading.Condition()
        self._came: dict[Key, list[Tensor | None]] = {}
        self._error: BaseException | None = None
        self._sending: list[tuple[Any, Tensor]] = []
        self._threads = [
            threading.Thread(target=self._take, args=(rank, keys), name=f"pipeline from {rank}", daemon=True)
            for rank, keys in expected.items()
        ]
        for thread in self._threads:
            thread.start()

    def send(self, rank: int, key: Key, tensors: list[Tensor | None]) -> None:
        """Begin to send. Gradients will come back for the tensors that require them."""
        row = [_KINDS[key[0]], key[1], key[2], len(tensors)]
        for item in tensors:
            if item is None:
                row.append(-1)
                continue
            if item.dtype not in _DTYPES:
                raise TypeError(f"a pipeline cannot send tensors of {item.dtype}")
            row += [_DTYPES.index(item.dtype), int(item.requires_grad), item.dim(), *item.shape]
        for part in (tensor([len(row)]), tensor(row), *(t.detach().contiguous() for t in tensors if t is not None)):
            if part.numel():
                self._sending.append((collectives.isend(part, group=self._group, group_dst=rank), part))

    def receive(self, key: Key) -> list[Tensor | None]:
        """Wait for a message."""
        with self._news:
            while key not in self._came:
                if self._error is not None:
                    raise self._error
                self._news.wait()
            return self._came.pop(key)

    def deliver(self, key: Key, tensors: list[Tensor | None]) -> None:
        """A message between stages of this same rank."""
        with self._news:
            self._came[key] = [
                None if t is None else t.detach().requires_grad_(t.requires_grad) for t in tensors
            ]

    def _take(self, rank: int, keys: list[Key]) -> None:
        try:
            for key in keys:
                tensors = self._message(rank, key)
                with self._news:
                    self._came[key] = tensors
                    self._news.notify_all()
        except Exception as error:
            with self._news:
                self._error = error
                self._news.notify_all()

    def _message(self, rank: int, key: Key) -> list[Tensor | None]:
        length = self._part(rank, (1,), _C.int64)
        row = iter(self._part(rank, (int(length),), _C.int64).tolist())
        found = next(row), next(row), next(row)
        if found != (_KINDS[key[0]], *key[1:]):
            names = {code: kind for kind, code in _KINDS.items()}
            raise DistBackendError(
                f"rank {groups.get_global_rank(self._group, rank) if self._group else rank} sent "
                f"{(names.get(found[0]), *found[1:])} where {key} (kind, stage, microbatch) was to come: the ranks "
                "follow different schedules"
            )
        tensors: list[Tensor | None] = []
        for _ in range(next(row)):
            code = next(row)
            if code < 0:
                tensors.append(None)
                continue
            requires_grad, dims = next(row), next(row)
            shape = tuple(next(row) for _ in range(dims))
            tensors.append(self._part(rank, shape, _DTYPES[code]).requires_grad_(bool(requires_grad)))
        return tensors

    def _part(self, rank: int, shape: tuple[int, ...], dtype: _C.dtype) -> Tensor:
        place = _empty(shape, dtype=dtype)
        if place.numel():
            collectives.recv(place, group=self._group, group_src=rank)
        return place if self._device is None else place.to(self._device)

    def finish(self) -> None:
        """Wait until everything that was sent is on its way, and everything that was to come has come."""
        for work, _ in self._sending:
            work.wait()
        self._sending.clear()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error
