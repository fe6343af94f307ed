// dtype and device objects: immutable singletons that Python and the fast path compare by address.
#include "types.h"
#include "boundary.h"

#include "device.h"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace rl {

thread_local ThreadState tls;
bool anomaly_enabled = false;

PyTypeObject* DTypeType;
PyTypeObject* DeviceType;
static PyObject* dtype_objects[static_cast<int>(DType::Count)];

DeviceEntry kDevices[kMostDevices];
int num_devices = 0;

PyObject* dtype_object(DType d) { return dtype_objects[static_cast<int>(d)]; }

PyObject* python_type_dtype(PyObject* o) {
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  if (type == &PyFloat_Type) return dtype_object(DType::F64);
  if (type == &PyLong_Type) return dtype_object(DType::I64);
  if (type == &PyBool_Type) return dtype_object(DType::Bool);
  return type == &PyComplex_Type ? dtype_object(DType::C128) : nullptr;
}

static const DTypeInfo& self_info(PyObject* self) { return info(dtype_of(self)); }

// The module users know the names by: "rushlight", or "torch" while Rushlight serves it.
PyObject* display_module;

static PyObject* dtype_repr(PyObject* self) {
  return PyUnicode_FromFormat("%U.%s", display_module, self_info(self).name);
}
static PyObject* no_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", type->tp_name);
  return nullptr;
}

static PyType_Slot dtype_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
                                    {Py_tp_new, reinterpret_cast<void*>(guarded<no_new>)},
                                    {Py_tp_doc, const_cast<char*>("The type of a tensor's elements.")},
                                    {0, nullptr}};
static PyType_Spec dtype_spec = {"rushlight.dtype", sizeof(DTypeObject), 0, Py_TPFLAGS_DEFAULT, dtype_slots};

// --- devices ---------------------------------------------------------------------------------------------------

const char* device_type_name(uint8_t type) { return type < num_devices ? kDevices[type].name : "?"; }

static int private_type = -1;   // PyTorch's device of others, which may be renamed and keeps its first name too
static int unit_type = -1;      // what a bare number names

static int find_device_type(const char* name, size_t length) {
  for (int i = 0; i < num_devices; i++)
    if (strlen(kDevices[i].name) == length && strncmp(kDevices[i].name, name, length) == 0) return i;
  return length == 13 && strncmp(name, "privateuseone", 13) == 0 ? private_type : -1;
}

static PyObject* known_devices() {
  Ref text(PyUnicode_FromString(""));
  for (int i = 0; i < num_devices && text; i++)
    if (!kDevices[i].is_absent) text = Ref(PyUnicode_FromFormat("%U%s%s", text.p, i ? ", " : "", kDevices[i].name));
  return text.release();
}

static bool parse_device_text(const char* text, Device* out, bool* has_index) {
  const char* colon = strchr(text, ':');
  size_t length = colon ? static_cast<size_t>(colon - text) : strlen(text);
  int type = find_device_type(text, length);
  if (type < 0) {
    Ref known(known_devices());
    if (known)
      PyErr_Format(PyExc_RuntimeError, "device: expected one of %U, optionally with ':index', got '%s'", known.p, text);
    return false;
  }
  long index = 0;
  if (colon) {
    char* end;
    index = strtol(colon + 1, &end, 10);
    bool leading_zero = colon[1] == '0' && colon[2];
    if (end == colon + 1 || *end || index < 0 || index > 254 || leading_zero) {
      PyErr_Format(PyExc_RuntimeError, "device: invalid index in '%s'", text);
      return false;
    }
  }
  *out = {static_cast<uint8_t>(type), static_cast<uint8_t>(index)};
  *has_index = colon != nullptr;
  return true;
}

static PyObject* new_device(Device d, bool has_index) {
  auto* self = PyObject_New(DeviceObject, DeviceType);
  if (!self) return nullptr;
  self->device = d;
  self->has_index = has_index;
  return reinterpret_cast<PyObject*>(self);
}

// A number stands for a GPU, as `tensor.to(rank)` means it. False, with an error set: it is none of a unit.
static bool parse_unit(PyObject* number, Device* out) {
  long index = PyLong_AsLong(number);
  if (index == -1 && PyErr_Occurred()) return false;
  if (index < 0 || index > 254) {
    PyErr_Format(PyExc_RuntimeError, "device: index must be between 0 and 254, got %ld", index);
    return false;
  }
  *out = {static_cast<uint8_t>(unit_type), static_cast<uint8_t>(index)};
  return true;
}
static bool is_unit(PyObject* o) { return PyLong_Check(o) && !PyBool_Check(o); }

PyObject* unit_device(PyObject* o) {
  Device d;
  if (is_unit(o) && parse_unit(o, &d)) return new_device(d, true);
  PyErr_Clear();
  return nullptr;
}

