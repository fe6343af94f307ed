// Dimensions counted from the end.
#pragma once
#include <rushlight/error.h>

namespace c10 {
inline int64_t maybe_wrap_dim(int64_t dim, int64_t count, bool wrap_scalar = true) {
  TORCH_CHECK_INDEX(count > 0 || wrap_scalar, "Dimension specified as ", dim, " but tensor has no dimensions");
  const int64_t most = count > 0 ? count : 1;
  TORCH_CHECK_INDEX(dim >= -most && dim < most, "Dimension out of range (expected to be in range of [", -most, ", ", most - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + most : dim;
}
}  // namespace c10
namespace at {
using c10::maybe_wrap_dim;
}
