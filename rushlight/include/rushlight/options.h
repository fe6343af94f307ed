// Devices, layouts, memory formats, numbers of any type, and the options of factories.
#pragma once
#include <rushlight/arrays.h>
#include <rushlight/numbers.h>

namespace c10 {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, MKLDNN = 2, HIP = 6, XLA = 9, Vulkan = 10, XPU = 12, MPS = 13, Meta = 14, HPU = 15, Lazy = 17, IPU = 18, MTIA = 19, PrivateUse1 = 20 };
using DeviceIndex = int8_t;
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kXLA = DeviceType::XLA, kXPU = DeviceType::XPU,
                     kMPS = DeviceType::MPS, kMeta = DeviceType::Meta, kHIP = DeviceType::HIP, kLazy = DeviceType::Lazy,
                     kPrivateUse1 = DeviceType::PrivateUse1;
std::string DeviceTypeName(DeviceType type, bool lower_case = true);
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << DeviceTypeName(type); }

class Device {
 public:
  using Type = DeviceType;
  Device() = default;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text);
  Device(const char* text) : Device(std::string(text)) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cpu() const { return type_ == kCPU; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_meta() const { return type_ == kMeta; }
  bool is_mps() const { return type_ == kMPS; }
  bool is_xpu() const { return type_ == kXPU; }
  bool is_privateuseone() const { return type_ == kPrivateUse1; }
  std::string str() const { return DeviceTypeName(type_) + (has_index() ? ":" + std::to_string(index_) : ""); }
  bool operator==(const Device& o) const { return type_ == o.type_ && index_ == o.index_; }
  bool operator!=(const Device& o) const { return !(*this == o); }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

 private:
  DeviceType type_ = kCPU;
  DeviceIndex index_ = -1;
};

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc, Jagged, NumOptions };
constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr,
                 kMkldnn = Layout::Mkldnn, kSparseCsc = Layout::SparseCsc, kSparseBsr = Layout::SparseBsr,
                 kSparseBsc = Layout::SparseBsc, kJagged = Layout::Jagged;
std::string toString(Layout layout);
inline std::ostream& operator<<(std::ostream& out, Layout layout) { return out << toString(layout); }

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d, NumOptions };
std::string toString(MemoryFormat format);
inline std::ostream& operator<<(std::ostream& out, MemoryFormat format) { return out << toString(format); }

// The order of keys is PyTorch's; the values are this library's own.
#define RUSHLIGHT_KEYS(X)                                                                                              \
  X(Undefined) X(CPU) X(CUDA) X(Meta) X(XLA) X(Lazy) X(MPS) X(XPU) X(PrivateUse1) X(QuantizedCPU) X(QuantizedCUDA)       \
  X(SparseCPU) X(SparseCUDA) X(MkldnnCPU) X(BackendSelect) X(Functionalize) X(ADInplaceOrView) X(Autograd)             \
  X(AutogradCPU) X(AutogradCUDA) X(AutogradXLA) X(AutogradMPS) X(AutogradMeta) X(AutogradOther) X(AutogradPrivateUse1) \
  X(Autocast) X(AutocastCPU) X(AutocastCUDA) X(Tracer) X(Python) X(FuncTorchBatched) X(CompositeImplicitAutograd)      \
  X(CompositeExplicitAutograd) X(CompositeExplicitAutogradNonFunctional) X(CatchAll)
enum class DispatchKey : uint16_t {
#define X(name) name,
  RUSHLIGHT_KEYS(X)
#undef X
  AutocastGPU = AutocastCUDA
};
const char* toString(DispatchKey key);
inline std::ostream& operator<<(std::ostream& out, DispatchKey key) { return out << toString(key); }
using Backend = DispatchKey;

