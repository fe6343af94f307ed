// One element at a time: conversions between Python numbers and the bytes of every dtype.
#include "number.h"
#include "boundary.h"

#include <cmath>
#include <utility>

#include "element.h"

namespace rl {

DType default_dtype = DType::F32;
DType default_complex_dtype() { return default_dtype == DType::F64 ? DType::C128 : DType::C64; }

// --- narrow floats --------------------------------------------------------------------------------------------------

static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

// A binary format with `mantissa` bits and exponent bias `bias`: `magnitude` (a float's bits without the sign) rounded
// to it, as if the exponent range had no upper end. Subnormals come out right because the shift grows below the normal
// range.
static uint32_t round_to(uint32_t magnitude, int mantissa, int bias) {
  int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t significand = (magnitude & 0x7FFFFF) | (magnitude >> 23 ? 0x800000 : 0);
  int shift = 23 - mantissa;
  int biased = exponent + bias;
  if (biased < 1) {
    shift += 1 - biased;
    biased = 1;
  }
  if (shift > 25) return 0;
  uint32_t kept = significand >> shift;
  uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  // The implicit bit adds one to the exponent field, and so does a carry out of the mantissa.
  return (static_cast<uint32_t>(biased - 1) << mantissa) + kept;
}

static float widen(uint32_t sign, uint32_t magnitude, int mantissa, int bias) {
  uint32_t exponent = magnitude >> mantissa, fraction = magnitude & ((1u << mantissa) - 1);
  float value = exponent ? std::ldexp(static_cast<float>(fraction | (1u << mantissa)),
                                      static_cast<int>(exponent) - bias - mantissa)
                         : std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
  return sign ? -value : value;
}

uint16_t half_from_float(float x) {
  uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000, magnitude = u & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7C00);
  return static_cast<uint16_t>(sign | round_to(magnitude, 10, 15));
}

float half_to_float(uint16_t bits) {
  uint32_t sign = bits >> 15, magnitude = bits & 0x7FFF;
  if (magnitude >= 0x7C00) return float_of((sign << 31) | 0x7F800000 | ((magnitude & 0x3FF) << 13));
  float value = float_of(magnitude << 13) * 0x1p112f;   // the exponent as if its bias were float's; subnormals too
  return sign ? -value : value;
}

