// Samplers whose parameters vary per element: Bernoulli, Poisson, gamma, binomial, rrelu, multinomial. See random.h.
//
// Note on rounding. PyTorch builds these for the machine's baseline and lets the compiler contract a * b + c; on
// AArch64 that makes fused operations, on x86-64 it does not. This file is written in the same plain form and built
// the same way (CMakeLists.txt), so each machine rounds as PyTorch does there.
#include "sample.h"

#include <algorithm>

namespace rl::random {

namespace {

// Fills operand 0 with draw(parameters...), reading the P parameter operands as In.
template <class Out, class In, int P, class F>
void fill_from(Region& region, F draw) {
  walk(region, [&](char** pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const auto in = [&](int k) -> In {
        return *reinterpret_cast<const In*>(pointers[k] + i * region.operands[k].strides[0]);
      };
      Out& out = *reinterpret_cast<Out*>(pointers[0] + i * region.operands[0].strides[0]);
      if constexpr (P == 1) out = draw(in(1));
      else out = draw(in(1), in(2));
    }
  });
}

}  // namespace

Error bernoulli_tensor(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  return for_any(region.operands[0].kind, [&]<class Out>(Type<Out>) -> Error {
    return for_float(region.operands[1].kind, [&]<class P>(Type<P>) -> Error {
      Error error = nullptr;
      fill_from<Out, P, 1>(region, [&](P parameter) {
        const Compute<P> p = convert<Compute<P>>(parameter);
        if (!(p >= 0 && p <= 1)) error = "bernoulli: expected every p to be in [0, 1]";
        if (error != nullptr) return Out{};
        if constexpr (std::is_same_v<P, double>) return convert<Out>(draw_unit(generator) < p ? 1 : 0);
        else return convert<Out>(unit_float(generator.engine.next32()) < p ? 1 : 0);
      });
      return error;
    });
  });
}

namespace {

// Hormann's transformed rejection (PTRS, 1993) from a mean of ten on; below, the product of uniforms (Knuth).
int64_t draw_poisson(Generator& generator, double rate) {
  if (rate == 0) return 0;
  if (rate < 10) {
    const double threshold = std::exp(-rate);
    double product = 1.0;
    for (int64_t count = 0;; ++count) {
      product *= draw_unit(generator);
      if (!(product > threshold)) return count;
    }
  }
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = draw_unit(generator) - 0.5;
    const double v = draw_unit(generator);
    const double us = 0.5 - std::fabs(u);
    const int64_t k = static_cast<int64_t>(std::floor((2 * a / us + b) * u + rate + 0.43));
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double bound = -rate + static_cast<double>(k) * log_rate - std::lgamma(static_cast<double>(k) + 1);
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= bound) return k;
  }
}

// Marsaglia and Tsang (2000). `alpha` keeps its own precision up to d, as PyTorch's does.
template <class T>
double draw_gamma(Generator& generator, T alpha) {
  double scale = 1.0;
  if (alpha < T(1)) {
    if (alpha == T(0)) return 0.0;
    scale *= std::pow(1 - draw_unit(generator), static_cast<double>(1.0f / alpha));
    alpha += T(1);
  }
  const double d = alpha - 1.0f / 3.0f;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    double x, y;
    do {
      x = draw_normal(generator, 0.0, 1.0);
      y = 1.0 + c * x;
    } while (y <= 0);
    const double v = y * y * y;
    const double u = 1 - draw_unit(generator);
    const double xx = x * x;
    if (u < 1.0 - 0.0331f * xx * xx) return scale * d * v;
    if (std::log(u) < 0.5 * xx + d * (1.0 - v + std::log(v))) return scale * d * v;
  }
}