// A number that remembers which kind it is.
class Scalar {
 public:
  Scalar() : Scalar(int64_t(0)) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) kind_ = kBoolean, whole_ = value;
    else if constexpr (std::is_floating_point_v<T>) kind_ = kReal, real_ = value;
    else kind_ = sizeof(T) == 8 && std::is_unsigned_v<T> ? kUnsigned : kWhole, whole_ = static_cast<int64_t>(value);
  }
  Scalar(Half value) : Scalar(double(float(value))) {}
  Scalar(BFloat16 value) : Scalar(double(float(value))) {}
  Scalar(SymInt value) : Scalar(int64_t(value)) {}
  template <class T>
  Scalar(std::complex<T> value) : kind_(kComplex), real_(value.real()), imaginary_(value.imag()) {}

  bool isFloatingPoint() const { return kind_ == kReal; }
  bool isComplex() const { return kind_ == kComplex; }
  bool isBoolean() const { return kind_ == kBoolean; }
  bool isIntegral(bool with_bool = false) const { return kind_ == kWhole || kind_ == kUnsigned || (with_bool && isBoolean()); }
  bool isUnsigned() const { return kind_ == kUnsigned; }
  bool isSymbolic() const { return false; }
  ScalarType type() const;
  Scalar operator-() const;
  Scalar conj() const { return isComplex() ? Scalar(std::conj(whole_complex())) : *this; }
  bool equal(const Scalar& o) const;
  template <class T>
  bool equal(T number) const { return equal(Scalar(number)); }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, Scalar>) return *this;
    else if constexpr (is_complex_number<T>::value) return T(static_cast<typename T::value_type>(as_double()), static_cast<typename T::value_type>(imaginary_));
    else if constexpr (std::is_same_v<T, bool>) return isFloatingPoint() || isComplex() ? real_ != 0 || imaginary_ != 0 : whole_ != 0;
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(checked_whole(std::numeric_limits<T>::lowest() < 0, sizeof(T)));
    else if constexpr (std::is_same_v<T, SymInt>) return SymInt(toLong());
    else { refuse_complex(); return static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(as_double())); }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  int16_t toShort() const { return to<int16_t>(); }
  int8_t toChar() const { return to<int8_t>(); }
  uint8_t toByte() const { return to<uint8_t>(); }
  bool toBool() const { return to<bool>(); }
  Half toHalf() const { return to<Half>(); }
  BFloat16 toBFloat16() const { return to<BFloat16>(); }
  SymInt toSymInt() const { return toLong(); }
  std::complex<float> toComplexFloat() const { return to<std::complex<float>>(); }
  std::complex<double> toComplexDouble() const { return to<std::complex<double>>(); }

 private:
  enum Kind : uint8_t { kWhole, kUnsigned, kReal, kBoolean, kComplex };
  template <class T>
  struct is_complex_number : std::false_type {};
  template <class T>
  struct is_complex_number<std::complex<T>> : std::true_type {};
  double as_double() const {
    return kind_ == kReal || kind_ == kComplex ? real_ : kind_ == kUnsigned ? static_cast<double>(static_cast<uint64_t>(whole_)) : static_cast<double>(whole_);
  }
  std::complex<double> whole_complex() const { return {as_double(), imaginary_}; }
  int64_t checked_whole(bool is_signed, size_t bytes) const;
  void refuse_complex() const;
  Kind kind_;
  int64_t whole_ = 0;
  double real_ = 0, imaginary_ = 0;
};
std::ostream& operator<<(std::ostream& out, const Scalar& number);
template <class T>
T checked_convert(Scalar number) { return number.to<T>(); }

// What factories are asked for; what is not said is the default.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(TypeMeta dtype) : dtype_(ScalarType(dtype)) {}
  TensorOptions(MemoryFormat format) : memory_format_(format) {}

  TensorOptions device(std::optional<Device> value) const { auto r = *this; r.device_ = value; return r; }
  TensorOptions device(Device value) const { return device(std::optional<Device>(value)); }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  TensorOptions device_index(int index) const { return device(Device(kCUDA, static_cast<DeviceIndex>(index))); }
  TensorOptions dtype(std::optional<ScalarType> value) const { auto r = *this; r.dtype_ = value; return r; }
  TensorOptions dtype(ScalarType value) const { return dtype(std::optional<ScalarType>(value)); }
  TensorOptions dtype(TypeMeta value) const { return dtype(ScalarType(value)); }
  template <class T>
  TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
  TensorOptions layout(std::optional<Layout> value) const { auto r = *this; r.layout_ = value; return r; }
  TensorOptions layout(Layout value) const { return layout(std::optional<Layout>(value)); }
  TensorOptions requires_grad(std::optional<bool> value) const { auto r = *this; r.requires_grad_ = value; return r; }
  TensorOptions pinned_memory(std::optional<bool> value) const { auto r = *this; r.pinned_ = value; return r; }
  TensorOptions memory_format(std::optional<MemoryFormat> value) const { auto r = *this; r.memory_format_ = value; return r; }
  TensorOptions merge_in(const TensorOptions& over) const;
  TensorOptions merge_memory_format(std::optional<MemoryFormat> value) const { return value ? memory_format(value) : *this; }

  Device device() const { return device_.value_or(Device(kCPU)); }
  TypeMeta dtype() const { return dtype_ ? TypeMeta(*dtype_) : get_default_dtype(); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_.value_or(false); }
  bool has_device() const { return device_.has_value(); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_layout() const { return layout_.has_value(); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  bool has_pinned_memory() const { return pinned_.has_value(); }
  bool has_memory_format() const { return memory_format_.has_value(); }
  bool is_sparse() const { return layout() == kSparse; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<TypeMeta> dtype_opt() const { return dtype_ ? std::optional<TypeMeta>(TypeMeta(*dtype_)) : std::nullopt; }
  std::optional<ScalarType> scalar_type_opt() const { return dtype_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }

 private:
  std::optional<Device> device_;
  std::optional<ScalarType> dtype_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_;
  std::optional<MemoryFormat> memory_format_;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(TypeMeta type) { return TensorOptions(type); }
template <class T>
inline TensorOptions dtype() { return TensorOptions(CppTypeToScalarType<T>::value); }
inline TensorOptions device(Device value) { return TensorOptions(value); }
inline TensorOptions device_index(int index) { return TensorOptions().device_index(index); }
inline TensorOptions layout(Layout value) { return TensorOptions(value); }
inline TensorOptions requires_grad(bool value = true) { return TensorOptions().requires_grad(std::optional<bool>(value)); }
inline TensorOptions memory_format(MemoryFormat value) { return TensorOptions(value); }

}  // namespace c10

template <>
struct std::hash<c10::Device> {
  size_t operator()(c10::Device d) const noexcept { return static_cast<size_t>(static_cast<int>(d.type()) * 256 + d.index() + 1); }
};

namespace at {
using namespace c10;
}