uint16_t bfloat16_from_float(float x) {
  uint32_t u = bits_of(x);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

float bfloat16_to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

uint8_t float8_from_float(float x, DType dtype) {
  uint32_t u = bits_of(x), sign = (u >> 24) & 0x80, magnitude = u & 0x7FFFFFFF;
  bool is_nan = magnitude > 0x7F800000;
  if (dtype == DType::F8E8M0FNU)   // a power of 2 alone: halves round up, but from the smallest; no sign, no 0
    return static_cast<uint8_t>(magnitude >= 0x7F800000 ? 0xFF
                                                        : (magnitude + 0x3FFFFF + (magnitude >= 0x800000)) >> 23);
  if (dtype == DType::F8E4M3FNUZ || dtype == DType::F8E5M2FNUZ) {
    bool long_mantissa = dtype == DType::F8E4M3FNUZ;
    uint32_t r = magnitude >= 0x7F800000 ? 0x80 : round_to(magnitude, long_mantissa ? 3 : 2, long_mantissa ? 8 : 16);
    return static_cast<uint8_t>(r > 0x7F ? 0x80 : r ? sign | r : 0);   // -0 is the one NaN; there is no infinity
  }
  if (is_nan) return static_cast<uint8_t>(sign | 0x7F);
  if (dtype == DType::F8E4M3FN) {
    uint32_t r = magnitude >= 0x43F00000 ? 0x7E : round_to(magnitude, 3, 7);   // from 480 on: saturate at 448
    return static_cast<uint8_t>(sign | (r > 0x7E ? 0x7E : r));
  }
  uint32_t r = magnitude >= 0x47800000 ? 0x7C : round_to(magnitude, 2, 15);
  return static_cast<uint8_t>(sign | (r > 0x7C ? 0x7C : r));
}

float float8_to_float(uint8_t bits, DType dtype) {
  uint32_t sign = bits >> 7, magnitude = bits & 0x7F;
  if (dtype == DType::F8E8M0FNU)
    return float_of(bits == 0xFF ? 0x7FC00000 : bits ? static_cast<uint32_t>(bits) << 23 : 0x400000);
  if (dtype == DType::F8E4M3FNUZ || dtype == DType::F8E5M2FNUZ) {
    if (bits == 0x80) return float_of(0x7FC00000);
    return dtype == DType::F8E4M3FNUZ ? widen(sign, magnitude, 3, 8) : widen(sign, magnitude, 2, 16);
  }
  if (dtype == DType::F8E4M3FN)
    return magnitude == 0x7F ? float_of((sign << 31) | 0x7FC00000) : widen(sign, magnitude, 3, 7);
  if (magnitude >= 0x7C) return float_of((sign << 31) | 0x7F800000 | ((magnitude & 3) << 21));
  return widen(sign, magnitude, 2, 15);
}

// --- bytes to numbers -----------------------------------------------------------------------------------------------

template <class T>
static T read(const char* in) {
  T value;
  memcpy(&value, in, sizeof value);
  return value;
}
template <class T>
static void write(char* out, T value) {
  memcpy(out, &value, sizeof value);
}

int64_t load_int(const char* in, DType dtype) {
  switch (dtype) {
    case DType::Bool: return read<uint8_t>(in) != 0;
    case DType::U8: return read<uint8_t>(in);
    case DType::I8: return read<int8_t>(in);
    case DType::I16: return read<int16_t>(in);
    case DType::U16: return read<uint16_t>(in);
    case DType::I32: return read<int32_t>(in);
    case DType::U32: return read<uint32_t>(in);
    case DType::I64: return read<int64_t>(in);
    case DType::U64: return static_cast<int64_t>(read<uint64_t>(in));
    default:
      return is_opaque(dtype)
                 ? 0
                 : static_cast<int64_t>(load_real(in, dtype));  // opaque types never get here: load_number refuses
  }
}

double load_real(const char* in, DType dtype) {
  switch (dtype) {
    case DType::F16: case DType::C32: return half_to_float(read<uint16_t>(in));
    case DType::BF16: return bfloat16_to_float(read<uint16_t>(in));
    case DType::F32: case DType::C64: return read<float>(in);
    case DType::F64: case DType::C128: return read<double>(in);
    case DType::F8E4M3FN: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ: case DType::F8E8M0FNU:
      return float8_to_float(read<uint8_t>(in), dtype);
    case DType::U64: return static_cast<double>(read<uint64_t>(in));
    default: return static_cast<double>(load_int(in, dtype));
  }
}

static PyObject* refuse_opaque(DType dtype) {
  return PyErr_Format(PyExc_NotImplementedError,
                      "elements of %s cannot be read or written as numbers; view the tensor as integers",
                      info(dtype).name);
}

PyObject* load_number(const char* in, DType dtype) {
  if (is_opaque(dtype)) return refuse_opaque(dtype);
  switch (dtype) {
    case DType::F32: return PyFloat_FromDouble(read<float>(in));
    case DType::F64: return PyFloat_FromDouble(read<double>(in));
    case DType::I64: return PyLong_FromLongLong(read<int64_t>(in));
    case DType::Bool: return PyBool_FromLong(read<uint8_t>(in));
    case DType::C64: return PyComplex_FromDoubles(read<float>(in), read<float>(in + 4));
    case DType::C128: return PyComplex_FromDoubles(read<double>(in), read<double>(in + 8));
    case DType::C32:
      return PyComplex_FromDoubles(half_to_float(read<uint16_t>(in)), half_to_float(read<uint16_t>(in + 2)));
    case DType::U64: return PyLong_FromUnsignedLongLong(read<uint64_t>(in));
    default: break;
  }
  return is_float(dtype) ? PyFloat_FromDouble(load_real(in, dtype)) : PyLong_FromLongLong(load_int(in, dtype));
}

// --- numbers to bytes -----------------------------------------------------------------------------------------------

static void store_real(double value, DType dtype, char* out) {
  switch (dtype) {
    case DType::F32: write(out, static_cast<float>(value)); break;
    case DType::F64: write(out, value); break;
    case DType::F16: write(out, half_from_float(static_cast<float>(value))); break;
    case DType::BF16: write(out, bfloat16_from_float(static_cast<float>(value))); break;
    default: write(out, float8_from_float(static_cast<float>(value), dtype)); break;
  }
}

static void store_int(int64_t value, DType dtype, char* out) {
  switch (itemsize(dtype)) {
    case 1: write(out, static_cast<uint8_t>(value)); break;
    case 2: write(out, static_cast<uint16_t>(value)); break;
    case 4: write(out, static_cast<uint32_t>(value)); break;
    default: write(out, value); break;
  }
}

// Negative numbers fit an unsigned type when their magnitude does: PyTorch reads them modulo 2^bits.
static bool int_fits(int64_t value, DType dtype) {
  int bits = itemsize(dtype) * 8;
  if (bits == 64) return true;
  int64_t top = info(dtype).is_signed ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  return value <= top && value >= (info(dtype).is_signed ? -top - 1 : -top);
}

// --- what fits ------------------------------------------------------------------------------------------------------

// The largest finite number of a floating type.
static double largest(DType dtype) {
  switch (dtype) {
    case DType::F16: return 65504.0;
    case DType::BF16: return 0x1.FEp127;
    case DType::F32: return 0x1.FFFFFEp127;
    case DType::F8E4M3FN: return 448.0;
    case DType::F8E5M2: case DType::F8E5M2FNUZ: return 57344.0;
    case DType::F8E4M3FNUZ: return 240.0;
    case DType::F8E8M0FNU: return 0x1p127;
    default: return HUGE_VAL;
  }
}

static bool real_fits(double value, DType dtype) {
  if (is_float(dtype)) return std::isnan(value) || std::isinf(value) ? dtype != DType::F8E4M3FN || std::isnan(value)
                                                                     : std::fabs(value) <= largest(dtype);
  int bits = itemsize(dtype) * 8 - info(dtype).is_signed;
  // The bounds as doubles: those of 64 bits are rounded up to the power of 2, which then fits too, as in PyTorch.
  double top = std::ldexp(1.0, bits) - (bits < 53 ? 1 : 0), bottom = info(dtype).is_signed ? -std::ldexp(1.0, bits) : 0;
  return value >= bottom && value <= top;
}

bool number_fits(PyObject* number, DType dtype) {
  if (dtype == DType::Bool || is_opaque(dtype)) return true;
  if (PyComplex_Check(number)) {
    Py_complex value = PyComplex_AsCComplex(number);
    if (!is_complex(dtype)) return value.imag == 0 && real_fits(value.real, dtype);
    return real_fits(value.real, part_of(dtype)) && real_fits(value.imag, part_of(dtype));
  }
  if (is_complex(dtype)) dtype = part_of(dtype);
  if (PyFloat_Check(number)) return real_fits(PyFloat_AS_DOUBLE(number), dtype);
  if (!PyLong_Check(number)) return true;
  int beyond = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &beyond);
  if (is_float(dtype)) {
    double real = beyond ? PyLong_AsDouble(number) : static_cast<double>(value);
    if (real == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;   // beyond double
    return real_fits(real, dtype);
  }
  return beyond ? dtype == DType::U64 && beyond > 0 : int_fits(value, dtype);
}

bool int_is_scalar(PyObject* number) {
  int beyond = 0;
  PyLong_AsLongLongAndOverflow(number, &beyond);
  if (!beyond) return true;
  return PyLong_AsUnsignedLongLong(number) != static_cast<uint64_t>(-1) || !PyErr_Occurred();
}

static bool refuse_overflow(DType dtype) {
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", info(dtype).name);
  return false;
}

static bool store_uint64(PyObject* number, char* out, Overflow overflow) {
  Ref index(PyLong_Check(number) ? Py_NewRef(number) : PyNumber_Index(number));
  if (!index) return false;
  uint64_t value =
      overflow == Overflow::Wrap ? PyLong_AsUnsignedLongLongMask(index.p) : PyLong_AsUnsignedLongLong(index.p);
  if (value == static_cast<uint64_t>(-1) && PyErr_Occurred()) return false;
  write(out, value);
  return true;
}

// As PyTorch's conversion between types of the machine: towards 0, and modulo 2^bits.
static bool store_float_as_int(double value, DType dtype, char* out, Overflow overflow) {
  if (overflow == Overflow::Check && !real_fits(value, dtype)) return refuse_overflow(dtype);
  bool in_range = value >= -9223372036854775808.0 && value < 9223372036854775808.0;
  if (dtype == DType::U64 && value >= 0 && value < 18446744073709551616.0) {
    write(out, static_cast<uint64_t>(value));
    return true;
  }
  int64_t whole = in_range ? static_cast<int64_t>(value) : INT64_MIN;
  store_int(whole, dtype, out);
  return true;
}

static bool store_as_int(PyObject* number, DType dtype, char* out, Overflow overflow) {
  if (PyFloat_Check(number)) return store_float_as_int(PyFloat_AS_DOUBLE(number), dtype, out, overflow);
  if (dtype == DType::U64) return store_uint64(number, out, overflow);
  Ref index;
  if (!PyLong_Check(number)) {
    index = Ref(PyNumber_Index(number));
    if (!index) {
      // A NumPy float has no __index__; a complex number has no __float__ either and keeps the first message.
      PyNumberMethods* methods = Py_TYPE(number)->tp_as_number;
      if (PyComplex_Check(number) || !methods || !methods->nb_float) return false;
      PyErr_Clear();
      double value = PyFloat_AsDouble(number);
      if (value == -1.0 && PyErr_Occurred()) return false;
      return store_float_as_int(value, dtype, out, overflow);
    }
    number = index.p;
  }
  int too_big = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &too_big);
  if (too_big && overflow == Overflow::Check) {
    PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    return false;
  }
  if (too_big) value = static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(number));
  if (overflow == Overflow::Check && !int_fits(value, dtype)) return refuse_overflow(dtype);
  store_int(value, dtype, out);
  return true;
}

