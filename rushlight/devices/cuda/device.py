"""The CUDA device: NVIDIA's units through the core's table, with kernels generated as PTX.

Enters: the driver. Leaves: `CudaDevice`, which `devices.base` registers when CUDA is first asked for. Matrix products
are cuBLAS's where that is installed (libraries.py);
other library ops run on the host and say so (RUSHLIGHT_SHOW=fallback).
"""

from __future__ import annotations

from typing import Any

from ..base import Device
from .driver import Driver
from .kernels import Kernel, load


class CudaDevice(Device):
    """All CUDA units of this machine."""

    name = "cuda"
    accelerator = True
    streams = True

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.kernels: list[Kernel] = []

    def native(self) -> int:
        return self.driver.table

    def load(self, nest: Any) -> int:
        address, kernel = load(nest, self.driver)
        self.kernels.append(kernel)
        return address

    def device_count(self) -> int:
        return self.driver.units

    def memory_info(self, index: int) -> tuple[int, int]:
        """Bytes free and bytes in all on a unit."""
        return self.driver.memory_info(index)

    def product(self, code: str) -> Any:
        from . import libraries  # looks for wheels, which not every program needs

        return libraries.product(code)
