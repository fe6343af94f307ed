// at::Tensor: a counted reference to a tensor object of Python. Copies of the handle need no interpreter lock; ops take
// it while they run. The methods that are ops are generated (ATen/generated/methods.inc).
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <tuple>

#include <rushlight/accessor.h>
#include <rushlight/call.h>
#include <rushlight/pointer.h>

namespace c10 {

// What handles point at; it holds one reference to the Python object.
struct TensorImpl : intrusive_ptr_target {
  explicit TensorImpl(void* object) : object(object) {}
  ~TensorImpl() override;
  void* object;
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t numel() const;
  int64_t dim() const;
};
struct UndefinedTensorImpl {};

// A span of bytes that tensors share.
class Storage {
 public:
  Storage() = default;
  explicit Storage(intrusive_ptr<TensorImpl> owner) : owner_(std::move(owner)) {}
  explicit operator bool() const { return owner_.defined(); }
  void* mutable_data() const;
  const void* data() const { return mutable_data(); }
  const void* data_ptr() const { return mutable_data(); }
  size_t nbytes() const;
  bool is_alias_of(const Storage& o) const;
  Device device() const;
  const intrusive_ptr<TensorImpl>& owner() const { return owner_; }   // a tensor that lies in it

 private:
  intrusive_ptr<TensorImpl> owner_;
};

}  // namespace c10

namespace torch::autograd {
class Node;
}

namespace at {

using c10::DeviceIndex;
class Tensor;
class OptionalTensorRef;
class GradientSlot;
using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;
using TensorBase = Tensor;

// A source of random numbers; undefined: the default one.
class Generator {
 public:
  Generator() = default;
  explicit Generator(c10::intrusive_ptr<c10::TensorImpl> face) : face_(std::move(face)) {}
  bool defined() const { return face_.defined(); }
  void set_current_seed(uint64_t seed);
  uint64_t current_seed() const;
  uint64_t seed();
  Device device() const;
  Tensor get_state() const;
  void set_state(const Tensor& state);
  std::mutex& mutex() const;
  void* object() const { return face_ ? face_->object : nullptr; }

 private:
  c10::intrusive_ptr<c10::TensorImpl> face_;
};

namespace indexing {
struct TensorIndex;
}

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(c10::intrusive_ptr<c10::TensorImpl> impl) : impl_(std::move(impl)) {}
  static Tensor borrowed(void* object);            // of a Python object: one more reference to it
  static Tensor stolen(void* object);              // takes the reference over
  void* object() const { return impl_ ? impl_->object : nullptr; }   // borrowed; null where undefined

  bool defined() const { return impl_.defined(); }
  void reset() { impl_.reset(); }
  bool is_same(const Tensor& o) const { return object() == o.object(); }
  size_t use_count() const { return impl_.use_count(); }
  c10::TensorImpl* unsafeGetTensorImpl() const { return impl_.get(); }
  c10::TensorImpl* unsafeReleaseTensorImpl() { return impl_.release(); }
  const c10::intrusive_ptr<c10::TensorImpl>& getIntrusivePtr() const { return impl_; }

