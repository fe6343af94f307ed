"""`torch.cuda.gds`: files read straight into a GPU's memory and written from it, through NVIDIA's cuFile.

Enters: a file's name and storages on a GPU. Leaves: bytes on either side. The library is opened when it is first
needed, from NVIDIA's wheel (nvidia-cufile) or where the system looks; where the kernel has no module for it, cuFile
itself copies through memory of the host. Refuses: storages elsewhere than on a GPU, and files that end too soon.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

from .. import _C
from ..devices.base import NoDeviceError, no_cuda
from .no_device import _real, found

__all__ = ["GdsFile", "gds_deregister_buffer", "gds_register_buffer"]

NAMES = ("libcufile.so.0", "libcufile.so")
DESCRIPTOR = 1               # the kind of file that is given by a number
FIRST_OWN = 5000             # answers from here on are cuFile's, others the system's
# What cuFile's answers mean, as far as programs can do something about them.
MEANINGS = {
    5001: "cuFile's driver is not initialised", 5007: "the platform is not supported",
    5008: "the file system cannot do that", 5009: "the GPU is not supported", 5010: "the kernel's module fails",
    5011: "CUDA fails", 5012: "no memory of CUDA's lies there", 5013: "memory of that kind is not supported",
    5014: "the range leaves the memory", 5018: "no file of that kind is supported", 5019: "a flag of open is wrong",
    5020: "the file was not opened for direct access", 5022: "an argument is wrong", 5023: "the memory is registered",
    5024: "the memory is not registered", 5025: "permission is denied", 5027: "the file is not registered",
    5028: "the file is registered already", 5030: "an error inside of cuFile",
}


class Answer(ctypes.Structure):
    """What most functions of cuFile return: an answer of its own, and one of CUDA's driver."""

    _fields_ = [("own", ctypes.c_int), ("cuda", ctypes.c_int)]


class File(ctypes.Structure):
    """A file as cuFile is given it."""

    _fields_ = [("kind", ctypes.c_int), ("number", ctypes.c_longlong), ("operations", ctypes.c_void_p)]


class Library:
    """cuFile, with its driver open."""

    def __init__(self, path: str) -> None:
        own = self.own = ctypes.CDLL(path, use_errno=True)
        pointer, size, place = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_longlong
        for name, given in (
            ("cuFileDriverOpen", []), ("cuFileHandleRegister", [pointer, pointer]),
            ("cuFileBufRegister", [pointer, size, ctypes.c_int]), ("cuFileBufDeregister", [pointer]),
        ):
            function = getattr(own, name)
            function.restype, function.argtypes = Answer, given
        own.cuFileHandleDeregister.restype, own.cuFileHandleDeregister.argtypes = None, [pointer]
        for name in ("cuFileRead", "cuFileWrite"):
            function = getattr(own, name)
            function.restype, function.argtypes = ctypes.c_ssize_t, [pointer, pointer, size, place, place]
        self.call("cuFileDriverOpen")

    def call(self, name: str, *args: Any) -> None:
        """Call a function; raises what it answers."""
        answer = getattr(self.own, name)(*args)
        if answer.own:
            told = f" (CUDA's driver answers {answer.cuda})" if answer.cuda else ""
            raise RuntimeError(f"cuda.gds: {name} failed: {meaning(answer.own)}{told}")

    def move(self, name: str, handle: int, storage: Any, offset: int) -> None:
        """Read or write all bytes of a storage at `offset` of a file."""
        address, size = memory_of(storage)
        if offset < 0:
            raise RuntimeError(f"cuda.gds: expected an offset of 0 or more, got {offset}")
        _real().synchronize(storage.device)      # cuFile knows nothing of what is queued
        done = 0
        while done < size:
            ctypes.set_errno(0)
            count = getattr(self.own, name)(handle, address, size - done, offset + done, done)
            if count < 0:
                why = os.strerror(ctypes.get_errno()) if count == -1 else meaning(-count)
                raise RuntimeError(f"cuda.gds: {name} failed: {why}")
            if not count:
                raise RuntimeError(f"cuda.gds: {name}: expected {size} bytes from {offset} on, the file has {done}")
            done += count


