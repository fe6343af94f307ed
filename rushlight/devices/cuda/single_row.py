"""Products of a single row of a half type with a matrix that lies by its columns, in CUDA C: a layer's weights are read
once, as fast as memory gives them.

Enters: the type. Leaves: a kernel of the core's over (row, matrix, result, bias), which `launch_matrices` takes where a
product has one row (csrc/cuda/device.cpp); None where NVRTC is not installed, and cuBLAS serves.
"""

from __future__ import annotations

import functools

from . import sources
from .driver import Driver
from .single_query import head
from .sources import ARGUMENTS, WAIT

THREADS = 128
TYPES = ("bf16", "f16")
# A warp, or `parts` of them, takes a row of the matrix: 16 bytes a thread, 8 loads under way.
SOURCE = """
extern "C" __global__ void __launch_bounds__(%(threads)d) single_row(
    const u16* row, const u16* matrix, u16* out, const u16* bias, i64 columns, i64 inner, i64 line, i64 parts,
    i64 biased, %(arguments)s) {
%(wait)s
  __shared__ float found[4];
  int warp = threadIdx.x / 32, lane = threadIdx.x %% 32, part = warp %% (int)parts;
  i64 n = (begin + blockIdx.x) * (4 / parts) + warp / parts;
  float sum = 0.0f;
  if (n < columns) {
    const uint4* weights = (const uint4*)(matrix + n * line);
    const uint4* given = (const uint4*)row;
    int all = (int)(inner / 8), step = (int)parts * 32;
    for (int first = part * 32 + lane; first < all; first += 8 * step) {
      uint4 w[8];
#pragma unroll
      for (int u = 0; u < 8; u++)
        w[u] = first + u * step < all ? __ldcs(weights + first + u * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int u = 0; u < 8; u++) {
        float x[8], y[8];
        if (first + u * step >= all) break;
        eight(w[u], x);
        eight(__ldg(given + first + u * step), y);
        for (int e = 0; e < 8; e++) sum = fmaf(x[e], y[e], sum);
      }
    }
  }
  for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  if (parts > 1) {
    if (lane == 0) found[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int k = 0; k < parts; k++) sum += found[warp - part + k];
  }
  if (n < columns && lane == 0 && part == 0) out[n] = narrow(biased ? sum + half_of(bias[n]) : sum);
}
"""


def source(code: str) -> str:
    return head(code) + SOURCE % {"threads": THREADS, "arguments": ARGUMENTS, "wait": WAIT}


@functools.cache
def kernel(code: str, driver: Driver) -> int:
    """The kernel for a type; 0 where there is none."""
    return sources.load("single_row", source(code), 4, driver, THREADS) or 0
