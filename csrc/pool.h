// The thread pool. Work is cut into chunks by size alone, so results never depend on how many threads run them.
#pragma once
#include <cstdint>

namespace rl {

// Elements a chunk of parallel work should touch: GRAIN of codegen/schedule/forms/launch.py, which needs no core.
constexpr int64_t kGrain = 32768;

// Runs body(context, begin, end) over [0, extent) in chunks of `grain`. Does not touch the interpreter lock;
// callers release it around large work.
void parallel_for(int64_t extent, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                  void* context);

int num_threads();
void set_num_threads(int n);

}  // namespace rl
