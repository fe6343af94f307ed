"""Kernels written in CUDA C, for what only NVIDIA says: how its functions of doubles round, and cuRAND's laws.

Enters: a text of ours, which may include cuRAND's headers. Leaves: a kernel of the core's, compiled by NVRTC (a wheel
of the `cuda` extra, or a toolkit's) and kept on disk like any other; None where the compiler is not installed, or a
header that the text needs: callers have a generated kernel then, which agrees to the last digits.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...base.digest import digest
from ...base.show import is_shown, show
from . import cubins, libraries
from .driver import Driver

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
HEADER = "curand_kernel.h"
TOOLKITS = ("/usr/local/cuda/include", "/usr/local/cuda/targets/*/include")
THREADS = 2                  # the form of a kernel that gives each thread an iteration
BLOCKS = 1                   # and of one that gives it to a block
ARGUMENTS = "long long begin, long long end"
# Kernels may be started before those queued earlier have ended: these wait for them, as generated ones do.
WAIT = """#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
"""
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

    def call(self, name: str, *args: object) -> None:
        """Call a function; raises what it answers."""
        status = getattr(self.library, name)(*args)
        if status:
            raise RuntimeError(f"nvrtc: {name} failed: {self.library.nvrtcGetErrorString(status).decode()} ({status})")

    def identity(self) -> bytes:
        """What the code depends on besides its text."""
        headers = [os.stat(os.path.join(folder, HEADER)) for folder in self.folders if holds(folder, HEADER)]
        return repr((self.version, self.folders, [(h.st_size, h.st_mtime_ns) for h in headers])).encode()

    def cubin(self, source: str, architecture: str, more: Sequence[str] = ()) -> bytes:
        """Machine code of a text; `more`: options."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        options = [f"--gpu-architecture={architecture}", "--std=c++17", *(f"--include-path={f}" for f in self.folders),
                   *more]
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
    """Folders with the headers of cuRAND and of the library it needs, those of NVIDIA's wheels first."""
    found = importlib.util.find_spec("nvidia")
    roots = list(found.submodule_search_locations or ()) if found is not None else []
    wheels = [path for root in roots for path in sorted(glob.glob(f"{root}/*/include"), reverse=True)]
    places = [*wheels, *(path for place in TOOLKITS for path in glob.glob(place))]
    return [
        *[folder for folder in places if any(holds(folder, name) for name in (HEADER, "cuda_fp16.h", "cuda/std"))],
        *[f"{folder}/cccl" for folder in places if holds(folder, "cccl/cuda/std")],
    ]


def holds(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


@functools.cache
def find() -> Compiler | None:
    """The compiler; None where it is not installed."""
    for path in libraries.places(NAMES):
        try:
            return Compiler(path, header_folders())
        except OSError:
            continue
    return None


def stored_cubin(
    source: str, compiler: Compiler, architecture: str, driver: Driver, options: tuple[str, ...] = ()
) -> bytes:
    """Machine code of a text, from disk where it is there."""
    name = digest(source.encode() + compiler.identity() + repr(options).encode() * bool(options))
    stored = cubins.key_of(name, 0, architecture, driver.identity())
    found = cubins.read(stored)
    if found is not None:
        return found[0]
    cubin = compiler.cubin(source, architecture, options)
    cubins.write(stored, cubin, 1, 1)
    return cubin


class SourceKernel:
    """What the core asks for the one variant of a kernel in C."""

    def __init__(self, name: str, source: str, driver: Driver) -> None:
        self.name, self.source, self.driver = name, source, driver

    def variant(self, unit: int, key: int) -> tuple[int, int, int]:
        """(function, 1, 1)."""
        return self.driver.function(self.cubin(unit), self.name, unit), 1, 1

    def cubin(self, unit: int) -> bytes:
        """Machine code for a unit, from disk where it is there."""
        compiler = find()
        assert compiler is not None, "`load` gives no kernel where there is no compiler"
        return stored_cubin(self.source, compiler, self.driver.architecture(unit), self.driver)

    def begin(self, unit: int, key: int) -> None:
        """Nothing is begun: it is compiled when it is launched."""


def load(name: str, source: str, operands: int, driver: Driver, threads: int = 0) -> int | None:
    """The core's kernel of a text that defines `extern "C" __global__ void name(operands, parameters, begin, end)`;
    None where it cannot be compiled. With `threads`, up to 256, an iteration is a block of so many."""
    if find() is None:
        return None
    kernel = SourceKernel(name, source, driver)
    try:
        kernel.cubin(_C.current_unit("cuda"))
    except RuntimeError as error:      # a header that is not installed
        if is_shown("fallback"):
            show("fallback", name, str(error))
        return None
    form = BLOCKS if threads else THREADS
    return _C.cuda_kernel(kernel, form, 1, [0] * operands, -1, (), threads or 256, False, 0)