PyObject* device_object(Device d) { return new_device(d, d.type > kMeta); }

bool parse_device(PyObject* o, Device* out) {
  bool has_index = true;
  if (is_device(o)) {
    *out = reinterpret_cast<DeviceObject*>(o)->device;
    has_index = reinterpret_cast<DeviceObject*>(o)->has_index;
  } else if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);
    if (!text || !parse_device_text(text, out, &has_index)) return false;
  } else if (is_unit(o)) {
    if (!parse_unit(o, out)) return false;
  } else {
    PyErr_Format(PyExc_TypeError, "device: expected a string or device, got %s", Py_TYPE(o)->tp_name);
    return false;
  }
  if (!has_index && kDevices[out->type].handler) out->index = current_units[out->type];
  return true;
}
static PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject* what = nullptr;
  PyObject* index = Py_None;
  if (PyTuple_GET_SIZE(args) == 0 && kwargs) what = PyDict_GetItemString(kwargs, "device");
  if (!what && !PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &what, &index))
    return nullptr;
  if (is_device(what)) return Py_NewRef(what);
  if (is_unit(what)) {
    Device unit;
    return parse_unit(what, &unit) ? new_device(unit, true) : nullptr;
  }
  if (!PyUnicode_Check(what)) {
    PyErr_Format(PyExc_TypeError, "device: expected a string or device, got %s", Py_TYPE(what)->tp_name);
    return nullptr;
  }
  Device d;
  bool has_index;
  if (!parse_device_text(PyUnicode_AsUTF8(what), &d, &has_index)) return nullptr;
  if (index != Py_None) {
    if (has_index) {
      PyErr_SetString(PyExc_RuntimeError, "device: the type string must not include an index when index is passed too");
      return nullptr;
    }
    long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred()) return nullptr;
    if (i < 0 || i > 254) {
      PyErr_Format(PyExc_RuntimeError, "device: index must be between 0 and 254, got %ld", i);
      return nullptr;
    }
    d.index = static_cast<uint8_t>(i);
    has_index = true;
  }
  return new_device(d, has_index);
}

static PyObject* device_text(PyObject* self) {
  auto* d = reinterpret_cast<DeviceObject*>(self);
  if (d->has_index) return PyUnicode_FromFormat("%s:%d", device_type_name(d->device.type), d->device.index);
  return PyUnicode_FromString(device_type_name(d->device.type));
}

static PyObject* device_repr(PyObject* self) {
  auto* d = reinterpret_cast<DeviceObject*>(self);
  const char* name = device_type_name(d->device.type);
  if (d->has_index) return PyUnicode_FromFormat("device(type='%s', index=%d)", name, d->device.index);
  return PyUnicode_FromFormat("device(type='%s')", name);
}

static Py_hash_t device_hash(PyObject* self) {
  auto* d = reinterpret_cast<DeviceObject*>(self);
  return d->device.type * 512 + (d->has_index ? d->device.index + 1 : 0) + 7;
}

static PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (!is_device(a) || !is_device(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  auto* x = reinterpret_cast<DeviceObject*>(a);
  auto* y = reinterpret_cast<DeviceObject*>(b);
  bool same = x->device == y->device && x->has_index == y->has_index;
  return PyBool_FromLong(same == (op == Py_EQ));
}

static PyType_Slot device_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(device_repr)},
                                     {Py_tp_str, reinterpret_cast<void*>(device_text)},
                                     {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
                                     {Py_tp_richcompare, reinterpret_cast<void*>(guarded<device_compare>)},
                                     {Py_tp_new, reinterpret_cast<void*>(guarded<device_new>)},
                                     {Py_tp_doc, const_cast<char*>("Where a tensor's bytes live.")},
                                     {0, nullptr}};