bool store_rounded(PyObject* number, DType via, DType dtype, char* out, Overflow overflow) {
  bool plain = dtype == DType::F32 || dtype == DType::F64;
  double value = 0;
  if (plain && PyFloat_CheckExact(number)) {
    value = PyFloat_AS_DOUBLE(number);
  } else if (plain && PyLong_CheckExact(number)) {
    int beyond = 0;
    value = static_cast<double>(PyLong_AsLongLongAndOverflow(number, &beyond));
    plain = !beyond;
  } else {
    plain = false;
  }
  if (plain) {   // nearly all numbers: one comparison, and what the type they go through makes of them
    if (overflow == Overflow::Fit && !(std::fabs(value) <= largest(via)) && std::isfinite(value))
      return refuse_overflow(via);
    float single = static_cast<float>(value);
    if (via == DType::F16) single = half_to_float(half_from_float(single));
    else if (via == DType::BF16) single = bfloat16_to_float(bfloat16_from_float(single));
    else if (via != dtype) plain = false;
    if (plain) return dtype == DType::F32 ? write(out, single) : write(out, value), true;
  }
  if (via == dtype) return store_number(number, dtype, out, overflow);
  char narrow[16];
  if (!store_number(number, via, narrow, overflow)) return false;
  DType part = is_complex(dtype) ? part_of(dtype) : dtype;
  store_real(load_real(narrow, via), part, out);
  if (is_complex(dtype)) store_real(half_to_float(read<uint16_t>(narrow + 2)), part, out + itemsize(part));
  return true;
}

