// at:: and torch:: functions: those that are ops are generated (ATen/generated/functions.inc).
#pragma once
#include <rushlight/tensor.h>

namespace at {

#include <ATen/generated/functions.inc>

namespace detail {
Tensor listed(const Scalar* values, size_t count, const std::vector<int64_t>& sizes, const TensorOptions& options);
}
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {});
inline Tensor scalar_to_tensor(const Scalar& value, Device device = c10::kCPU) {
  return scalar_tensor(value, TensorOptions(value.isComplex() ? c10::kComplexDouble : value.isFloatingPoint() ? c10::kDouble : value.isBoolean() ? c10::kBool : c10::kLong).device(device));
}
// A tensor of values in (nested) braces, of numbers or of a vector.
struct TensorValues {
  template <class T, class = std::enable_if_t<std::is_constructible_v<Scalar, T>>>
  TensorValues(T value) : values{Scalar(value)}, type(type_of(value)) {}
  TensorValues(std::initializer_list<TensorValues> parts);
  template <class T, class = std::enable_if_t<std::is_constructible_v<Scalar, T>>>
  TensorValues(const std::vector<T>& from) : sizes{static_cast<int64_t>(from.size())}, type(type_of(T{})) { for (const auto& v : from) values.emplace_back(T(v)); }
  template <class T, class = std::enable_if_t<std::is_constructible_v<Scalar, T>>>
  TensorValues(ArrayRef<T> from) : TensorValues(from.vec()) {}
  template <class T>
  static ScalarType type_of(const T&) {
    if constexpr (std::is_same_v<T, bool>) return c10::kBool;
    else if constexpr (std::is_integral_v<T>) return c10::kLong;
    else if constexpr (std::is_floating_point_v<T>) return ScalarType::Undefined;   // the default
    else if constexpr (std::is_same_v<T, Scalar>) return ScalarType::Undefined;
    else return c10::CppTypeToScalarType<T>::value;
  }
  std::vector<Scalar> values;
  std::vector<int64_t> sizes;
  ScalarType type = ScalarType::Undefined;
};
Tensor tensor(const TensorValues& values, const TensorOptions& options = {});

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, std::function<void(void*)> deleter, const TensorOptions& options = {}, std::optional<Device> target = std::nullopt);
inline Tensor from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter, const TensorOptions& options = {}) { return from_blob(data, sizes, {}, std::move(deleter), options); }
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) { return from_blob(data, sizes, strides, nullptr, options); }
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) { return from_blob(data, sizes, {}, nullptr, options); }

inline Tensor _sparse_coo_tensor_unsafe(const Tensor& indices, const Tensor& values, IntArrayRef size, const TensorOptions& options = {}, std::optional<bool> is_coalesced = std::nullopt) { return sparse_coo_tensor(indices, values, size, options, is_coalesced); }

inline int64_t numel(const Tensor& t) { return t.numel(); }
inline int64_t size(const Tensor& t, int64_t dim) { return t.size(dim); }
inline int64_t stride(const Tensor& t, int64_t dim) { return t.stride(dim); }
inline bool is_floating_point(const Tensor& t) { return t.is_floating_point(); }
inline bool is_complex(const Tensor& t) { return t.is_complex(); }
inline bool is_signed(const Tensor& t) { return t.is_signed(); }
inline bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
inline Tensor index(const Tensor& t, const std::vector<std::optional<Tensor>>& at) { return t.index(at); }
inline Tensor& index_put_(Tensor& t, const std::vector<std::optional<Tensor>>& at, const Tensor& value, bool accumulate = false) { return t.index_put_(at, value, accumulate); }
ScalarType result_type(const Tensor& a, const Tensor& b);
ScalarType result_type(const Tensor& a, const Scalar& b);
std::vector<int64_t> infer_size(IntArrayRef a, IntArrayRef b);
std::tuple<Tensor, Tensor> unique(const Tensor& t, bool sorted = true, bool return_inverse = false);
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& t, bool return_inverse = false, bool return_counts = false, std::optional<int64_t> dim = std::nullopt);
inline Tensor& detach_(Tensor& t) { t.detach_(); return t; }
int64_t get_num_threads();
void set_num_threads(int count);
void manual_seed(uint64_t seed);
bool hasCUDA();
bool isTensorSubclassLike(const Tensor& t);
namespace detail {
Generator createCPUGenerator(uint64_t seed = 67280421310721);
const Generator& getDefaultCPUGenerator();
}

}  // namespace at

namespace torch {
using namespace at;
using at::Tensor;
using Dtype = c10::ScalarType;
using c10::DeviceType;
using c10::MemoryFormat;
inline Tensor make_tensor(Tensor t) { return t; }
}
namespace c10 {
using at::Tensor;
}
