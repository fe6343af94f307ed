"""The `fake` back end: one process that stands for any number of ranks. Nothing is sent; shapes, dtypes and memory are
those of a real job, so that programs for many processes can be traced, checked and measured in one.

What other ranks would have sent is taken to be what this one sends: sums are left as they are, gathered lists hold this
rank's tensor in every place, and messages that are received are left unwritten.
"""

from __future__ import annotations

from typing import Any

from .group import HostBackend


class _NoMessages:
    """Messages that go nowhere."""

    def send(self, flat: Any, to: int, tag: int, timeout: float) -> None:
        pass

    def receive(self, flat: Any, source: int | None, tag: int, timeout: float) -> int:
        return 0 if source is None else source

    def close(self) -> None:
        pass


class _NoTransport:
    """Collectives with oneself."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def close(self) -> None:
        pass

    def barrier(self, timeout: float) -> None:
        pass

    def all_reduce(self, flat: Any, op: Any, timeout: float) -> None:
        pass

    def reduce(self, flat: Any, root: int, op: Any, timeout: float) -> None:
        pass

    def broadcast(self, flat: Any, root: int, timeout: float) -> None:
        pass

    def all_gather(self, outputs: list[Any], flat: Any, timeout: float) -> None:
        for output in outputs:
            if output.data_ptr() != flat.data_ptr():
                output.copy_(flat)

    def reduce_scatter(self, output: Any, inputs: list[Any], op: Any, timeout: float) -> None:
        output.copy_(inputs[self.rank])

    def all_to_all(self, outputs: list[Any], inputs: list[Any], timeout: float) -> None:
        for output, tensor in zip(outputs, inputs, strict=True):
            if output.numel() == tensor.numel():
                output.copy_(tensor)

    def gather(self, outputs: list[Any] | None, flat: Any, root: int, timeout: float) -> None:
        if outputs is not None:
            self.all_gather(outputs, flat, timeout)

    def scatter(self, output: Any, inputs: list[Any] | None, root: int, timeout: float) -> None:
        if inputs is not None:
            output.copy_(inputs[self.rank])


class FakeBackend(HostBackend):
    """Every rank but this one is made up."""

    def name(self) -> str:
        return "fake"

    def transport(self) -> Any:
        if self._transport is None:
            self._transport = _NoTransport(self._rank)
        return self._transport

    def mailbox(self) -> Any:
        if self._mailbox is None:
            self._mailbox = _NoMessages()      # type: ignore[assignment]
        return self._mailbox
