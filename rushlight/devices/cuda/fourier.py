"""cuFFT: the three transforms that every function of `fft` is made of.

Enters: a tensor to fill, the input, the dims, which power of the number of points divides the result. Leaves: the
tensor filled, on the current stream. Dense transforms over the last dims are steps of plans (`kept_plan`,
planners/fourier/library.py) and come here no more. The library transforms up to three dims at once; more go group
by group. Plans are
kept by their geometry, and their workspace is the allocator's memory. `find()` is None where cuFFT is not installed:
the host computes then, and says so.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from . import libraries

NAMES = ("libcufft.so.12", "libcufft.so.11")
KINDS = {("r2c", "f32"): 0x2A, ("c2r", "f32"): 0x2C, ("c2c", "f32"): 0x29,
         ("r2c", "f64"): 0x6A, ("c2r", "f64"): 0x6C, ("c2c", "f64"): 0x69}
CALLS = {0x2A: "cufftExecR2C", 0x2C: "cufftExecC2R", 0x29: "cufftExecC2C", 0x6A: "cufftExecD2Z", 0x6C: "cufftExecZ2D",
         0x69: "cufftExecZ2Z"}
PRECISION = {"f32": "f32", "c64": "f32", "f64": "f64", "c128": "f64"}
FORWARD, INVERSE = -1, 1
MOST_DIMS, MOST_PLANS = 3, 128
MOST_KEPT = 1024         # plans that steps of ours name, which stay


class Library:
    """The library and its plans, least recently used first."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.plans: OrderedDict[tuple, tuple[ctypes.c_int, int]] = OrderedDict()
        self.lock = threading.Lock()

    def call(self, name: str, *args: object) -> None:
        """Call a function; raises what it answers."""
        status = getattr(self.functions, name)(*args)
        if status:
            raise RuntimeError(f"cuda: {name} failed with status {status}")

    def plan(self, unit: int, kind: int, sizes: Sequence[int], batch: int) -> tuple[ctypes.c_int, int]:
        """A plan, and the bytes of its workspace."""
        key = (unit, kind, *sizes, batch)
        if key in self.plans:
            self.plans.move_to_end(key)
            return self.plans[key]
        self.plans[key] = self.new_plan(kind, sizes, batch)
        while len(self.plans) > MOST_PLANS:
            self.functions.cufftDestroy(self.plans.popitem(last=False)[1][0])
        return self.plans[key]

    def new_plan(self, kind: int, sizes: Sequence[int], batch: int) -> tuple[ctypes.c_int, int]:
        handle, room = ctypes.c_int(), ctypes.c_size_t()
        self.call("cufftCreate", ctypes.byref(handle))
        self.call("cufftSetAutoAllocation", handle, 0)
        lengths = (ctypes.c_longlong * len(sizes))(*sizes)
        one = ctypes.c_longlong(1)
        self.call(
            "cufftMakePlanMany64", handle, len(sizes), lengths, None, one, one, None, one, one, kind,
            ctypes.c_longlong(batch), ctypes.byref(room),
        )
        return handle, room.value

    def run(self, what: str, sizes: Sequence[int], source: Tensor, target: Tensor, direction: int) -> None:
        """Transform the last dims, of these sizes, of dense tensors."""
        device = target.device
        unit = device.index or 0
        _C.cuda_enter(unit)
        kind = KINDS[what, PRECISION[target.dtype.code]]
        real = source if what == "r2c" else target
        batch = real.numel() // math.prod(sizes)
        addresses = ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(target.data_ptr())
        with self.lock:      # a plan has one stream and one workspace at a time
            handle, room = self.plan(unit, kind, sizes, batch)
            space = _C.empty((max(room, 1),), None, _C.uint8, device)
            self.call("cufftSetStream", handle, ctypes.c_void_p(_C.stream_handle(device)))
            self.call("cufftSetWorkArea", handle, ctypes.c_void_p(space.data_ptr()))
            self.call(CALLS[kind], handle, *addresses, *((direction,) if what == "c2c" else ()))


_kept: dict[tuple, tuple[int, int, int]] = {}


def kept_plan(what: str, code: str, sizes: Sequence[int], batch: int, unit: int) -> tuple[tuple[int, int], int] | None:
    """The number of a plan that stays and its kind, and the bytes of its workspace; None where there is no library, or
    there are too many by now."""
    library, kind = find(), KINDS[what, code]
    if library is None or len(sizes) > MOST_DIMS:
        return None
    key = (unit, kind, *sizes, batch)
    with library.lock:
        if key not in _kept:
            if len(_kept) >= MOST_KEPT:
                return None
            _C.cuda_enter(unit)
            handle, room = library.new_plan(kind, sizes, batch)
            _kept[key] = handle.value, kind, room
    number, kind, room = _kept[key]
    return (number, kind), room


@functools.cache
def find() -> Library | None:
    """The library; None where it is not installed."""
    for path in libraries.places(NAMES):
        try:
            result = Library(path)
            _C.cuda_fft(path)
            return result
        except OSError:
            continue
    return None