  int64_t dim() const;
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t dim) const;
  int64_t stride(int64_t dim) const;
  int64_t numel() const;
  SymInt sym_numel() const { return numel(); }
  SymInt sym_size(int64_t dim) const { return size(dim); }
  SymInt sym_stride(int64_t dim) const { return stride(dim); }
  SymInt sym_storage_offset() const { return storage_offset(); }
  SymIntArrayRef sym_sizes() const { return c10::fromIntArrayRefUnchecked(sizes()); }
  SymIntArrayRef sym_strides() const { return c10::fromIntArrayRefUnchecked(strides()); }
  int64_t storage_offset() const;
  size_t itemsize() const;
  int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  ScalarType scalar_type() const;
  TypeMeta dtype() const { return scalar_type(); }
  Device device() const;
  int64_t get_device() const;
  Layout layout() const;
  TensorOptions options() const;
  MemoryFormat suggest_memory_format() const;
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_mps() const { return device().is_mps(); }
  bool is_xpu() const { return device().is_xpu(); }
  bool is_xla() const { return device().type() == c10::kXLA; }
  bool is_privateuseone() const { return device().is_privateuseone(); }
  bool is_sparse() const { return layout() == c10::kSparse; }
  bool is_sparse_csr() const { return layout() == c10::kSparseCsr; }
  bool is_mkldnn() const { return layout() == c10::kMkldnn; }
  bool is_nested() const { return false; }
  bool is_quantized() const { return c10::isQIntType(scalar_type()); }
  bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
  bool is_complex() const { return c10::isComplexType(scalar_type()); }
  bool is_signed() const { return c10::isSignedType(scalar_type()); }
  bool is_inference() const;
  bool is_pinned() const;
  bool is_alias_of(const Tensor& o) const { return storage().is_alias_of(o.storage()); }
  bool has_storage() const { return true; }
  bool has_names() const { return false; }
  c10::Storage storage() const { return c10::Storage(impl_); }

  void* data_ptr() const;                          // raises where there are no bytes (meta, fake and sparse tensors)
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const { return static_cast<T*>(typed_data(c10::CppTypeToScalarType<std::remove_const_t<T>>::value)); }
  template <class T>
  const T* const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
  template <class T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  T* data() const { return data_ptr<T>(); }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "accessor is for tensors with dimensions; take *data_ptr<T>() of one without");
    expect_dim(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, Index> generic_packed_accessor() const {
    expect_dim(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const {
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(), "packed_accessor32: the tensor has ", numel(), " elements, more than 32 bits count. Use packed_accessor64.");
    return generic_packed_accessor<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const { return generic_packed_accessor<T, N, Traits, int64_t>(); }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, Index> packed_accessor() const { return generic_packed_accessor<T, N, Traits, Index>(); }

  Scalar item() const;
  template <class T>
  T item() const { return item().to<T>(); }
  bool equal(const Tensor& o) const;
  std::string toString() const;
  void print() const;
  std::string name() const { return {}; }

  bool requires_grad() const;
  const Tensor& set_requires_grad(bool value) const;
  const Tensor& requires_grad_(bool value = true) const { return set_requires_grad(value); }
  bool is_leaf() const;
  int64_t output_nr() const;
  int64_t _version() const;
  void retain_grad() const;
  bool retains_grad() const;
  Tensor grad() const;
  GradientSlot& mutable_grad() const;              // assigning to what it gives, before the next call, sets the gradient
  void set_grad(const Tensor& value) const;
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false, std::optional<TensorList> inputs = std::nullopt) const;
  std::shared_ptr<torch::autograd::Node> grad_fn() const;   // null for a leaf
  bool has_grad_fn() const;
  void set_data(const Tensor& value) const;
  Tensor data() const { return variable_data(); }
  Tensor tensor_data() const { return variable_data(); }
  Tensor variable_data() const;
  const Tensor& detach_() const;
  template <class F>                               // what it gives replaces the gradient, unless it gives nothing
  unsigned register_hook(F&& hook) const {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Tensor>>)
      return add_hook([hook = std::decay_t<F>(std::forward<F>(hook))](Tensor gradient) mutable { hook(std::move(gradient)); return Tensor(); });
    else return add_hook(std::forward<F>(hook));
  }
  void remove_hook(unsigned hook) const;

  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false, std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false, std::optional<MemoryFormat> format = std::nullopt) const { return to(TensorOptions(dtype).device(device), non_blocking, copy, format); }
  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false, std::optional<MemoryFormat> format = std::nullopt) const { return to(TensorOptions(dtype), non_blocking, copy, format); }
  Tensor to(TypeMeta dtype, bool non_blocking = false, bool copy = false) const { return to(TensorOptions(dtype), non_blocking, copy); }
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const { return to(TensorOptions(device), non_blocking, copy); }
  Tensor to(DeviceType device, bool non_blocking = false, bool copy = false) const { return to(TensorOptions(device), non_blocking, copy); }
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false, std::optional<MemoryFormat> format = std::nullopt) const { return to(TensorOptions(other.scalar_type()).device(other.device()), non_blocking, copy, format); }
  Tensor to(std::optional<ScalarType> dtype, std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pinned, bool non_blocking, bool copy, std::optional<MemoryFormat> format) const { return to(TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pinned), non_blocking, copy, format); }
  Tensor toType(ScalarType dtype) const { return to(dtype); }
  Tensor cpu() const { return to(c10::kCPU); }
  Tensor cuda() const { return to(c10::kCUDA); }
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;

  Tensor operator[](int64_t index) const;
  Tensor operator[](const Scalar& index) const { return (*this)[index.toLong()]; }
  Tensor operator[](const Tensor& index) const;
  Tensor index(c10::ArrayRef<indexing::TensorIndex> at) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> at) const;
  Tensor index(const std::vector<std::optional<Tensor>>& at) const;
  Tensor& index_put_(c10::ArrayRef<indexing::TensorIndex> at, const Tensor& value);
  Tensor& index_put_(c10::ArrayRef<indexing::TensorIndex> at, const Scalar& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> at, const Tensor& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> at, const Scalar& value);
  Tensor& index_put_(const std::vector<std::optional<Tensor>>& at, const Tensor& value, bool accumulate = false);

#define RUSHLIGHT_UPDATE(sign, method)                                                   \
  Tensor& operator sign(const Tensor& o) { method(o); return *this; }                    \
  const Tensor& operator sign(const Tensor& o) const { method(o); return *this; }        \
  Tensor& operator sign(const Scalar& o) { method(o); return *this; }
  RUSHLIGHT_UPDATE(+=, add_)
  RUSHLIGHT_UPDATE(-=, sub_)
  RUSHLIGHT_UPDATE(*=, mul_)
  RUSHLIGHT_UPDATE(/=, div_)
  RUSHLIGHT_UPDATE(&=, bitwise_and_)
  RUSHLIGHT_UPDATE(|=, bitwise_or_)
  RUSHLIGHT_UPDATE(^=, bitwise_xor_)
