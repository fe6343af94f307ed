// Attributes of dtypes and devices, which dtype a mix of dtypes has, and what Python asks of numbers. Everything holds
// the interpreter lock.
#include <utility>

#include "boundary.h"
#include "core.h"
#include "faces.h"

namespace rl {

// --- dtypes ----------------------------------------------------------------------------------------------------------

static const DTypeInfo& self_info(PyObject* self) { return info(dtype_of(self)); }
static PyObject* dtype_name(PyObject* self, void*) { return PyUnicode_FromString(self_info(self).name); }
static PyObject* dtype_legacy(PyObject* self, void*) { return PyUnicode_FromString(self_info(self).legacy); }
static PyObject* dtype_code(PyObject* self, void*) { return PyUnicode_FromString(self_info(self).code); }
static PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromLong(self_info(self).itemsize); }
static PyObject* dtype_is_float(PyObject* self, void*) { return PyBool_FromLong(self_info(self).floating); }
static PyObject* dtype_is_complex(PyObject* self, void*) { return PyBool_FromLong(self_info(self).complex); }
static PyObject* dtype_is_signed(PyObject* self, void*) { return PyBool_FromLong(self_info(self).is_signed); }
static PyObject* dtype_id(PyObject* self, void*) { return PyLong_FromLong(static_cast<long>(dtype_of(self))); }

static PyObject* dtype_to_real(PyObject* self, PyObject*) {
  DType d = dtype_of(self);
  return Py_NewRef(dtype_object(is_complex(d) ? part_of(d) : d));
}

static PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  DType d = dtype_of(self);
  DType r = d == DType::F64 || d == DType::C128  ? DType::C128
            : d == DType::F16 || d == DType::C32 ? DType::C32
                                                 : DType::C64;
  return Py_NewRef(dtype_object(r));
}

static PyObject* dtype_reduce(PyObject* self, PyObject*) {
  // A string makes pickle look the global up by name, as PyTorch's dtypes do.
  return PyUnicode_FromString(self_info(self).name);
}

static PyGetSetDef dtype_getset[] = {
    {"name", dtype_name, nullptr, "the name, such as 'float32'", nullptr},
    {"code", dtype_code, nullptr, "the loop language's name, such as 'f32'", nullptr},
    {"legacy_name", dtype_legacy, nullptr, "the word PyTorch's oldest type names are made of, such as 'Float'",
     nullptr},
    {"itemsize", dtype_itemsize, nullptr, "bytes per element", nullptr},
    {"is_floating_point", dtype_is_float, nullptr, "true for real floating types", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "true for complex types", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "true when negative values exist", nullptr},
    {"id", dtype_id, nullptr, "the core's number for this type", nullptr},
    {}};
static PyMethodDef dtype_methods[] = {
    {"to_real", guarded<dtype_to_real>, METH_NOARGS, "the matching real type"},
    {"to_complex", guarded<dtype_to_complex>, METH_NOARGS, "the matching complex type"},
    {"__reduce__", guarded<dtype_reduce>, METH_NOARGS, nullptr},
    {}};

// --- devices ---------------------------------------------------------------------------------------------------------

static PyObject* device_type(PyObject* self, void*) {
  return PyUnicode_FromString(device_type_name(reinterpret_cast<DeviceObject*>(self)->device.type));
}

static PyObject* device_index(PyObject* self, void*) {
  auto* d = reinterpret_cast<DeviceObject*>(self);
  if (!d->has_index) Py_RETURN_NONE;
  return PyLong_FromLong(d->device.index);
}

static PyObject* device_reduce(PyObject* self, PyObject*) {
  auto* d = reinterpret_cast<DeviceObject*>(self);
  const char* name = device_type_name(d->device.type);
  if (d->has_index) return Py_BuildValue("O(si)", DeviceType, name, d->device.index);
  return Py_BuildValue("O(s)", DeviceType, name);
}

static PyGetSetDef device_getset[] = {{"type", device_type, nullptr, "the kind of device, such as 'cpu'", nullptr},
                                      {"index", device_index, nullptr, "which of several, or None", nullptr},
                                      {}};
static PyMethodDef device_methods[] = {{"__reduce__", guarded<device_reduce>, METH_NOARGS, nullptr}, {}};
// --- promotion -------------------------------------------------------------------------------------------------------

static bool is_wide_unsigned(DType d) { return d == DType::U16 || d == DType::U32 || d == DType::U64; }
static bool is_float8(DType d) { return is_float(d) && itemsize(d) == 1; }
static int category(DType d) { return d == DType::Bool ? 0 : is_complex(d) ? 3 : is_float(d) ? 2 : 1; }

static DType promote_integers(DType a, DType b) {
  if (itemsize(a) < itemsize(b)) std::swap(a, b);
  if (itemsize(a) == itemsize(b)) return DType::I16;   // uint8 with int8: one more size holds both
  return a;                                            // only uint8 is unsigned here, and every larger type holds it
}

