// What a pointwise launch runs over: operands as pointers and strides, and the ways to give them to a kernel.
#pragma once
#include "geometry.h"
#include "plan.h"

namespace rl {

constexpr int kMaxOperands = 24;

struct Loop {
  int num = 0;                               // operands: inputs then outputs
  int num_in = 0;
  int ndim = 0;
  char* ptrs[kMaxOperands];
  int item[kMaxOperands];                    // bytes of an element
  int64_t sizes[kMaxDims];                   // innermost first
  int64_t strides[kMaxOperands][kMaxDims];   // bytes, innermost first
};

// Rows of a few elements. Kernels take vectors along a row, several at a time, so that rows shorter than those would
// go element by element. Many such rows are one long row where operands are dense; others are laid out densely first,
// a block of rows at a time, in a buffer that stays in the nearest cache (short_rows.cpp).
bool has_short_rows(const Loop& loop);
void run_short_rows(const Loop& loop, Kernel kernel);

}  // namespace rl