#undef RUSHLIGHT_UPDATE
  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  Tensor& operator=(const Tensor& o) && { copy_(o); return *this; }     // x[0] = y
  Tensor& operator=(const Scalar& o) && { fill_(o); return *this; }
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;

#include <ATen/generated/methods.inc>

 private:
  unsigned add_hook(std::function<Tensor(Tensor)> hook) const;
  void* typed_data(ScalarType expected) const;
  void expect_dim(size_t count) const;
  c10::intrusive_ptr<c10::TensorImpl> impl_;
};
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// The gradient of a tensor as a place to store to.
class GradientSlot : public Tensor {
 public:
  const Tensor& operator=(const Tensor& value);
  void reset();

 private:
  friend class Tensor;
  Tensor owner_;
};

#define RUSHLIGHT_OPERATOR(sign, method, reversed)                                                           \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.method(b); }                      \
  inline Tensor operator sign(const Tensor& a, const Scalar& b) { return a.method(b); }                      \
  inline Tensor operator sign(const Scalar& a, const Tensor& b) { return reversed; }
RUSHLIGHT_OPERATOR(+, add, b.add(a))
RUSHLIGHT_OPERATOR(*, mul, b.mul(a))
RUSHLIGHT_OPERATOR(-, sub, b.neg().add(a))
RUSHLIGHT_OPERATOR(/, div, b.reciprocal().mul(a))
RUSHLIGHT_OPERATOR(%, remainder, b.new_full({}, a).remainder(b))
RUSHLIGHT_OPERATOR(<, lt, b.gt(a))
RUSHLIGHT_OPERATOR(<=, le, b.ge(a))
RUSHLIGHT_OPERATOR(>, gt, b.lt(a))
RUSHLIGHT_OPERATOR(>=, ge, b.le(a))
RUSHLIGHT_OPERATOR(==, eq, b.eq(a))
RUSHLIGHT_OPERATOR(!=, ne, b.ne(a))
RUSHLIGHT_OPERATOR(&, bitwise_and, b.bitwise_and(a))
RUSHLIGHT_OPERATOR(|, bitwise_or, b.bitwise_or(a))
RUSHLIGHT_OPERATOR(^, bitwise_xor, b.bitwise_xor(a))
#undef RUSHLIGHT_OPERATOR

// A tensor that may be absent, held by reference to nobody.
class OptionalTensorRef {
 public:
  OptionalTensorRef() = default;
  OptionalTensorRef(const Tensor& tensor) : tensor_(tensor) {}
  bool has_value() const { return tensor_.defined(); }
  explicit operator bool() const { return has_value(); }
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }
  const Tensor& getTensorRef() const { return tensor_; }

 private:
  Tensor tensor_;
};

namespace indexing {

struct Slice {
  Slice(std::optional<SymInt> from = {}, std::optional<SymInt> to = {}, std::optional<SymInt> by = {}) : start(from), stop(to), step(by) {}
  std::optional<int64_t> start, stop, step;
};
struct EllipsisIndexType {};
constexpr EllipsisIndexType Ellipsis;
constexpr std::nullopt_t None = std::nullopt;

// One part of an index: a number, a slice, a tensor, None or an ellipsis.
struct TensorIndex {
  enum Kind { kNone, kEllipsis, kInteger, kBoolean, kSlice, kTensor } kind;
  TensorIndex(std::nullopt_t) : kind(kNone) {}
  TensorIndex(EllipsisIndexType) : kind(kEllipsis) {}
  TensorIndex(const char* text) : kind(kEllipsis) { TORCH_CHECK_VALUE(std::string_view(text) == "...", "TensorIndex: expected \"...\", got \"", text, "\""); }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  TensorIndex(T value) : kind(std::is_same_v<T, bool> ? kBoolean : kInteger), number(static_cast<int64_t>(value)) {}
  TensorIndex(SymInt value) : kind(kInteger), number(value) {}
  TensorIndex(Slice value) : kind(kSlice), slice(value) {}
  TensorIndex(Tensor value) : kind(kTensor), tensor(std::move(value)) {}
  int64_t number = 0;
  Slice slice;
  Tensor tensor;
};

}  // namespace indexing

inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> at) const { return index(c10::ArrayRef<indexing::TensorIndex>(at)); }
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> at, const Tensor& value) { return index_put_(c10::ArrayRef<indexing::TensorIndex>(at), value); }
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> at, const Scalar& value) { return index_put_(c10::ArrayRef<indexing::TensorIndex>(at), value); }

}  // namespace at

namespace c10 {
template <class T>
class MaybeOwned {
 public:
  MaybeOwned() = default;
  static MaybeOwned borrowed(const T& value) { return MaybeOwned(value); }
  static MaybeOwned owned(T&& value) { return MaybeOwned(std::move(value)); }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  explicit MaybeOwned(T value) : value_(std::move(value)) {}
  T value_;
};
using at::Generator;
}  // namespace c10
