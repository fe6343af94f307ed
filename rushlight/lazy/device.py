"""The lazy device as the table of devices knows it: it has no memory, and what runs on it is written down.

Enters: calls of ops that the core does not plan, and copies to and from the host. Leaves: words in the recording, and
values in storages. What it cannot write down (sizes that data decide) is computed on the host and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import _C
from ..devices import Device
from ..devices.base import handlers
from ..op import find_op, ops
from ..utils._pytree import tree_map
from . import metrics

HOST_ONLY = frozenset(("nonzero", "masked_select", "unique", "repeat_interleave", "bincount", "histc"))


class LazyDevice(Device):
    """One unit; its tensors are written down."""

    name = "lazy"
    host_fallback = True

    def implementation(self, op: str) -> Callable | None:
        """Whatever a library would do is written down, if its sizes are known."""
        if op in HOST_ONLY:
            return partial(self.on_host, op)
        overloads = find_op(op).overload_list if op in ops else ()
        if not overloads:
            return None

        def written(out: Any, *args: Any) -> Any:
            if out is None:
                return NotImplemented
            overload = next((o for o in overloads if len(o.definition.spec.params) == len(args)), None)
            if overload is None:
                return NotImplemented
            _C.record(overload, args, out)
            return None

        return written

    def on_host(self, op: str, out: Any, *args: Any) -> Any:
        """An op whose elements decide its size: what was written down is computed, and it goes on from there."""
        self.fall_back(op)
        result = find_op(op)(*tree_map(lambda a: a.cpu() if isinstance(a, _C.Tensor) else a, args))
        return tree_map(lambda t: t.to(self.name), result)

    def own_or_report(self, op: str, expected: bool = False) -> Callable | None:
        """What the host computes is counted."""
        function = self.own(op)
        if function is None:
            self.fall_back(op)
        return function

    def fall_back(self, op: str) -> None:
        metrics.count(f"aten::{op}")
        metrics.tell("cut", f"{op} is computed on the host")

    def settle(self, recording: Any) -> None:
        """Another thread needs what was written down."""
        from .step import run  # noqa: PLC0415 - the device is there before anything is compiled

        run(self.name, recording)

    def device_count(self) -> int:
        return 1

    def synchronize(self, index: int | None = None) -> None:
        """Nothing is queued."""

    def to_host(self, tensor: Any) -> Any:
        """The elements of a dense tensor, on the host."""
        from .engines import engine_of  # noqa: PLC0415 - as above
        from .step import value_of  # noqa: PLC0415 - as above

        flat = engine_of(self.name).to_host(value_of(tensor))
        if flat.dtype is not tensor.dtype:
            flat = flat.view(tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def from_host(self, target: Any, source: Any) -> None:
        """The elements of `source`, dense and on the host, written over `target`."""
        from .engines import engine_of  # noqa: PLC0415 - the device is there before anything is compiled

        whole = target.untyped_storage().nbytes() == target.numel() * target.element_size()
        place = target if whole else _C.empty(target.shape, None, target.dtype, target.device)
        _C.set_stored_value(place, engine_of(self.name).from_host(source.clone().reshape(-1)))
        if place is not target:
            target.copy_(place)


def registered(device: LazyDevice) -> Any:
    """A device of this kind, known to the core from now on."""
    _C.register_device(device.name, device, None)
    _C.record_device(device.name)
    handlers[device.name] = device
    return device


_found: list[LazyDevice] = []


def find() -> LazyDevice:
    """The device; registered when it is first named."""
    if not _found:
        _found.append(registered(LazyDevice()))
    return _found[0]
