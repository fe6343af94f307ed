"""QR of a batch of matrices of up to 128 rows and columns by one launch: a block for each, in registers.

Enters: what `small_factors.run` takes: sizes, tensors [count, rows, columns] (A, Q, R, and room for the reflectors as A
has it, without gaps). Leaves: Q and R filled, with LAPACK's signs. Two threads have a column each, half of its rows
each; a step's reflector is in shared memory, where all read it. Answers False where NVRTC is not installed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources
from .driver import Driver
from .sources import ARGUMENTS, WAIT

SIDES = (32, 64, 128)         # rows and columns that a kernel has room for
TYPES = {"f32": "float", "f64": "double"}
MOST_PLANS = 512
TEXT = """typedef %(kind)s T;
typedef long long i64;
#define SIDE %(side)d
#define HALF (SIDE / 2)
struct Place { T* at; i64 row, col; __device__ T& operator()(int r, int c) const { return at[r * row + c * col]; } };
extern "C" __global__ void __launch_bounds__(2 * SIDE) small_qr(
    T* a, T* q, T* r, T* kept, i64 rows, i64 columns, i64 size, i64 forms, i64 a0, i64 a1, i64 a2, i64 q0, i64 q1,
    i64 q2, i64 r0, i64 r1, i64 r2, %(arguments)s) {
%(wait)s
  __shared__ T v[SIDE], parts[2][SIDE], taus[SIDE];
  int t = threadIdx.x, lane = t %% 32, c = t %% SIDE, half = t / SIDE, first = half * HALF;
  int m = (int)rows, n = (int)columns, steps = m < n ? m : n;
  i64 item = begin + blockIdx.x;
  Place from{a + item * a0, a1, a2}, to_q{q + item * q0, q1, q2}, to_r{r + item * r0, r1, r2};
  Place reflectors{kept + item * rows * columns, 1, rows};
  T x[HALF];
  #pragma unroll
  for (int i = 0; i < HALF; i++) x[i] = first + i < m && c < n ? from(first + i, c) : (T)0;
  for (int k = 0; k < steps; k++) {
    if (c == k) {
      #pragma unroll
      for (int i = 0; i < HALF; i++) v[first + i] = first + i >= k ? x[i] : (T)0;
    }
    __syncthreads();
    T most = 0, square = 0, alpha = v[k];      // every warp finds them for itself
    for (int j = lane; j < SIDE; j += 32) most = fmax(most, fabs(v[j]));
    for (int apart = 16; apart; apart /= 2) most = fmax(most, __shfl_xor_sync(~0u, most, apart));
    T scale = most > 0 ? most : (T)1;
    for (int j = lane; j < SIDE; j += 32) {
      T share = v[j] / scale;
      square += j == k ? (T)0 : share * share;
    }
    for (int apart = 16; apart; apart /= 2) square += __shfl_xor_sync(~0u, square, apart);
    bool still = square == 0;      // nothing is under the diagonal: no reflection
    T share = alpha / scale, norm = scale * sqrt(square + share * share);
    T beta = still ? alpha : alpha < 0 ? norm : -norm, tau = still ? (T)0 : (beta - alpha) / beta;
    __syncthreads();
    if (half == 0) v[c] = still || c < k ? (T)(c == k) : c == k ? (T)1 : v[c] / (alpha - beta);
    if (t == 0) taus[k] = tau;
    __syncthreads();
    T sum = 0;
    #pragma unroll
    for (int i = 0; i < HALF; i++) sum += v[first + i] * x[i];
    parts[half][c] = sum;
    __syncthreads();
    T weight = c > k ? tau * (parts[0][c] + parts[1][c]) : (T)0;
    #pragma unroll
    for (int i = 0; i < HALF; i++) {
      x[i] -= weight * v[first + i];
      if (c == k && first + i >= k) x[i] = first + i == k ? beta : v[first + i];
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < HALF; i++) {
    int row = first + i;
    if (row < size && c < n) to_r(row, c) = row <= c ? x[i] : (T)0;
    if (row < m && c < n) reflectors(row, c) = x[i];
    x[i] = (T)(row == c);
  }
  if (!forms) return;
  __syncthreads();
  for (int k = steps - 1; k >= 0; k--) {
    if (half == 0) v[c] = c == k ? (T)1 : c > k && c < m ? reflectors(c, k) : (T)0;
    __syncthreads();
    T sum = 0;
    #pragma unroll
    for (int i = 0; i < HALF; i++) sum += v[first + i] * x[i];
    parts[half][c] = sum;
    __syncthreads();
    T weight = taus[k] * (parts[0][c] + parts[1][c]);
    #pragma unroll
    for (int i = 0; i < HALF; i++) x[i] -= weight * v[first + i];
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < HALF; i++) if (first + i < m && c < size) to_q(first + i, c) = x[i];
}
"""


def source(code: str, side: int) -> str:
    """The text for matrices of up to `side` rows and columns."""
    return TEXT % {"kind": TYPES[code], "side": side, "arguments": ARGUMENTS, "wait": WAIT}


@functools.cache
def kernel(driver: Driver, code: str, side: int) -> Any:
    """The kernel as steps name it; None where it cannot be compiled."""
    found = sources.load("small_qr", source(code, side), 4, driver, 2 * side)
    return None if found is None else ("handle", _C.kernel_handle(found))


_plans: dict[tuple, Any] = {}


def run(driver: Driver, count: int, numbers: Sequence[int], tensors: Sequence[Tensor], strided: Sequence[int]) -> bool:
    """Launch over (A, Q, R, reflectors), those numbered in `strided` by their strides; False where there is no kernel.
    `numbers`: rows, columns, rows of R, and whether Q is formed."""
    code, side = tensors[0].dtype.code, next(n for n in SIDES if n >= max(numbers[:2]))
    key = code, side, count, tuple(numbers), tensors[0].device, tuple([tensors[k].stride() for k in strided])
    if key not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        found = kernel(driver, code, side)
        slots = [("arg", tensors[0].dtype, (), None, 2, 0)]
        given = [*numbers, *[s for k in strided for s in tensors[k].stride()]]
        _plans[key] = found and _C.Plan(4, tensors[0].device, slots, [(found, [0, 1, 2, 3], given, count, 1, -1)])
    if _plans[key] is None:
        return False
    _plans[key](*tensors)
    return True
