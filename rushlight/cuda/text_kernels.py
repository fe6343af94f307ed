"""Kernels that programs bring as text in CUDA C: compiled by NVRTC, kept on disk, launched on tensors.

Enters: a text and a kernel's name. Leaves: a function of a grid, a block and arguments (`cuda._compile_kernel`).
Refuses: where NVRTC is not installed, and arguments that no kernel takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .. import _C
from ..devices.cuda import find, sources
from .units import current_device

PLAIN_SHARED = 48 * 1024         # bytes of shared memory that a kernel has without being told
SHARED_BYTES = 8                 # the driver's number for how much a kernel may have
NUMBERS = {bool: ctypes.c_int, int: ctypes.c_int, float: ctypes.c_double}


class TextKernel:
    """A compiled kernel; called with a grid, a block and the kernel's arguments."""

    def __init__(self, name: str, text: str, options: Sequence[str] = (), architecture: str = "") -> None:
        self.name, self.text, self.options, self.architecture = name, text, tuple(options), architecture
        self.functions: dict[int, int] = {}
        self.most_shared = 0

    def function(self, unit: int) -> int:
        """The driver's function on a unit, compiled when it is first asked for."""
        if unit not in self.functions:
            compiler = sources.find()
            if compiler is None:
                raise RuntimeError(
                    f"cuda: kernel {self.name!r} cannot be compiled: NVRTC is not installed;"
                    " pip install nvidia-cuda-nvrtc"
                )
            driver = find().driver
            architecture = self.architecture or driver.architecture(unit)
            cubin = sources.stored_cubin(self.text, compiler, architecture, driver, self.options)
            self.functions[unit] = driver.function(cubin, self.name, unit)
        return self.functions[unit]

    def __call__(
        self, grid: Sequence[int] = (1, 1, 1), block: Sequence[int] = (1, 1, 1), args: Sequence[Any] | None = None,
        shared_mem: int = 0, stream: Any = None,
    ) -> None:
        """Queue the kernel on a stream, the current one unless told. Tensors go as addresses, ints as C's int, floats
        as double, and what `ctypes` has as it is."""
        if shared_mem >= PLAIN_SHARED and shared_mem > self.most_shared:
            raise RuntimeError(
                f"kernel {self.name!r}: {shared_mem} bytes of shared memory, of {self.most_shared or PLAIN_SHARED} that"
                f" it may have: call set_shared_memory_config({shared_mem}) before"
            )
        unit = current_device()
        function = self.function(unit)
        values = [argument(self.name, value) for value in args or ()]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        queue = stream.cuda_stream if stream is not None else _C.stream_handle(_C.device("cuda", unit))
        _C.cuda_enter(unit)
        find().driver.call(
            "cuLaunchKernel", ctypes.c_void_p(function), *grid, *block, shared_mem, ctypes.c_void_p(queue), places, None
        )

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        """Allow the kernel more shared memory than the usual 48 KiB."""
        driver, unit = find().driver, current_device()
        most = driver.attribute(unit, "shared_memory_per_block_optin")
        if shared_mem_bytes > most:
            raise RuntimeError(f"kernel {self.name!r}: {shared_mem_bytes} bytes of shared memory; a block has {most}")
        if shared_mem_bytes >= PLAIN_SHARED:
            function = ctypes.c_void_p(self.function(unit))
            driver.call("cuFuncSetAttribute", function, SHARED_BYTES, shared_mem_bytes)
        self.most_shared = shared_mem_bytes


def argument(name: str, value: Any) -> Any:
    """An argument as the driver takes it."""
    if isinstance(value, _C.Tensor):
        if value.device.type != "cuda" and not value.is_pinned():
            raise ValueError(f"kernel {name!r}: a tensor on '{value.device}': expected one on cuda, or a pinned one")
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, ctypes._SimpleCData):
        return value
    if type(value) not in NUMBERS:
        raise TypeError(f"kernel {name!r}: no kernel takes an argument of type {type(value).__name__}")
    return NUMBERS[type(value)](value)


def compile_kernel(
    kernel_source: str, kernel_name: str, compute_capability: str | None = None,
    cuda_include_dirs: Sequence[str] | None = None, nvcc_options: Sequence[str] | None = None,
) -> TextKernel:
    """A kernel of a text, compiled at once."""
    if not kernel_source.strip() or not kernel_name:
        raise ValueError("_compile_kernel: expected the text of a kernel and its name")
    text = kernel_source
    if 'extern "C"' not in text:     # the kernel is found by its name
        text = f'extern "C" {{\n{text}\n}}'
    options = [*(f"--include-path={folder}" for folder in cuda_include_dirs or ()), *(nvcc_options or ())]
    kernel = TextKernel(kernel_name, text, options, f"sm_{compute_capability}" if compute_capability else "")
    kernel.function(current_device())
    return kernel
