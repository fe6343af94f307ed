"""Products of many groups, and of float8 matrices with scales by rows, as one kernel for tensor cores of capability
9.0.

Enters: matrices of a half type (left by rows, right by rows or columns) or of float8 (left by rows, right by columns),
and where groups of rows end (left [rows, k], right [groups, k, n]), which the kernel reads: the host waits for nothing.
Leaves: the result, filled on the current stream; rows past the last group are zero. A block has 128 rows by 256 or 128
columns; one warp has tiles of both matrices copied into shared memory, several ahead, eight warps multiply; blocks go
on to the next tile. Answers False for what it does not read; callers compute otherwise then.

Groups of columns or of the inner size, and left matrices by columns, were tried: boxes of the copy engine then begin
anywhere within a line, which ended in illegal instructions on an H200.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ..rehearsal import rehearsal
from . import warpgroups
from .driver import Driver
from .sources import ARGUMENTS, WAIT
from .warpgroups import ELEMENTS, LINE

ROWS, THREADS, HALF_ROWS = 128, 384, 64
BY_ROWS, ONE = 0, 1
OUTS = {"bf16": 2, "f16": 2, "f32": 4}
SHARED = 224 << 10            # bytes of a block
MOST_PLANS = 512

KERNEL = r"""
#define A_BYTES (128 * 128)
#define B_BYTES (COLS * 128)
#define STAGE (A_BYTES + B_BYTES)
#define DEEP (128 / SIZE)
#define BAND 16
struct Tile { int group, rows_from, rows_to, cols_from, to; };
// The tiles of all groups in turn; within one, bands of sixteen tiles of rows go along the columns.
struct Walk {
  i64 next, before, tiles;
  int group, groups, m, n, k, start, end, across, down;
  const int* offs;
  __device__ void enter(int which) {
    group = which;
    start = 0;
    end = m;
    if (FORM == BY_ROWS) {
      start = which ? min(max(offs[which - 1], 0), m) : 0;
      end = which < groups ? min(max(offs[which], start), m) : m;
    }
    down = (end - start + 127) / 128;
    across = (n + COLS * CLUSTER - 1) / (COLS * CLUSTER);
    tiles = (i64)down * across;
  }
  __device__ bool find(i64 index, int rank, Tile& t) {
    int last = FORM == BY_ROWS ? groups : 0;
    while (index >= before + tiles) {
      before += tiles;
      if (group >= last) return false;
      enter(group + 1);
    }
    int local = (int)(index - before), band = local / (BAND * across), rest = local - band * BAND * across;
    int high = min(BAND, down - band * BAND), row = band * BAND + rest % high, col = rest / high * CLUSTER + rank;
    bool is_rest = FORM == BY_ROWS && group == groups;
    t.group = is_rest ? 0 : group;
    t.rows_from = start + row * 128;
    t.rows_to = end;
    t.cols_from = col * COLS;
    t.to = is_rest ? 0 : k;
    return true;
  }
};
static __device__ __forceinline__ void store(OUT* to, float value) {
#if OUT_SIZE == 4
  *to = value;
#else
  *to = (H)both(value, 0.0f);
#endif
}
// Two neighbours of a row, each thread; with whole pieces of 16 bytes, those of four threads exchanged.
static __device__ __forceinline__ void write_row(
    OUT* row, const float* d, int part, int first, int end, int lane, bool is_whole) {
  int own = lane % 4;
#if OUT_SIZE == 2
  if (is_whole) {
    #pragma unroll
    for (int j = 0; j < COLS / 8; j += 4) {
      U p[4];
      #pragma unroll
      for (int i = 0; i < 4; i++) p[i] = both(d[4 * (j + i) + part], d[4 * (j + i) + part + 1]);
      exchange(p, lane);
      int col = first + (j + own) * 8;
      if (col < end && row) *(uint4*)(row + col) = make_uint4(p[0], p[1], p[2], p[3]);
    }
    return;
  }
#else
  if (is_whole) {
    #pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
      int col = first + j * 8 + own * 2;
      if (col < end && row) *(float2*)(row + col) = make_float2(d[4 * j + part], d[4 * j + part + 1]);
    }
    return;
  }
