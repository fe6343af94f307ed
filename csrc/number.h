// Single elements: Python numbers to bytes of any dtype and back, and which dtype a mix of them has.
// Everything that takes a PyObject* holds the interpreter lock.
#pragma once
#include "types.h"

namespace rl {

// Rounding to nearest, ties to even. Out of range: infinity, except e4m3fn, which has none and saturates.
uint16_t half_from_float(float x);
float half_to_float(uint16_t bits);
uint16_t bfloat16_from_float(float x);
float bfloat16_to_float(uint16_t bits);
uint8_t float8_from_float(float x, DType dtype);
float float8_to_float(uint8_t bits, DType dtype);

enum class Overflow {
  Check,   // PyTorch's refusal: RuntimeError when an integer does not fit
  Wrap,    // as a cast between tensors would: modulo 2^bits
  Fit,     // a Scalar argument that becomes an element: RuntimeError for all that `number_fits` refuses
};

// The checked conversion of a Scalar argument, PyTorch's one rule: whether the type holds the number. A whole number
// below 0 fits an unsigned type when its magnitude does (it is read modulo 2^bits), a float below 0 does not; infinities
// and NaN fit where the type has them; a complex number fits a real type when its imaginary part is 0; all fit bool.
bool number_fits(PyObject* number, DType dtype);
// Whether an int can be an argument at all: -2^63 to 2^64 - 1. False with an OverflowError set.
bool int_is_scalar(PyObject* number);

// Writes a Python number (bool, int, float, complex, a NumPy scalar, a one-element tensor) as one element.
// False with an exception set when it is no number or does not fit.
bool store_number(PyObject* number, DType dtype, char* out, Overflow overflow = Overflow::Check);
// The same by way of a narrower floating type, which it must fit and is rounded to.
bool store_rounded(PyObject* number, DType via, DType dtype, char* out, Overflow overflow);
// bool, int, float or complex. New reference.
PyObject* load_number(const char* in, DType dtype);
double load_real(const char* in, DType dtype);       // real part, for any dtype
int64_t load_int(const char* in, DType dtype);       // for bool and integers; uint64 wraps

// The type a Python bool, int, float or complex, or a NumPy scalar, has in a tensor. False: not a number (no
// exception).
bool number_dtype(PyObject* number, DType* out);
bool is_number(PyObject* o);                         // Python's or NumPy's

// Numbers an op may want compiled in (exponents: x ** 2 is a product) tell apart; the others only by sign. 0: no real
// number. Plan keys and Python (_C.is_known_number) both ask here.
inline constexpr double kKnownNumbers[] = {-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4};
inline constexpr uint64_t kFirstKnownNumber = 16;
inline uint64_t number_class(PyObject* o) {
  if (!PyFloat_Check(o) && (!PyLong_Check(o) || PyBool_Check(o))) return 0;
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) return PyErr_Clear(), 1;   // an integer beyond double
  uint64_t c = kFirstKnownNumber;
  for (double known : kKnownNumbers) {
    if (v == known) return c;
    c++;
  }
  return v < 0 ? 2 : 3;
}

extern DType default_dtype;                          // float32 until set_default_dtype says otherwise
DType default_complex_dtype();

}  // namespace rl