bool store_number(PyObject* number, DType dtype, char* out, Overflow overflow) {
  if (is_opaque(dtype)) return refuse_opaque(dtype), false;
  if (overflow != Overflow::Check) {
    if (overflow == Overflow::Fit && !number_fits(number, dtype)) return refuse_overflow(dtype);
    if (PyComplex_Check(number) && !is_complex(dtype) && dtype != DType::Bool) {
      if (PyComplex_ImagAsDouble(number) != 0) return refuse_overflow(dtype);
      Ref part(PyFloat_FromDouble(PyComplex_RealAsDouble(number)));
      return part && store_number(part.p, dtype, out, Overflow::Wrap);
    }
    overflow = Overflow::Wrap;
  }
  Ref item;
  if (is_tensor(number)) {
    Tensor* t = as_tensor(number);
    if (t->numel != 1) {
      bool integer = !is_differentiable(dtype);
      PyErr_SetString(integer ? PyExc_TypeError : PyExc_ValueError,
                      integer ? "only integer tensors of a single element can be converted to an index"
                              : "only one element tensors can be converted to Python scalars");
      return false;
    }
    item = Ref(tensor_item(t));
    if (!item) return false;
    number = item.p;
  }
  if (dtype == DType::Bool) {
    Ref index;   // a list is true or false too, but no number
    if (!is_number(number) && !(index = Ref(PyNumber_Index(number)))) return false;
    int truth = PyObject_IsTrue(number);
    if (truth < 0) return false;
    write(out, static_cast<uint8_t>(truth));
    return true;
  }
  if (is_complex(dtype)) {
    Py_complex value = PyComplex_AsCComplex(number);
    if (value.real == -1.0 && PyErr_Occurred()) return false;
    store_real(value.real, part_of(dtype), out);
    store_real(value.imag, part_of(dtype), out + itemsize(dtype) / 2);
    return true;
  }
  if (!is_float(dtype)) return store_as_int(number, dtype, out, overflow);
  double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred()) return false;
  store_real(value, dtype, out);
  return true;
}

