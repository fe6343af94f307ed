#include "geometry.h"

#include <algorithm>

namespace rl {

void contiguous_strides(const int64_t* sizes, int ndim, int64_t* strides) {
  int64_t step = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    strides[i] = step;
    if (sizes[i] > 1) (void)__builtin_mul_overflow(step, sizes[i], &step);   // wraps only where another size is 0
  }
}

bool is_contiguous(const int64_t* sizes, const int64_t* strides, int ndim) {
  int64_t expected = 1;
  bool matches = true;
  for (int i = ndim - 1; i >= 0; i--) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) matches = false;
    expected *= sizes[i];
  }
  return matches;
}

bool is_channels_last(const int64_t* sizes, const int64_t* strides, int ndim) {
  if (ndim != 4 && ndim != 5) return false;
  int order[5] = {1, ndim - 1, ndim - 2, ndim - 3 > 1 ? ndim - 3 : 0, 0};
  int64_t expected = 1;
  for (int k = 0; k < ndim; k++) {
    int d = order[k];
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

bool prefers_channels_last(const int64_t* sizes, const int64_t* strides, int ndim) {
  if ((ndim != 4 && ndim != 5) || !strides[1]) return false;
  int order[5] = {1, ndim - 1, ndim - 2, ndim - 3 > 1 ? ndim - 3 : 0, 0};
  int64_t reach = 0;
  for (int k = 0; k < ndim; k++) {
    int64_t size = sizes[order[k]], stride = strides[order[k]];
    if (!size || stride < reach || (order[k] == 0 && reach == strides[1])) return false;
    reach = stride * size;
  }
  return true;
}

// Dims of size > 1 by rising stride.
static int sorted_dims(const int64_t* sizes, const int64_t* strides, int ndim, int* order) {
  int n = 0;
  for (int i = 0; i < ndim; i++) {
    if (sizes[i] == 1) continue;
    int at = n++;   // insertion: dims are few and mostly in falling order of stride already
    for (; at > 0 && strides[order[at - 1]] > strides[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  return n;
}

bool is_dense_nonoverlapping(const int64_t* sizes, const int64_t* strides, int ndim) {
  int order[kMaxDims];
  for (int i = 0; i < ndim; i++)
    if (sizes[i] == 0) return true;
  int n = sorted_dims(sizes, strides, ndim, order);
  int64_t expected = 1;
  for (int k = 0; k < n; k++) {
    if (strides[order[k]] != expected) return false;
    expected *= sizes[order[k]];
  }
  return true;
}

bool has_internal_overlap(const int64_t* sizes, const int64_t* strides, int ndim) {
  int order[kMaxDims];
  for (int i = 0; i < ndim; i++) {
    if (sizes[i] == 0) return false;
    if (strides[i] == 0 && sizes[i] > 1) return true;
  }
  int n = sorted_dims(sizes, strides, ndim, order);
  int64_t reach = 0;   // furthest element reached by the smaller strides
  for (int k = 0; k < n; k++) {
    int64_t stride = strides[order[k]] < 0 ? -strides[order[k]] : strides[order[k]];
    if (stride <= reach) return true;
    reach += stride * (sizes[order[k]] - 1);
  }
  return false;
}

int64_t span_elements(const int64_t* sizes, const int64_t* strides, int ndim) {
  int64_t last = 0;
  for (int i = 0; i < ndim; i++) {
    if (sizes[i] == 0) return 0;
    int64_t reach;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last))
      return -1;
  }
  return last + 1;
}

bool view_strides(const int64_t* sizes, const int64_t* strides, int ndim, const int64_t* new_sizes, int new_ndim,
                  int64_t* out) {
  int64_t numel = 1;
  for (int i = 0; i < ndim; i++) numel *= sizes[i];
  if (numel == 0) {   // nothing to reach: the same sizes keep their strides, others are row-major
    if (ndim == new_ndim && std::equal(sizes, sizes + ndim, new_sizes)) std::copy(strides, strides + ndim, out);
    else contiguous_strides(new_sizes, new_ndim, out);
    return true;
  }
  // Walk chunks of old dims that are contiguous with each other; new dims must tile each chunk exactly.
  int new_dim = new_ndim - 1;
  int64_t base_stride = ndim ? strides[ndim - 1] : 1;
  int64_t chunk = 1, filled = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    chunk *= sizes[d];
    bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * base_stride);
    if (!ends) continue;
    while (new_dim >= 0 && (filled < chunk || new_sizes[new_dim] == 1)) {
      out[new_dim] = filled * base_stride;
      filled *= new_sizes[new_dim];
      new_dim--;
    }
    if (filled != chunk) return false;
    if (d > 0) base_stride = strides[d - 1];
    chunk = filled = 1;
  }
  while (new_dim >= 0 && ndim == 0) out[new_dim--] = 1;
  return new_dim == -1;
}

int64_t checked_numel(const int64_t* sizes, int ndim) {
  int64_t n = 1;
  bool empty = false, overflow = false;
  for (int i = 0; i < ndim; i++) {
    if (sizes[i] < 0) return -1;
    if (sizes[i] == 0) empty = true;
    else if (__builtin_mul_overflow(n, sizes[i], &n)) overflow = true;
  }
  return empty ? 0 : overflow ? -1 : n;
}

}  // namespace rl