def installed() -> Library:
    """The library, for functions that are given only where it is."""
    found = find()
    assert found is not None, "cuFFT is not installed"
    return found


def transforms() -> dict[str, Callable]:
    """The functions that `Device.implementation` answers with."""
    if find() is None:
        return {}
    return {"_fft_c2c": complex_to_complex, "_fft_r2c": real_to_complex, "_fft_c2r": complex_to_real}


def scale(norm: str, points: int) -> float:
    """What a transform over so many points is multiplied by."""
    return {"none": 1.0, "root": 1 / math.sqrt(points), "count": 1 / points}[norm]


def arranged(t: Tensor, dims: Sequence[int]) -> tuple[Any, list[int]]:
    """The tensor with `dims` last, and the order that was."""
    order = [*(d for d in range(t.ndim) if d not in dims), *dims]
    return t.permute(order), order


def put(out: Tensor, value: Tensor, order: list[int], by: float) -> None:
    """What was computed with dims in `order`, scaled, into `out`, where it may be already."""
    target = out.permute(order)
    if value.data_ptr() != target.data_ptr():
        target.copy_(value if by == 1.0 else value * by)
    elif by != 1.0:
        target.mul_(by)


def room_in(out: Tensor, order: list[int]) -> Any:
    """The result's own memory, where its dims lie in `order` without gaps; otherwise None."""
    target = out.permute(order)
    return target if target.is_contiguous() else None


def walk_groups(value: Tensor, count: int, direction: int, into: Any = None) -> Any:
    """The tensor with its last `count` dims transformed, complex to complex; in `into` where one step suffices."""
    for start in range(value.ndim - count, value.ndim, MOST_DIMS):
        group = range(start, min(start + MOST_DIMS, value.ndim))
        moved, order = arranged(value, group)
        source = moved.contiguous()
        target = source.new_empty(source.shape) if into is None or count > MOST_DIMS else into
        installed().run("c2c", tuple(source.shape[-len(group) :]), source, target, direction)
        value = target.permute([order.index(d) for d in range(value.ndim)])
    return value


def wrapped_dims(input: Tensor, dim: Sequence[int]) -> list[int]:
    return [d % input.ndim for d in dim]


def complex_to_complex(out: Tensor, input: Tensor, dim: Sequence[int], norm: str, forward: bool) -> None:
    """The complex transform over `dim`."""
    dims = wrapped_dims(input, dim)
    if not out.numel():
        return
    if not dims:
        out.copy_(input)
        return
    value, order = arranged(input.resolve_conj(), dims)
    points = math.prod(input.shape[d] for d in dims)
    result = walk_groups(value, len(dims), FORWARD if forward else INVERSE, room_in(out, order))
    put(out, result, order, scale(norm, points))


def real_to_complex(out: Tensor, input: Tensor, dim: Sequence[int], norm: str, onesided: bool) -> None:
    """The transform of real numbers; with `onesided` half of the last dim's results."""
    if not onesided:
        complex_to_complex(out, input.to(out.dtype), dim, norm, True)
        return
    dims = wrapped_dims(input, dim)
    if not out.numel():
        return
    points = math.prod(input.shape[d] for d in dims)
    value, order = arranged(input, dims)
    source, last = value.contiguous(), value.shape[-1]
    half = room_in(out, order) if len(dims) == 1 else None
    if half is None:
        half = _C.empty((*source.shape[:-1], last // 2 + 1), None, out.dtype, out.device)
    installed().run("r2c", (last,), source, half, FORWARD)
    if len(dims) > 1:
        others = len(dims) - 1
        moved = half.movedim(-1, -len(dims))
        half = walk_groups(moved, others, FORWARD).movedim(-len(dims), -1)
    put(out, half, order, scale(norm, points))


def complex_to_real(out: Tensor, input: Tensor, dim: Sequence[int], norm: str, size: int) -> None:
    """The inverse transform of a half spectrum; the last dim gets `size` points."""
    dims = wrapped_dims(input, dim)
    if not out.numel():
        return
    points = math.prod([*(input.shape[d] for d in dims[:-1]), size])
    value, order = arranged(input.resolve_conj(), dims)
    if len(dims) > 1:
        value = walk_groups(value.movedim(-1, -len(dims)), len(dims) - 1, INVERSE).movedim(-len(dims), -1)
    wanted = size // 2 + 1
    source = value.new_zeros((*value.shape[:-1], wanted))
    source.narrow(-1, 0, min(wanted, value.shape[-1])).copy_(value.narrow(-1, 0, min(wanted, value.shape[-1])))
    real = room_in(out, order)
    if real is None:
        real = _C.empty((*source.shape[:-1], size), None, out.dtype, out.device)
    installed().run("c2r", (size,), source, real, INVERSE)       # which may write to its input, a copy
    put(out, real, order, scale(norm, points))
