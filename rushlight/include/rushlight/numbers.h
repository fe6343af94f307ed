// Element types: the 16 and 8 bit floats, complex numbers, and ScalarType, which names them all.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

#include <rushlight/error.h>

namespace c10 {

namespace detail {
C10_HOST_DEVICE inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
C10_HOST_DEVICE inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
// A small float of `exponent` and `mantissa` bits, widened. All bits of the exponent set: infinity or NaN.
C10_HOST_DEVICE inline float widened(uint32_t bits, int exponent, int mantissa) {
  if (exponent == 8) return float_of(bits << (23 - mantissa));   // float's own exponent
  const uint32_t sign = (bits >> (exponent + mantissa)) << 31;
  const uint32_t rest = bits & ((1u << (exponent + mantissa)) - 1), most = (1u << exponent) - 1;
  const uint32_t power = rest >> mantissa, part = rest & ((1u << mantissa) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  if (power == most) return float_of(sign | 0x7f800000u | (part << (23 - mantissa)));
  if (power) return float_of(sign | ((power + 127 - bias) << 23) | (part << (23 - mantissa)));
  const float value = static_cast<float>(part) * float_of(static_cast<uint32_t>(127 + 1 - bias - mantissa) << 23);
  return sign ? -value : value;
}
// Rounded to nearest, ties to even.
C10_HOST_DEVICE inline uint32_t narrowed(float value, int exponent, int mantissa) {
  const uint32_t bits = bits_of(value), sign = (bits >> 31) << (exponent + mantissa), size = bits & 0x7fffffffu;
  const uint32_t infinite = ((1u << exponent) - 1) << mantissa;
  if (size > 0x7f800000u) return sign | infinite | (1u << (mantissa - 1));
  if (exponent == 8) return (bits + (1u << (22 - mantissa)) - 1 + ((bits >> (23 - mantissa)) & 1)) >> (23 - mantissa);
  const int bias = (1 << (exponent - 1)) - 1, power = static_cast<int>(size >> 23) - 127 + bias;
  if (power >= (1 << exponent) - 1) return sign | infinite;
  int drop = 23 - mantissa;
  uint32_t kept = (size & 0x7fffffu) | (static_cast<uint32_t>(power > 0 ? power : 0) << 23);
  if (power <= 0) {
    if (power < -mantissa) return sign;
    kept = (size & 0x7fffffu) | 0x800000u;
    drop += 1 - power;
  }
  const uint32_t half = 1u << (drop - 1), rest = kept & ((1u << drop) - 1);
  uint32_t result = kept >> drop;
  result += rest > half || (rest == half && (result & 1));
  return sign | result;
}
}  // namespace detail

#define RUSHLIGHT_SMALL_FLOAT(name, word, exponent, mantissa)                                                       \
  struct alignas(sizeof(word)) name {                                                                               \
    word x;                                                                                                         \
    struct from_bits_t {};                                                                                          \
    static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return {}; }                                         \
    name() = default;                                                                                               \
    constexpr C10_HOST_DEVICE name(word bits, from_bits_t) : x(bits) {}                                             \
    C10_HOST_DEVICE name(float value) : x(static_cast<word>(detail::narrowed(value, exponent, mantissa))) {}        \
    C10_HOST_DEVICE operator float() const { return detail::widened(x, exponent, mantissa); }                       \
    C10_HOST_DEVICE name& operator+=(name o) { return *this = float(*this) + float(o); }                            \
    C10_HOST_DEVICE name& operator-=(name o) { return *this = float(*this) - float(o); }                            \
    C10_HOST_DEVICE name& operator*=(name o) { return *this = float(*this) * float(o); }                            \
    C10_HOST_DEVICE name& operator/=(name o) { return *this = float(*this) / float(o); }                            \
    C10_HOST_DEVICE name operator-() const { return -float(*this); }                                                \
  };                                                                                                                \
  C10_HOST_DEVICE inline name operator+(name a, name b) { return float(a) + float(b); }                             \
  C10_HOST_DEVICE inline name operator-(name a, name b) { return float(a) - float(b); }                             \
  C10_HOST_DEVICE inline name operator*(name a, name b) { return float(a) * float(b); }                             \
  C10_HOST_DEVICE inline name operator/(name a, name b) { return float(a) / float(b); }                             \
  RUSHLIGHT_MIXED(name, float, float, float)                                                                        \
  RUSHLIGHT_MIXED(name, double, double, double)                                                                     \
  RUSHLIGHT_MIXED(name, int, name, float)                                                                           \
  RUSHLIGHT_MIXED(name, int64_t, name, float)                                                                       \
  inline std::ostream& operator<<(std::ostream& out, name value) { return out << float(value); }
#define RUSHLIGHT_MIXED(name, other, result, as)                                                                             \
  C10_HOST_DEVICE inline result operator+(name a, other b) { return static_cast<as>(a) + static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator-(name a, other b) { return static_cast<as>(a) - static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator*(name a, other b) { return static_cast<as>(a) * static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator/(name a, other b) { return static_cast<as>(a) / static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator+(other a, name b) { return static_cast<as>(a) + static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator-(other a, name b) { return static_cast<as>(a) - static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator*(other a, name b) { return static_cast<as>(a) * static_cast<as>(b); }      \
  C10_HOST_DEVICE inline result operator/(other a, name b) { return static_cast<as>(a) / static_cast<as>(b); }
RUSHLIGHT_SMALL_FLOAT(Half, uint16_t, 5, 10)
RUSHLIGHT_SMALL_FLOAT(BFloat16, uint16_t, 8, 7)
RUSHLIGHT_SMALL_FLOAT(Float8_e5m2, uint8_t, 5, 2)
#undef RUSHLIGHT_SMALL_FLOAT
#undef RUSHLIGHT_MIXED

// The formats without infinities convert on the Python side alone; here they are bits of the right size.
#define RUSHLIGHT_BITS(name, word) struct alignas(sizeof(word)) name { word x; }
RUSHLIGHT_BITS(Float8_e4m3fn, uint8_t);
RUSHLIGHT_BITS(Float8_e5m2fnuz, uint8_t);
RUSHLIGHT_BITS(Float8_e4m3fnuz, uint8_t);
RUSHLIGHT_BITS(Float8_e8m0fnu, uint8_t);
RUSHLIGHT_BITS(Float4_e2m1fn_x2, uint8_t);
#undef RUSHLIGHT_BITS
struct alignas(1) qint8 { using underlying = int8_t; int8_t val_; };
struct alignas(1) quint8 { using underlying = uint8_t; uint8_t val_; };
struct alignas(4) qint32 { using underlying = int32_t; int32_t val_; };

template <class T>
using complex = std::complex<T>;
struct ComplexHalf { Half real_, imag_; };

// X(C++ type, name, number): PyTorch's numbers, which saved files and schemas have.
#define AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)                                                       \
  X(uint8_t, Byte, 0) X(int8_t, Char, 1) X(int16_t, Short, 2) X(int, Int, 3) X(int64_t, Long, 4)               \
  X(::c10::Half, Half, 5) X(float, Float, 6) X(double, Double, 7) X(::c10::ComplexHalf, ComplexHalf, 8)        \
  X(::c10::complex<float>, ComplexFloat, 9) X(::c10::complex<double>, ComplexDouble, 10) X(bool, Bool, 11)     \
  X(::c10::qint8, QInt8, 12) X(::c10::quint8, QUInt8, 13) X(::c10::qint32, QInt32, 14)                         \
  X(::c10::BFloat16, BFloat16, 15) X(::c10::Float8_e5m2, Float8_e5m2, 23)                                      \
  X(::c10::Float8_e4m3fn, Float8_e4m3fn, 24) X(::c10::Float8_e5m2fnuz, Float8_e5m2fnuz, 25)                    \
  X(::c10::Float8_e4m3fnuz, Float8_e4m3fnuz, 26) X(uint16_t, UInt16, 27) X(uint32_t, UInt32, 28)               \
  X(uint64_t, UInt64, 29) X(::c10::Float8_e8m0fnu, Float8_e8m0fnu, 44)                                         \
  X(::c10::Float4_e2m1fn_x2, Float4_e2m1fn_x2, 45)
#define AT_FORALL_SCALAR_TYPES(X)                                                                      \
  X(uint8_t, Byte) X(int8_t, Char) X(int16_t, Short) X(int, Int) X(int64_t, Long) X(float, Float)       \
  X(double, Double)

enum class ScalarType : int8_t {
#define X(type, name, number) name = number,
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
  QUInt4x2 = 16, QUInt2x4 = 17, Bits1x8 = 18, Bits2x4 = 19, Bits4x2 = 20, Bits8 = 21, Bits16 = 22,
  Undefined = 46,
  NumOptions
};
#define X(type, name, number) constexpr ScalarType k##name = ScalarType::name;
AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
constexpr ScalarType kQUInt4x2 = ScalarType::QUInt4x2, kQUInt2x4 = ScalarType::QUInt2x4;
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kF16 = kHalf,
                     kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kU8 = kByte, kI8 = kChar, kI16 = kShort,
                     kI32 = kInt, kI64 = kLong, kF32 = kFloat, kF64 = kDouble;

template <class T>
struct CppTypeToScalarType;
template <ScalarType N>
struct ScalarTypeToCPPType;
#define X(cpp, name, number)                                                                         \
  template <>                                                                                        \
  struct CppTypeToScalarType<cpp> : std::integral_constant<ScalarType, ScalarType::name> {};         \
  template <>                                                                                        \
  struct ScalarTypeToCPPType<ScalarType::name> { using type = cpp; };
AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
template <>   // the other 64-bit integer of this platform
struct CppTypeToScalarType<std::conditional_t<std::is_same_v<int64_t, long>, long long, long>>
    : std::integral_constant<ScalarType, ScalarType::Long> {};
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;

inline const char* toString(ScalarType type) {
  switch (type) {
#define X(cpp, name, number) case ScalarType::name: return #name;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
    case ScalarType::Undefined: return "Undefined";
    default: return "UNKNOWN_SCALAR";
  }
}
size_t elementSize(ScalarType type);
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }
inline bool isReducedFloatingType(ScalarType t) {
  return t == kHalf || t == kBFloat16 || (t >= kFloat8_e5m2 && t <= kFloat8_e4m3fnuz) || t == kFloat8_e8m0fnu;
}
inline bool isFloatingType(ScalarType t) { return t == kFloat || t == kDouble || isReducedFloatingType(t); }
inline bool isComplexType(ScalarType t) { return t == kComplexHalf || t == kComplexFloat || t == kComplexDouble; }
inline bool isIntegralType(ScalarType t, bool with_bool = false) {
  return (t >= kByte && t <= kLong) || (t >= kUInt16 && t <= kUInt64) || (with_bool && t == kBool);
}
inline bool isQIntType(ScalarType t) { return t == kQInt8 || t == kQUInt8 || t == kQInt32 || t == kQUInt4x2 || t == kQUInt2x4; }
inline bool isSignedType(ScalarType t) { return !(t == kByte || t == kBool || (t >= kUInt16 && t <= kUInt64)); }
inline bool isFloat8Type(ScalarType t) { return (t >= kFloat8_e5m2 && t <= kFloat8_e4m3fnuz) || t == kFloat8_e8m0fnu; }
inline ScalarType toComplexType(ScalarType t) {
  return t == kDouble || t == kComplexDouble ? kComplexDouble : t == kHalf || t == kComplexHalf ? kComplexHalf : kComplexFloat;
}
inline ScalarType toRealValueType(ScalarType t) {
  return t == kComplexFloat ? kFloat : t == kComplexDouble ? kDouble : t == kComplexHalf ? kHalf : t;
}
ScalarType promoteTypes(ScalarType a, ScalarType b);
bool canCast(ScalarType from, ScalarType to);

// dtype(): compares with ScalarType, and prints and converts as PyTorch's TypeMeta does.
class TypeMeta {
 public:
  constexpr TypeMeta() = default;
  constexpr TypeMeta(ScalarType type) : type_(type) {}
  template <class T>
  static TypeMeta Make() { return CppTypeToScalarType<T>::value; }
  static TypeMeta fromScalarType(ScalarType type) { return type; }
  constexpr ScalarType toScalarType() const { return type_; }
  constexpr operator ScalarType() const { return type_; }
  size_t itemsize() const { return elementSize(type_); }
  template <class T>
  bool Match() const { return type_ == CppTypeToScalarType<T>::value; }
  std::string name() const;
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }
  friend bool operator!=(TypeMeta a, ScalarType b) { return a.type_ != b; }
  friend bool operator==(ScalarType a, TypeMeta b) { return a == b.type_; }
  friend bool operator!=(ScalarType a, TypeMeta b) { return a != b.type_; }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << type.name(); }

 private:
  ScalarType type_ = ScalarType::Undefined;
};
inline ScalarType typeMetaToScalarType(TypeMeta type) { return type; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }
ScalarType get_default_dtype_as_scalartype();
inline TypeMeta get_default_dtype() { return get_default_dtype_as_scalartype(); }
template <class T>
inline C10_HOST_DEVICE T load(const T* at) { return *at; }

}  // namespace c10

namespace caffe2 {
using c10::TypeMeta;
}

template <>
struct std::numeric_limits<c10::Half> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                        has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5, radix = 2, max_exponent = 16, min_exponent = -13;
  static constexpr c10::Half bits(uint16_t v) { return {v, c10::Half::from_bits()}; }
  static constexpr c10::Half min() { return bits(0x0400); }
  static constexpr c10::Half lowest() { return bits(0xFBFF); }
  static constexpr c10::Half max() { return bits(0x7BFF); }
  static constexpr c10::Half epsilon() { return bits(0x1400); }
  static constexpr c10::Half infinity() { return bits(0x7C00); }
  static constexpr c10::Half quiet_NaN() { return bits(0x7E00); }
  static constexpr c10::Half denorm_min() { return bits(0x0001); }
};
template <>
struct std::numeric_limits<c10::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                        has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4, radix = 2, max_exponent = 128, min_exponent = -125;
  static constexpr c10::BFloat16 bits(uint16_t v) { return {v, c10::BFloat16::from_bits()}; }
  static constexpr c10::BFloat16 min() { return bits(0x0080); }
  static constexpr c10::BFloat16 lowest() { return bits(0xFF7F); }
  static constexpr c10::BFloat16 max() { return bits(0x7F7F); }
  static constexpr c10::BFloat16 epsilon() { return bits(0x3C00); }
  static constexpr c10::BFloat16 infinity() { return bits(0x7F80); }
  static constexpr c10::BFloat16 quiet_NaN() { return bits(0x7FC0); }
  static constexpr c10::BFloat16 denorm_min() { return bits(0x0001); }
};

namespace at {
using namespace c10;
// The type in which values of T are summed.
template <class T, bool is_cuda>
struct AccumulateType { using type = T; };
#define X(from, on_cpu, on_cuda)                                                     \
  template <>                                                                        \
  struct AccumulateType<from, false> { using type = on_cpu; };                       \
  template <>                                                                        \
  struct AccumulateType<from, true> { using type = on_cuda; };
X(c10::Half, float, float) X(c10::BFloat16, float, float) X(float, double, float) X(double, double, double)
X(int8_t, int64_t, int64_t) X(uint8_t, int64_t, int64_t) X(char, int64_t, int64_t) X(int16_t, int64_t, int64_t)
X(int32_t, int64_t, int64_t) X(int64_t, int64_t, int64_t) X(bool, bool, bool)
X(c10::complex<float>, c10::complex<double>, c10::complex<float>)
X(c10::complex<double>, c10::complex<double>, c10::complex<double>)
#undef X
template <class T, bool is_cuda>
using acc_type = typename AccumulateType<T, is_cuda>::type;
template <class T>
struct OpMathType { using type = T; };
template <>
struct OpMathType<c10::Half> { using type = float; };
template <>
struct OpMathType<c10::BFloat16> { using type = float; };
template <class T>
using opmath_type = typename OpMathType<T>::type;
}  // namespace at