static DType promote_floats(DType a, DType b) {
  bool wide = itemsize(a) == 8 || itemsize(b) == 8;
  return wide ? DType::F64 : DType::F32;  // two different ones: float16 with bfloat16, or float32 with either
}

bool promote_dtypes(DType a, DType b, DType* out) {
  if (a == b) return *out = a, true;
  if (is_opaque(a) || is_opaque(b)) {
    PyErr_Format(PyExc_RuntimeError, "Promotion is not supported for %s and %s", info(a).name, info(b).name);
    return false;
  }
  if (category(a) > category(b)) std::swap(a, b);
  if (is_float8(a) || is_float8(b)) {
    PyErr_Format(PyExc_RuntimeError, "promotion: Float8 types have none, got %s and %s. Convert one of them",
                 info(a).name, info(b).name);
    return false;
  }
  if ((is_wide_unsigned(a) || is_wide_unsigned(b)) && category(b) != 2) {
    PyErr_Format(PyExc_RuntimeError,
                 "promotion: uint16, uint32 and uint64 have none, got %s and %s. Convert one of them", info(a).name,
                 info(b).name);
    return false;
  }
  if (category(a) == 0) return *out = b, true;
  if (category(a) == 1) return *out = category(b) == 1 ? promote_integers(a, b) : b, true;
  if (category(b) == 2) return *out = promote_floats(a, b), true;
  bool wide = a == DType::F64 || a == DType::C128 || b == DType::C128;
  if (a == DType::F16 && b == DType::C32) return *out = DType::C32, true;
  return *out = wide ? DType::C128 : DType::C64, true;
}

// --- module functions -----------------------------------------------------------------------------------------------

static PyObject* py_get_default(PyObject*, PyObject*) { return Py_NewRef(dtype_object(float_dtype())); }

static PyObject* py_set_default(PyObject*, PyObject* dtype) {
  if (!is_dtype(dtype))
    return PyErr_Format(PyExc_TypeError, "set_default_dtype: expected a dtype, got %s", Py_TYPE(dtype)->tp_name),
           nullptr;
  if (!is_float(dtype_of(dtype)) || is_float8(dtype_of(dtype)))
    return PyErr_Format(PyExc_TypeError, "set_default_dtype: expected a floating-point dtype, got %R", dtype), nullptr;
  set_float_dtype(dtype_of(dtype));
  Py_RETURN_NONE;
}

static PyObject* py_promote(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "O!O!:promote_types", DTypeType, &a, DTypeType, &b)) return nullptr;
  DType result;
  return promote_dtypes(dtype_of(a), dtype_of(b), &result) ? Py_NewRef(dtype_object(result)) : nullptr;
}

static PyObject* py_number_dtype(PyObject*, PyObject* number) {
  DType dtype;
  if (number_dtype(number, &dtype)) return Py_NewRef(dtype_object(dtype));
  Py_RETURN_NONE;
}

static PyObject* py_number_bytes(PyObject*, PyObject* args) {
  PyObject *number, *dtype;
  char bytes[16];
  if (!PyArg_ParseTuple(args, "OO!:number_bytes", &number, DTypeType, &dtype)) return nullptr;
  if (!store_number(number, dtype_of(dtype), bytes)) return nullptr;
  return PyBytes_FromStringAndSize(bytes, itemsize(dtype_of(dtype)));
}

static PyObject* py_number_fits(PyObject*, PyObject* args) {
  PyObject *number, *dtype;
  if (!PyArg_ParseTuple(args, "OO!:number_fits", &number, DTypeType, &dtype)) return nullptr;
  return PyBool_FromLong(number_fits(number, dtype_of(dtype)));
}

static PyObject* py_is_known_number(PyObject*, PyObject* o) {
  return PyBool_FromLong(number_class(o) >= kFirstKnownNumber);
}

static PyMethodDef functions[] = {
    {"is_known_number", guarded<py_is_known_number>, METH_O,
     "whether plan keys tell this number (2, 0.5, ...) from others of its sign"},
    {"number_bytes", guarded<py_number_bytes>, METH_VARARGS, "number_bytes(number, dtype): one element as bytes"},
    {"number_fits", guarded<py_number_fits>, METH_VARARGS,
     "number_fits(number, dtype): whether the checked conversion of a Scalar argument takes it"},
    {"get_default_dtype", guarded<py_get_default>, METH_NOARGS, "the dtype Python floats get"},
    {"set_default_dtype", guarded<py_set_default>, METH_O, "set the dtype Python floats get"},
    {"promote_types", guarded<py_promote>, METH_VARARGS, "promote_types(a, b): the dtype that holds both"},
    {"number_dtype", guarded<py_number_dtype>, METH_O,
     "the dtype a Python or NumPy number gets in a tensor; None if it is no number"},
    {}};

int init_number_face(PyObject* module) {
  bool failed = add_attributes(DTypeType, dtype_methods, dtype_getset) ||
                add_attributes(DeviceType, device_methods, device_getset) || PyModule_AddFunctions(module, functions);
  return failed ? -1 : 0;
}

}  // namespace rl
