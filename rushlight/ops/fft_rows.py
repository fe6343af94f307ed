"""Transforms along one dim, on the host: generated kernels for powers of two, NumPy's pocketfft for other lengths.

Enters: plain tensors, a dim, a scale. Leaves: new tensors, outside every graph; `ops/fft.py` adds derivatives. Real
rows of even length are transformed as complex ones of half the length (`op/butterflies.py`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import _C
from ..op import OpDefinition, find_op
from ..op.butterflies import KINDS, fits, room_for, table_of, transform_nest
from ..op.definition import KIND_PLANNED
from ..op.pointwise import compile_for
from ..op.reduction import GRAIN, as_step

IN_PLAN = 4096   # rows up to which a plan carries the table of roots itself
CHUNKS = 32      # parts that threads share; each has room of its own
_kernels: dict[tuple, Any] = {}


@cache
def roots(n: int, kind: str, dtype: Any) -> Any:
    """The table of a kernel for rows of `n` complex numbers."""
    return _C.from_data(table_of(n, kind), dtype, None)


def points(kind: str, width: int) -> int:
    """How many complex numbers the kernel of a kind transforms, from the width of its input's rows."""
    return width // 2 if kind in ("half", "whole") else width - 1 if kind == "real" else width


def rows_plan(input: Any, kind: str, scale: float, table: int | None) -> Any:
    """A plan for the dense rows of `input`; the table of roots is argument `table`, or part of the plan."""
    width = input.shape[-1]
    n, device = points(kind, width), input.device
    is_real = kind in ("half", "whole")
    dtype = to_complex(input.dtype) if is_real else input.dtype
    shape = (*input.shape[:-1], {"half": n + 1, "whole": 2 * n, "real": 2 * n}.get(kind, n))
    inputs = 1 if table is None else 2
    slots = [("new", dtype.to_real() if kind == "real" else dtype, shape, None, 0, 0)]
    count = input.numel() // width
    if device.type == "meta" or not count:
        return _C.Plan(inputs, device, slots, [])
    key = (dtype.code, n, kind)
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels[key] = as_step(compile_for(device, transform_nest(dtype.code, n, kind)))
    grain = max(1, GRAIN // (4 * n), -(-count // CHUNKS))
    slots += [("temp", dtype, (-(-count // grain), room_for(n)), None, 0, 0)] * 2
    bits = struct.unpack("q", struct.pack("d", scale))[0]
    operands = [0, (-1, 0) if table is None else table, inputs, inputs + 1, inputs + 2]
    constants = () if table is not None else (bytes(roots(n, kind, dtype).numpy().tobytes()),)
    return _C.Plan(inputs, device, slots, [(kernel, operands, [bits, grain], count, grain, -1, *constants)])


class Rows(OpDefinition):
    """Dense rows of a power of two, transformed and scaled by one kernel."""

    schema = "_fft_rows(Tensor input, Tensor roots, str kind, float scale) -> Tensor"
    function = method = out = False
    differentiable = False
    kind = KIND_PLANNED

    def plan(self, args):
        input, table, kind, scale = args
        dtype = to_complex(input.dtype)
        if kind not in KINDS or not input.ndim or not input._is_contiguous() or not fits(points(kind, input.shape[-1])) or input.dtype.is_complex == (kind in ("half", "whole")):
            raise RuntimeError("_fft_rows: expected dense rows of a power of two")
        if table.dtype is not dtype or not table._is_contiguous() or table.shape != roots(points(kind, input.shape[-1]), kind, dtype).shape:
            raise RuntimeError("_fft_rows: expected the table of roots of these rows")
        return rows_plan(input, kind, scale, 1)


def to_complex(dtype: Any) -> Any:
    """The complex type of a float type."""
    return dtype if dtype.is_complex else _C.complex128 if dtype is _C.float64 else _C.complex64


def transform_rows(input: Any, kind: str, scale: float) -> Any:
    """`_fft_rows` with its table."""
    return find_op("_fft_rows")(input, roots(points(kind, input.shape[-1]), kind, to_complex(input.dtype)), kind, scale)


def direct_plan(input: Any, dim: Any, kind: str, scale: float) -> Any:
    """A plan for the plainest case, dense rows of moderate length; None for any other."""
    n = points(kind, input.shape[-1]) if input.ndim else 0
    if len(dim) != 1 or dim[0] != input.ndim - 1 or not input._is_contiguous() or input.device.type != "cpu" or not fits(n) or n > IN_PLAN:
        return None
    if kind in ("half", "whole") and input.shape[-1] % 2:
        return None
    return rows_plan(input, kind, scale, None)


# --- the library ----------------------------------------------------------------------------------------------------------

SHARED = 1 << 15   # elements from which a transform is divided among threads


@cache
def workers(count: int) -> Any:
    """Threads for transforms: the library lets go of the interpreter while it computes."""
    from concurrent.futures import ThreadPoolExecutor  # loaded with the first large transform

    return ThreadPoolExecutor(count, "rushlight-fft")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)   # a child has none of its parent's threads


def library(name: str, x: Any, dim: int, shape: list[int], dtype: Any, **options: Any) -> Any:
    """One unscaled call of numpy.fft over `dim`; large ones in parts of another dim, a thread to each."""
    import numpy as np  # loaded with the first length that has no kernel

    made = _C.empty(shape, None, dtype, x.device)
    if not made.numel():
        return made
    call: Callable = getattr(np.fft, name)
    a, out, count = x.detach().numpy(), made.numpy(), _C.get_num_threads()
    others = [d for d in range(a.ndim) if d != dim and a.shape[d] >= count]
    if count == 1 or out.size < SHARED or not others:
        call(a, axis=dim, out=out, **options)
        return made
    d = max(others, key=lambda d: a.shape[d])
    cuts = [(slice(None),) * d + (slice(a.shape[d] * k // count, a.shape[d] * (k + 1) // count),) for k in range(count)]
    for part in [workers(count).submit(call, a[c], axis=dim, out=out[c], **options) for c in cuts]:
        part.result()
    return made


# --- along one dim --------------------------------------------------------------------------------------------------------


def by_rows(x: Any, dim: int, function: Callable) -> Any:
    """`function` of the tensor with `dim` last and dense."""
    if dim == x.ndim - 1:
        return function(x.contiguous())
    return function(x.movedim(dim, -1).contiguous()).movedim(-1, dim)


def complex_along(x: Any, dim: int, forward: bool, scale: float) -> Any:
    """The complex transform along `dim`."""
    if fits(x.shape[dim]):
        return by_rows(x, dim, lambda r: transform_rows(r, "forward" if forward else "inverse", scale))
    made = library("fft" if forward else "ifft", x, dim, list(x.shape), x.dtype, norm="backward" if forward else "forward")
    return made if scale == 1 else made.mul_(scale)


def half_along(x: Any, dim: int, scale: float) -> Any:
    """The half spectrum of real numbers along `dim`."""
    n, dtype = x.shape[dim], to_complex(x.dtype)
    if n % 2 == 0 and fits(n // 2):
        return by_rows(x, dim, lambda r: transform_rows(r, "half", scale))
    shape = [n // 2 + 1 if d == dim else s for d, s in enumerate(x.shape)]
    made = library("rfft", x, dim, shape, dtype, norm="backward")
    return made if scale == 1 else made.mul_(scale)


def whole_along(x: Any, dim: int, scale: float) -> Any:
    """The whole spectrum of real numbers along `dim`."""
    n = x.shape[dim]
    if n % 2 == 0 and fits(n // 2):
        return by_rows(x, dim, lambda r: transform_rows(r, "whole", scale))
    made = library("fft", x, dim, list(x.shape), to_complex(x.dtype), norm="backward")
    return made if scale == 1 else made.mul_(scale)


def real_along(x: Any, dim: int, size: int, scale: float) -> Any:
    """`size` real numbers along `dim` from their half spectrum."""
    if size % 2 == 0 and fits(size // 2) and x.shape[dim] == size // 2 + 1:
        return by_rows(x, dim, lambda r: transform_rows(r, "real", scale))
    shape = [size if d == dim else s for d, s in enumerate(x.shape)]
    made = library("irfft", x, dim, shape, x.dtype.to_real(), n=size, norm="forward")
    return made if scale == 1 else made.mul_(scale)
