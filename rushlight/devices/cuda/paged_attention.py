"""Attention of single tokens over pages of keys and values, in CUDA C: pages are read where they lie, once for all
query heads that share them.

Enters: query [tokens, heads, width], keys and values [pages, positions, own heads, width] in rows of whole 16 bytes,
tables, and a row and a position of each token. Leaves: the result. A block takes a share of the positions of one token,
for up to 8 query heads; where there is more than one share, a second launch joins what they found. A token at a
negative position gets zeros; numbers of rows and pages that do not exist are taken for the nearest that do, since
nobody waits for a device to be told of them. Answers False where NVRTC is not installed, or for other types and widths.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources
from .random import bits
from .single_query import BLOCKS, LEAST, MOST_HEADS, MOST_PLANS, TWO
from .sources import ARGUMENTS, WAIT

THREADS, CHUNK, WIDEST = 128, 128, 256
BYTES = 16                              # of one load
NARROW_BF16 = "unsigned u = __float_as_uint(x); r = (u16)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);"
NARROW_F16 = 'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));'
HALVES = """typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef u16 element;
#define LOWEST (-__int_as_float(0x7f800000))
__device__ inline void two(u32 w, float& a, float& b) { %(two)s }
__device__ inline element narrow(float x) { u16 r; %(narrow)s return r; }
__device__ inline void eight(const element* from, bool seen, float* x) {
  uint4 w = seen ? __ldg((const uint4*)from) : make_uint4(0, 0, 0, 0);
  two(w.x, x[0], x[1]), two(w.y, x[2], x[3]), two(w.z, x[4], x[5]), two(w.w, x[6], x[7]);
}
"""
SINGLES = """typedef long long i64;
typedef float element;
#define LOWEST (-__int_as_float(0x7f800000))
__device__ inline element narrow(float x) { return x; }
__device__ inline void eight(const element* from, bool seen, float* x) {
  for (int part = 0; part < 2; part++) {
    float4 w = seen ? __ldg((const float4*)from + part) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    x[4 * part] = w.x, x[4 * part + 1] = w.y, x[4 * part + 2] = w.z, x[4 * part + 3] = w.w;
  }
}
"""
PAGES = """
#define WIDTH %(width)d
#define HEADS %(heads)d
#define LANES %(lanes)d          // of a warp that share a key
#define AT_ONCE (32 / LANES)     // keys of a warp
#define CHUNK %(chunk)d
#define DEEP %(deep)d            // loads under way
#define BLOCK %(block)d          // positions of a page
extern "C" __global__ void __launch_bounds__(%(threads)d) attend_pages(
    const element* query, const element* keys, const element* values, const i64* tables, const i64* rows,
    const i64* positions, %(to)s, i64 heads, i64 own, i64 sequences, i64 pages, i64 blocks, i64 share, i64 splits,
    i64 groups, i64 q_token, i64 q_head, i64 k_page, i64 k_slot, i64 k_head, i64 v_page, i64 v_slot, i64 v_head,
    i64 window, i64 scale, %(arguments)s) {
%(wait)s
  __shared__ float scores[HEADS][CHUNK], top[HEADS], total[HEADS], shrink[HEADS], joined[4][HEADS][WIDTH];
  int warp = threadIdx.x / 32, lane = threadIdx.x %% 32, part = lane %% LANES, sub = lane / LANES;
  bool active = part * 8 < WIDTH;
  i64 item = begin + blockIdx.x, split = item %% splits, group = item / splits %% groups;
  i64 kv = item / splits / groups %% own, token = item / splits / groups / own;
  i64 head = kv * (heads / own) + group * HEADS;
  i64 ending = min(positions[token], pages * BLOCK - 1);
  i64 row = min(max(rows[token], (i64)0), sequences - 1);
  i64 first = split * share, last = min(first + share, ending + 1);
  if (window > 0) first = max(first, ending + 1 - window);
  tables += row * pages;
  query += token * q_token + head * q_head + part * 8;
  keys += kv * k_head + part * 8;
  values += kv * v_head + part * 8;
  float factor = (float)__longlong_as_double(scale), q[HEADS][8], sums[HEADS][8];
  for (int g = 0; g < HEADS; g++) {
    eight(query + g * q_head, active, q[g]);
    for (int e = 0; e < 8; e++) q[g][e] *= factor, sums[g][e] = 0.0f;
  }
  if (threadIdx.x < HEADS) top[threadIdx.x] = LOWEST, total[threadIdx.x] = 0.0f;
  for (i64 start = first; start < last; start += CHUNK) {
    int count = (int)min((i64)CHUNK, last - start);
    __syncthreads();
    for (int base = 0; base < count; base += 4 * AT_ONCE * DEEP) {
      float x[DEEP][8];
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        bool seen = k < count && active;
        i64 at = start + (k < count ? k : 0), page = min(max(tables[at / BLOCK], (i64)0), blocks - 1);
        eight(keys + page * k_page + at %% BLOCK * k_slot, seen, x[u]);
      }
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
          float dot = 0.0f;
          for (int e = 0; e < 8; e++) dot = fmaf(q[g][e], x[u][e], dot);
          for (int apart = LANES / 2; apart; apart /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, apart);
          if (part == 0 && k < count) scores[g][k] = dot;
        }
      }
    }
    __syncthreads();
    for (int g = warp; g < HEADS; g += 4) {
      float most = LOWEST, sum = 0.0f;
      for (int k = lane; k < count; k += 32) most = fmaxf(most, scores[g][k]);
      for (int apart = 16; apart; apart /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, apart));
      float before = top[g], now = fmaxf(before, most), from = now == LOWEST ? 0.0f : now;
      for (int k = lane; k < count; k += 32) {
        float weight = __expf(scores[g][k] - from);
        scores[g][k] = weight, sum += weight;
      }
      for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      __syncwarp();
      if (lane == 0) {
        float less = __expf(before - from);
        top[g] = now, total[g] = total[g] * less + sum, shrink[g] = less;
      }
    }
    __syncthreads();
    for (int g = 0; g < HEADS; g++)
      for (int e = 0; e < 8; e++) sums[g][e] *= shrink[g];
    for (int base = 0; base < count; base += 4 * AT_ONCE * DEEP) {
      float x[DEEP][8];
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        bool seen = k < count && active;
        i64 at = start + (k < count ? k : 0), page = min(max(tables[at / BLOCK], (i64)0), blocks - 1);
        eight(values + page * v_page + at %% BLOCK * v_slot, seen, x[u]);
      }
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
          float weight = k < count ? scores[g][k] : 0.0f;
          for (int e = 0; e < 8; e++) sums[g][e] = fmaf(weight, x[u][e], sums[g][e]);
        }
      }
    }
  }
  for (int g = 0; g < HEADS; g++)
    for (int e = 0; e < 8; e++) {
      for (int apart = LANES; apart < 32; apart *= 2) sums[g][e] += __shfl_xor_sync(0xffffffffu, sums[g][e], apart);
      if (sub == 0 && active) joined[warp][g][part * 8 + e] = sums[g][e];
    }
  __syncthreads();
  for (int n = threadIdx.x; n < HEADS * WIDTH; n += %(threads)d) {
    int g = n / WIDTH, d = n %% WIDTH;
    float sum = joined[0][g][d] + joined[1][g][d] + joined[2][g][d] + joined[3][g][d];
    %(store)s
  }
}
"""
WHOLE = "out[(token * heads + head + g) * WIDTH + d] = narrow(total[g] > 0.0f ? sum / total[g] : 0.0f);"
SHARE = """float* to = found + ((token * heads + head + g) * splits + split) * (WIDTH + 2);
    to[2 + d] = sum;
    if (d == 0) to[0] = top[g], to[1] = total[g];"""
JOINED = """
#define WIDTH %(width)d
extern "C" __global__ void __launch_bounds__(%(threads)d) join_pages(
    const float* found, element* out, i64 splits, %(arguments)s) {
%(wait)s
  i64 item = begin + blockIdx.x;
  found += item * splits * (WIDTH + 2);
  float top = LOWEST, total = 0.0f;
  for (i64 s = 0; s < splits; s++) top = fmaxf(top, found[s * (WIDTH + 2)]);
  float from = top == LOWEST ? 0.0f : top;
  for (i64 s = 0; s < splits; s++) total += found[s * (WIDTH + 2) + 1] * __expf(found[s * (WIDTH + 2)] - from);
  for (int d = threadIdx.x; d < WIDTH; d += %(threads)d) {
    float sum = 0.0f;
    for (i64 s = 0; s < splits; s++)
      sum = fmaf(found[s * (WIDTH + 2) + 2 + d], __expf(found[s * (WIDTH + 2)] - from), sum);
    out[item * WIDTH + d] = narrow(total > 0.0f ? sum / total : 0.0f);
  }
}
"""


def head(code: str) -> str:
    """What is to be known of a type of elements."""
    if code == "f32":
        return SINGLES
    return HALVES % {"two": TWO[code], "narrow": NARROW_BF16 if code == "bf16" else NARROW_F16}


def pages_source(code: str, width: int, heads: int, block: int, is_whole: bool) -> str:
    """Blocks over shares of the positions of a token, for `heads` query heads each."""
    lanes = 1
    while lanes * 8 < width:
        lanes *= 2
    return head(code) + PAGES % {
        "width": width, "heads": heads, "lanes": lanes, "deep": 4 if heads <= 4 else 2, "chunk": CHUNK, "block": block,
        "threads": THREADS, "arguments": ARGUMENTS, "wait": WAIT, "to": "element* out" if is_whole else "float* found",
        "store": WHOLE if is_whole else SHARE,
    }


def joined_source(code: str, width: int) -> str:
    """What the shares found as one result, a block for each head of a token."""
    return head(code) + JOINED % {"width": width, "threads": THREADS, "arguments": ARGUMENTS, "wait": WAIT}


@functools.cache
def kernel(driver: Any, code: str, width: int, heads: int, block: int, is_whole: bool) -> Any:
    """The first kernel; None where it cannot be compiled."""
    return marked(sources.load("attend_pages", pages_source(code, width, heads, block, is_whole), 7, driver, THREADS))


@functools.cache
def joining(driver: Any, code: str, width: int) -> Any:
    return marked(sources.load("join_pages", joined_source(code, width), 2, driver, THREADS))


def marked(loaded: int | None) -> Any:
    return None if loaded is None else ("handle", _C.kernel_handle(loaded))


_plans: dict[tuple, Any] = {}


def attend(driver: Any, out: Tensor, *given: Any) -> bool:
    """Fill the result, from query, keys, values, tables, rows, positions, window, scale and cap; False where the
    kernels do not serve: they bend no scores."""
    *tensors, window, scale, cap = given
    if cap:
        return False
    known = (window, scale, *[(t.dtype, t.shape, t.stride()) for t in (*tensors, out)])
    if known not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[known] = planned(driver, tensors, out, window, scale)
    plan = _plans[known]
    if plan is None or any(t.data_ptr() % BYTES for t in tensors[:3]):
        return False
    plan(*tensors, out)
    return True


def fits(tensors: Any, out: Tensor) -> bool:
    """Whether rows can be read in whole loads, and the rest lies in order."""
    query = tensors[0]
    several = BYTES // query.dtype.itemsize
    return (
        query.dtype.code in ("f32", *TWO)
        and query.shape[2] % 8 == 0
        and query.shape[2] <= WIDEST
        and all(t.stride(-1) == 1 and all(s % several == 0 for s in t.stride()[:-1]) for t in tensors[:3])
        and all(t.is_contiguous() for t in (*tensors[3:], out))
        and all(0 not in t.shape for t in tensors)
    )


def planned(driver: Any, tensors: Any, out: Tensor, window: int, scale: float) -> Any:
    """The plan of a geometry; None where there is none."""
    if not fits(tensors, out):
        return None
    query, keys, values, tables = tensors[:4]
    (tokens, heads, width), (blocks, block, own, _), (sequences, pages) = query.shape, keys.shape, tables.shape
    code, ratio = query.dtype.code, heads // own
    together = max(n for n in range(1, MOST_HEADS + 1) if ratio % n == 0)
    groups = ratio // together
    share = -(-pages * block // max(1, BLOCKS // (tokens * own * groups)))
    share = max(LEAST, -(-share // LEAST) * LEAST)
    splits = -(-pages * block // share)
    first = kernel(driver, code, width, together, block, splits == 1)
    second = joining(driver, code, width) if splits > 1 else None
    if first is None or (splits > 1 and second is None):
        return None
    strides = [*query.stride()[:2], *keys.stride()[:3], *values.stride()[:3]]
    numbers = [heads, own, sequences, pages, blocks, share, splits, groups, *strides, window, bits(scale)]
    slots: list[tuple] = [("arg", out.dtype, (), None, 6, 0)]
    count = tokens * own * groups * splits
    if splits == 1:
        return _C.Plan(7, query.device, slots, [(first, [*range(6), 6], numbers, count, 1, -1)])
    slots.append(("temp", _C.float32, (tokens * heads * splits * (width + 2),), None, -1, 0))
    steps = [(first, [*range(6), 8], numbers, count, 1, -1), (second, [8, 6], [splits], tokens * heads, 1, -1)]
    return _C.Plan(7, query.device, slots, steps)