// What Stirling's formula leaves out of log k!.
double stirling_tail(double k) {
  static constexpr double table[] = {0.0810614667953272,  0.0413406959554092,  0.0276779256849983,  0.02079067210376509,
                                     0.0166446911898211,  0.0138761288230707,  0.0118967099458917,  0.0104112652619720,
                                     0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return table[static_cast<size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Sums of geometric waiting times, for a small expected count.
template <class T>
double draw_binomial_waiting(Generator& generator, T count, T p) {
  const double log_miss = std::log1p(-static_cast<double>(p));
  double waited = 0;
  for (double hits = 0;; ++hits) {
    waited += std::ceil(std::log(draw_unit(generator)) / log_miss);
    if (waited > count) return hits;
  }
}

// Hormann's transformed rejection for the binomial (BTRS, 1993).
template <class T>
double draw_binomial_rejection(Generator& generator, T count, T p) {
  const double deviation = std::sqrt(static_cast<double>(count * p * (1 - p)));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5;
  const double v_r = 0.92 - 4.2 / b;
  const double r = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((count + 1) * p);
  for (;;) {
    const double u = draw_unit(generator) - 0.5;
    double v = draw_unit(generator);
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

template <class T>
T draw_binomial(Generator& generator, T count, T p) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p != p || count != count) return std::numeric_limits<T>::quiet_NaN();
  const bool flipped = p > T(0.5);
  const T q = flipped ? T(1) - p : p;
  const T hits = static_cast<T>(count * q >= 10.0 ? draw_binomial_rejection(generator, count, q)
                                                  : draw_binomial_waiting(generator, count, q));
  return flipped ? count - hits : hits;
}

}  // namespace

Error poisson(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  return for_float(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    Error error = nullptr;
    fill_from<T, T, 1>(region, [&](T rate) {
      if (error != nullptr) return T{};
      if (!(convert<double>(rate) >= 0)) {
        error = "poisson: invalid rate, expected every rate to be non-negative";
        return T{};
      }
      return convert<T>(draw_poisson(generator, convert<double>(rate)));
    });
    return error;
  });
}

Error standard_gamma(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  const auto body = [&]<class T>(Type<T>) -> Error {
    fill_from<T, T, 1>(region, [&](T alpha) {
      return std::max(std::numeric_limits<T>::min(), static_cast<T>(draw_gamma<T>(generator, alpha)));
    });
    return nullptr;
  };
  return region.operands[0].kind == Kind::f64 ? body(Type<double>{}) : body(Type<float>{});
}

namespace {

// Adds a row in the order PyTorch's sum does, because the quotients show the sum's last bit: four accumulators of
// whole vectors, each a cascade of levels that hand over every 2^power rounds; then the ragged ends; then the lanes.
double row_sum(const double* row, int64_t n) {
#if defined(__aarch64__)
  constexpr int64_t kLanes = 2;
#else
  constexpr int64_t kLanes = 4;
#endif
  constexpr int64_t kLevels = 4, kWidth = 4 * kLanes;
  const int64_t rounds = n / kWidth, vectors = n / kLanes;
  const int power =
      std::max(4, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rounds, 2) - 1))) / 4);
  const int64_t step = int64_t{1} << power;
  double levels[kLevels][kWidth] = {}, total = 0;
  const auto add = [](double* into, const double* from, int64_t count) {
    for (int64_t k = 0; k < count; ++k) into[k] += from[k];
  };
  for (int64_t round = 0; round < rounds;) {
    add(levels[0], row + round * kWidth, kWidth);
    ++round;
    if (round % step != 0) continue;
    for (int64_t level = 1; level < kLevels; ++level) {
      add(levels[level], levels[level - 1], kWidth);
      std::fill_n(levels[level - 1], kWidth, 0.0);
      if ((round & ((step - 1) << (level * power))) != 0) break;
    }
  }
  for (int64_t level = 1; level < kLevels; ++level) add(levels[0], levels[level], kWidth);
  for (int64_t i = rounds * 4; i < vectors; ++i) add(levels[0], row + i * kLanes, kLanes);
  for (int64_t k = 1; k < 4; ++k) add(levels[0], levels[0] + k * kLanes, kLanes);
  for (int64_t i = vectors * kLanes; i < n; ++i) total += row[i];
  for (int64_t lane = 0; lane < kLanes; ++lane) total += levels[0][lane];
  return total;
}

}  // namespace