// --- which dtype ----------------------------------------------------------------------------------------------------

// NumPy scalars are recognised by their `dtype.name`, so that NumPy need not be imported here.
static bool numpy_scalar_dtype(PyObject* number, DType* out) {
  if (strncmp(Py_TYPE(number)->tp_name, "numpy.", 6) != 0) return false;
  Ref dtype(PyObject_GetAttrString(number, "dtype"));
  Ref shape(dtype ? PyObject_GetAttrString(number, "shape") : nullptr);
  Ref name(shape ? PyObject_GetAttrString(dtype.p, "name") : nullptr);
  const char* text = name && PyUnicode_Check(name.p) ? PyUnicode_AsUTF8(name.p) : nullptr;
  if (!text || !PyTuple_Check(shape.p) || PyTuple_GET_SIZE(shape.p)) {
    PyErr_Clear();
    return false;
  }
  for (int i = 0; i < static_cast<int>(DType::FirstOpaque); i++)
    if (strcmp(kDTypes[i].name, text) == 0) {
      *out = static_cast<DType>(i);
      return true;
    }
  return false;
}

bool number_dtype(PyObject* number, DType* out) {
  if (PyFloat_CheckExact(number)) return *out = default_dtype, true;
  if (PyBool_Check(number)) return *out = DType::Bool, true;
  if (PyLong_Check(number)) return *out = DType::I64, true;
  if (PyComplex_CheckExact(number)) return *out = default_complex_dtype(), true;
  if (numpy_scalar_dtype(number, out)) return true;
  if (PyFloat_Check(number)) return *out = default_dtype, true;
  if (PyComplex_Check(number)) return *out = default_complex_dtype(), true;
  return false;
}

bool is_number(PyObject* o) {
  DType ignored;
  return number_dtype(o, &ignored);
}

}  // namespace rl
