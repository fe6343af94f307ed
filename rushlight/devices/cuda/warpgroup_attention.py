"""Attention under a mask on tensor cores of capability 9.0, tile by tile: those that a mask hides are skipped, those
it hides nothing of are not looked up.

Enters: what `tiled_attention` takes, of widths up to 256 (query and value may differ). Leaves: the result and the
logarithms of the summed exponentials, filled. One launch makes bits of the mask and marks its tiles; in the other a
block has 128 queries, one of its warps has tiles of keys and values copied, two groups of four warps multiply: scores
of the next tile while the last one's weights meet their values. Answers False where the kernels do not serve.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ..._C import Tensor
from . import sources, warpgroups
from .attention import is_read_whole, readable
from .driver import Driver
from .random import bits
from .sources import ARGUMENTS, WAIT

QUERIES, THREADS, MARKERS = 128, 384, 128
SHARED = 226 << 10           # bytes of a block
MOST_TILES = 1024            # of keys, which a block lists
MOST_STAGES = 4
MOST_PLANS = 256

MARK = r"""
typedef long long i64;
typedef unsigned U;
typedef unsigned short H;
// A block has a tile of the mask: its bits, and whether any (1) or all (2) of them are set.
extern "C" __global__ void __launch_bounds__(128) mark_bits(
    const unsigned char* mask, U* bits, int* marks, i64 queries, i64 keys, i64 across, i64 down, i64 is_aligned,
    ARGUMENTS) {
  WAITING
  i64 item = begin + blockIdx.x, col = item % across, row = item / across % down, plane = item / (across * down);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, any = 0, all = 1;
  i64 key = col * KEYS + lane * (KEYS / 32);
  for (int r = warp; r < 128; r += 4) {
    i64 q = row * 128 + r;
    if (q >= queries) break;
    const unsigned char* from = mask + (plane * queries + q) * keys + key;
    U found = 0;
    if (is_aligned && key < keys) {
#if KEYS == 128
      found = (*(const U*)from & 0x01010101u) * 0x01020408u >> 24 & 15u;
#else
      U pair = *(const H*)from;
      found = (pair & 1u) | (pair >> 7 & 2u);
#endif
    } else if (!is_aligned) {
      for (int e = 0; e < KEYS / 32; e++) found |= (U)(key + e < keys && from[e]) << e;
    }
    any |= found != 0;
    all &= found == (1u << KEYS / 32) - 1;
    U word = found << lane * (KEYS / 32) % 32;
    for (int n = 1; n < 1024 / KEYS; n *= 2) word |= __shfl_xor_sync(~0u, word, n);
    if (lane % (1024 / KEYS) == 0)
      bits[((plane * queries + q) * across + col) * (KEYS / 32) + lane / (1024 / KEYS)] = word;
  }
  any = __syncthreads_or(any);
  all = __syncthreads_and(all);
  if (threadIdx.x == 0) marks[item] = any + all;
}
"""
ATTEND = r"""
#define NEVER (-__int_as_float(0x7f800000))
#define Q_BOX (128 * 128)
#define K_BOX (KEYS * 128)
#define K_BYTES (WIDTH / 64 * K_BOX)
#define V_BYTES (VALUES / 64 * K_BOX)
static __device__ __forceinline__ float power(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
extern "C" __global__ void __launch_bounds__(384, 1) attend_boxes(
    const H* query, const H* key, const H* value, const U* bits, const int* marks, H* out, float* log,
    const __grid_constant__ Map map_q, const __grid_constant__ Map map_k, const __grid_constant__ Map map_v,
    i64 scale_bits, i64 heads, i64 share, i64 queries, i64 across, i64 down, i64 mask_batch, i64 mask_head, i64 width,
    i64 o0, i64 o1, i64 o2, ARGUMENTS) {
  WAITING
  extern __shared__ char raw[];
  __shared__ __align__(8) u64 q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
  __shared__ int listed[1024], number;
  char* base = raw + (1024 - spot(raw) % 1024) % 1024;
  U qs = spot(base), ks = qs + WIDTH / 64 * Q_BOX, vs = ks + STAGES * K_BYTES;
  i64 item = begin + blockIdx.x, tile = down - 1 - item % down, head = item / down % heads;
  i64 batch = item / (down * heads);
  i64 plane = batch * mask_batch + head * mask_head;
  if (threadIdx.x < 32) {      // what is not hidden, in turn
    const int* marked = marks + (plane * down + tile) * across;
    int count = 0;
    for (i64 first = 0; first < across; first += 32) {
      int mark = first + threadIdx.x < across ? marked[first + threadIdx.x] : 0;
      U some = __ballot_sync(~0u, mark);
      if (mark) listed[count + __popc(some & ((1u << threadIdx.x) - 1))] = (int)(first + threadIdx.x) * 2 + mark - 1;
      count += __popc(some);
    }
    if (threadIdx.x == 0) number = count;
  } else if (threadIdx.x == 32) {
    set_up(spot(&q_full), 1);
    for (int s = 0; s < STAGES; s++) {
      set_up(spot(&k_full[s]), 1);
      set_up(spot(&k_empty[s]), 2);
      set_up(spot(&v_full[s]), 1);
      set_up(spot(&v_empty[s]), 2);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\n fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  int count = number;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0 && count) {
      expect(spot(&q_full), WIDTH / 64 * Q_BOX);
      for (int c = 0; c < WIDTH / 64; c++)
        copy4(qs + c * Q_BOX, &map_q, spot(&q_full), c * 64, (int)tile * 128, (int)head, (int)batch);
      int s = 0, phase = 1, own = (int)(head / share);
      for (int i = 0; i < count; i++) {
        int first = (listed[i] >> 1) * KEYS;
        wait(spot(&k_empty[s]), phase);
        expect(spot(&k_full[s]), K_BYTES);
        for (int c = 0; c < WIDTH / 64; c++)
          copy4(ks + s * K_BYTES + c * K_BOX, &map_k, spot(&k_full[s]), c * 64, first, own, (int)batch);
        wait(spot(&v_empty[s]), phase);
        expect(spot(&v_full[s]), V_BYTES);
        for (int c = 0; c < VALUES / 64; c++)
          copy4(vs + s * V_BYTES + c * K_BOX, &map_v, spot(&v_full[s]), c * 64, first, own, (int)batch);
        if (++s == STAGES) s = 0, phase ^= 1;
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  int own = threadIdx.x % 128, lane = own % 32, which = threadIdx.x / 128 - 1;
  i64 row = tile * 128 + which * 64 + own / 32 * 16 + lane / 4;
  float scale = (float)__longlong_as_double(scale_bits) * 1.4426950408889634f;
  float o[VALUES / 2], d[KEYS / 2], top[2] = {NEVER, NEVER}, sum[2] = {0.0f, 0.0f};
  U p[KEYS / 16][4];
  #pragma unroll
  for (int i = 0; i < VALUES / 2; i++) o[i] = 0.0f;
  int s = 0, phase = 0;
  auto score = [&]() {      // of the next tile: begun, not ended
    wait(spot(&k_full[s]), phase);
    hold(d);
    begin_products();
    #pragma unroll
    for (int c = 0; c < WIDTH / 16; c++) {
      u64 a = tile_at(qs + c / 4 * Q_BOX + which * 8192 + c % 4 * 32, 16, 1024);
      u64 b = tile_at(ks + s * K_BYTES + c / 4 * K_BOX + c % 4 * 32, 16, 1024);
      scores(d, a, b, c > 0);
    }
    end_products();
  };
  auto gather = [&](int at, int parity) {      // values by the last tile's weights, likewise
    wait(spot(&v_full[at]), parity);
    hold(o);
    begin_products();
    #pragma unroll
    for (int t = 0; t < KEYS / 16; t++) weigh(o, p[t], tile_at(vs + at * V_BYTES + t * 2048, K_BOX, 1024), 1);
    end_products();
  };
  auto soften = [&](int tile_of, float* shrunk) {      // scores become weights; what is hidden, none
    if (!(tile_of & 1)) {
      #pragma unroll
      for (int r = 0; r < 2; r++) {
        i64 q = row + r * 8 < queries ? row + r * 8 : queries - 1;
        const U* words = bits + ((plane * queries + q) * across + (tile_of >> 1)) * (KEYS / 32);
        alignas(16) U seen[KEYS / 32];
        #pragma unroll
        for (int w = 0; w < KEYS / 32; w += 2) *(uint2*)(seen + w) = *(const uint2*)(words + w);
        #pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
          U two = seen[n / 4] >> (n % 4 * 8 + lane % 4 * 2);
          if (!(two & 1)) d[4 * n + 2 * r] = NEVER;
          if (!(two & 2)) d[4 * n + 2 * r + 1] = NEVER;
        }
      }
    }
    #pragma unroll
    for (int r = 0; r < 2; r++) {
      float most = top[r];
      #pragma unroll
      for (int n = 0; n < KEYS / 8; n++) most = fmaxf(most, fmaxf(d[4 * n + 2 * r], d[4 * n + 2 * r + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      float less = most == NEVER ? 0.0f : most * scale, part = 0.0f;
      shrunk[r] = power(top[r] * scale - less);
      #pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        d[4 * n + 2 * r] = power(d[4 * n + 2 * r] * scale - less);
        d[4 * n + 2 * r + 1] = power(d[4 * n + 2 * r + 1] * scale - less);
        part += d[4 * n + 2 * r] + d[4 * n + 2 * r + 1];
      }
      sum[r] = sum[r] * shrunk[r] + part;
      top[r] = most;
    }
  };
  auto pack = [&]() {
    #pragma unroll
    for (int t = 0; t < KEYS / 16; t++) {
      #pragma unroll
      for (int e = 0; e < 4; e++) p[t][e] = both(d[8 * t + 2 * e], d[8 * t + 2 * e + 1]);
    }
  };
  if (count) {
    float shrunk[2];
    wait(spot(&q_full), 0);
    score();
    await_products<0>();
    hold(d);
    if (own == 0) arrive(spot(&k_empty[0]));
    soften(listed[0], shrunk);
    pack();
    int last = 0, last_phase = 0;
    if (++s == STAGES) s = 0, phase ^= 1;
    for (int i = 1; i < count; i++) {
      score();
      gather(last, last_phase);
      await_products<1>();
      hold(d);
      if (own == 0) arrive(spot(&k_empty[s]));
      soften(listed[i], shrunk);
      await_products<0>();
      hold(o);
      if (own == 0) arrive(spot(&v_empty[last]));
      #pragma unroll
      for (int n = 0; n < VALUES / 8; n++) {
        o[4 * n] *= shrunk[0], o[4 * n + 1] *= shrunk[0];
        o[4 * n + 2] *= shrunk[1], o[4 * n + 3] *= shrunk[1];
      }
      pack();
      last = s, last_phase = phase;
      if (++s == STAGES) s = 0, phase ^= 1;
    }
    gather(last, last_phase);
    await_products<0>();
    hold(o);
  }
  #pragma unroll
  for (int r = 0; r < 2; r++) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    i64 at = row + r * 8;
    float part = sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f;
    H* to = out + batch * o0 + head * o1 + at * o2;
    #pragma unroll
    for (int n = 0; n < VALUES / 8; n += 4) {
      U four[4];
      #pragma unroll
      for (int e = 0; e < 4; e++) four[e] = both(o[4 * (n + e) + 2 * r] * part, o[4 * (n + e) + 2 * r + 1] * part);
      exchange(four, lane);
      int col = (n + lane % 4) * 8;
      if (at < queries && col < width) *(uint4*)(to + col) = make_uint4(four[0], four[1], four[2], four[3]);
    }
    if (lane % 4 == 0 && at < queries)
      log[(batch * heads + head) * queries + at] =
          sum[r] > 0.0f ? (top[r] * scale + log2f(sum[r])) * 0.6931471805599453f : NEVER;
  }
}
"""


def sizes(width: int, values: int) -> tuple[int, int, int]:
    """(keys of a tile, tiles under way, bytes of shared memory) for padded widths."""
    keys = 128 if values <= 128 and width <= 192 else 64
    own, each = width * QUERIES * 2, (width + values) * keys * 2
    stages = min(MOST_STAGES, (SHARED - own - 8192) // each)
    return keys, stages, own + stages * each + 1024


@functools.cache
def sources_of(code: str, width: int, values: int) -> dict[str, str]:
    """The texts of both kernels, for padded widths."""
    keys, stages, _ = sizes(width, values)
    named = {"KEYS": keys, "STAGES": stages, "WIDTH": width, "VALUES": values, "ARGUMENTS": ARGUMENTS}
    lines = "".join(f"#define {name} {value}\n" for name, value in named.items())
    scores = warpgroups.product("scores", keys, code, code, (False, False))
    weigh = warpgroups.product("weigh", values, code, code, (False, True), in_registers=True)
    return {
        "mark_bits": lines + MARK.replace("WAITING", WAIT),
        "attend_boxes": warpgroups.PRELUDE + lines + warpgroups.narrow(code) + scores + weigh
        + ATTEND.replace("WAITING", WAIT),
    }


def padded(width: int) -> int:
    """A width as whole lines of tiles."""
    return -(-width // 64) * 64


def kernels(driver: Driver, code: str, width: int, values: int) -> Any:
    """Both kernels as steps name them; None where they cannot be compiled."""
    texts, shared = sources_of(code, width, values), sizes(width, values)[2]
    marks = sources.load("mark_bits", texts["mark_bits"], 3, driver, MARKERS)
    found = warpgroups.load(driver, "attend_boxes", texts["attend_boxes"], 7, THREADS, 3, shared)
    if marks is None or found is None:
        return None
    return [("handle", _C.kernel_handle(one)) for one in (marks, found)]


_plans: dict[tuple, Any] = {}


def attend(
    driver: Driver, outs: tuple[Tensor, Tensor], query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float
) -> bool:
    """Fill (result, logarithms); False where others must."""
    unit = query.device.index or 0
    if not scale > 0 or not warpgroups.serves(driver, unit):
        return False
    mask = mask.contiguous()
    given = (query, key, value, mask, *outs)
    known = (unit, scale, *[(t.dtype.code, tuple(t.shape), tuple(t.stride()), t.data_ptr() % 16) for t in given])
    if known not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[known] = planned(driver, given, scale)
    plan = _plans[known]
    if plan is not None:
        plan(*given)
    return plan is not None


def planned(driver: Driver, given: tuple, scale: float) -> Any:
    """The plan of a geometry; None where the kernels do not serve."""
    query, key, value, mask, out, log = given
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    is_read = is_read_whole(query, key, value) and readable(out) and log.is_contiguous()
    if not is_read or mask.dtype is not _C.bool:
        return None
    width, values = padded(query.shape[3]), padded(value.shape[3])
    tile, down = sizes(width, values)[0], -(-queries // QUERIES)
    across, planes = -(-keys // tile), mask.shape[0] * mask.shape[1]
    if 0 in (batch, heads, queries, keys) or across > MOST_TILES or any(repeats(t) for t in given[:3]):
        return None
    found = kernels(driver, query.dtype.code, width, values)
    if found is None:
        return None
    maps = [*box_of(driver, query, QUERIES), *box_of(driver, key, tile), *box_of(driver, value, tile)]
    apart = (mask.shape[1] if mask.shape[0] > 1 else 0, 1 if mask.shape[1] > 1 else 0)
    is_aligned = keys % 4 == 0 and mask.data_ptr() % 4 == 0
    numbers = [*maps, bits(scale), heads, heads // key.shape[1], queries, across, down, *apart, value.shape[3],
               *out.stride()[:3]]
    slots = [
        ("arg", out.dtype, (), None, 4, 0),
        ("temp", _C.int32, (planes * queries * across * tile // 32,), None, -1, 0),
        ("temp", _C.int32, (planes * down * across,), None, -1, 0),
    ]
    steps = [
        (found[0], [3, 7, 8], [queries, keys, across, down, int(is_aligned)], planes * down * across, 1, -1),
        (found[1], [0, 1, 2, 7, 8, 4, 5], numbers, batch * heads * down, 1, -1),
    ]
    return _C.Plan(6, query.device, slots, steps)


def repeats(t: Tensor) -> bool:
    """Whether elements stand for several, which the copy engine does not know."""
    return any(step == 0 and size > 1 for step, size in zip(t.stride(), t.shape, strict=True))


def box_of(driver: Driver, t: Tensor, rows: int) -> list[int]:
    """The tensor map of [batch, heads, length, width], read by `rows` rows of 64 elements."""
    batch, heads, length, width = t.shape
    further = zip(t.stride()[2::-1], (length, heads, batch), strict=True)
    lines = [2 * (step if size > 1 else width) for step, size in further]
    sizes = (width, length, heads, batch)
    return warpgroups.described(driver, t.data_ptr(), t.dtype.code, sizes, lines, (64, rows, 1, 1))
