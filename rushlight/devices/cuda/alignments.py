"""The recursion of connectionist temporal classification on CUDA: a block for an item, a thread for up to four
positions of its labels, the scores of the last time in shared memory.

Enters: what `_ctc_scores` takes. Leaves: its result filled: scores of every position at every time, behind `EDGE`
columns that no path reaches. `kernel` is None where NVRTC is not installed; longer labels than `MOST` positions are for
the generated kernel.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources
from .driver import Driver
from .sources import ARGUMENTS, WAIT

THREADS, EACH = 256, 4
MOST = THREADS * EACH
EDGE = 2
TYPES = {"f32": ("float", "expf", "logf"), "f64": ("double", "exp", "log")}
TEXT = """typedef %(kind)s T;
typedef long long i64;
#define THREADS %(threads)d
#define EACH %(each)d
#define EDGE %(edge)d
#define NEVER (-(T)__int_as_float(0x7f800000))
extern "C" __global__ void __launch_bounds__(THREADS) ctc_scores(
    const T* chances, const i64* labels, const T* skips, const i64* lengths, const i64* starts, T* out, i64 times,
    i64 items, i64 classes, i64 width, i64 step, %(arguments)s) {
%(wait)s
  __shared__ T rows[2][THREADS * EACH + EDGE];
  i64 item = begin + blockIdx.x, length = lengths[item], line = width + EDGE;
  int t = threadIdx.x, wide = (int)width;
  const T* from = chances + (starts[item] * items + item) * classes;
  T* to = out + item * times * line;
  i64 ahead = step * items * classes;
  i64 label[EACH];
  T skip[EACH], next[EACH];
  #pragma unroll
  for (int k = 0; k < EACH; k++) {
    int s = t + k * THREADS;
    bool inside = s < wide;
    label[k] = inside ? labels[item * width + s] : 0;
    skip[k] = inside ? skips[item * width + s] : (T)0;
    next[k] = inside && length > 0 ? from[label[k]] : (T)0;
  }
  if (t < EDGE) rows[0][t] = rows[1][t] = NEVER;
  for (i64 now = 0; now < length; now++, to += line) {
    T* here = rows[now %% 2];
    const T* before = rows[(now + 1) %% 2];
    T chance[EACH];
    #pragma unroll
    for (int k = 0; k < EACH; k++) chance[k] = next[k];
    if (now + 1 < length) {
      from += ahead;
      #pragma unroll
      for (int k = 0; k < EACH; k++) if (t + k * THREADS < wide) next[k] = from[label[k]];
    }
    __syncthreads();
    if (t < EDGE) to[t] = NEVER;
    #pragma unroll
    for (int k = 0; k < EACH; k++) {
      int s = t + k * THREADS;
      if (s >= wide) break;
      T sum;
      if (now == 0) {
        sum = s < 2 ? chance[k] : NEVER;
      } else {
        T a = before[EDGE + s], b = before[EDGE + s - 1], c = before[s] + skip[k];
        T top = a > b ? a : b;
        top = c > top ? c : top;
        T base = top == NEVER ? (T)0 : top;
        sum = %(log)s(%(exp)s(a - base) + %(exp)s(b - base) + %(exp)s(c - base)) + base + chance[k];
      }
      here[EDGE + s] = sum;
      to[EDGE + s] = sum;
    }
  }
  i64 rest = (times - (length > 0 ? length : 0)) * line;
  for (i64 k = t; k < rest; k += THREADS) to[k] = NEVER;
}
"""


def source(code: str) -> str:
    """The text of a type's kernel."""
    kind, exp, log = TYPES[code]
    return TEXT % {"kind": kind, "exp": exp, "log": log, "threads": THREADS, "each": EACH, "edge": EDGE,
                   "arguments": ARGUMENTS, "wait": WAIT}


@functools.cache
def kernel(driver: Driver, code: str) -> Any:
    """The kernel as steps name it; None where it cannot be compiled."""
    found = sources.load("ctc_scores", source(code), 6, driver, THREADS)
    return None if found is None else ("handle", _C.kernel_handle(found))


@functools.lru_cache(maxsize=256)
def plan(
    driver: Driver, code: str, device: _C.device, times: int, items: int, classes: int, width: int, step: int
) -> Any:
    """The plan of a geometry."""
    given = [times, items, classes, width, step]
    steps = [(kernel(driver, code), list(range(6)), given, items, 1, -1)]
    return _C.Plan(6, device, [("arg", _C.float32, (), None, 5, 0)], steps)


def scores(driver: Driver, log_probs: Tensor, labels: Tensor) -> Any:
    """What fills the result for such arguments, given all; None where the generated kernel serves."""
    code, width = log_probs.dtype.code, labels.shape[1]
    if code not in TYPES or width > MOST or not log_probs.numel() or kernel(driver, code) is None:
        return None
    times, items, classes = log_probs.shape

    def fill(out: Tensor, *given: Any) -> None:
        *tensors, step = given
        run = plan(driver, code, log_probs.device, times, items, classes, width, step)
        run(*[t.contiguous() for t in tensors], out)

    return fill
