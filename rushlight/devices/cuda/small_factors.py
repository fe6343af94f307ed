"""Batches of small matrices, up to 32 rows, factored and solved by one launch: a warp for each, in shared memory.

Enters: what is wanted ("lu", "cholesky", "triangular"; "qr" is in small_qr.py), tensors [count, rows, columns] of any
strides. Leaves: those of them that are results, filled; statuses as LAPACK counts them. Answers False where NVRTC is
not installed: callers have the libraries then, which take a call for each step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from . import small_qr, sources
from .driver import Driver
from .sources import ARGUMENTS, WAIT

MOST = 32
TYPES = {"f32": "float", "f64": "double"}
WARPS = {"f32": 4, "f64": 2}
MOST_PLANS = 512
# What all have: a matrix and right sides of each warp, strides by operand as (batch, row, column).
HEAD = """typedef %(kind)s T;
typedef long long i64;
#define WARPS %(warps)d
#define ALL 0xffffffffu
struct Place { T* at; i64 row, col; __device__ T& operator()(int r, int c) const { return at[r * row + c * col]; } };
#define OWN \\
  __shared__ T matrices[WARPS][32][33], sides[WARPS][32][33]; \\
  int warp = threadIdx.x / 32, lane = threadIdx.x %% 32; \\
  i64 item = (begin + blockIdx.x) * WARPS + warp; \\
  if (item >= count) return; \\
  T (*m)[33] = matrices[warp]; \\
  T (*x)[33] = sides[warp];
