// Questions of numbers of any element type, and constants.
#pragma once
#include <rushlight/numbers.h>

namespace at {
template <class T>
inline C10_HOST_DEVICE bool _isnan(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  else if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) return std::isnan(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  else return std::isnan(value.real()) || std::isnan(value.imag());
}
template <class T>
inline C10_HOST_DEVICE bool _isinf(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  else return std::isinf(static_cast<double>(value));
}
}  // namespace at
namespace c10 {
template <class T>
constexpr T pi = static_cast<T>(3.14159265358979323846L);
template <class T>
constexpr T e = static_cast<T>(2.71828182845904523536L);
template <class T>
constexpr T sqrt2 = static_cast<T>(1.41421356237309504880L);
}  // namespace c10
