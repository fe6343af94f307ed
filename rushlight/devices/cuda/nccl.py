"""NVIDIA's NCCL, opened at run time: what a communicator can do, as methods.

Enters: addresses on the card, counts of elements, the driver's name of a stream. Leaves: nothing, or `NcclError` with
what the library says. Which ranks there are and when they meet is the caller's business.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ... import _C
from ...base import environment

NAMES = ("libnccl.so.2",)
ID_BYTES = 128
SUM, PRODUCT, MAX, MIN, AVERAGE = range(5)
TYPES = {
    _C.int8: 0, _C.uint8: 1, _C.int32: 2, _C.uint32: 3, _C.int64: 4, _C.uint64: 5, _C.float16: 6, _C.float32: 7,
    _C.float64: 8, _C.bfloat16: 9,
}
BYTE = TYPES[_C.uint8]
IN_PROGRESS = 7

_address, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class _Id(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * ID_BYTES),)


SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (ctypes.POINTER(_int),),
    "ncclGetUniqueId": (ctypes.POINTER(_Id),),
    "ncclCommInitRank": (ctypes.POINTER(_address), _int, _Id, _int),
    "ncclCommDestroy": (_address,),
    "ncclCommAbort": (_address,),
    "ncclCommGetAsyncError": (_address, ctypes.POINTER(_int)),
    "ncclAllReduce": (_address, _address, _size, _int, _int, _address, _address),
    "ncclReduce": (_address, _address, _size, _int, _int, _int, _address, _address),
    "ncclBroadcast": (_address, _address, _size, _int, _int, _address, _address),
    "ncclAllGather": (_address, _address, _size, _int, _address, _address),
    "ncclReduceScatter": (_address, _address, _size, _int, _int, _address, _address),
    "ncclSend": (_address, _size, _int, _int, _address, _address),
    "ncclRecv": (_address, _size, _int, _int, _address, _address),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclRedOpCreatePreMulSum": (ctypes.POINTER(_int), _address, _int, _int, _address),
    "ncclRedOpDestroy": (_int, _address),
}
TEXTS = {"ncclGetErrorString": (_int,), "ncclGetLastError": (_address,)}


class NcclError(RuntimeError):
    """A call that the library refused: its name, and what the library says of it."""


class Library:
    """The library's functions; a status other than success is raised."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)
        for name, arguments in {**SIGNATURES, **TEXTS}.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = ctypes.c_char_p if name in TEXTS else _int

    def __call__(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status not in (0, IN_PROGRESS):
            raise NcclError(f"{name}: {self.text(status)} (status {status}){self._last()}")

    def text(self, status: int) -> str:
        """What the library calls a status."""
        return self._library.ncclGetErrorString(status).decode(errors="replace")

    def _last(self) -> str:
        said = self._library.ncclGetLastError(None)
        return f": {said.decode(errors='replace').strip()}" if said and said.strip() else ""

    def version(self) -> tuple[int, int, int]:
        """(2, 27, 7), say."""
        number = _int()
        self("ncclGetVersion", ctypes.byref(number))
        major, rest = divmod(number.value, 10000) if number.value >= 10000 else divmod(number.value, 1000)
        return major, rest // 100, rest % 100

    def unique_id(self) -> bytes:
        """By which the ranks of one communicator know each other: one makes it, all are told."""
        result = _Id()
        self("ncclGetUniqueId", ctypes.byref(result))
        return ctypes.string_at(ctypes.byref(result), ID_BYTES)


@functools.cache
def library() -> Library | None:
    """The library, where NVIDIA's wheel or the system has it."""
    from .libraries import places  # with the kernels around cuBLAS, which not every program needs

    named = environment.get("RUSHLIGHT_NCCL_LIBRARY")
    for path in [named] if named else places(NAMES):
        try:
            return Library(path)
        except (OSError, AttributeError):
            continue
    return None


class Communicator:
    """One rank's end of a group of cards. Calls are queued on a stream and return at once."""

    def __init__(self, nccl: Library, ranks: int, rank: int, unique_id: bytes, unit: int) -> None:
        if len(unique_id) != ID_BYTES:
            raise ValueError(f"NCCL: a unique id has {ID_BYTES} bytes, got {len(unique_id)}")
        self._nccl, self.unit, self.ranks, self.rank = nccl, unit, ranks, rank
        _C.cuda_enter(unit)     # the library takes the card whose context is this thread's
        handle = _address()
        nccl("ncclCommInitRank", ctypes.byref(handle), ranks, _Id.from_buffer_copy(unique_id), rank)
        self._handle: ctypes.c_void_p | None = handle

    def __call__(self, name: str, *arguments: object, stream: int) -> None:
        """Queue a call on a stream, by the driver's name of it."""
        if self._handle is None:
            raise NcclError(f"{name}: the communicator was destroyed or aborted")
        _C.cuda_enter(self.unit)
        self._nccl(name, *arguments, self._handle, stream)

    def scaled_sum(self, factor: float, code: int) -> int:
        """A reduction that multiplies what each rank brings, for elements of a type."""
        kinds = {TYPES[_C.float64]: ctypes.c_double, TYPES[_C.float32]: ctypes.c_float}
        if code not in kinds:
            raise NcclError("ReduceOp.PREMUL_SUM: the factor's type must be float32 or float64 here")
        result, value = _int(), kinds[code](factor)
        on_host = 1
        self._nccl("ncclRedOpCreatePreMulSum", ctypes.byref(result), ctypes.byref(value), code, on_host, self._handle)
        return result.value

    def forget(self, reduction: int) -> None:
        """Give a reduction of `scaled_sum`'s back."""
        self._nccl("ncclRedOpDestroy", reduction, self._handle)

    def group_start(self) -> None:
        """Calls from here to `group_end` are one."""
        self._nccl("ncclGroupStart")

    def group_end(self) -> None:
        """Queue what came since `group_start`."""
        self._nccl("ncclGroupEnd")

    def failure(self) -> str:
        """What went wrong in calls that were queued; empty where nothing did."""
        status = _int()
        if self._handle is None:
            return ""
        self._nccl("ncclCommGetAsyncError", self._handle, ctypes.byref(status))
        return "" if status.value in (0, IN_PROGRESS) else self._nccl.text(status.value)

    def destroy(self) -> None:
        """Leave, when everything queued is done."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _C.cuda_enter(self.unit)
            self._nccl("ncclCommDestroy", handle)

    def abort(self) -> None:
        """Leave at once: what is queued ends without a result."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._nccl("ncclCommAbort", handle)