def meaning(answer: int) -> str:
    """An answer of cuFile's in words."""
    text = MEANINGS.get(answer) or (os.strerror(answer) if 0 < answer < FIRST_OWN else "it does not say why")
    return f"{text} ({answer})"


@functools.cache
def library() -> Library:
    """cuFile; raises where there is no GPU, or where it is not installed."""
    if found() is None:
        raise NoDeviceError(f"cuda.gds: {no_cuda()}")
    from ..devices.cuda import libraries  # noqa: PLC0415 - most programs never come here

    told = []
    for path in libraries.places(NAMES):
        try:
            return Library(path)
        except OSError as error:
            told.append(str(error))
    raise RuntimeError(
        f"cuda.gds: cuFile is not installed ({'; '.join(told) or 'no place to look for it'}). Install NVIDIA's wheel"
        " nvidia-cufile, or read the file into memory and copy that: torch.load(..., map_location='cuda')."
    )


def memory_of(storage: Any) -> tuple[int, int]:
    """Where a storage lies, and its bytes."""
    storage = getattr(storage, "_untyped_storage", storage)
    if not isinstance(storage, _C.UntypedStorage):
        raise TypeError(f"cuda.gds: expected a storage, got {type(storage).__name__}. Take t.untyped_storage().")
    if storage.device.type != "cuda":
        raise RuntimeError(f"cuda.gds: expected a storage on a GPU, got one on {storage.device}")
    return storage.data_ptr(), storage.nbytes()


def gds_register_buffer(s: Any) -> None:
    """Make a storage's memory known to cuFile, which then reads and writes it without copies of its own."""
    address, size = memory_of(s)
    library().call("cuFileBufRegister", address, size, 0)


def gds_deregister_buffer(s: Any) -> None:
    """Take back `gds_register_buffer`."""
    library().call("cuFileBufDeregister", memory_of(s)[0])


class GdsFile:
    """A file opened for direct access, and known to cuFile.

        file = GdsFile("weights.bin", os.O_CREAT | os.O_RDWR)
        file.save_storage(t.untyped_storage())
        file.load_storage(u.untyped_storage())
    """

    def __init__(self, filename: str, flags: int) -> None:
        """`flags`: of os.open; os.O_DIRECT comes with them."""
        if sys.platform != "linux":
            raise RuntimeError(f"GdsFile: cuFile is there for Linux alone, this is {sys.platform}")
        self.filename, self.flags, self.handle = filename, flags, None
        self.fd = os.open(filename, flags | os.O_DIRECT, 0o666)
        self.register_handle()

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.deregister_handle()
        if getattr(self, "fd", None) is not None:
            os.close(self.fd)

    def register_handle(self) -> None:
        """Make the file known to cuFile."""
        if self.handle is not None:
            raise AssertionError("GdsFile: the file is registered already")
        handle = ctypes.c_void_p()
        library().call("cuFileHandleRegister", ctypes.byref(handle), ctypes.byref(File(DESCRIPTOR, self.fd, None)))
        self.handle = handle.value or 0

    def deregister_handle(self) -> None:
        """Take back `register_handle`."""
        library().own.cuFileHandleDeregister(self.registered())
        self.handle = None

    def registered(self) -> int:
        if self.handle is None:
            raise AssertionError("GdsFile: the file is not registered. Call register_handle() first.")
        return self.handle

    def load_storage(self, storage: Any, offset: int = 0) -> None:
        """Fill a storage with the file's bytes from `offset` on."""
        library().move("cuFileRead", self.registered(), storage, offset)

    def save_storage(self, storage: Any, offset: int = 0) -> None:
        """Write all bytes of a storage to the file, from `offset` on."""
        library().move("cuFileWrite", self.registered(), storage, offset)
