"""Kernels written in CUDA C, for what only NVIDIA's headers say: how its functions of doubles round, and cuRAND's laws.

Enters: a text of ours that includes those headers. Leaves: a kernel of the core's, compiled by NVRTC (a wheel of the
`cuda` extra, or a toolkit's) and kept on disk like any other. `find()` is None where the compiler or the headers are
not installed; callers have a generated kernel then, which agrees to the last digits.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
from typing import Any

from ... import _C
from ...loops.digest import digest
from . import cubins, libraries
from .driver import Driver

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
HEADER = "curand_kernel.h"
TOOLKITS = ("/usr/local/cuda/include", "/usr/local/cuda/targets/*/include")
THREADS = 2                  # the form of a kernel that gives each thread an iteration
ARGUMENTS = "long long begin, long long end"
EACH = (
    "for (long long i = begin + (long long)blockIdx.x * blockDim.x + threadIdx.x; i < end;"
    " i += (long long)gridDim.x * blockDim.x)"
)


class Compiler:
    """NVRTC, and the folders of headers it is given."""

    def __init__(self, path: str, folders: list[str]) -> None:
        self.library, self.folders = ctypes.CDLL(path), folders
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value * 1000 + minor.value * 10

    def call(self, name: str, *args: Any) -> None:
        """Call a function; raises what it answers."""
        status = getattr(self.library, name)(*args)
        if status:
            raise RuntimeError(f"nvrtc: {name} failed: {self.library.nvrtcGetErrorString(status).decode()} ({status})")

    def identity(self) -> bytes:
        """What the code depends on besides its text."""
        headers = [os.stat(os.path.join(folder, HEADER)) for folder in self.folders[:1]]
        return repr((self.version, self.folders, [(h.st_size, h.st_mtime_ns) for h in headers])).encode()

    def cubin(self, source: str, architecture: str) -> bytes:
        """Machine code of a text."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        options = [f"--gpu-architecture={architecture}", "--std=c++17", *(f"--include-path={f}" for f in self.folders)]
        try:
            status = self.library.nvrtcCompileProgram(
                program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
            )
            if status:
                raise RuntimeError(f"nvrtc: a kernel does not compile: {self.text(program, 'nvrtcGetProgramLog')}")
            return self.text(program, "nvrtcGetCUBIN", "nvrtcGetCUBINSize", raw=True)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def text(self, program: ctypes.c_void_p, what: str, size_of: str = "", raw: bool = False) -> Any:
        size = ctypes.c_size_t()
        self.call(size_of or f"{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(max(size.value, 1))
        self.call(what, program, data)
        return data.raw[: size.value] if raw else data.value.decode(errors="replace")


def header_folders() -> list[str]:
    """Folders with cuRAND's headers, those of NVIDIA's wheels first."""
    found = importlib.util.find_spec("nvidia")
    roots = list(found.submodule_search_locations or ()) if found is not None else []
    wheels = [path for root in roots for path in sorted(glob.glob(f"{root}/*/include"), reverse=True)]
    toolkits = [path for place in TOOLKITS for path in glob.glob(place)]
    with_header = [f for f in (*wheels, *toolkits) if os.path.exists(os.path.join(f, HEADER))]
    if not with_header:
        return []
    return [with_header[0], *(f for f in wheels if f != with_header[0] and with_header[0] in wheels)]


@functools.cache
def find() -> Compiler | None:
    """The compiler; None where it or the headers are not installed."""
    folders = header_folders()
    for path in libraries.places(NAMES) if folders else ():
        try:
            return Compiler(path, folders)
        except OSError:
            continue
    return None


class SourceKernel:
    """What the core asks for the one variant of a kernel in C."""

    def __init__(self, name: str, source: str, driver: Driver) -> None:
        self.name, self.source, self.driver = name, source, driver

    def variant(self, unit: int, key: int) -> tuple[int, int, int]:
        """(function, 1, 1)."""
        compiler, architecture = find(), self.driver.architecture(unit)
        name = digest(self.source.encode() + compiler.identity())
        stored = cubins.key_of(name, key, architecture, self.driver.version())
        found = cubins.read(stored)
        cubin = compiler.cubin(self.source, architecture) if found is None else found[0]
        function = self.driver.function(cubin, self.name, unit)
        if found is None:
            cubins.write(stored, cubin, 1, 1)
        return function, 1, 1

    def begin(self, unit: int, key: int) -> None:
        """Nothing is begun: it is compiled when it is launched."""


def load(name: str, source: str, operands: int, driver: Driver) -> int:
    """The core's kernel of a text that defines `extern "C" __global__ void name(operands, parameters, begin, end)`."""
    return _C.cuda_kernel(SourceKernel(name, source, driver), THREADS, 1, [0] * operands, -1, (), 256, False, 0)