Error dirichlet(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  double* shares = reinterpret_cast<double*>(region.operands[0].data);
  const int64_t count = region.numel(), width = region.sizes.empty() ? 1 : region.sizes.back();
  const auto body = [&]<class T>(Type<T>) -> Error {
    fill_from<double, T, 1>(region, [&](T alpha) {
      return std::max(std::numeric_limits<double>::min(), draw_gamma<double>(generator, alpha));
    });
    for (int64_t at = 0; at < count; at += width) {
      const double sum = row_sum(shares + at, width);
      for (int64_t i = at; i < at + width; ++i) shares[i] /= sum;
    }
    return nullptr;
  };
  return region.operands[1].kind == Kind::f64 ? body(Type<double>{}) : body(Type<float>{});
}

Error binomial(Generator& generator, Region& region) {
  const std::lock_guard lock(generator.mutex);
  const auto body = [&]<class T>(Type<T>) -> Error {
    fill_from<T, T, 2>(region, [&](T count, T p) { return draw_binomial<T>(generator, count, p); });
    return nullptr;
  };
  return region.operands[0].kind == Kind::f64 ? body(Type<double>{}) : body(Type<float>{});
}

Error rrelu(Generator& generator, Region& region, double lower, double upper) {
  const std::lock_guard lock(generator.mutex);
  const int64_t n = region.numel();
  return for_float(region.operands[0].kind, [&]<class T>(Type<T>) -> Error {
    using C = Compute<T>;
    const double low = static_cast<C>(lower), high = static_cast<C>(upper);
    T* out = reinterpret_cast<T*>(region.operands[0].data);
    T* noise = reinterpret_cast<T*>(region.operands[1].data);
    const T* in = reinterpret_cast<const T*>(region.operands[2].data);
    for (int64_t i = 0; i < n; ++i) {
      const C x = convert<C>(in[i]);
      if (x <= 0) {
        const double drawn = draw_unit(generator) * (high - low) + low;  // rounded as the note above says
        const C slope = static_cast<C>(drawn == high ? low : drawn);
        noise[i] = convert<T>(slope);
        out[i] = convert<T>(x * slope);
      } else {
        noise[i] = convert<T>(1);
        out[i] = in[i];
      }
    }
    return nullptr;
  });
}

Error multinomial(Generator& generator, Region& region, int64_t categories) {
  const std::lock_guard lock(generator.mutex);
  const int64_t rows = region.sizes[0], samples = region.sizes[1];
  return for_float(region.operands[1].kind, [&]<class T>(Type<T>) -> Error {
    using C = Compute<T>;
    std::vector<C> cumulative(static_cast<size_t>(categories));
    for (int64_t row = 0; row < rows; ++row) {
      const char* weights = region.operands[1].data + row * region.operands[1].strides[0];
      C sum = 0;
      for (int64_t j = 0; j < categories; ++j) {
        const C weight = convert<C>(*reinterpret_cast<const T*>(weights + j * region.operands[1].strides[1]));
        if (!(weight >= 0)) return "multinomial: invalid distribution: a probability is negative";
        if (!std::isfinite(weight)) return "multinomial: invalid distribution: a probability is infinite or NaN";
        cumulative[static_cast<size_t>(j)] = sum += weight;
      }
      if (!(sum > 0)) return "multinomial: invalid distribution: the probabilities sum up to 0";
      for (C& value : cumulative) value /= sum;
      cumulative.back() = 1;
      for (int64_t s = 0; s < samples; ++s) {
        const double u = draw_unit(generator);
        const auto found = std::lower_bound(cumulative.begin(), cumulative.end(), u,
                                            [](C value, double wanted) { return value < wanted; });
        *reinterpret_cast<int64_t*>(region.operands[0].data + row * region.operands[0].strides[0] +
                                    s * region.operands[0].strides[1]) = found - cumulative.begin();
      }
    }
    return nullptr;
  });
}

}  // namespace rl::random
