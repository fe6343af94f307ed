// Samplers without per-element parameters: uniform, normal and its transforms, integers, permutations. See random.h.
//
// Note on rounding. PyTorch builds these with fused multiply-add on every machine it supports well, so the fused
// operations are written out here and the compiler is told to fuse nothing else (CMakeLists.txt). Logarithms and
// trigonometry are the C library's, except in blocks of float normals, which depend on the machine (sample_normal.h).
//
// Note on language. These are no generated kernels because their last bits are those of the C library's functions (the
// loop language has its own), and because words are used up while a block of them is in the nearest cache: uniforms,
// coins and integers take less time than the twister that they follow.
#include "sample.h"

#include <numbers>

#include "sample_normal.h"

namespace rl::random {

#if !defined(__aarch64__)
Half::Half(float value) {
  const uint32_t raw = std::bit_cast<uint32_t>(value);
  const uint32_t sign = raw >> 16 & 0x8000u;
  const uint32_t magnitude = raw & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the significand so that the addition itself rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
    bits = static_cast<uint16_t>(sign | (rounded >= 0x0f800000u ? 0x7c00u : rounded >> 13));
  }
}

Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

#endif

Error uniform(Generator& generator, Region& region, double from, double to) {
  const std::lock_guard lock(generator.mutex);
  return for_float(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    // The usual [0, 1) needs no stretching, and a fused multiply is a library call on older x86-64 targets.
    const bool is_unit = from == 0 && to == 1;
    if constexpr (std::is_same_v<T, double>) {
      if (is_unit) fill_blocks<T, 2>(generator, region, [](const uint32_t* w) { return unit_double(join(w)); });
      else
        fill_blocks<T, 2>(generator, region,
                          [=](const uint32_t* w) { return scale_unit(unit_double(join(w)), from, to); });
    } else if (std::is_same_v<T, float> && is_unit) {
      fill_blocks<T, 1>(generator, region, [](const uint32_t* w) { return convert<T>(unit_float(w[0])); });
    } else {
      const float low = static_cast<float>(from), high = static_cast<float>(to);
      const float edge = convert<float>(convert<T>(high)), start = convert<float>(convert<T>(low));
      fill_blocks<T, 1>(generator, region, [=](const uint32_t* w) {
        const float value = convert<float>(convert<T>(std::fma(unit_float(w[0]), high - low, low)));
        return convert<T>(value == edge ? start : value);
      });
    }
    return nullptr;
  });
}

double draw_normal(Generator& generator, double mean, double std) {
  double value;
  if (generator.next_double_normal) {
    value = *generator.next_double_normal;
    generator.next_double_normal.reset();
  } else {
    const double u1 = draw_unit(generator), u2 = draw_unit(generator);
    const double radius = std::sqrt(-2.0 * std::log1p(-u2));
    const double theta = 2.0 * std::numbers::pi * u1;
    generator.next_double_normal = radius * std::sin(theta);
    value = radius * std::cos(theta);
  }
  return std::fma(value, std, mean);
}

namespace {

// The same for doubles, with the C library's functions on every machine.
void double_normal_blocks(const uint32_t* words, double* out, int64_t count, double mean, double std) {
  for (int64_t i = 0; i < count; i += 16) {
    for (int64_t j = i; j < i + 8; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - unit_double(join(words + 2 * j))));
      const double theta = 2.0 * std::numbers::pi * unit_double(join(words + 2 * (j + 8)));
      out[j] = std::fma(radius * std::cos(theta), std, mean);
      out[j + 8] = std::fma(radius * std::sin(theta), std, mean);
    }
  }
}

// Words to normals of type T; float arithmetic for the half types.
template <class T>
void finish_blocks(const uint32_t* words, T* out, int64_t count, Compute<T> mean, Compute<T> std) {
  if constexpr (std::is_same_v<T, double>) {
    double_normal_blocks(words, out, count, mean, std);
  } else if constexpr (std::is_same_v<T, float>) {
    normal_blocks_here().fill(words, out, count, mean, std);
  } else {
    constexpr int64_t kPart = 256;
    float part[kPart];
    for (int64_t i = 0; i < count; i += kPart) {
      const int64_t n = std::min(kPart, count - i);
      normal_blocks_here().fill(words + i, part, n, mean, std);
      for (int64_t j = 0; j < n; ++j) out[i + j] = convert<T>(part[j]);
    }
  }
}

// The block form PyTorch uses for sixteen or more contiguous elements. A ragged end is not padded: the last
// sixteen elements are drawn anew, after float and double (but not the half types) drew and dropped its uniforms.
template <class T>
void normal_blocks(Generator& generator, T* data, int64_t n, Compute<T> mean, Compute<T> std) {
  constexpr int64_t kStage = 1 << 16;
  constexpr int W = std::is_same_v<T, double> ? 2 : 1;
  const int64_t grain = W == 2 ? kHeavyGrain : normal_blocks_here().grain;
  std::vector<uint32_t> words(static_cast<size_t>(std::min(n, kStage) * W));
  for (int64_t done = 0; done < n; done += kStage) {
    const int64_t drawn = std::min(kStage, n - done), whole = drawn / 16 * 16;
    generator.engine.take(words.data(), static_cast<size_t>((is_half<T> ? whole : drawn) * W));
    T* out = data + done;
    in_parallel(whole / 16, grain / 16, [&](int64_t begin, int64_t end) {
      finish_blocks<T>(words.data() + begin * 16 * W, out + begin * 16, (end - begin) * 16, mean, std);
    });
  }
  if (n % 16 != 0) {
    generator.engine.take(words.data(), 16 * W);
    finish_blocks<T>(words.data(), data + n - 16, 16, mean, std);
  }
}

