"""One element of each row by its rank, on CUDA: a block for a row, which is read once and stays in shared memory.

Enters: rows of numbers, a position in their order, and what NaN means (see `_ranked_element`). Leaves: the elements and
where they are, of equals that which a stable sort would have there. The wanted key is found by eight bits at a time,
counted in shared memory. Answers False where NVRTC is not installed, and for rows so long, so short or so few that
sorting them is as good.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources
from .driver import Driver
from .sources import ARGUMENTS, WAIT

THREADS = 256
SHARED = 32768                        # bytes of shared memory that hold keys
SHORTEST, FEWEST = 65, 32             # elements of rows, and rows
MISSING = {"kept": 0, "first": 1, "skipped": 2}
# How an element is read, what a key is, and how the one becomes the other (`planners.order.radix.key_of`).
SINGLE = """unsigned bits = __float_as_uint(x);
  if (x != x) return ~0u;
  return x == 0.0f ? 1u << 31 : bits >> 31 ? ~bits : bits ^ 1u << 31;"""
DOUBLE = """unsigned long long bits = __double_as_longlong(x);
  if (x != x) return ~0ull;
  return x == 0.0 ? 1ull << 63 : bits >> 63 ? ~bits : bits ^ 1ull << 63;"""
WIDE = "float x = __uint_as_float((unsigned)e << 16);"
HALF = 'float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(e));'
KINDS = {
    "f32": ("float", "unsigned", f"float x = e;\n  {SINGLE}"),
    "bf16": ("unsigned short", "unsigned", f"{WIDE}\n  {SINGLE}"),
    "f16": ("unsigned short", "unsigned", f"{HALF}\n  {SINGLE}"),
    "f64": ("double", "unsigned long long", f"double x = e;\n  {DOUBLE}"),
    "i32": ("int", "unsigned", "return (unsigned)e ^ 1u << 31;"),
    "i64": ("long long", "unsigned long long", "return (unsigned long long)e ^ 1ull << 63;"),
}
TEXT = """typedef %(element)s T;
typedef %(key)s K;
typedef long long i64;
#define THREADS %(threads)d
#define MOST %(most)d
#define PASSES (int)sizeof(K)
static __device__ __forceinline__ K key_of(T e) {
  %(make)s
}
extern "C" __global__ void __launch_bounds__(THREADS) rank_rows(
    const T* input, T* values, i64* places, i64 row, i64 length, i64 position, i64 missing, %(arguments)s) {
%(wait)s
  __shared__ K held[MOST];
  __shared__ unsigned counts[256];
  __shared__ unsigned sums[THREADS / 32];
  __shared__ unsigned chosen[3];
  int t = threadIdx.x, lane = t %% 32, warp = t / 32, n = (int)length;
  i64 item = begin + blockIdx.x;
  const T* from = input + item * row;
  int gone = 0;
  #pragma unroll 4
  for (int k = t; k < n; k += THREADS) {
    K key = key_of(from[k]);
    held[k] = key;
    gone += key == ~(K)0;
  }
  unsigned rank = (unsigned)position;
  if (missing) {
    for (int apart = 16; apart; apart /= 2) gone += __shfl_xor_sync(~0u, gone, apart);
    if (lane == 0) sums[warp] = gone;
    __syncthreads();
    int numbers = n;
    for (int w = 0; w < THREADS / 32; w++) numbers -= sums[w];
    if (missing == 2) rank = numbers > 1 ? (numbers - 1) / 2 : 0;
    else if (numbers < n) rank = numbers;
  }
  K found = 0, mask = 0;
  unsigned equals = 0;
  for (int pass = PASSES - 1; pass >= 0; pass--) {
    int shift = 8 * pass;
    counts[t] = 0;
    __syncthreads();
    for (int k = t; k < n; k += THREADS) {
      K key = held[k];
      if ((key & mask) == found) atomicAdd(&counts[(unsigned)(key >> shift) & 255u], 1u);
    }
    __syncthreads();
    unsigned own = counts[t], upto = own;
    for (int apart = 1; apart < 32; apart *= 2) {
      unsigned other = __shfl_up_sync(~0u, upto, apart);
      if (lane >= apart) upto += other;
    }
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    for (int w = 0; w < warp; w++) upto += sums[w];
    if (upto > rank && upto - own <= rank) chosen[0] = t, chosen[1] = upto - own, chosen[2] = own;
    __syncthreads();
    found |= (K)chosen[0] << shift;
    mask |= (K)255 << shift;
    rank -= chosen[1];
    equals = chosen[2];
  }
  if (equals == 1) {
    for (int k = t; k < n; k += THREADS) if (held[k] == found) values[item] = from[k], places[item] = k;
    return;
  }
  unsigned before = 0;
  for (int first = 0; first < n; first += THREADS) {
    int k = first + t;
    bool same = k < n && held[k] == found;
    unsigned here = __syncthreads_count(same);
    if (before + here > rank) {
      unsigned votes = __ballot_sync(~0u, same);
      if (lane == 0) sums[warp] = __popc(votes);
      __syncthreads();
      unsigned mine = before + __popc(votes & ((1u << lane) - 1u));
      for (int w = 0; w < warp; w++) mine += sums[w];
      if (same && mine == rank) values[item] = from[k], places[item] = k;
      return;
    }
    before += here;
  }
}
"""


def source(code: str) -> str:
    """The text of a type's kernel."""
    element, key, make = KINDS[code]
    return TEXT % {"element": element, "key": key, "make": make, "threads": THREADS, "most": most(code),
                   "arguments": ARGUMENTS, "wait": WAIT}


def most(code: str) -> int:
    """Elements of the longest row."""
    return SHARED // (8 if code in ("f64", "i64") else 4)


@functools.lru_cache(maxsize=512)
def plan(driver: Driver, code: str, device: _C.device, rows: int, length: int, position: int, missing: str) -> Any:
    """The plan of a geometry; None where there is no kernel."""
    found = sources.load("rank_rows", source(code), 3, driver, THREADS)
    if found is None:
        return None
    given = [length, length, position, MISSING[missing]]
    step = (("handle", _C.kernel_handle(found)), [0, 1, 2], given, rows, 1, -1)
    return _C.Plan(3, device, [("arg", _C.int64, (), None, 2, 0)], [step])


def ranked(driver: Driver, outs: tuple[Tensor, Tensor], input: Tensor, position: int, missing: str, dim: int) -> bool:
    """Fill (values, places) along a dim; False where others must."""
    length = input.shape[dim]
    code, rows = input.dtype.code, input.numel() // max(1, length)
    if code not in KINDS or not SHORTEST <= length <= most(code) or rows < FEWEST:
        return False
    if not all(t.is_contiguous() for t in outs):
        return False
    missing = missing if input.dtype.is_floating_point else "kept"
    chosen = plan(driver, code, input.device, rows, length, position, missing)
    if chosen is None:
        return False
    chosen(input.movedim(dim, -1).contiguous(), *outs)
    return True
