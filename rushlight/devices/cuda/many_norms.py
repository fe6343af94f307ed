"""Norms of many tensors by one launch for about a hundred, as gradients are clipped by.

Enters: tensors of one real type on one unit, each a run of memory. Leaves: their norms of order 2, parts of one vector.
Blocks have pieces of the tensors, which a table names (codegen/nvptx/many.py), and add their squares to the tensor's
sum in double precision, in any order. Answers None where NVRTC is not installed, or a tensor lies otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...codegen.nvptx.many import CHUNK, most_rows
from . import sources
from .driver import Driver
from .kernels import MANY, NARROW_THREADS
from .sources import WAIT

# How an element is kept, what it is added up as, its bytes, and how it is read.
TYPES = {
    "f32": ("float", "float", 4, "return x;"), "f64": ("double", "double", 8, "return x;"),
    "bf16": ("unsigned short", "float", 2, "return __int_as_float((int)x << 16);"),
    "f16": ("unsigned short", "float", 2, 'float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r;'),
}
ROW = 4      # words of a tensor in the table: its address, that of its sum, its elements, the block behind its last
TEXT = """typedef %(element)s T;
typedef %(sum)s S;
typedef long long i64;
struct Table { i64 words[%(words)d]; };
struct alignas(16) Vector { T each[16 / sizeof(T)]; };
static __device__ __forceinline__ S wide(T x) { %(wide)s }
extern "C" __global__ void __launch_bounds__(%(threads)d) many_norms(const __grid_constant__ Table table) {
%(wait)s
  __shared__ double sums[%(threads)d / 32];
  int t = threadIdx.x, each = 16 / sizeof(T);
  i64 low = 0, high = table.words[0] - 1, block = blockIdx.x;
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (block < table.words[1 + middle * %(row)d + 3]) high = middle; else low = middle + 1;
  }
  const i64* row = table.words + 1 + low * %(row)d;
  const T* x = (const T*)row[0];
  i64 first = (block - (low ? row[-1] : 0)) * %(chunk)d, last = first + %(chunk)d < row[2] ? first + %(chunk)d : row[2];
  i64 whole = row[0] %% 16 ? first : last - (last - first) %% each;
  S sum = 0;
  #pragma unroll 4
  for (i64 k = first + t * each; k < whole; k += %(threads)d * each) {
    Vector v = *(const Vector*)(x + k);
    #pragma unroll
    for (int e = 0; e < 16 / sizeof(T); e++) sum += wide(v.each[e]) * wide(v.each[e]);
  }
  for (i64 k = whole + t; k < last; k += %(threads)d) sum += wide(x[k]) * wide(x[k]);
  double total = sum;
  for (int apart = 16; apart; apart /= 2) total += __shfl_xor_sync(~0u, total, apart);
  if (t %% 32 == 0) sums[t / 32] = total;
  __syncthreads();
  if (t) return;
  for (int w = 1; w < %(threads)d / 32; w++) total += sums[w];
  atomicAdd((double*)row[1], total);
}
"""


def source(code: str) -> str:
    """The text of a type's kernel."""
    element, sums, _, wide = TYPES[code]
    return TEXT % {"element": element, "sum": sums, "wide": wide, "words": 1 + most_rows(2) * ROW, "row": ROW,
                   "chunk": CHUNK, "threads": NARROW_THREADS, "wait": WAIT}


@functools.cache
def kernel(driver: Driver, code: str) -> Any:
    """The core's kernel over a table; None where it cannot be compiled."""
    if sources.find() is None:
        return None
    made = sources.SourceKernel("many_norms", source(code), driver)
    try:
        made.cubin(_C.current_unit("cuda"))
    except RuntimeError:
        return None
    return _C.kernel_handle(
        _C.cuda_kernel(made, MANY, CHUNK, [TYPES[code][2], 8], most_rows(2), (), NARROW_THREADS, False, 0))


def run(driver: Driver, tensors: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """The norms; None where others must."""
    first = tensors[0]
    found = kernel(driver, first.dtype.code) if first.dtype.code in TYPES else None
    if found is None or any(t.dtype is not first.dtype for t in tensors):
        return None
    sums = _C.empty((len(tensors),), None, _C.float64, first.device).zero_()
    if not _C.update_many(found, list(zip(tensors, sums.unbind(), strict=True)), (1,), (), True):
        return None
    return sums.sqrt().to(first.dtype).unbind()