// A sampler whose (costly) double result takes exactly one uniform double.
template <class F>
Error one_unit(Generator& generator, Region& region, bool any_dtype, F transform) {
  const std::lock_guard lock(generator.mutex);
  const auto body = [&]<class T>(Type<T>) -> Error {
    fill_blocks<T, 2, Cost::Heavy>(generator, region,
                            [=](const uint32_t* w) { return convert<T>(transform(unit_double(join(w)))); });
    return nullptr;
  };
  return any_dtype ? for_any(region.operands[0].kind, body) : for_float(region.operands[0].kind, body);
}

}  // namespace

Error normal(Generator& generator, Region& region, double mean, double std) {
  const std::lock_guard lock(generator.mutex);
  return for_float(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    if (region.numel() >= 16 && region.is_contiguous()) {
      normal_blocks<T>(generator, reinterpret_cast<T*>(region.operands[0].data), region.numel(),
                       static_cast<Compute<T>>(mean), static_cast<Compute<T>>(std));
    } else {
      fill_serial<T>(region, [&] { return convert<T>(draw_normal(generator, mean, std)); });
    }
    return nullptr;
  });
}

Error log_normal(Generator& generator, Region& region, double mean, double std) {
  const std::lock_guard lock(generator.mutex);
  return for_float(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    fill_serial<T>(region, [&] { return convert<T>(std::exp(draw_normal(generator, mean, std))); });
    return nullptr;
  });
}

Error cauchy(Generator& generator, Region& region, double median, double sigma) {
  return one_unit(generator, region, false,
                  [=](double u) { return std::fma(sigma, std::tan(std::numbers::pi * (u - 0.5)), median); });
}

Error exponential(Generator& generator, Region& region, double rate) {
  return one_unit(generator, region, false, [=](double u) { return -1.0 / rate * std::log1p(-u); });
}

Error geometric(Generator& generator, Region& region, double p) {
  return one_unit(generator, region, true, [=](double u) { return std::ceil(std::log(u) / std::log1p(-p)); });
}

namespace {

template <class T>
void place(char* p, int64_t stride, const uint32_t* heads, int64_t count, T hit, T miss) {
  if (stride == sizeof(T)) {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(p)[i] = heads[i] ? hit : miss;
  } else {
    for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(p + i * stride) = heads[i] ? hit : miss;
  }
}

// Twisting is one chain of words, but tempering and comparing them, more than half of the work, is not: every thread
// twists from the start, and tosses the coins of its own part only. Parts grow shorter as there is more to twist before
// them; no words pass from one processor to another, which takes as long as to make them. Of n coins as many as whole
// blocks have: returns how many, 0 where one thread does as well.
template <class F>
int64_t toss_parts(Engine& engine, int64_t n, F toss) {
  constexpr int64_t kLeast = 64;   // blocks that are worth another thread
  constexpr int kMost = 4;         // a fifth part would be a thirtieth of the blocks
  const int64_t blocks = n / Engine::kCoins;
  const int parts = std::min(num_threads(), kMost);
  if (parts < 2 || blocks < 2 * kLeast) return 0;
  int64_t starts[kMost + 1] = {0};
  for (int p = 0; p < parts; ++p) {   // a part takes twice as long for each of its blocks as those before it are passed
    const int64_t rest = blocks - starts[p], later = (int64_t{1} << (parts - p)) - 1;
    starts[p + 1] = starts[p] + (rest * ((later + 1) / 2) + later - 1) / later;
  }
  starts[parts] = blocks;
  std::optional<Engine> last;
  in_parallel(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      Engine own = engine;
      for (int64_t block = 0; block < starts[p]; ++block) own.pass_block();
      for (int64_t block = starts[p]; block < starts[p + 1]; ++block) toss(own, block * Engine::kCoins);
      if (p == parts - 1) last = own;
    }
  });
  engine = *last;
  return blocks * Engine::kCoins;
}