#endif
  #pragma unroll
  for (int j = 0; j < COLS / 8; j++) {
    int col = first + j * 8 + own * 2;
    if (row && col < end) store(row + col, d[4 * j + part]);
    if (row && col + 1 < end) store(row + col + 1, d[4 * j + part + 1]);
  }
}
extern "C" __global__ void __launch_bounds__(384, 1) CLUSTERED tile_product(
    const void* left, const void* right, OUT* out, const int* offs, const float* scale_a, const float* scale_b,
    const OUT* bias,
    const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, i64 m, i64 n, i64 k, i64 groups, i64 line,
    i64 is_aligned, ARGUMENTS) {
  WAITING
  extern __shared__ char raw[];
  __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
  char* base = raw + (1024 - spot(raw) % 1024) % 1024;
  U rank = 0;
  if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      set_up(spot(&full[s]), 1);
      set_up(spot(&empty[s]), 2 * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
  Walk walk;
  walk.before = 0;
  walk.groups = (int)groups, walk.m = (int)m, walk.n = (int)n, walk.k = (int)k, walk.offs = offs;
  walk.enter(0);
  i64 step = gridDim.x / CLUSTER;
  int s = 0, phase = 0;
  Tile t;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (i64 at = blockIdx.x / CLUSTER; walk.find(at, rank, t); at += step) {
        for (int deep = 0; deep < t.to; deep += DEEP) {
          U barrier = spot(&full[s]), to = spot(base + s * STAGE);
          wait(spot(&empty[s]), phase ^ 1);
          expect(barrier, STAGE);
          int plane = FORM == BY_ROWS ? t.group : 0;
          #pragma unroll
          for (int h = 0; h < 2; h++) {
            int row = t.rows_from + h * 64;
            if (CLUSTER > 1 && h == rank) copy3_to_both(to + h * 8192, &map_a, barrier, deep, row, 0);
            if (CLUSTER == 1) copy3(to + h * 8192, &map_a, barrier, deep, row, 0);
          }
          if (B_TURNED) {
            #pragma unroll
            for (int c = 0; c < COLS / 64; c++)
              copy3(to + A_BYTES + c * 8192, &map_b, barrier, t.cols_from + c * 64, deep, plane);
          } else {
            copy3(to + A_BYTES, &map_b, barrier, deep, t.cols_from, plane);
          }
          if (++s == STAGES) s = 0, phase ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int own = threadIdx.x % 128, lane = own % 32, which = threadIdx.x / 128 - 1;
    float d[COLS / 2];
#if PROMOTES
    float whole[COLS / 2];
#endif
    for (i64 at = blockIdx.x / CLUSTER; walk.find(at, rank, t); at += step) {
      int before = -1;
#if PROMOTES
      #pragma unroll
      for (int i = 0; i < COLS / 2; i++) whole[i] = 0.0f;
#endif
      if (t.to == 0) {
        #pragma unroll
        for (int i = 0; i < COLS / 2; i++) d[i] = 0.0f;
      }
      for (int deep = 0; deep < t.to; deep += DEEP) {
        wait(spot(&full[s]), phase);
        U a = spot(base + s * STAGE) + which * 8192, b = spot(base + s * STAGE) + A_BYTES;
        hold(d);
        begin_products();
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          u64 x = tile_at(a + i * 32, 16, 1024);
          u64 y = B_TURNED ? tile_at(b + i * 2048, 8192, 1024) : tile_at(b + i * 32, 16, 1024);
          multiply(d, x, y, PROMOTES ? i > 0 : deep > 0 || i > 0);
        }
        end_products();
        int ended = before;
        if (PROMOTES) {
          await_products<0>();
          ended = s;
        } else {
          await_products<1>();
        }
        hold(d);
        if (ended >= 0) {
          if (CLUSTER == 1 && own == 0) arrive(spot(&empty[ended]));
          if (CLUSTER > 1 && own < CLUSTER) arrive_at(spot(&empty[ended]), own);
        }
        before = s;
#if PROMOTES
        #pragma unroll
        for (int i = 0; i < COLS / 2; i++) whole[i] += d[i];
#endif
        if (++s == STAGES) s = 0, phase ^= 1;
      }
#if PROMOTES
      #pragma unroll
      for (int i = 0; i < COLS / 2; i++) d[i] = whole[i];
#else
      await_products<0>();
      hold(d);
      if (before >= 0) {
        if (CLUSTER == 1 && own == 0) arrive(spot(&empty[before]));
        if (CLUSTER > 1 && own < CLUSTER) arrive_at(spot(&empty[before]), own);
      }
#endif
      int row = t.rows_from + which * 64 + own / 32 * 16 + lane / 4;
#if SCALED
      float of_row[2] = {row < t.rows_to ? scale_a[row] : 0.0f, row + 8 < t.rows_to ? scale_a[row + 8] : 0.0f};
      #pragma unroll
      for (int j = 0; j < COLS / 8; j++) {
        #pragma unroll
        for (int e = 0; e < 2; e++) {
          int col = t.cols_from + j * 8 + lane % 4 * 2 + e;
          float of_col = col < n ? scale_b[col] : 0.0f, more = 0.0f;
          if (HAS_BIAS && col < n) more = wide(bias[col]);
          d[4 * j + e] = d[4 * j + e] * of_row[0] * of_col + more;
          d[4 * j + 2 + e] = d[4 * j + 2 + e] * of_row[1] * of_col + more;
        }
      }
#endif
      bool is_whole = is_aligned && n % 8 == 0;
      #pragma unroll
      for (int r = 0; r < 2; r++)
        write_row(row + r * 8 < t.rows_to ? out + (i64)(row + r * 8) * line : nullptr, d, 2 * r, t.cols_from, (int)n,
                  lane, is_whole);
    }
  }
  if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}
"""
WIDE = {
    "bf16": "return __int_as_float((int)x << 16);", "f32": "return x;",
    "f16": 'float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r;',
}


class Form(tuple):
    """What a kernel's text depends on: (groups' form, left code, right code, result's, right turned, columns, blocks of
    a cluster, whether scaled, biased, promoted)."""

    __slots__ = ()


@functools.cache
def source(form: Form) -> str:
    """The text of a kernel."""
    groups, left, right, result, right_turned, cols, cluster, scaled, biased, promotes = form
    size = ELEMENTS[left][1]
    defined: dict[str, object] = {
        "BY_ROWS": BY_ROWS, "ONE": ONE, "FORM": groups, "SIZE": size,
        "COLS": cols, "CLUSTER": cluster, "STAGES": stages(cols), "B_TURNED": int(right_turned),
        "SCALED": int(scaled), "HAS_BIAS": int(biased), "PROMOTES": int(promotes),
        "OUT_SIZE": OUTS[result], "OUT": "float" if result == "f32" else "H", "ARGUMENTS": ARGUMENTS,
        "CLUSTERED": f"__cluster_dims__({cluster}, 1, 1)" if cluster > 1 else "",
    }
    lines = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    widen = f"static __device__ __forceinline__ float wide(OUT x) {{ {WIDE[result]} }}\n"
    multiply = warpgroups.product("multiply", cols, left, right, (False, right_turned))
    half = "bf16" if result == "f32" else result
    return warpgroups.PRELUDE + lines + warpgroups.narrow(half) + widen + multiply + KERNEL.replace("WAITING", WAIT)


def stages(cols: int) -> int:
    """How many tiles are under way."""
    return 4 if cols == 256 else 6


def shared_bytes(cols: int) -> int:
    return stages(cols) * (ROWS + cols) * LINE + 1024


def kernel(driver: Driver, form: Form) -> Any:
    """The kernel as steps name it; None where it cannot be compiled."""
    cols = form[5]
    found = warpgroups.load(driver, "tile_product", source(form), 7, THREADS, 2, shared_bytes(cols))
    return None if found is None else ("handle", _C.kernel_handle(found))


def lies(t: Tensor, inner: int) -> tuple[bool, list[int]] | None:
    """How a matrix, or a stack, lies for the copy engine: whether its lines go along the dim that is not `inner`, and
    the strides [between lines, between matrices] in elements; None where it cannot be read."""
    size, other = t.itemsize, (t.ndim - 1) + (t.ndim - 2) - inner
    across = next((dim for dim in (inner, other) if t.stride(dim) == 1), None)
    if across is None:
        return None
    down = inner + other - across
    line = t.stride(down) if t.shape[down] > 1 else t.shape[across] + (-t.shape[across]) % 16
    apart = t.stride(0) if t.ndim == 3 and t.shape[0] > 1 else line
    is_read = all(step > 0 and step * size % 16 == 0 for step in (line, apart)) and line >= t.shape[across]
    return (across != inner, [line, apart]) if is_read and t.data_ptr() % 16 == 0 else None


def described(driver: Driver, t: Tensor, inner: int, lines: list[int], turned: bool, rows: int) -> list[int]:
    """The tensor map of a matrix: copies of `rows` lines along `inner`, or of 64 where it lies otherwise."""
    code, size = t.dtype.code, t.itemsize
    other = (t.ndim - 1) + (t.ndim - 2) - inner
    first, second = (other, inner) if turned else (inner, other)
    box = (LINE // size, HALF_ROWS if turned else rows, 1)
    sizes = (t.shape[first], t.shape[second], t.shape[0] if t.ndim == 3 else 1)
    return warpgroups.described(driver, t.data_ptr(), code, sizes, [step * size for step in lines], box)


_plans: dict[tuple, Any] = {}


def layout(t: Tensor | None) -> tuple | None:
    return None if t is None else (t.dtype.code, tuple(t.shape), tuple(t.stride()), t.data_ptr() % 16)


def run(driver: Driver, groups: int, out: Tensor, a: Tensor, b: Tensor, *rest: Tensor | None, promotes: bool) -> bool:
    """Fill `out` by the plan of this geometry; `rest`: offsets, two scales, a bias."""
    unit = a.device.index or 0
    known = (unit, groups, promotes, *[layout(t) for t in (out, a, b, *rest)])
    if known not in _plans:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[known] = planned(driver, unit, groups, out, a, b, *rest, promotes=promotes)
    plan = _plans[known]
    if plan is not None and not rehearsal.running:
        plan(a, b, out, *[out if t is None else t for t in rest])
    return plan is not None


def planned(
    driver: Driver, unit: int, groups: int, out: Tensor, a: Tensor, b: Tensor, offs: Any, scale_a: Any, scale_b: Any,
    bias: Any, *, promotes: bool,
) -> Any:
    """The plan of a geometry; None where the kernel does not serve."""
    left, right = lies(a, a.ndim - 1), lies(b, b.ndim - 2)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    count = 1 if offs is None else offs.shape[0]
    if left is None or right is None or out.stride(-1) != 1 or not warpgroups.serves(driver, unit):
        return None
    if 0 in (m, n, k, count) or max(m, n, k) >= 1 << 31 or left[0] or (a.itemsize == 1 and right[0]):
        return None
    units = driver.attribute(unit, "multi_processor_count")
    cols, cluster = shape_of(groups, m, n, count, units, promotes)
    form = Form((groups, a.dtype.code, b.dtype.code, out.dtype.code, right[0], cols, cluster,
                 scale_a is not None, bias is not None, promotes))
    found = kernel(driver, form)
    if found is None:
        return None
    maps = [*described(driver, a, a.ndim - 1, left[1], left[0], HALF_ROWS),
            *described(driver, b, b.ndim - 2, right[1], right[0], cols)]
    line = out.stride(-2)
    is_aligned = line % 8 == 0 and out.data_ptr() % 16 == 0
    given = [*maps, m, n, k, count, line, int(is_aligned)]
    blocks = min(units // cluster * cluster, most_tiles(groups, m, n, count, cols * cluster) * cluster)
    slots = [("arg", out.dtype, (), None, 2, 0)]
    return _C.Plan(7, a.device, slots, [(found, list(range(7)), given, blocks, 1, -1)])


def most_tiles(groups: int, m: int, n: int, count: int, cols: int) -> int:
    """Tiles there may be, wherever groups end."""
    return (-(-m // ROWS) + (count if groups == BY_ROWS else 0)) * -(-n // cols)


def shape_of(groups: int, m: int, n: int, count: int, units: int, promotes: bool) -> tuple[int, int]:
    """Columns of a tile, and blocks that share its rows. Wide tiles read least; narrow ones keep all units busy, or
    leave registers for sums of sums."""
    wide = not promotes and n > 128 and most_tiles(groups, m, n, count, 256) >= units // 2
    cols = 256 if wide else 128
    return cols, 2 if n >= 2 * cols else 1


def grouped_product(driver: Driver, out: Tensor, a: Tensor, b: Tensor, offs: Tensor) -> bool:
    """Fill `out` with the products of groups of rows; False where others must."""
    if a.ndim != 2 or b.ndim != 3:
        return False
    if a.dtype is not b.dtype or a.dtype.code not in ("bf16", "f16") or out.dtype.code not in OUTS:
        return False
    if offs.dtype is not _C.int32 or offs.ndim != 1 or not offs.is_contiguous():
        return False
    return run(driver, BY_ROWS, out, a, b, offs, None, None, None, promotes=False)


def scaled_by_rows(
    driver: Driver, out: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, fast: bool
) -> bool:
    """Fill `out` with (a * scale_a) @ (b * scale_b) + bias of float8 matrices, scales by rows and columns. Unless
    `fast`, sums of 128 products each are added in single precision, which tensor cores do not keep."""
    if out.dtype.code not in OUTS or (bias is not None and bias.dtype is not out.dtype):
        return False
    given: Sequence[Tensor] = [t.contiguous() for t in (scale_a, scale_b)]
    added = None if bias is None else bias.contiguous()
    return run(driver, ONE, out, a, b, None, *given, added, promotes=not fast)
