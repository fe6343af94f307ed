// torch::stable::Tensor and what it is made of, and values on the stack of a kernel: StableIValue from T and to T.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <rushlight/stable/headeronly.h>
#include <rushlight/stable/shim.h>

namespace torch::stable::detail {
[[noreturn]] __attribute__((visibility("hidden"), noinline)) inline void call_failed(const char* call, const char* file, int line) {
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
  throw std::runtime_error(torch_exception_get_what_without_backtrace());
#else
  throw std::runtime_error(std::string(call) + " failed at " + file + ":" + std::to_string(line));
#endif
}
}  // namespace torch::stable::detail
#define TORCH_ERROR_CODE_CHECK(call)                                                                \
  do {                                                                                              \
    if ((call) != TORCH_SUCCESS) ::torch::stable::detail::call_failed(#call, __FILE__, __LINE__);   \
  } while (false)
#define STABLE_TORCH_ERROR_CODE_CHECK(call) TORCH_ERROR_CODE_CHECK(call)

namespace torch {
namespace stable __attribute__((visibility("hidden"))) {

using torch::headeronly::DeviceIndex;
using torch::headeronly::DeviceType;
using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;

namespace detail {

// Numbers of types are asked for: they need not be the same on the other side.
template <class E>
struct Numbered {
  E value;
  int32_t (*number)();
};
template <class E>
struct Numbers;
#define RUSHLIGHT_NUMBERED(E, list)                                   \
  template <>                                                         \
  struct Numbers<E> {                                                 \
    using Type = E;                                                   \
    static constexpr const char* name = #E;                           \
    static constexpr Numbered<E> all[] = {list};                      \
  };
#define X(value, function) {Type::value, function},
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
RUSHLIGHT_NUMBERED(ScalarType, RUSHLIGHT_DTYPES(X) RUSHLIGHT_LATER_DTYPES(X))
#else
RUSHLIGHT_NUMBERED(ScalarType, RUSHLIGHT_DTYPES(X))
#endif
RUSHLIGHT_NUMBERED(DeviceType, RUSHLIGHT_DEVICE_TYPES(X))
RUSHLIGHT_NUMBERED(Layout, RUSHLIGHT_LAYOUTS(X))
RUSHLIGHT_NUMBERED(MemoryFormat, RUSHLIGHT_FORMATS(X))
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_12_0
using torch::headeronly::Tag;
RUSHLIGHT_NUMBERED(Tag, RUSHLIGHT_TAGS(X))
#endif
#undef X
#undef RUSHLIGHT_NUMBERED

template <class E>
int32_t number_of(E value) {
  for (const auto& one : Numbers<E>::all)
    if (one.value == value) return one.number();
  throw std::runtime_error(std::string(Numbers<E>::name) + " number " + std::to_string(static_cast<int>(value)) + " has no form in the stable ABI");
}
template <class E>
E of_number(int32_t number) {
  for (const auto& one : Numbers<E>::all)
    if (one.number() == number) return one.value;
  throw std::runtime_error(std::string(Numbers<E>::name) + ": the number " + std::to_string(number) + " is not known to this library");
}

}  // namespace detail

class Device {
 public:
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {
    STD_TORCH_CHECK(index >= -1, "Device: an index is -1 or more, got ", static_cast<int>(index));
  }
  Device(const std::string& text) : type_(DeviceType::CPU) {
    uint32_t type = 0;
    int32_t index = -1;
    TORCH_ERROR_CODE_CHECK(torch_parse_device_string(text.c_str(), &type, &index));
    type_ = detail::of_number<DeviceType>(static_cast<int32_t>(type));
    index_ = static_cast<DeviceIndex>(index);
  }
  Device(const char* text) : Device(std::string(text)) {}
  DeviceType type() const noexcept { return type_; }
  DeviceIndex index() const noexcept { return index_; }
  bool has_index() const noexcept { return index_ != -1; }
  void set_index(DeviceIndex index) { *this = Device(type_, index); }
  bool is_cpu() const noexcept { return type_ == DeviceType::CPU; }
  bool is_cuda() const noexcept { return type_ == DeviceType::CUDA; }
  bool operator==(const Device& o) const noexcept { return type_ == o.type_ && index_ == o.index_; }
  bool operator!=(const Device& o) const noexcept { return !(*this == o); }

 private:
  DeviceType type_;
  DeviceIndex index_ = -1;
};

#define RUSHLIGHT_ASK(type, function)                        \
  type found_;                                               \
  TORCH_ERROR_CODE_CHECK(function(get(), &found_));          \
  return found_
// A counted reference to a tensor. Copies share it.
class Tensor {
 public:
  Tensor() : Tensor([] {
    AtenTensorHandle made = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&made));
    return made;
  }()) {}
  explicit Tensor(AtenTensorHandle owned) : handle_(owned, [](AtenTensorHandle h) { aoti_torch_delete_tensor_object(h); }) {}
  AtenTensorHandle get() const { return handle_.get(); }

  bool defined() const { RUSHLIGHT_ASK(bool, aoti_torch_is_defined); }
  int64_t dim() const { RUSHLIGHT_ASK(int64_t, aoti_torch_get_dim); }
  int64_t numel() const { RUSHLIGHT_ASK(int64_t, aoti_torch_get_numel); }
  bool is_contiguous() const { RUSHLIGHT_ASK(bool, aoti_torch_is_contiguous); }
  int64_t storage_offset() const { RUSHLIGHT_ASK(int64_t, aoti_torch_get_storage_offset); }
  void* data_ptr() const { RUSHLIGHT_ASK(void*, aoti_torch_get_data_ptr); }
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
  void* mutable_data_ptr() const { RUSHLIGHT_ASK(void*, torch_get_mutable_data_ptr); }
  const void* const_data_ptr() const { RUSHLIGHT_ASK(const void*, torch_get_const_data_ptr); }
  const Tensor& set_requires_grad(bool value) const { TORCH_ERROR_CODE_CHECK(torch_set_requires_grad(get(), value)); return *this; }
#else
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
#endif
  template <class T>
  T* mutable_data_ptr() const { expect<T>(); return static_cast<T*>(mutable_data_ptr()); }
  template <class T>
  const T* const_data_ptr() const { expect<std::remove_const_t<T>>(); return static_cast<const T*>(const_data_ptr()); }
  IntHeaderOnlyArrayRef sizes() const { return {array(aoti_torch_get_sizes), static_cast<size_t>(dim())}; }
  IntHeaderOnlyArrayRef strides() const { return {array(aoti_torch_get_strides), static_cast<size_t>(dim())}; }
  int64_t size(int64_t dim) const {
    int64_t found;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_size(get(), dim, &found));
    return found;
  }
  int64_t stride(int64_t dim) const {
    int64_t found;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_stride(get(), dim, &found));
    return found;
  }
  ScalarType scalar_type() const { return detail::of_number<ScalarType>(number(aoti_torch_get_dtype)); }
  Layout layout() const { return detail::of_number<Layout>(number(aoti_torch_get_layout)); }
  Device device() const { return Device(detail::of_number<DeviceType>(number(aoti_torch_get_device_type)), get_device_index()); }
  DeviceIndex get_device_index() const { return static_cast<DeviceIndex>(number(aoti_torch_get_device_index)); }
  int8_t get_device() const { return get_device_index(); }
  bool is_cuda() const { return number(aoti_torch_get_device_type) == aoti_torch_device_type_cuda(); }
  bool is_cpu() const { return number(aoti_torch_get_device_type) == aoti_torch_device_type_cpu(); }
  size_t element_size() const { return aoti_torch_dtype_element_size(number(aoti_torch_get_dtype)); }

 private:
  template <class F>
  int32_t number(F function) const { int32_t found; TORCH_ERROR_CODE_CHECK(function(get(), &found)); return found; }
  template <class F>
  const int64_t* array(F function) const { int64_t* found; TORCH_ERROR_CODE_CHECK(function(get(), &found)); return found; }
  template <class T>
  void expect() const {
    constexpr ScalarType wanted = c10::CppTypeToScalarType<T>::value;
    const ScalarType found = scalar_type();
    STD_TORCH_CHECK(found == wanted, "the tensor's elements are ", c10::toString(found), ", not ", c10::toString(wanted));
  }
  std::shared_ptr<AtenTensorOpaque> handle_;
};
#undef RUSHLIGHT_ASK

