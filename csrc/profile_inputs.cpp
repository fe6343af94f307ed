// The arguments of calls in a recording: each set of them is kept once, and found again by its words.
#include "profile.h"

namespace rl {

namespace {

// A layout or a memory format: Python's, and few.
bool is_form(PyObject* o) {
  const char* type = Py_TYPE(o)->tp_name;
  return !strcmp(type, "layout") || !strcmp(type, "memory_format");
}

enum Word : uint64_t { kTensor = 1, kNone, kInt, kFloat, kBool, kComplex, kText, kList, kDevice, kObject };

struct Words {
  std::vector<uint64_t>& all;
  void put(uint64_t w) { all.push_back(w); }

  void tensor(Tensor* t) {
    put(kTensor | static_cast<uint64_t>(t->dtype) << 8 | static_cast<uint64_t>(t->ndim) << 16 |
        static_cast<uint64_t>(t->keys & (kKeySubclass | kKeyFunctorch)) << 32 | static_cast<uint64_t>(t->device.type) << 48);
    for (int i = 0; i < t->ndim; i++) put(static_cast<uint64_t>(t->sizes()[i]));
    for (int i = 0; i < t->ndim; i++) put(static_cast<uint64_t>(t->strides()[i]));
  }
  void text(PyObject* o) {
    Py_ssize_t size;
    const char* p = PyUnicode_AsUTF8AndSize(o, &size);
    if (!p) return PyErr_Clear(), put(kObject);
    put(kText | static_cast<uint64_t>(size) << 8);
    for (Py_ssize_t i = 0; i < size; i += 8) {
      uint64_t w = 0;
      memcpy(&w, p + i, static_cast<size_t>(size - i < 8 ? size - i : 8));
      put(w);
    }
  }
  void list(PyObject* o, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    put(kList | static_cast<uint64_t>(n) << 8);
    for (Py_ssize_t i = 0; i < n; i++) value(PySequence_Fast_ITEMS(o)[i], depth + 1);
  }
  void value(PyObject* o, int depth = 0) {
    uint64_t bits = 0;
    if (is_tensor(o)) tensor(as_tensor(o));
    else if (o == Py_None) put(kNone);
    else if (PyBool_Check(o)) put(kBool | (o == Py_True ? 256 : 0));
    else if (PyLong_CheckExact(o)) put(kInt), put(PyLong_AsUnsignedLongLongMask(o));
    else if (PyFloat_CheckExact(o)) {
      double d = PyFloat_AS_DOUBLE(o);
      memcpy(&bits, &d, 8);
      put(kFloat), put(bits);
    } else if (PyUnicode_CheckExact(o)) text(o);
    else if ((PyTuple_Check(o) || PyList_Check(o)) && depth < 4) list(o, depth);
    else if (is_device(o)) {
      auto* d = reinterpret_cast<DeviceObject*>(o);
      put(kDevice | static_cast<uint64_t>(d->device.type) << 8 | static_cast<uint64_t>(d->device.index) << 16 |
          static_cast<uint64_t>(d->has_index) << 24);
    } else if (is_dtype(o) || is_form(o)) put(kObject), put(reinterpret_cast<uint64_t>(o));
    else if (PyComplex_CheckExact(o)) {
      Py_complex c = PyComplex_AsCComplex(o);
      put(kComplex), memcpy(&bits, &c.real, 8), put(bits), memcpy(&bits, &c.imag, 8), put(bits);
    }
    else put(kObject), put(reinterpret_cast<uint64_t>(Py_TYPE(o)));
  }
};

// What is kept of an argument for Python: (sizes, strides, dtype, class) of a tensor, values as they are, the type of
// anything else. New reference.
PyObject* kept_value(PyObject* o, int depth = 0) {
  if (is_tensor(o)) {
    Tensor* t = as_tensor(o);
    Ref sizes(int_tuple(t->sizes(), t->ndim)), strides(int_tuple(t->strides(), t->ndim)), device(device_object(t->device));
    if (!sizes || !strides || !device) return nullptr;
    PyObject* parts[] = {sizes.p, strides.p, dtype_object(t->dtype), device.p, as_object(Py_TYPE(o))};
    Ref made(PyList_New(5));      // a list: no argument that is kept as it is is one
    for (int i = 0; made && i < 5; i++) PyList_SET_ITEM(made.p, i, Py_NewRef(parts[i]));
    return made.release();
  }
  if ((PyTuple_Check(o) || PyList_Check(o)) && depth < 4) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    Ref made(PyTuple_New(n));
    for (Py_ssize_t i = 0; made && i < n; i++) {
      PyObject* item = kept_value(PySequence_Fast_ITEMS(o)[i], depth + 1);
      if (!item) return nullptr;
      PyTuple_SET_ITEM(made.p, i, item);
    }
    return made.release();
  }
  bool plain = o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
               PyUnicode_CheckExact(o) || PyComplex_CheckExact(o) || is_device(o) || is_dtype(o) ||
               is_form(o);
  return Py_NewRef(plain ? o : as_object(Py_TYPE(o)));
}

// (callee, op as spelled, values, out)
PyObject* kept_call(PyObject* callee, PyObject* site, PyObject* const* args, size_t n, PyObject* out) {
  Ref values(PyTuple_New(static_cast<Py_ssize_t>(n))), given(kept_value(out ? out : Py_None));
  for (size_t i = 0; values && i < n; i++) {
    PyObject* item = kept_value(args[i]);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(values.p, static_cast<Py_ssize_t>(i), item);
  }
  if (!values || !given) return nullptr;
  return PyTuple_Pack(4, callee, site ? site : Py_None, values.p, given.p);
}

void grow_slots(InputTable& table) {
  size_t size = table.slots.empty() ? 256 : table.slots.size() * 2;
  table.slots.assign(size, 0);
  for (uint32_t row = 0; row < table.rows.size(); row++) {
    auto [start, count] = table.rows[row];
    uint64_t h = 0;
    for (size_t i = 0; i < count; i++) h = mixed(h, table.words[start + i]);
    size_t at = h & (size - 1);
    while (table.slots[at]) at = (at + 1) & (size - 1);
    table.slots[at] = row + 1;
  }
}

}  // namespace

int32_t profile_inputs(Recording* r, PyObject* callee, PyObject* site, PyObject* const* args, size_t n, PyObject* out) {
  InputTable& table = r->inputs;
  size_t start = table.words.size();
  Words words{table.words};
  words.put(reinterpret_cast<uint64_t>(callee));
  words.put(reinterpret_cast<uint64_t>(site));
  for (size_t i = 0; i < n; i++) words.value(args[i]);
  if (out) words.value(out);
  size_t count = table.words.size() - start;
  uint64_t h = 0;
  for (size_t i = 0; i < count; i++) h = mixed(h, table.words[start + i]);
  if (table.rows.size() * 2 >= table.slots.size()) grow_slots(table);
  size_t mask = table.slots.size() - 1, at = h & mask;
  for (; table.slots[at]; at = (at + 1) & mask) {
    auto [first, length] = table.rows[table.slots[at] - 1];
    if (length == count && !memcmp(&table.words[first], &table.words[start], count * 8)) {
      table.words.resize(start);
      return static_cast<int32_t>(table.slots[at] - 1);
    }
  }
  Ref shown(kept_call(callee, site, args, n, out));
  if (!shown || PyList_Append(table.shown, shown.p)) return PyErr_Clear(), table.words.resize(start), -1;
  table.rows.emplace_back(start, count);
  table.slots[at] = static_cast<uint32_t>(table.rows.size());
  return static_cast<int32_t>(table.rows.size() - 1);
}

}  // namespace rl
