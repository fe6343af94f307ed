// Elements of tensors by index: accessors, and those that kernels take by value.
#pragma once
#include <rushlight/arrays.h>

namespace at {

template <class T>
struct DefaultPtrTraits { using PtrType = T*; };
template <class T>
struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  C10_HOST_DEVICE TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE TensorAccessor<T, N - 1, Traits, Index> operator[](Index i) const {
    return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
  c10::ArrayRef<Index> sizes() const { return {sizes_, N}; }
  c10::ArrayRef<Index> strides() const { return {strides_, N}; }
  C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
  C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index *sizes_, *strides_;
};
template <class T, template <class> class Traits, class Index>
class TensorAccessor<T, 1, Traits, Index> {
 public:
  using PtrType = typename Traits<T>::PtrType;
  C10_HOST_DEVICE TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE T& operator[](Index i) const { return data_[strides_[0] * i]; }
  c10::ArrayRef<Index> sizes() const { return {sizes_, 1}; }
  c10::ArrayRef<Index> strides() const { return {strides_, 1}; }
  C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
  C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index *sizes_, *strides_;
};
template <class T, template <class> class Traits, class Index>
class TensorAccessor<T, 0, Traits, Index> {};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename Traits<T>::PtrType;
  template <class Source>
  GenericPackedTensorAccessor(PtrType data, const Source* sizes, const Source* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) sizes_[i] = static_cast<Index>(sizes[i]), strides_[i] = static_cast<Index>(strides[i]);
  }
  C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) return static_cast<T&>(data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
  C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }
  GenericPackedTensorAccessor<T, N, Traits, Index> transpose(Index a, Index b) const {
    auto result = *this;
    std::swap(result.sizes_[a], result.sizes_[b]);
    std::swap(result.strides_[a], result.strides_[b]);
    return result;
  }

 private:
  PtrType data_;
  Index sizes_[N ? N : 1], strides_[N ? N : 1];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

}  // namespace at
namespace torch {
using at::DefaultPtrTraits;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}
