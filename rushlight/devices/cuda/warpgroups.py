"""What kernels for tensor cores of compute capability 9.0 are made of: texts in CUDA C, and descriptions of tensors
that the unit's copy engine reads by (tensor maps).

Enters: how tiles lie. Leaves: functions of a kernel's text (barriers, copies of boxes into shared memory, products of
tiles by four warps), `described` for a launch's tensor maps, `load` for the kernel. Tiles lie in lines of 128 bytes,
whose pieces of 16 the engine exchanges (swizzle); eight lines are 1024 bytes. Refuses: units before 9.0 (`serves`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from ... import _C
from ...base.show import is_shown, show
from . import sources
from .driver import Driver

LINE = 128                    # bytes of a line of a tile
WORDS = 16                    # numbers of 64 bits that a tensor map is
ELEMENTS = {"bf16": (9, 2), "f16": (6, 2), "f8e4m3fn": (0, 1), "f8e5m2": (0, 1)}   # the driver's types, and bytes
SWIZZLE, PROMOTION = 3, 3     # lines of 128 bytes; what is missing in the cache is read by 256
MOST_SHARED = 8               # the attribute of a function: how much shared memory a launch may ask for
ARCHITECTURE = "sm_90a"       # these instructions are no other generation's

PRELUDE = r"""
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned U;
typedef unsigned short H;
struct alignas(64) Map { u64 words[16]; };
static __device__ __forceinline__ U spot(const void* p) { return (U)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void set_up(U barrier, U count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count));
}
static __device__ __forceinline__ void expect(U barrier, U bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void arrive(U barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
static __device__ __forceinline__ void arrive_at(U barrier, U block) {
  asm volatile("{\n .reg .b32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" :: "r"(barrier), "r"(block)
               : "memory");
}
static __device__ __forceinline__ void wait(U barrier, U phase) {
  asm volatile("{\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               " @!done bra again;\n}" :: "r"(barrier), "r"(phase) : "memory");
}
static __device__ __forceinline__ void copy3(U to, const Map* map, U barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5}], [%2];"
               :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}
static __device__ __forceinline__ void copy3_to_both(U to, const Map* map, U barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%3, %4, %5}], [%2], %6;"
               :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"((H)3) : "memory");
}
static __device__ __forceinline__ void copy4(U to, const Map* map, U barrier, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5, %6}], [%2];"
               :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
