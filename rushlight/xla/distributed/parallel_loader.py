"""torch_xla.distributed.parallel_loader: loaders whose batches come on the device.

Enters: a loader of the host. Leaves: its batches, moved, each the beginning of a new step. A thread reads ahead.
Refuses: sharding, and other devices.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

from ... import _C
from ..core.xla_model import send_cpu_data_to_device
from ..stepping import sync
from ..unit import NAME

_END = object()


class PerDeviceLoader:
    """The batches of one unit."""

    def __init__(self, loader: ParallelLoader, device: Any) -> None:
        self._loader, self._device = loader, device

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for k, batch in enumerate(self._loader.batches()):
            if k % self._loader.batches_per_execution == 0:
                sync()
            yield send_cpu_data_to_device([batch], self._device)[0]
        sync()


class ParallelLoader:
    """A loader of the host for units: `loader_prefetch_size` batches are read ahead on a thread. `device_prefetch_size`
    and `host_to_device_transfer_threads` are about copies to a device that has memory of its own."""

    def __init__(
        self, cpu_loader: Any, devices: Sequence[Any], batchdim: int = 0, batches_per_execution: int = 1,
        loader_prefetch_size: int = 16, device_prefetch_size: int = 8, host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
    ) -> None:
        if input_sharding is not None:
            raise NotImplementedError("ParallelLoader: sharding over units (SPMD) is not here; pass None")
        if batches_per_execution < 1 or loader_prefetch_size < 1:
            raise ValueError("ParallelLoader: expected at least 1 batch for each step and 1 to be read ahead, got"
                             f" {batches_per_execution} and {loader_prefetch_size}")
        self._cpu_loader, self._devices = cpu_loader, [_device(d) for d in devices]
        self.batches_per_execution, self._ahead = batches_per_execution, loader_prefetch_size

    def __len__(self) -> int:
        return len(self._cpu_loader)

    def per_device_loader(self, device: Any) -> PerDeviceLoader:
        """The batches of a unit."""
        wanted = _device(device)
        if wanted not in self._devices:
            raise RuntimeError(f"per_device_loader: expected one of {self._devices}, got {wanted}")
        return PerDeviceLoader(self, wanted)

    def batches(self) -> Iterator[Any]:
        """The batches on the host, read ahead; what the loader raises is raised here."""
        queue: Queue[Any] = Queue(self._ahead)
        stopped = threading.Event()

        def read() -> None:
            try:
                for batch in self._cpu_loader:
                    if stopped.is_set():
                        return
                    queue.put((batch, None))
                queue.put((_END, None))
            except BaseException as error:  # noqa: BLE001 - whoever takes the batches is told
                queue.put((_END, error))

        thread = threading.Thread(target=read, name="xla loader", daemon=True)
        thread.start()
        try:
            while True:
                batch, error = queue.get()
                if error is not None:
                    raise error
                if batch is _END:
                    return
                yield batch
        finally:
            stopped.set()
            while thread.is_alive():      # it may wait for room
                while not queue.empty():
                    queue.get_nowait()
                thread.join(0.01)

    def close(self) -> None:
        """Nothing is left open between two passes."""


class MpDeviceLoader:
    """A loader of the host, whose batches come on a device."""

    def __init__(self, loader: Any, device: Any, **options: Any) -> None:
        self._loader, self._device = loader, _device(device)
        self._parallel = ParallelLoader(loader, [self._device], **options)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parallel.per_device_loader(self._device))

    def __len__(self) -> int:
        return len(self._loader)


def _device(device: Any) -> Any:
    found = _C.device(device)
    if found.type != NAME:
        raise RuntimeError(f"parallel_loader: expected an xla device, got {found}")
    return _C.device(NAME, found.index or 0)