static PyType_Spec device_spec = {"rushlight.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, device_slots};

static PyObject* register_device(PyObject*, PyObject* args) {
  const char* name;
  PyObject *handler, *native = Py_None;
  if (!PyArg_ParseTuple(args, "sO|O", &name, &handler, &native)) return nullptr;
  int named = find_device_type(name, strlen(name));
  if (named >= 0 && !kDevices[named].is_absent) {
    PyErr_Format(PyExc_RuntimeError, "register_device: a device named '%s' is already registered", name);
    return nullptr;
  }
  if (named < 0 && (num_devices == kMostDevices || strlen(name) >= sizeof(kDevices[0].name))) {
    PyErr_Format(PyExc_RuntimeError,
                 "register_device: cannot register '%s': at most %d devices with names under 32 characters", name,
                 kMostDevices);
    return nullptr;
  }
  const RushlightDevice* table = native == Py_None ? python_device_table(handler) : native_device_table(native);
  if (!table) return nullptr;
  int number = named < 0 ? num_devices++ : named;
  DeviceEntry& entry = kDevices[number];
  snprintf(entry.name, sizeof(entry.name), "%s", name);
  entry.handler = Py_NewRef(handler);
  entry.table = table;
  entry.is_native = native != Py_None;
  entry.is_absent = false;
  return PyLong_FromLong(number);
}

static PyObject* rename_device(PyObject*, PyObject* args) {
  const char *name, *wanted;
  if (!PyArg_ParseTuple(args, "ss", &name, &wanted)) return nullptr;
  int number = find_device_type(name, strlen(name));
  if (number < 0 || find_device_type(wanted, strlen(wanted)) >= 0 || strlen(wanted) >= sizeof(kDevices[0].name))
    return PyErr_Format(PyExc_RuntimeError, "rename_device: cannot call '%s' '%s'", name, wanted), nullptr;
  snprintf(kDevices[number].name, sizeof(kDevices[0].name), "%s", wanted);
  Py_RETURN_NONE;
}

static PyObject* set_unit_type(PyObject*, PyObject* name) {
  Device d;
  if (!parse_device(name, &d)) return nullptr;
  unit_type = d.type;
  Py_RETURN_NONE;
}

static PyObject* device_finder = nullptr;   // callable(name): registers the device, or raises why it is not there

bool device_appears(uint8_t type) {
  const char* name = kDevices[type].name;
  Ref asked(device_finder ? PyObject_CallFunction(device_finder, "s", name) : nullptr);
  if ((!asked || kDevices[type].is_absent) && !PyErr_Occurred())
    PyErr_Format(PyExc_RuntimeError, "this installation has no '%s' device", name);
  return !PyErr_Occurred();
}

static PyObject* set_device_finder(PyObject*, PyObject* finder) {
  Py_XSETREF(device_finder, Py_NewRef(finder));
  Py_RETURN_NONE;
}

static PyObject* device_types(PyObject*, PyObject*) {
  PyObject* names = PyTuple_New(num_devices);
  for (int i = 0; names && i < num_devices; i++) PyTuple_SET_ITEM(names, i, PyUnicode_FromString(kDevices[i].name));
  return names;
}

static PyObject* set_display_module(PyObject*, PyObject* name) {
  if (!PyUnicode_Check(name))
    return PyErr_Format(PyExc_TypeError, "set_display_module: expected a str, got %s", Py_TYPE(name)->tp_name), nullptr;
  Py_SETREF(display_module, Py_NewRef(name));
  Py_RETURN_NONE;
}

static PyObject* get_display_module(PyObject*, PyObject*) { return Py_NewRef(display_module); }

static PyMethodDef functions[] = {
    {"set_display_module", guarded<set_display_module>, METH_O,
     "name the module that reprs of dtypes, sizes and layouts show"},
    {"get_display_module", guarded<get_display_module>, METH_NOARGS, "the module that reprs show"},
    {"device_types", guarded<device_types>, METH_NOARGS, "names of the device types, by their numbers"},
    {"set_device_finder", guarded<set_device_finder>, METH_O,
     "set_device_finder(callable(name)): what registers an absent device that is first used, or raises"},
    {"register_device", guarded<register_device>, METH_VARARGS,
     "register_device(name, handler, native=None): number a new device type"},
    {"set_unit_type", guarded<set_unit_type>, METH_O, "set_unit_type(name): the type of device that a bare number names"},
    {"rename_device", guarded<rename_device>, METH_VARARGS, "rename_device(name, wanted): another name for a device type"},
    {}};

int init_types(PyObject* module) {
  display_module = PyUnicode_InternFromString("rushlight");
  if (!display_module) return -1;
  DTypeType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dtype_spec));
  DeviceType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&device_spec));
  if (!DTypeType || !DeviceType) return -1;
  for (int i = 0; i < static_cast<int>(DType::Count); i++) {
    auto* d = PyObject_New(DTypeObject, DTypeType);
    if (!d) return -1;
    d->id = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(d);
    if (PyModule_AddObjectRef(module, kDTypes[i].name, dtype_objects[i])) return -1;
  }
  snprintf(kDevices[num_devices++].name, 32, "cpu");
  kDevices[num_devices].has_data = false;
  snprintf(kDevices[num_devices++].name, 32, "meta");
  for (const char* name :
       {"cuda", "mps", "xpu", "hpu", "mtia", "xla", "ipu", "hip", "ve", "npu", "vulkan", "lazy", "privateuseone"}) {
    kDevices[num_devices].is_absent = true;
    snprintf(kDevices[num_devices++].name, 32, "%s", name);
  }
  private_type = num_devices - 1;
  unit_type = find_device_type("cuda", 4);
  if (PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(DTypeType))) return -1;
  if (PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(DeviceType))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
