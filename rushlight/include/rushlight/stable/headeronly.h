// Element types, devices, arrays and accessors that need no library behind them.
#pragma once
#include <stdexcept>

#include <rushlight/accessor.h>
#include <rushlight/dispatch_types.h>
#include <rushlight/options.h>
#include <torch/headeronly/version.h>

namespace torch::headeronly {

using c10::BFloat16;
using c10::complex;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Float4_e2m1fn_x2;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
using c10::Float8_e5m2;
using c10::Float8_e5m2fnuz;
using c10::Float8_e8m0fnu;
using c10::Half;
using c10::Layout;
using c10::MemoryFormat;
using c10::qint32;
using c10::qint8;
using c10::quint8;
using c10::ScalarType;
using c10::toString;
#define X(type, name, number) using c10::k##name;
AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
using c10::kFloat16, c10::kFloat32, c10::kFloat64, c10::kInt8, c10::kInt16, c10::kInt32, c10::kInt64, c10::kUInt8;
using c10::kCPU, c10::kCUDA, c10::kMeta, c10::kMPS, c10::kPrivateUse1, c10::kXPU;
using c10::kSparse, c10::kSparseBsc, c10::kSparseBsr, c10::kSparseCsc, c10::kSparseCsr, c10::kStrided;
using c10::CppTypeToScalarType;
namespace impl { using c10::ScalarTypeToCPPType; using c10::ScalarTypeToCPPTypeT; }

enum class Tag {
  core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout, generated, inplace_view,
  maybe_aliasing_or_mutating, needs_contiguous_strides, needs_exact_strides, needs_fixed_stride_order,
  nondeterministic_bitwise, nondeterministic_seeded, out_variant, pointwise, pt2_compliant_tag, reduction, view_copy
};

#define STD_TORCH_CHECK_RANGE(condition, text) \
  if (!(condition)) throw std::out_of_range(text)
// A view of elements that somebody else keeps.
template <class T>
class HeaderOnlyArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  constexpr HeaderOnlyArrayRef() = default;
  constexpr HeaderOnlyArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr HeaderOnlyArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr HeaderOnlyArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  template <class A>
  HeaderOnlyArrayRef(const std::vector<T, A>& from) : data_(from.data()), size_(from.size()) {}
  template <size_t N>
  constexpr HeaderOnlyArrayRef(const std::array<T, N>& from) : data_(from.data()), size_(N) {}
  template <size_t N>
  constexpr HeaderOnlyArrayRef(const T (&from)[N]) : data_(from), size_(N) {}
  constexpr HeaderOnlyArrayRef(const std::initializer_list<T>& from) : data_(from.begin()), size_(from.size()) {}   // NOLINT: as long as the braces
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* cbegin() const { return data_; }
  constexpr const T* cend() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return !size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const { STD_TORCH_CHECK_RANGE(i < size_, "ArrayRef: no such element"); return data_[i]; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  HeaderOnlyArrayRef slice(size_t from, size_t count) const { STD_TORCH_CHECK_RANGE(from + count <= size_, "ArrayRef: the slice does not lie in it"); return {data_ + from, count}; }
  HeaderOnlyArrayRef slice(size_t from) const { return slice(from, size_ - from); }
  bool equals(HeaderOnlyArrayRef o) const { return size_ == o.size_ && std::equal(begin(), end(), o.begin()); }
  std::vector<T> vec() const { return {begin(), end()}; }
  friend bool operator==(HeaderOnlyArrayRef a, HeaderOnlyArrayRef b) { return a.equals(b); }
  friend bool operator!=(HeaderOnlyArrayRef a, HeaderOnlyArrayRef b) { return !a.equals(b); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
#undef STD_TORCH_CHECK_RANGE
using IntHeaderOnlyArrayRef = HeaderOnlyArrayRef<int64_t>;

using at::DefaultPtrTraits;
using at::RestrictPtrTraits;
template <class T, size_t N, template <class> class Traits = at::DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyTensorAccessor = at::TensorAccessor<T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = at::DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyGenericPackedTensorAccessor = at::GenericPackedTensorAccessor<T, N, Traits, Index>;

}  // namespace torch::headeronly
namespace at { using torch::headeronly::Tag; }

// A body for each of some element types, chosen by a number of them; another type is a std::runtime_error.
#define THO_PRIVATE_CASE_TYPE_USING_HINT(type, hint, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(type, hint, __VA_ARGS__)
#define THO_DISPATCH_CASE(type, ...) AT_DISPATCH_CASE(type, __VA_ARGS__)
#define THO_DISPATCH_SWITCH(TYPE, NAME, ...)                                                                  \
  [&] {                                                                                                       \
    const ::c10::ScalarType rushlight_scalar_type = TYPE;                                                     \
    switch (rushlight_scalar_type) {                                                                          \
      __VA_ARGS__                                                                                             \
      default: throw std::runtime_error(std::string("\"") + NAME + "\" not implemented for '" + ::c10::toString(rushlight_scalar_type) + "'"); \
    }                                                                                                         \
  }()
