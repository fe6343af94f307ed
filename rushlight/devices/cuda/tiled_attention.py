"""Attention under a mask on CUDA, tile by tile: tiles of the mask that hide everything are skipped, and those that hide
nothing are not read.

Enters: query, key and value [batch, heads, length, width] of a half type, rows of whole 16 bytes, widths up to 128;
fewer heads of key and value are shared by groups of query heads; a bool mask [1 or batch, 1 or heads, queries, keys].
Leaves: the result and the logarithms of the summed exponentials, filled. A block of four warps has 64 queries and goes
over tiles of 64 keys; scores stay in registers. Answers False where NVRTC is not installed, or for other tensors.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources, warpgroup_attention
from .attention import is_read_whole, readable
from .driver import Driver
from .random import bits
from .sources import ARGUMENTS, WAIT

TILE, THREADS = 64, 128
WIDTHS = (64, 128)
TYPES = {"bf16": ("cvt.rn.bf16x2.f32", "bf16"), "f16": ("cvt.rn.f16x2.f32", "f16")}
MARK = """typedef long long i64;
#define TILE %(tile)d
extern "C" __global__ void __launch_bounds__(128) mark_tiles(
    const unsigned char* mask, int* marks, i64 queries, i64 keys, i64 across, i64 down, %(arguments)s) {
%(wait)s
  i64 item = begin + blockIdx.x, col = item %% across, row = item / across %% down, plane = item / (across * down);
  i64 q = row * TILE + threadIdx.x / 2, k = col * TILE + threadIdx.x %% 2 * (TILE / 2);
  const unsigned char* from = mask + (plane * queries + q) * keys + k;
  int any = 0, all = 1;
  if (q < queries) {
    #pragma unroll
    for (int n = 0; n < TILE / 2; n++) {
      int seen = k + n < keys && from[n];
      any |= seen;
      all &= seen;
    }
  }
  any = __syncthreads_or(any);
  all = __syncthreads_and(all);
  if (threadIdx.x == 0) marks[item] = any + all;
}
"""
ATTEND = """typedef long long i64;
typedef unsigned short H;
typedef unsigned U;
#define TILE %(tile)d
#define WIDTH %(width)d
#define LINE (WIDTH + 8)
#define NEVER (-__int_as_float(0x7f800000))
static __device__ __forceinline__ U spot(const void* p) { return (U)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void four(U* r, const H* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%0, %%1, %%2, %%3}, [%%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(spot(p)));
}
static __device__ __forceinline__ void turned(U* r, const H* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%%0, %%1, %%2, %%3}, [%%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(spot(p)));
}
static __device__ __forceinline__ void multiply(float* c, const U* a, U b0, U b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.%(name)s.%(name)s.f32 {%%0, %%1, %%2, %%3},"
               " {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%0, %%1, %%2, %%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ U both(float low, float high) {
  U r;
  asm("%(narrow)s %%0, %%1, %%2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
static __device__ __forceinline__ void fetch(H (*to)[LINE], const H* from, i64 line, i64 first, i64 end) {
  #pragma unroll
  for (int n = 0; n < TILE * WIDTH / 8 / 128; n++) {
    int piece = n * 128 + threadIdx.x, row = piece / (WIDTH / 8), col = piece %% (WIDTH / 8) * 8;
    i64 at = first + row;
    int size = at < end ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%%0], [%%1], 16, %%2;"
                 :: "r"(spot(&to[row][col])), "l"(from + (at < end ? at : first) * line + col), "r"(size));
  }
}
extern "C" __global__ void __launch_bounds__(128) attend_tiles(
    const H* query, const H* key, const H* value, const unsigned char* mask, const int* marks, H* out, float* log,
    i64 scale_bits, i64 heads, i64 share, i64 queries, i64 keys, i64 across, i64 down, i64 mask_batch, i64 mask_head,
    i64 q0, i64 q1, i64 q2, i64 k0, i64 k1, i64 k2, i64 v0, i64 v1, i64 v2, i64 o0, i64 o1, i64 o2, %(arguments)s) {
%(wait)s
  __shared__ __align__(16) H ks[TILE][LINE];
  __shared__ __align__(16) H vs[TILE][LINE];
  i64 item = begin + blockIdx.x, tile = item %% down, head = item / down %% heads, batch = item / (down * heads);
  int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;
  i64 first = tile * TILE, plane = batch * mask_batch + head * mask_head;
  const H* qs = query + batch * q0 + head * q1;
  const H* from_k = key + batch * k0 + head / share * k1;
  const H* from_v = value + batch * v0 + head / share * v1;
  const unsigned char* seen = mask + plane * queries * keys;
  const int* marked = marks + (plane * down + tile) * across;
  float scale = (float)__longlong_as_double(scale_bits) * 1.4426950408889634f;
  U q[WIDTH / 16][4];
  fetch(ks, qs, q2, first, queries);
  asm volatile("cp.async.commit_group;\\n cp.async.wait_group 0;");
  __syncthreads();
  #pragma unroll
  for (int d = 0; d < WIDTH / 16; d++) four(q[d], &ks[warp * 16 + lane %% 16][d * 16 + lane / 16 * 8]);
  float o[WIDTH / 8][4] = {}, top[2] = {NEVER, NEVER}, sum[2] = {0.0f, 0.0f};
  i64 row = first + warp * 16 + lane / 4;
  for (i64 col = 0; col < across; col++) {
    int mark = marked[col];
    if (!mark) continue;
    __syncthreads();
    fetch(ks, from_k, k2, col * TILE, keys);
    asm volatile("cp.async.commit_group;");
    fetch(vs, from_v, v2, col * TILE, keys);
    asm volatile("cp.async.commit_group;\\n cp.async.wait_group 1;");
    __syncthreads();
    float s[TILE / 8][4] = {};
    #pragma unroll
    for (int d = 0; d < WIDTH / 16; d += 2) {
      #pragma unroll
      for (int n = 0; n < TILE / 8; n++) {
        U b[4];
        four(b, &ks[n * 8 + lane %% 8][d * 16 + lane / 8 * 8]);
        multiply(s[n], q[d], b[0], b[1]);
        multiply(s[n], q[d + 1], b[2], b[3]);
      }
    }
    float most[2] = {top[0], top[1]};
    #pragma unroll
    for (int n = 0; n < TILE / 8; n++) {
      i64 k = col * TILE + n * 8 + lane %% 4 * 2;
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        s[n][e] *= scale;
        if (mark == 1) {
          i64 r = row + e / 2 * 8, c = k + e %% 2;
          if (r >= queries || c >= keys || !seen[r * keys + c]) s[n][e] = NEVER;
        }
        most[e / 2] = fmaxf(most[e / 2], s[n][e]);
      }
    }
    #pragma unroll
    for (int r = 0; r < 2; r++) {
      most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 1));
      most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 2));
      float base = most[r] == NEVER ? 0.0f : most[r], shrunk = exp2f(top[r] - base), part = 0.0f;
      #pragma unroll
      for (int n = 0; n < TILE / 8; n++) {
        s[n][2 * r] = exp2f(s[n][2 * r] - base);
        s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] - base);
        part += s[n][2 * r] + s[n][2 * r + 1];
      }
      part += __shfl_xor_sync(~0u, part, 1);
      part += __shfl_xor_sync(~0u, part, 2);
      sum[r] = sum[r] * shrunk + part;
      top[r] = most[r];
      #pragma unroll
      for (int d = 0; d < WIDTH / 8; d++) o[d][2 * r] *= shrunk, o[d][2 * r + 1] *= shrunk;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    #pragma unroll
    for (int t = 0; t < TILE / 16; t++) {
      U a[4] = {both(s[2 * t][0], s[2 * t][1]), both(s[2 * t][2], s[2 * t][3]), both(s[2 * t + 1][0], s[2 * t + 1][1]),
                both(s[2 * t + 1][2], s[2 * t + 1][3])};
      #pragma unroll
      for (int d = 0; d < WIDTH / 8; d += 2) {
        U b[4];
        turned(b, &vs[t * 16 + lane %% 16][d * 8 + lane / 16 * 8]);
        multiply(o[d], a, b[0], b[1]);
        multiply(o[d + 1], a, b[2], b[3]);
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 2; r++) {
    i64 at = row + r * 8;
    if (at >= queries) continue;
    float share_of = sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f;
    H* to = out + batch * o0 + head * o1 + at * o2;
    #pragma unroll
    for (int d = 0; d < WIDTH / 8; d++)
      *(U*)(to + d * 8 + lane %% 4 * 2) = both(o[d][2 * r] * share_of, o[d][2 * r + 1] * share_of);
    if (lane %% 4 == 0)
      log[(batch * heads + head) * queries + at] =
          sum[r] > 0.0f ? (top[r] + log2f(sum[r])) * 0.6931471805599453f : NEVER;
  }
}
"""


def sources_of(code: str, width: int) -> dict[str, str]:
    """The texts of both kernels."""
    narrow, name = TYPES[code]
    given = {"tile": TILE, "width": width, "arguments": ARGUMENTS, "wait": WAIT, "narrow": narrow, "name": name}
    return {"mark_tiles": MARK % given, "attend_tiles": ATTEND % given}


@functools.cache
def kernels(driver: Driver, code: str, width: int) -> Any:
    """Both kernels as steps name them; None where they cannot be compiled."""
    operands = {"mark_tiles": 2, "attend_tiles": 7}
    found = [sources.load(name, text, operands[name], driver, THREADS)
             for name, text in sources_of(code, width).items()]
    return None if None in found else [("handle", _C.kernel_handle(one)) for one in found if one is not None]


def attend(
    driver: Driver, outs: tuple[Tensor, Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float
) -> bool:
    """Fill (result, logarithms); False where others must. Units of capability 9.0 have faster kernels."""
    if warpgroup_attention.attend(driver, outs, query, key, value, mask, scale):
        return True
    (batch, heads, queries, width), keys = query.shape, key.shape[2]
    if (
        width not in WIDTHS or value.shape[3] != width or not is_read_whole(query, key, value) or not readable(outs[0])
        or mask.dtype is not _C.bool or not outs[1].is_contiguous()
    ):
        return False
    found = kernels(driver, query.dtype.code, width)
    if found is None:
        return False
    mask = mask.contiguous()
    down, across, planes = -(-queries // TILE), -(-keys // TILE), mask.shape[0] * mask.shape[1]
    marks = _C.empty((planes * down * across,), None, _C.int32, query.device)
    apart = (mask.shape[1] if mask.shape[0] > 1 else 0, 1 if mask.shape[1] > 1 else 0)
    lines = [s for t in (query, key, value, outs[0]) for s in t.stride()[:3]]
    given = [bits(scale), heads, heads // key.shape[1], queries, keys, across, down, *apart, *lines]
    steps = [(found[0], [3, 4], [queries, keys, across, down], planes * down * across, 1, -1),
             (found[1], list(range(7)), given, batch * heads * down, 1, -1)]
    _C.Plan(7, query.device, [("arg", outs[0].dtype, (), None, 5, 0)], steps)(query, key, value, mask, marks, *outs)
    return True