// Coins in whole blocks where there are that many, one by one before and behind.
template <class T>
void fill_coins(Generator& generator, Region& region, Coin coin, T hit, T miss) {
  Engine& engine = generator.engine;
  walk(region, [&](char** pointers, int64_t n) {
    constexpr int64_t kCoins = Engine::kCoins;
    const int64_t stride = region.operands[0].strides[0];
    const bool lie_close = sizeof(T) == sizeof(uint32_t) && stride == sizeof(T);
    char* p = pointers[0];
    // Where they belong at once if they can: the bits of a zero are none.
    const auto block_at = [&](char* at, auto toss) {
      uint32_t heads[kCoins];
      if constexpr (sizeof(T) == sizeof(uint32_t)) {
        if (lie_close) return toss(std::bit_cast<uint32_t>(hit), reinterpret_cast<uint32_t*>(at));
      }
      toss(~0u, heads);
      place(at, stride, heads, kCoins, hit, miss);
    };
    while (n > 0) {
      const int64_t left = engine.available() / 2;
      int64_t m = std::min(n, left > 0 ? left : kCoins);
      if (left == 0 && m == kCoins) {
        const int64_t shared = toss_parts(engine, n, [&](Engine& own, int64_t first) {
          block_at(p + first * stride, [&](uint32_t one, uint32_t* heads) { own.toss_block(coin, one, heads); });
        });
        if (shared > 0) m = shared;
        else block_at(p, [&](uint32_t one, uint32_t* heads) { engine.toss_block(coin, one, heads); });
      } else {
        uint32_t heads[kCoins];
        for (int64_t i = 0; i < m; ++i) {
          const uint32_t first = engine.next32();
          heads[i] = coin(first, engine.next32()) ? ~0u : 0;
        }
        place(p, stride, heads, m, hit, miss);
      }
      n -= m, p += m * stride;
    }
  });
}

}  // namespace

Error bernoulli(Generator& generator, Region& region, double p, double one) {
  const std::lock_guard lock(generator.mutex);
  // A uniform k / 2^53 is below p exactly when the integer k is below p * 2^53, rounded up.
  const uint64_t threshold = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  const Coin coin{static_cast<uint32_t>(threshold >> 32), static_cast<uint32_t>(threshold)};
  return for_any(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    fill_coins<T>(generator, region, coin, convert<T>(one), convert<T>(0));
    return nullptr;
  });
}

Error random_range(Generator& generator, Region& region, uint64_t range, int64_t base) {
  const std::lock_guard lock(generator.mutex);
  return for_any(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    const auto place = [=](uint64_t value) {
      return convert<T>(static_cast<int64_t>(value % range + static_cast<uint64_t>(base)));
    };
    if (range >= uint64_t{1} << 28) {
      fill_blocks<T, 2>(generator, region, [=](const uint32_t* w) { return place(join(w)); });
    } else {
      // The remainder by two multiplications (Lemire, Kaser and Kurz 2019), exact for 32-bit operands.
      const uint64_t inverse = std::numeric_limits<uint64_t>::max() / range + 1;
      fill_blocks<T, 1>(generator, region, [=](const uint32_t* w) {
        const uint64_t remainder = static_cast<unsigned __int128>(inverse * w[0]) * range >> 64;
        return convert<T>(static_cast<int64_t>(remainder) + base);
      });
    }
    return nullptr;
  });
}

Error random_bits64(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  return for_any(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    fill_blocks<T, 2>(generator, region, [](const uint32_t* w) { return convert<T>(static_cast<int64_t>(join(w))); });
    return nullptr;
  });
}

Error random_full(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  return for_any(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    if constexpr (std::is_same_v<T, bool>) {
      fill_blocks<T, 1>(generator, region, [](const uint32_t* w) { return (w[0] & 1) != 0; });
    } else if constexpr (std::is_same_v<T, double>) {
      fill_blocks<T, 2>(generator, region,
                        [](const uint32_t* w) { return convert<T>(join(w) % ((uint64_t{1} << 53) + 1)); });
    } else if constexpr (is_half<T> || std::is_same_v<T, float>) {
      fill_blocks<T, 1>(generator, region,
                        [](const uint32_t* w) { return convert<T>(w[0] % ((uint32_t{1} << digits<T>) + 1)); });
    } else if constexpr (sizeof(T) == 8) {
      constexpr uint64_t range = static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1;
      fill_blocks<T, 2>(generator, region,
                        [](const uint32_t* w) { return static_cast<T>(range ? join(w) % range : join(w)); });
    } else {
      constexpr uint64_t range = static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1;
      fill_blocks<T, 1>(generator, region, [](const uint32_t* w) { return static_cast<T>(w[0] % range); });
    }
    return nullptr;
  });
}

Error permutation(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  const int64_t n = region.numel();
  return for_any(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    char* data = region.operands[0].data;
    const int64_t stride = region.operands[0].strides[0];
    const auto at = [=](int64_t i) -> T& { return *reinterpret_cast<T*>(data + i * stride); };
    if (n < static_cast<int64_t>(std::numeric_limits<uint32_t>::max() / 20)) {
      for (int64_t i = 0; i < n; ++i) at(i) = convert<T>(i);
      for (int64_t i = 0; i < n - 1; ++i) {
        std::swap(at(i), at(i + generator.engine.next32() % static_cast<uint32_t>(n - i)));
      }
    } else {
      // 32-bit draws would be visibly biased now; this form also builds the sequence while it shuffles.
      for (int64_t i = 0; i < n; ++i) {
        const int64_t pick = static_cast<int64_t>(generator.engine.next64() % static_cast<uint64_t>(i + 1));
        at(i) = convert<T>(i);
        at(i) = at(pick);
        at(pick) = convert<T>(i);
      }
    }
    return nullptr;
  });
}

}  // namespace rl::random
