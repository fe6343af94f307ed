// Loops over the core's threads. The interpreter lock is let go while they run.
#pragma once
#include <rushlight/functions.h>

namespace rushlight {
void run_parallel(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);
}
namespace at {

bool in_parallel_region();
int get_thread_num();
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;
}
template <class F>
inline void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  TORCH_CHECK(grain >= 0, "parallel_for: expected a grain that is not negative, got ", grain);
  if (begin >= end) return;
  if (end - begin <= grain || in_parallel_region()) return static_cast<void>(f(begin, end));
  ::rushlight::run_parallel(begin, end, grain, [&f](int64_t from, int64_t to) { f(from, to); });
}
// Parts are cut by the grain alone and joined in order: the result does not depend on the number of threads.
template <class T, class F, class Join>
inline T parallel_reduce(int64_t begin, int64_t end, int64_t grain, T identity, const F& f, const Join& join) {
  TORCH_CHECK(grain >= 0, "parallel_reduce: expected a grain that is not negative, got ", grain);
  if (begin >= end) return identity;
  if (end - begin <= grain || in_parallel_region()) return f(begin, end, identity);
  const int64_t step = std::max<int64_t>(grain, 1), count = divup(end - begin, step);
  std::vector<T> parts(static_cast<size_t>(count), identity);
  ::rushlight::run_parallel(0, count, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t first = begin + i * step;
      parts[static_cast<size_t>(i)] = f(first, std::min(end, first + step), identity);
    }
  });
  T result = identity;
  for (const T& part : parts) result = join(result, part);
  return result;
}

}  // namespace at