#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
// A source of random numbers. Copies share it.
class Generator {
 public:
  explicit Generator(AtenGeneratorHandle owned) : handle_(owned, [](AtenGeneratorHandle h) { torch_delete_generator(h); }) {}
  AtenGeneratorHandle get() const { return handle_.get(); }
  Device device() const {
    int32_t type, index;
    TORCH_ERROR_CODE_CHECK(torch_generator_get_device(get(), &type, &index));
    return Device(detail::of_number<DeviceType>(type), static_cast<DeviceIndex>(index));
  }

 private:
  std::shared_ptr<AtenGeneratorOpaque> handle_;
};
#endif

// --- values on the stack: whoever reads one owns what it stands for ---------------------------------------------------

namespace detail {

template <class T, class = void>
struct Carried;                               // from(const T&), to(StableIValue)

template <class T>
StableIValue from(const T& value) { return Carried<T>::from(value); }
template <class T>
T to(StableIValue value) { return Carried<T>::to(value); }
inline StableIValue of_pointer(const void* pointer) { return reinterpret_cast<StableIValue>(pointer); }
template <class H>
H handle_in(StableIValue value) { return reinterpret_cast<H>(static_cast<uintptr_t>(value)); }

template <class T>
struct Carried<T, std::enable_if_t<std::is_integral_v<T>>> {
  static StableIValue from(T value) { return static_cast<StableIValue>(static_cast<int64_t>(value)); }
  static T to(StableIValue value) { return static_cast<T>(value); }
};
template <class T>
struct Carried<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static StableIValue from(T value) { const double wide = value; StableIValue v; std::memcpy(&v, &wide, sizeof v); return v; }
  static T to(StableIValue value) { double wide; std::memcpy(&wide, &value, sizeof wide); return static_cast<T>(wide); }
};
template <class T>
struct Carried<T*> {
  static StableIValue from(T* value) { return of_pointer(value); }
  static T* to(StableIValue value) { return handle_in<T*>(value); }
};
template <class T>
struct Carried<T, std::void_t<decltype(Numbers<T>::all)>> {
  static StableIValue from(T value) { return static_cast<StableIValue>(static_cast<uint32_t>(number_of(value))); }
  static T to(StableIValue value) { return of_number<T>(static_cast<int32_t>(value)); }
};
template <>
struct Carried<std::nullopt_t> {
  static StableIValue from(std::nullopt_t) { return 0; }
};
template <class T>
struct Carried<std::optional<T>> {
  static StableIValue from(const std::optional<T>& value) {
    if (!value) return 0;
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    StableIValue* kept = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_stable_ivalue(&kept));
    *kept = detail::from(*value);
    return of_pointer(kept);
#else
    return of_pointer(new StableIValue(detail::from(*value)));
#endif
  }
  static std::optional<T> to(StableIValue value) {
    if (!value) return std::nullopt;
    auto* kept = handle_in<StableIValue*>(value);
    const StableIValue inner = *kept;
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    torch_delete_stable_ivalue(kept);
#else
    delete kept;
#endif
    return detail::to<T>(inner);
  }
};
template <>
struct Carried<Tensor> {
  static StableIValue from(const Tensor& value) {
    AtenTensorHandle more = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(value.get(), &more));
    return of_pointer(more);
  }
  static Tensor to(StableIValue value) { return Tensor(handle_in<AtenTensorHandle>(value)); }
};
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
template <>
struct Carried<Generator> {
  static StableIValue from(const Generator& value) {
    AtenGeneratorHandle more = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_generator_handle(value.get(), &more));
    return of_pointer(more);
  }
  static Generator to(StableIValue value) { return Generator(handle_in<AtenGeneratorHandle>(value)); }
};
#endif
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
template <>
struct Carried<Device> {                      // the type in the upper half, the index in the lower
  static StableIValue from(const Device& value) {
    return static_cast<StableIValue>(static_cast<uint32_t>(number_of(value.type()))) << 32 | static_cast<uint32_t>(static_cast<int32_t>(value.index()));
  }
  static Device to(StableIValue value) {
    return Device(of_number<DeviceType>(static_cast<int32_t>(value >> 32)), static_cast<DeviceIndex>(static_cast<int32_t>(value & 0xffffffffu)));
  }
};
template <>
struct Carried<std::string_view> {
  static StableIValue from(std::string_view value) {
    StringHandle made = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_string_handle(value.data(), value.size(), &made));
    return of_pointer(made);
  }
};
template <>
struct Carried<std::string> {
  static StableIValue from(const std::string& value) { return Carried<std::string_view>::from(value); }
  static std::string to(StableIValue value) {
    std::unique_ptr<StringOpaque, AOTITorchError (*)(StringHandle)> owned(handle_in<StringHandle>(value), torch_delete_string);
    size_t size = 0;
    const char* text = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(owned.get(), &size));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(owned.get(), &text));
    return {text, size};
  }
};
template <class T>
struct Carried<torch::headeronly::HeaderOnlyArrayRef<T>> {
  static StableIValue from(torch::headeronly::HeaderOnlyArrayRef<T> values) {
    StableListHandle list = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
    for (const T& value : values) TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, detail::from(value)));
    return of_pointer(list);
  }
};
template <class T>
struct Carried<std::vector<T>> {
  static StableIValue from(const std::vector<T>& values) {
    StableListHandle list = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
    for (const T& value : values) TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, detail::from(value)));
    return of_pointer(list);
  }
  static std::vector<T> to(StableIValue value) {
    std::unique_ptr<StableListOpaque, AOTITorchError (*)(StableListHandle)> owned(handle_in<StableListHandle>(value), torch_delete_list);
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_size(owned.get(), &size));
    std::vector<T> all;
    all.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      StableIValue item;
      TORCH_ERROR_CODE_CHECK(torch_list_get_item(owned.get(), i, &item));
      all.push_back(detail::to<T>(item));
    }
    return all;
  }
};
#endif

}  // namespace detail
}  // namespace stable
}  // namespace torch

template <class T>
StableIValue from(const T& value) { return torch::stable::detail::from(value); }
template <class T>
T to(StableIValue value) { return torch::stable::detail::to<T>(value); }