"""
FACTOR_LU = """
extern "C" __global__ void __launch_bounds__(WARPS * 32) small_lu(
    T* a, T* b, T* lu, int* pivots, int* info, T* out, T* determinant, i64 count, i64 rows, i64 sides_of, i64 exchanges,
    i64 solves, i64 turned, i64 a0, i64 a1, i64 a2, i64 b0, i64 b1, i64 b2, i64 l0, i64 l1, i64 l2, i64 o0, i64 o1,
    i64 o2, %(arguments)s) {
%(wait)s
  OWN
  __shared__ int orders[WARPS][32];
  int n = (int)rows, bad = 0, place = lane, swaps = 0;
  Place from{a + item * a0, a1, a2}, to{lu + item * l0, l1, l2};
  for (int k = lane; k < n * n; k += 32) m[k %% n][k / n] = from(k %% n, k / n);
  __syncwarp();
  for (int k = 0; k < n; k++) {
    int top = k;
    if (exchanges) {
      T most = lane >= k && lane < n ? fabs(m[lane][k]) : (T)-1;
      if (most != most) most = (T)__int_as_float(0x7f800000);      // all threads must agree on one
      top = lane;
      for (int apart = 16; apart; apart /= 2) {
        T other = __shfl_xor_sync(ALL, most, apart);
        int where = __shfl_xor_sync(ALL, top, apart);
        if (other > most || (other == most && where < top)) most = other, top = where;
      }
    }
    if (lane == 0) pivots[item * n + k] = top + 1;
    if (top != k) {
      swaps++;
      if (lane < n) { T held = m[k][lane]; m[k][lane] = m[top][lane]; m[top][lane] = held; }
      int one = __shfl_sync(ALL, place, k), other = __shfl_sync(ALL, place, top);
      if (lane == k) place = other;
      if (lane == top) place = one;
    }
    __syncwarp();
    T pivot = m[k][k];
    if (pivot == 0 && !bad) bad = k + 1;
    if (pivot != 0 && lane > k && lane < n) m[lane][k] /= pivot;
    __syncwarp();
    if (lane > k && lane < n) {
      T factor = m[lane][k];
      for (int c = k + 1; c < n; c++) m[lane][c] -= factor * m[k][c];
    }
    __syncwarp();
  }
  for (int k = lane; k < n * n; k += 32) to(k %% n, k / n) = m[k %% n][k / n];
  if (lane == 0) {
    info[item] = bad;
    T product = swaps %% 2 ? -1 : 1;
    for (int k = 0; k < n; k++) product *= m[k][k];
    determinant[item] = product;
  }
  if (!solves) return;
  orders[warp][lane] = place;
  __syncwarp();
  Place given{b + item * b0, b1, b2}, answer{out + item * o0, o1, o2};
  for (int c = lane; c < sides_of; c += 32) {
    for (int i = 0; i < n; i++) {
      int row = turned ? i : orders[warp][i];
      T sum = solves == 2 ? (T)(row == c) : given(row, c);
      for (int j = 0; j < i; j++) sum -= (turned ? m[j][i] : m[i][j]) * x[j][lane];
      x[i][lane] = turned ? sum / m[i][i] : sum;
    }
    for (int i = n - 1; i >= 0; i--) {
      T sum = x[i][lane];
      for (int j = i + 1; j < n; j++) sum -= (turned ? m[j][i] : m[i][j]) * x[j][lane];
      x[i][lane] = turned ? sum : sum / m[i][i];
    }
    for (int i = 0; i < n; i++) answer(turned ? orders[warp][i] : i, c) = x[i][lane];
  }
}
"""
FACTOR_CHOLESKY = """
extern "C" __global__ void __launch_bounds__(WARPS * 32) small_cholesky(
    T* a, T* out, int* info, i64 count, i64 rows, i64 upper, i64 a0, i64 a1, i64 a2, i64 o0, i64 o1, i64 o2,
    %(arguments)s) {
%(wait)s
  OWN
  int n = (int)rows, bad = 0;
  Place from{a + item * a0, upper ? a2 : a1, upper ? a1 : a2}, to{out + item * o0, upper ? o2 : o1, upper ? o1 : o2};
  for (int k = lane; k < n * n; k += 32) m[k %% n][k / n] = k %% n >= k / n ? from(k %% n, k / n) : (T)0;
  __syncwarp();
  for (int k = 0; k < n; k++) {
    T square = m[k][k];
    if (!(square > 0)) { bad = k + 1; break; }
    T root = sqrt(square);
    __syncwarp();
    if (lane == k) m[k][k] = root;
    if (lane > k && lane < n) m[lane][k] /= root;
    __syncwarp();
    if (lane > k && lane < n) for (int c = k + 1; c <= lane; c++) m[lane][c] -= m[lane][k] * m[c][k];
    __syncwarp();
  }
  for (int k = lane; k < n * n; k += 32) to(k %% n, k / n) = m[k %% n][k / n];
  if (lane == 0) info[item] = bad;
}
"""
SOLVE_TRIANGLE = """
extern "C" __global__ void __launch_bounds__(WARPS * 32) small_triangular(
    T* a, T* b, T* out, i64 count, i64 rows, i64 sides_of, i64 upper, i64 unit, i64 a0, i64 a1, i64 a2, i64 b0, i64 b1,
    i64 b2, i64 o0, i64 o1, i64 o2, %(arguments)s) {
%(wait)s
  OWN
  int n = (int)rows;
  Place from{a + item * a0, a1, a2}, given{b + item * b0, b1, b2}, answer{out + item * o0, o1, o2};
  for (int k = lane; k < n * n; k += 32) m[k %% n][k / n] = from(k %% n, k / n);
  __syncwarp();
  for (int c = lane; c < sides_of; c += 32) {
    for (int step = 0; step < n; step++) {
      int i = upper ? n - 1 - step : step;
      T sum = given(i, c);
      for (int j = upper ? i + 1 : 0; j < (upper ? n : i); j++) sum -= m[i][j] * x[j][lane];
      x[i][lane] = unit ? sum : sum / m[i][i];
    }
    for (int i = 0; i < n; i++) answer(i, c) = x[i][lane];
  }
}
"""
TEXTS = {"lu": (FACTOR_LU, 7), "cholesky": (FACTOR_CHOLESKY, 3), "triangular": (SOLVE_TRIANGLE, 3)}


def source(what: str, code: str) -> str:
    head = HEAD % {"kind": TYPES[code], "warps": WARPS[code]}
    return head + TEXTS[what][0] % {"arguments": ARGUMENTS, "wait": WAIT}


@functools.cache
def kernel(driver: Driver, what: str, code: str) -> Any:
    """The kernel as steps name it; None where it cannot be compiled."""
    found = sources.load(f"small_{what}", source(what, code), TEXTS[what][1], driver, WARPS[code] * 32)
    return None if found is None else ("handle", _C.kernel_handle(found))


_plans: dict[tuple, Any] = {}


def run(driver: Driver, what: str, count: int, numbers: Sequence[int], tensors: Sequence[Tensor],
        strided: Sequence[int]) -> bool:
    """Launch over tensors, those numbered in `strided` by their strides; False where there is no kernel."""
    if what == "qr":
        return small_qr.run(driver, count, numbers, tensors, strided)
    code = tensors[0].dtype.code
    key = what, code, count, tuple(numbers), tensors[0].device, tuple([tensors[k].stride() for k in strided])
    if key not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[key] = planned(driver, what, code, count, numbers, tensors, strided)
    if _plans[key] is None:
        return False
    _plans[key](*tensors)
    return True


def planned(driver: Driver, what: str, code: str, count: int, numbers: Sequence[int], tensors: Sequence[Tensor],
            strided: Sequence[int]) -> Any:
    """The plan of a geometry."""
    found = kernel(driver, what, code)
    if found is None:
        return None
    given = [count, *numbers, *[s for k in strided for s in tensors[k].stride()]]
    slots = [("arg", tensors[-1].dtype, (), None, len(tensors) - 1, 0)]
    step = (found, list(range(len(tensors))), given, -(-count // WARPS[code]), 1, -1)
    return _C.Plan(len(tensors), tensors[0].device, slots, [step])
