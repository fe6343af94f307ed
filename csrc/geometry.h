// Pure arithmetic on sizes and strides.
#pragma once
#include <cstdint>

namespace rl {

constexpr int kMaxDims = 128;   // of a tensor: PyTorch has no bound, and refuses some reductions of more than 64

void contiguous_strides(const int64_t* sizes, int ndim, int64_t* strides);
bool is_contiguous(const int64_t* sizes, const int64_t* strides, int ndim);
bool is_channels_last(const int64_t* sizes, const int64_t* strides, int ndim);   // 4-d or 5-d
// Whether strides alone say channels last; sizes of one leave it open, and then the answer is no.
bool prefers_channels_last(const int64_t* sizes, const int64_t* strides, int ndim);
bool is_dense_nonoverlapping(const int64_t* sizes, const int64_t* strides, int ndim);
// Two different indices reach one element: writing is an error. Exact for expanded dims, conservative otherwise.
bool has_internal_overlap(const int64_t* sizes, const int64_t* strides, int ndim);
// Elements from the first to one past the last that the geometry can touch; 0 when empty. -1 on overflow.
int64_t span_elements(const int64_t* sizes, const int64_t* strides, int ndim);
// Strides of a view with new sizes over the same elements, if one exists without copying.
bool view_strides(const int64_t* sizes, const int64_t* strides, int ndim, const int64_t* new_sizes, int new_ndim,
                  int64_t* out);
// Product with overflow check: -1 when a size is negative or the product does not fit.
int64_t checked_numel(const int64_t* sizes, int ndim);

}  // namespace rl
