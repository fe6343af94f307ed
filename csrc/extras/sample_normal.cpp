// The two ways PyTorch turns uniforms into blocks of float normals. See sample_normal.h.
//
// Note on rounding. Every fused multiply-add is written out, and the compiler is told to fuse nothing else
// (CMakeLists.txt). Which products of the polynomials are fused was settled by comparing bits with PyTorch.
#include "sample_normal.h"

#include <numbers>

#include "processor.h"
#include "sample.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rl::random {

namespace {

void blocks_by_library(const uint32_t* words, float* out, int64_t count, float mean, float std) {
  for (int64_t i = 0; i < count; i += 16) {
    for (int64_t j = i; j < i + 8; ++j) {
      const float radius = std::sqrt(-2.0f * std::log(1.0f - unit_float(words[j])));
      const float theta = static_cast<float>(2.0 * std::numbers::pi * unit_float(words[j + 8]));
      out[j] = std::fma(radius * std::cos(theta), std, mean);
      out[j + 8] = std::fma(radius * std::sin(theta), std, mean);
    }
  }
}

#if defined(__x86_64__)

#define RL_LANES [[gnu::target("avx2,fma")]]
#define RL_LANES_INLINE [[gnu::target("avx2,fma"), gnu::always_inline]] inline

using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));

RL_LANES_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
RL_LANES_INLINE Floats all(float value) { return _mm256_set1_ps(value); }
RL_LANES_INLINE Floats fused(Floats a, Floats b, float c) { return fused(a, b, all(c)); }
// Casts between vectors keep the bits.
RL_LANES_INLINE Ints bits_of(Floats x) { return (Ints)x; }
RL_LANES_INLINE Floats from_bits(Ints x) { return (Floats)x; }
RL_LANES_INLINE Floats to_floats(Ints x) { return _mm256_cvtepi32_ps((__m256i)x); }
RL_LANES_INLINE Floats units(const uint32_t* words) {
  const Ints low = (Ints)_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)) & 0xffffff;
  return to_floats(low) * 0x1p-24f;
}

// Cephes logf for a normal x > 0: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), then log(m) by a polynomial of
// degree nine in m - 1, then e * log(2) in two parts of which the larger is exact in few bits.
RL_LANES_INLINE Floats cephes_log(Floats x) {
  const Floats half = from_bits((bits_of(x) & 0x007fffff) | 0x3f000000);
  const Ints low = half < 0.707106781186547524f;  // -1 where it holds
  const Floats e = to_floats((bits_of(x) >> 23) - 126 + low);
  const Floats m = (half - 1.0f) + from_bits(bits_of(half) & low);
  const Floats square = m * m;
  Floats y = fused(all(7.0376836292e-2f), m, -1.1514610310e-1f);
  y = fused(y, m, 1.1676998740e-1f);
  y = fused(y, m, -1.2420140846e-1f);
  y = fused(y, m, 1.4249322787e-1f);
  y = fused(y, m, -1.6668057665e-1f);
  y = fused(y, m, 2.0000714765e-1f);
  y = fused(y, m, -2.4999993993e-1f);
  y = fused(y, m, 3.3333331174e-1f);
  y = fused(y * m, square, e * -2.12194440e-4f);
  y = fused(square, all(-0.5f), y);
  return fused(e, all(0.693359375f), m + y);
}

struct SineCosine {
  Floats sine, cosine;
};

// Cephes sinf and cosf for x in [0, 2 pi]: the nearest even octant is taken off in three parts, and the octant tells
// which of two polynomials is the sine, which the cosine, and their signs.
RL_LANES_INLINE SineCosine cephes_sine_cosine(Floats x) {
  const Ints octant = ((Ints)_mm256_cvttps_epi32(x * 1.27323954473516f) + 1) & ~1;
  const Floats y = to_floats(octant);
  x = fused(y, all(-0.78515625f), x);
  x = fused(y, all(-2.4187564849853515625e-4f), x);
  x = fused(y, all(-3.77489497744594108e-8f), x);
  const Floats z = x * x;
  Floats even = fused(all(2.443315711809948e-5f), z, -1.388731625493765e-3f);
  even = fused(even, z, 4.166664568298827e-2f);
  even = fused(even * z, z, z * -0.5f) + 1.0f;
  Floats odd = fused(all(-1.9515295891e-4f), z, 8.3321608736e-3f);
  odd = fused(odd, z, -1.6666654611e-1f);
  odd = fused(odd * z, x, x);
  const Ints swapped = (octant & 2) != 0;
  const Ints sine = (bits_of(even) & swapped) | (bits_of(odd) & ~swapped);
  const Ints cosine = (bits_of(odd) & swapped) | (bits_of(even) & ~swapped);
  return {from_bits(sine ^ ((octant & 4) << 29)), from_bits(cosine ^ (((octant + 2) & 4) << 29))};
}

RL_LANES void blocks_by_lanes(const uint32_t* words, float* out, int64_t count, float mean, float std) {
  for (int64_t i = 0; i < count; i += 16) {
    const Floats radius = _mm256_sqrt_ps(cephes_log(1.0f - units(words + i)) * -2.0f);
    const SineCosine at = cephes_sine_cosine(units(words + i + 8) * 6.283185307179586f);
    _mm256_storeu_ps(out + i, fused(radius * at.cosine, all(std), mean));
    _mm256_storeu_ps(out + i + 8, fused(radius * at.sine, all(std), mean));
  }
}

#endif

}  // namespace

NormalBlocks normal_blocks_here() {
#if defined(__x86_64__)
  static const bool has_lanes = rl::has_avx2_and_fma();
  if (has_lanes) return {blocks_by_lanes, 1 << 15};
#endif
  return {blocks_by_library, kHeavyGrain};
}

}  // namespace rl::random
