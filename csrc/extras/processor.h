// What this x86-64 processor can do, asked of it directly. The compilers' own question, __builtin_cpu_supports, needs a
// table of theirs, which not every one of them links (Zig's, which builds the wheels, does not).
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>

namespace rl {

// Carry-less multiplication, and SSE 4.1 to use it with.
inline bool has_carryless_multiply() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_PCLMUL) && (c & bit_SSE4_1);
}

// Whether the system keeps these registers of a thread: bits 1 and 2 for AVX's, 5 to 7 for those of AVX-512 too.
inline bool keeps_registers(uint32_t which) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) return false;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & which) == which;
}

inline bool has_avx2_and_fma() {
  unsigned a, b, c, d;
  if (!keeps_registers(0x6) || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

inline bool has_avx512f() {
  unsigned a, b, c, d;
  return keeps_registers(0xe6) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX512F);
}

}  // namespace rl
#endif
