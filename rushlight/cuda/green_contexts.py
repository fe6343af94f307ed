"""`torch.cuda.green_contexts`: a part of a unit's multiprocessors for what is queued within a block.

Enters: how many multiprocessors. Leaves: a context whose streams run on no others: `set_context` makes such a stream
the current one, after what was queued before; `pop_context` goes back, and what follows waits for it. Refuses: queues
of the hardware of one's own (`workqueue_scope`), and drivers without green contexts.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .. import _C
from .no_device import _no_device, _real, found
from .queues import ExternalStream, Stream

SUPPORTED = True
RESOURCE_BYTES = 256             # more than the driver's record of a resource has
MULTIPROCESSORS, DEFAULT_STREAM, NON_BLOCKING = 1, 1, 1


class GreenContext:
    """Some of a unit's multiprocessors. Made by `create`."""

    def __init__(self) -> None:
        self._context, self._stream, self._outside = ctypes.c_void_p(), None, None
        self.num_sms = 0

    @staticmethod
    def create(
        *, num_sms: int | None = None, workqueue_scope: str | None = None,
        workqueue_concurrency_limit: int | None = None, device_id: int | None = None,
    ) -> GreenContext:
        """A context of at least `num_sms` multiprocessors, as many as the unit can set apart."""
        if found() is None:
            _no_device("GreenContext")
        if workqueue_scope is not None or workqueue_concurrency_limit is not None:
            raise NotImplementedError(
                "GreenContext.create: workqueue_scope and workqueue_concurrency_limit are not supported: give num_sms"
            )
        unit = _real().unit_of(device_id)
        most = found().driver.attribute(unit.index, "multi_processor_count")
        if not isinstance(num_sms, int) or not 1 <= num_sms <= most:
            raise RuntimeError(f"GreenContext.create: num_sms must be from 1 to the unit's {most}, got {num_sms}")
        result = GreenContext()
        result._make(unit, num_sms)
        return result

    def _make(self, unit: Any, num_sms: int) -> None:
        driver = found().driver
        if not hasattr(driver.library, "cuGreenCtxStreamCreate"):
            raise RuntimeError("GreenContext.create: this driver has no green contexts: CUDA 12.5 or newer is needed")
        _C.cuda_enter(unit.index)
        whole, part, rest = (ctypes.create_string_buffer(RESOURCE_BYTES) for _ in range(3))
        groups, words, stream = ctypes.c_uint(1), ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuDeviceGetDevResource", unit.index, whole, MULTIPROCESSORS)
        driver.call("cuDevSmResourceSplitByCount", part, ctypes.byref(groups), whole, rest, 0, num_sms)
        driver.call("cuDevResourceGenerateDesc", ctypes.byref(words), part, 1)
        driver.call("cuGreenCtxCreate", ctypes.byref(self._context), words, unit.index, DEFAULT_STREAM)
        driver.call("cuGreenCtxStreamCreate", ctypes.byref(stream), self._context, NON_BLOCKING, 0)
        self.num_sms = num_sms
        self._stream = ExternalStream(stream.value, unit)

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> int:
        """Refused: queues of the hardware are not configured here."""
        raise NotImplementedError("GreenContext.max_workqueue_concurrency: hardware queues are not configured here")

    def set_context(self) -> None:
        """What this thread queues from here on runs on these multiprocessors, after what is queued now."""
        if self._stream is None:
            raise RuntimeError("GreenContext: make one with GreenContext.create(num_sms=...)")
        if self._outside is not None:
            raise RuntimeError("GreenContext.set_context: it is set already")
        self._outside = _real().current_stream(self._stream.device)
        self._stream.wait_stream(self._outside)
        _real().set_stream(self._stream)

    def pop_context(self) -> None:
        """Back to the stream before, which waits for what was queued here."""
        if self._outside is None:
            raise RuntimeError("GreenContext.pop_context: it was not set")
        self._outside.wait_stream(self._stream)
        _real().set_stream(self._outside)
        self._outside = None

    def Stream(self) -> Stream:     # noqa: N802 - PyTorch's name
        """The context's stream."""
        if self._stream is None:
            raise RuntimeError("GreenContext: make one with GreenContext.create(num_sms=...)")
        return self._stream


__all__ = ["GreenContext"]