// A tile by its address: lines of 128 bytes, eight of them `step` bytes after the eight before, columns `lead`.
static __device__ __forceinline__ u64 tile_at(U address, U lead, U step) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)(lead >> 4) << 16 | (u64)(step >> 4) << 32 | 1ull << 62;
}
static __device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
}
template <int N> static __device__ __forceinline__ void hold(float (&d)[N]) {      // they are not moved across this
  #pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}
// Four numbers each of four neighbouring threads, exchanged: number k becomes that of the k-th thread.
static __device__ __forceinline__ void exchange(U* p, int lane) {
  bool odd = lane & 1, upper = lane & 2;
  #pragma unroll
  for (int i = 0; i < 4; i += 2) {
    U got = __shfl_xor_sync(~0u, odd ? p[i] : p[i + 1], 1);
    if (odd) p[i] = got; else p[i + 1] = got;
  }
  #pragma unroll
  for (int i = 0; i < 2; i++) {
    U got = __shfl_xor_sync(~0u, upper ? p[i] : p[i + 2], 2);
    if (upper) p[i] = got; else p[i + 2] = got;
  }
}
"""
NARROW = r"""
static __device__ __forceinline__ U both(float low, float high) {
  U r;
  asm("cvt.rn.%(type)sx2.f32 %%0, %%1, %%2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
"""


def product(
    name: str, columns: int, left: str, right: str, turned: tuple[bool, bool], in_registers: bool = False
) -> str:
    """A function `name(d, a, b, keep)` that adds the product of a tile of 64 rows (in shared memory, or four registers
    of each thread) and one of so many columns; without `keep` it is set. `turned`: lines of a tile go along its rows or
    columns, not along the inner dimension."""
    names = {"f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}
    count, is_half = columns // 2, left in ("bf16", "f16")
    deep = 16 if is_half else 32
    sums = ", ".join(f"%{i}" for i in range(count))
    if in_registers:
        first, given = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}", 4
        taken = [f'"r"(a[{i}])' for i in range(4)]
    else:
        first, given, taken = f"%{count}", 1, ['"l"(a)']
    ways = f", {int(turned[0])}, {int(turned[1])}" if is_half and not in_registers else f", {int(turned[1])}" * is_half
    text = (
        f"{{\\n .reg .pred keeps;\\n setp.ne.b32 keeps, %{count + given + 1}, 0;\\n"
        f" wgmma.mma_async.sync.aligned.m64n{columns}k{deep}.f32.{names.get(left, left)}.{names.get(right, right)}"
        f" {{{sums}}}, {first}, %{count + given}, keeps, 1, 1{ways};\\n}}"
    )
    kept = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    kind = "const U* a" if in_registers else "u64 a"
    return (
        f"static __device__ __forceinline__ void {name}(float* d, {kind}, u64 b, int keep) {{\n"
        f'  asm volatile("{text}"\n    : {kept}\n    : {", ".join(taken)}, "l"(b), "r"(keep));\n}}\n'
    )


def narrow(code: str) -> str:
    """`both(low, high)`: two numbers of a half type in 32 bits."""
    return NARROW % {"type": code}


def serves(driver: Driver, unit: int) -> bool:
    """Whether the unit has these instructions, and something compiles them."""
    return driver.architecture(unit) == "sm_90" and sources.find() is not None


def described(
    driver: Driver, address: int, code: str, sizes: Sequence[int], lines: Sequence[int], box: Sequence[int]
) -> list[int]:
    """A tensor map as numbers: `sizes` from the innermost dim, `lines` the bytes between neighbours of the other dims,
    `box` what one copy takes. Its address is set anew at every launch."""
    kind, _ = ELEMENTS[code]
    room = (ctypes.c_uint64 * (2 * WORDS))()
    at = -(-ctypes.addressof(room) // 64) * 64
    rank = len(sizes)
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(at), ctypes.c_int(kind), ctypes.c_uint32(rank), ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * rank)(*lines, 0), (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank), ctypes.c_int(0), ctypes.c_int(SWIZZLE), ctypes.c_int(PROMOTION),
        ctypes.c_int(0),
    )
    return list((ctypes.c_int64 * WORDS).from_address(at))


class WarpgroupKernel(sources.SourceKernel):
    """A kernel of the generation's own instructions, with more shared memory than others have."""

    def __init__(self, name: str, source: str, driver: Driver, shared: int) -> None:
        super().__init__(name, source, driver)
        self.shared = shared

    def variant(self, unit: int, key: int) -> tuple[int, int, int]:
        function = self.driver.function(self.cubin(unit), self.name, unit)
        self.driver.call("cuFuncSetAttribute", ctypes.c_void_p(function), MOST_SHARED, self.shared)
        return function, 1, 1

    def cubin(self, unit: int) -> bytes:
        compiler = sources.find()
        assert compiler is not None, "`load` gives no kernel where there is no compiler"
        return sources.stored_cubin(self.source, compiler, ARCHITECTURE, self.driver)


@functools.cache
def load(driver: Driver, name: str, source: str, operands: int, threads: int, maps: int, shared: int) -> int | None:
    """The core's kernel of a text that defines `name(operands, maps, parameters, begin, end)`, whose first operands the
    maps are of; a launch's parameters begin with the numbers of the maps. None where it cannot be compiled."""
    kernel = WarpgroupKernel(name, source, driver, shared)
    try:
        kernel.cubin(_C.current_unit("cuda"))
    except RuntimeError as error:
        if is_shown("fallback"):
            show("fallback", name, str(error))
        return None
    return _C.cuda_kernel(kernel, sources.BLOCKS, 1, [0] * operands, -1, (), threads, False, 0, 0, maps, shared)
