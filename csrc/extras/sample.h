// What the sampler files share: half types, visiting a region row by row, and turning words into uniforms.
// Internal to csrc/sample*.cpp; random.h is the interface.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "pool.h"
#include "random.h"

namespace rl::random {

struct Half {
  uint16_t bits;
  Half() = default;
#if defined(__aarch64__)
  explicit Half(float value) : bits(std::bit_cast<uint16_t>(static_cast<__fp16>(value))) {}
  // PyTorch rounds once here on AArch64, where the instruction exists, and twice (through float) elsewhere.
  explicit Half(double value) : bits(std::bit_cast<uint16_t>(static_cast<__fp16>(value))) {}
  explicit operator float() const { return static_cast<float>(std::bit_cast<__fp16>(bits)); }
#else
  explicit Half(float value);
  explicit Half(double value) : Half(static_cast<float>(value)) {}
  explicit operator float() const;
#endif
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t raw = std::bit_cast<uint32_t>(value);
    bits = value != value ? 0x7fc0 : static_cast<uint16_t>((raw + 0x7fff + ((raw >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// The type a dtype's arithmetic is done in.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

// Bits of an exact integer a floating type holds.
template <class T>
constexpr int digits = std::is_same_v<T, Half> ? 11 : std::is_same_v<T, BFloat16> ? 8 : std::numeric_limits<T>::digits;

template <class T, class V>
inline T convert(V value) {
  if constexpr (std::is_same_v<T, V>) return value;
  else if constexpr (std::is_same_v<T, Half> && std::is_same_v<V, double>) return Half(value);
  else if constexpr (is_half<T>) return T(static_cast<float>(value));
  else if constexpr (is_half<V>) return static_cast<T>(static_cast<float>(value));
  else return static_cast<T>(value);
}

template <class T>
struct Type {
  using type = T;
};

// Calls `body(Type<T>{})` for the region's dtype; an error for dtypes outside the group.
template <class F>
Error for_float(Kind kind, F body) {
  switch (kind) {
    case Kind::f32: return body(Type<float>{});
    case Kind::f64: return body(Type<double>{});
    case Kind::f16: return body(Type<Half>{});
    case Kind::bf16: return body(Type<BFloat16>{});
    default: return "sampler: expected a floating point dtype";
  }
}

template <class F>
Error for_any(Kind kind, F body) {
  switch (kind) {
    case Kind::u8: return body(Type<uint8_t>{});
    case Kind::u16: return body(Type<uint16_t>{});
    case Kind::u32: return body(Type<uint32_t>{});
    case Kind::u64: return body(Type<uint64_t>{});
    case Kind::i8: return body(Type<int8_t>{});
    case Kind::i16: return body(Type<int16_t>{});
    case Kind::i32: return body(Type<int32_t>{});
    case Kind::i64: return body(Type<int64_t>{});
    case Kind::b1: return body(Type<bool>{});
    default: return for_float(kind, body);
  }
}

// Visits the region in draw order: row(pointers, n) once per innermost row. Normalises the region first.
template <class F>
void walk(Region& region, F row) {
  if (region.numel() == 0) return;
  region.normalise();
  const size_t ndim = region.sizes.size(), count = region.operands.size();
  std::vector<int64_t> at(ndim, 0);
  std::vector<char*> pointers(count);
  for (size_t k = 0; k < count; ++k) pointers[k] = region.operands[k].data;
  for (;;) {
    row(pointers.data(), region.sizes[0]);
    size_t d = 1;
    for (; d < ndim; ++d) {
      for (size_t k = 0; k < count; ++k) pointers[k] += region.operands[k].strides[d];
      if (++at[d] < region.sizes[d]) break;
      for (size_t k = 0; k < count; ++k) pointers[k] -= region.operands[k].strides[d] * at[d];
      at[d] = 0;
    }
    if (d >= ndim) return;
  }
}

// Fills with `draw()` per element, for samplers that use a varying number of words.
template <class T, class F>
void fill_serial(Region& region, F draw) {
  walk(region, [&](char** pointers, int64_t n) {
    const int64_t stride = region.operands[0].strides[0];
    char* p = pointers[0];
    for (int64_t i = 0; i < n; ++i, p += stride) *reinterpret_cast<T*>(p) = draw();
  });
}

constexpr int64_t kHeavyGrain = 4096;

// Calls body(begin, end) over [0, n) on the thread pool, cut by `grain` alone.
template <class F>
void in_parallel(int64_t n, int64_t grain, F body) {
  parallel_for(
      n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<F*>(context))(begin, end); }, &body);
}

// Whether a sampler's arithmetic outweighs the drawing: then drawing alternates with a parallel transform.
enum class Cost { Cheap, Heavy };

// Fills with `make(words)` where every element uses exactly W words: whole blocks at a time.
template <class T, int W, Cost cost = Cost::Cheap, class F>
void fill_blocks(Generator& generator, Region& region, F make) {
  walk(region, [&](char** pointers, int64_t n) {
    constexpr int64_t kShared = 1 << 16;
    const int64_t stride = region.operands[0].strides[0];
    char* p = pointers[0];
    const uint32_t* words = nullptr;
    const auto transform = [&](int64_t begin, int64_t end) {
      if (stride == sizeof(T)) {
        T* out = reinterpret_cast<T*>(p);
        for (int64_t i = begin; i < end; ++i) out[i] = make(words + i * W);
      } else {
        for (int64_t i = begin; i < end; ++i) *reinterpret_cast<T*>(p + i * stride) = make(words + i * W);
      }
    };
    int64_t done = 0;
    if (cost == Cost::Heavy && n >= 2 * kHeavyGrain) {
      std::vector<uint32_t> shared(static_cast<size_t>(std::min(n, kShared)) * W);
      words = shared.data();
      for (; done < n; done += kShared, p += kShared * stride) {
        const int64_t m = std::min(n - done, kShared);
        generator.engine.take(shared.data(), static_cast<size_t>(m * W));
        in_parallel(m, kHeavyGrain, transform);
      }
    }
    while (done < n) {
      uint32_t pair[W];
      int64_t ready;
      words = generator.engine.ready(&ready);
      const int64_t m = std::min(n - done, std::max<int64_t>(ready / W, 1));
      if (ready < W) generator.engine.take(pair, W), words = pair;   // one that reaches into the next block
      else generator.engine.skip(m * W);
      transform(0, m);
      done += m, p += m * stride;
    }
  });
}

inline uint64_t join(const uint32_t* words) { return static_cast<uint64_t>(words[0]) << 32 | words[1]; }

// Uniform in [0, 1): the low bits of a draw, as many as the type holds exactly.
inline double unit_double(uint64_t bits) {
  return static_cast<double>(static_cast<int64_t>(bits & ((uint64_t{1} << 53) - 1))) * 0x1p-53;
}
inline float unit_float(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits & ((1u << 24) - 1))) * 0x1p-24f;
}
// Stretches a uniform to [from, to). Rounding may reach the open end; that draw becomes the closed one.
inline double scale_unit(double unit, double from, double to) {
  const double value = std::fma(unit, to - from, from);
  return value == to ? from : value;
}

inline double draw_unit(Generator& generator) { return unit_double(generator.engine.next64()); }
double draw_normal(Generator& generator, double mean, double std);

}  // namespace rl::random
