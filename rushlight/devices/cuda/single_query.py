"""Attention of a single query over many keys, in CUDA C: keys and values are read once, by blocks that share them.

Enters: query [batch, heads, 1, width], key and value [batch, own heads, keys, width] of a half type with whole rows; a
mask of any layout. Leaves: the result and the logarithm of the summed exponentials, by two launches: blocks go over
shares of the keys, each for all query heads (up to 8) that read the same ones, then what they found is joined. Keys
that a mask hides have no values read. Answers False where NVRTC is not installed, or widths of key and value differ.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources
from .random import bits
from .sources import ARGUMENTS, WAIT

THREADS, CHUNK, LEAST = 128, 128, 64       # of a block; keys at a time, and keys worth a block
BLOCKS = 132 * 4                           # that keep a unit busy
MOST_SPLITS = BLOCKS + 1                   # shares of one head's keys
MOST_HEADS = 8                             # of a block: each keeps its sums in registers
MOST_PLANS = 512
MASKS = {None: 0, "b1": 1, "bf16": 2, "f16": 3, "f32": 4}
MASK_TYPES = ("", "unsigned char", "unsigned short", "unsigned short", "float")
TWO = {
    "bf16": "a = __uint_as_float(w << 16); b = __uint_as_float(w & 0xffff0000u);",
    "f16": 'asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"'
           ' : "=f"(a), "=f"(b) : "r"(w));',
}
NARROW = {
    "bf16": 'asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));',
    "f16": 'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));',
}
HEAD = """typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
#define LOWEST (-__int_as_float(0x7f800000))
__device__ inline void two(u32 w, float& a, float& b) { %(two)s }
__device__ inline float half_of(u16 h) { float a, b; two(h, a, b); return a; }
__device__ inline u16 narrow(float x) { u16 r; %(narrow)s return r; }
__device__ inline void eight(const uint4& w, float* x) {
  two(w.x, x[0], x[1]), two(w.y, x[2], x[3]), two(w.z, x[4], x[5]), two(w.w, x[6], x[7]);
}
"""
SHARES = """
#define WIDTH %(width)d
#define HEADS %(heads)d
#define LANES %(lanes)d          // of a warp that share a key
#define AT_ONCE (32 / LANES)     // keys of a warp
#define CHUNK %(chunk)d
#define DEEP %(deep)d              // loads under way
extern "C" __global__ void __launch_bounds__(%(threads)d) attend_one(
    const u16* query, const u16* key, const u16* value, %(mask_argument)s float* found, i64 heads, i64 own, i64 keys,
    i64 share, i64 splits, i64 groups, i64 q_batch, i64 q_head, i64 k_batch, i64 k_head, i64 k_key, i64 v_batch,
    i64 v_head, i64 v_key, i64 m_batch, i64 m_head, i64 m_key, i64 scale, %(arguments)s) {
%(wait)s
  __shared__ float scores[HEADS][CHUNK], top[HEADS], total[HEADS], shrink[HEADS], joined[4][HEADS][WIDTH];
  int warp = threadIdx.x / 32, lane = threadIdx.x %% 32, part = lane %% LANES, sub = lane / LANES;
  bool active = part * 8 < WIDTH;
  i64 item = begin + blockIdx.x, split = item %% splits, group = item / splits %% groups;
  i64 kv = item / splits / groups %% own, batch = item / splits / groups / own;
  i64 head = kv * (heads / own) + group * HEADS, first = split * share, last = min(first + share, keys);
  query += batch * q_batch + head * q_head + part * 8;
  key += batch * k_batch + kv * k_head + part * 8;
  value += batch * v_batch + kv * v_head + part * 8;
  float factor = (float)__longlong_as_double(scale), q[HEADS][8], sums[HEADS][8];
  for (int g = 0; g < HEADS; g++) {
    uint4 w = active ? *(const uint4*)(query + g * q_head) : make_uint4(0, 0, 0, 0);
    eight(w, q[g]);
    for (int e = 0; e < 8; e++) q[g][e] *= factor, sums[g][e] = 0.0f;
  }
  if (threadIdx.x < HEADS) top[threadIdx.x] = LOWEST, total[threadIdx.x] = 0.0f;
  for (i64 start = first; start < last; start += CHUNK) {
    int count = (int)min((i64)CHUNK, last - start);
    __syncthreads();
    for (int base = 0; base < count; base += 4 * AT_ONCE * DEEP) {
      uint4 words[DEEP];
      float more[DEEP][HEADS];
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        bool seen = k < count;
        words[u] = seen && active ? __ldg((const uint4*)(key + (start + k) * k_key)) : make_uint4(0, 0, 0, 0);
        %(read_mask)s
      }
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        float x[8];
        eight(words[u], x);
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
          float dot = 0.0f;
          for (int e = 0; e < 8; e++) dot = fmaf(q[g][e], x[e], dot);
          for (int apart = LANES / 2; apart; apart /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, apart);
          if (part == 0 && k < count) scores[g][k] = dot%(add_mask)s;
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
      uint4 words[DEEP];
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        bool seen = k < count;
        %(skip)s
        words[u] = seen && active ? __ldg((const uint4*)(value + (start + k) * v_key)) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int u = 0; u < DEEP; u++) {
        int k = base + (u * 4 + warp) * AT_ONCE + sub;
        float x[8];
        eight(words[u], x);
#pragma unroll
        for (int g = 0; g < HEADS; g++) {
          float weight = k < count ? scores[g][k] : 0.0f;
          for (int e = 0; e < 8; e++) sums[g][e] = fmaf(weight, x[e], sums[g][e]);
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
    float* to = found + ((batch * heads + head + g) * splits + split) * (WIDTH + 2);
    to[2 + d] = joined[0][g][d] + joined[1][g][d] + joined[2][g][d] + joined[3][g][d];
    if (d == 0) to[0] = top[g], to[1] = total[g];
  }
}
"""
JOINED = """
#define WIDTH %(width)d
extern "C" __global__ void __launch_bounds__(%(threads)d) join_shares(
    const float* found, u16* out, float* logarithm, i64 heads, i64 splits, i64 o_batch, i64 o_head, %(arguments)s) {
%(wait)s
  __shared__ float weight[%(most)d], part[2][%(threads)d / 32];
  i64 item = begin + blockIdx.x;
  int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;
  found += item * splits * (WIDTH + 2);
  float top = LOWEST, total = 0.0f;
  for (int s = threadIdx.x; s < splits; s += %(threads)d) top = fmaxf(top, found[s * (WIDTH + 2)]);
  for (int apart = 16; apart; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
  if (lane == 0) part[0][warp] = top;
  __syncthreads();
  for (int w = 0; w < %(threads)d / 32; w++) top = fmaxf(top, part[0][w]);
  float from = top == LOWEST ? 0.0f : top;
  for (int s = threadIdx.x; s < splits; s += %(threads)d) {
    weight[s] = __expf(found[s * (WIDTH + 2)] - from);
    total += found[s * (WIDTH + 2) + 1] * weight[s];
  }
  for (int apart = 16; apart; apart /= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
  if (lane == 0) part[1][warp] = total;
  __syncthreads();
  total = 0.0f;
  for (int w = 0; w < %(threads)d / 32; w++) total += part[1][w];
  for (int d = threadIdx.x; d < WIDTH; d += %(threads)d) {
    float sum = 0.0f;
#pragma unroll 8
    for (int s = 0; s < splits; s++) sum = fmaf(found[s * (WIDTH + 2) + 2 + d], weight[s], sum);
    out[item / heads * o_batch + item %% heads * o_head + d] = narrow(total > 0.0f ? sum / total : 0.0f);
  }
  if (threadIdx.x == 0) logarithm[item] = total > 0.0f ? top + logf(total) : LOWEST;
}
"""


def head(code: str) -> str:
    return HEAD % {"two": TWO[code], "narrow": NARROW[code]}


def shares_source(code: str, width: int, heads: int, mask: int) -> str:
    """Blocks over shares of the keys, for `heads` query heads each."""
    lanes = 1
    while lanes * 8 < width:
        lanes *= 2
    element = {0: "", 1: "0.0f", 2: "half_of(m)", 3: "half_of(m)", 4: "m"}[mask]
    kind, read = MASK_TYPES[mask], ""
    if mask:
        hidden = "!m" if mask == 1 else f"{element} == LOWEST"
        read = f"""for (int g = 0; g < HEADS; g++) {{
          more[u][g] = LOWEST;
          if (!seen) continue;
          {kind} m = mask[batch * m_batch + (head + g) * m_head + (start + k) * m_key];
          if (!({hidden})) more[u][g] = {element};
        }}"""
    skip = """bool any = false;
        for (int g = 0; g < HEADS; g++) any |= seen && scores[g][k] != 0.0f;
        seen = any;""" if mask else ""
    return head(code) + SHARES % {
        "width": width, "heads": heads, "lanes": lanes, "deep": 8 if heads <= 4 else 4, "chunk": CHUNK,
        "threads": THREADS, "arguments": ARGUMENTS,
        "wait": WAIT, "mask_argument": f"const {kind}* mask," if mask else "", "read_mask": read,
        "add_mask": " + more[u][g]" if mask else "", "skip": skip,
    }


def joined_source(code: str, width: int) -> str:
    """What the shares found as one result, a block for each head."""
    return head(code) + JOINED % {
        "width": width, "threads": THREADS, "arguments": ARGUMENTS, "wait": WAIT, "most": MOST_SPLITS,
    }


@functools.cache
def kernels(driver: Any, code: str, width: int, heads: int, mask: int) -> tuple[Any, Any] | None:
    """Both kernels; None where they cannot be compiled."""
    first = sources.load("attend_one", shares_source(code, width, heads, mask), 5 if mask else 4, driver, THREADS)
    second = sources.load("join_shares", joined_source(code, width), 3, driver, THREADS)
    if first is None or second is None:
        return None
    return ("handle", _C.kernel_handle(first)), ("handle", _C.kernel_handle(second))


_plans: dict[tuple, Any] = {}


def forward(driver: Any, outs: tuple, query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Any) -> bool:
    """Fill (result, logarithms); False where the kernels do not serve."""
    given = (query, key, value, *(() if mask is None else (mask,)), *outs)
    known = (scale, *[(t.dtype, t.shape, t.stride()) for t in given])
    if known not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[known] = planned(driver, given, scale, mask is not None)
    plan = _plans[known]
    if plan is not None:
        plan(*given)
    return plan is not None


def planned(driver: Any, given: tuple, scale: float, masked: bool) -> Any:
    """The plan of a geometry."""
    query, key, value, out, log = *given[:3], *given[-2:]
    (batch, heads, _, width), (own, keys) = query.shape, key.shape[1:3]
    code, kind = query.dtype.code, MASKS.get(given[3].dtype.code if masked else None)
    if value.shape[3] != width or kind is None or (kind in (2, 3) and given[3].dtype is not query.dtype):
        return None
    ratio = heads // own
    together = max(n for n in range(1, MOST_HEADS + 1) if ratio % n == 0)
    found = kernels(driver, code, width, together, kind)
    if found is None or not log.is_contiguous():
        return None
    groups = ratio // together
    share = -(-keys // max(1, BLOCKS // (batch * own * groups)))
    share = max(LEAST, -(-share // LEAST) * LEAST)
    splits = -(-keys // share)
    seen = [0, 0, 0]
    if masked:
        whole = given[3].expand(batch, heads, 1, keys).stride()
        seen = [whole[0], whole[1], whole[3]]
    strides = [query.stride(0), query.stride(1), *key.stride()[:3], *value.stride()[:3], *seen]
    n = len(given)
    room = ("temp", _C.float32, (batch * heads * splits * (width + 2),), None, -1, 0)
    slots = [("arg", out.dtype, (), None, n - 2, 0), room]
    first = [heads, own, keys, share, splits, groups, *strides, bits(scale)]
    second = [heads, splits, out.stride(0), out.stride(1)]
    steps = [
        (found[0], [*range(n - 2), n + 1], first, batch * own * groups * splits, 1, -1),
        (found[1], [n + 1, n - 2, n - 1], second, batch * heads, 1, -1),
    ]
    return _C.Plan(n, query.device, slots, steps)
