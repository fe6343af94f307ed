// Functions of the module that make tensors over given memory and geometry, and change what a tensor looks at.
#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "geometry.h"

namespace rl {

// `is_there`: with memory behind it.
static Tensor* made(PyObject* args, bool is_there) {
  PyObject *sizes, *strides, *dtype, *device;
  if (!PyArg_ParseTuple(args, "OOO!O", &sizes, &strides, DTypeType, &dtype, &device)) return nullptr;
  int64_t s[kMaxDims], st[kMaxDims];
  Device d;
  int n = read_ints(sizes, s, kMaxDims, "empty");
  if (n < 0 || (device != Py_None && !parse_device(device, &d))) return nullptr;
  if (strides != Py_None) {
    int m = read_ints(strides, st, kMaxDims, "empty_strided");
    if (m < 0) return nullptr;
    if (m != n)
      return PyErr_Format(PyExc_RuntimeError,
                          "empty_strided: dimensionality of sizes (%d) must match dimensionality of strides (%d)", n,
                          m),
             nullptr;
    for (int i = 0; i < m; i++)
      if (st[i] < 0)
        return PyErr_Format(PyExc_RuntimeError,
                            "empty_strided: negative strides are not supported, got %lld at dimension %d",
                            static_cast<long long>(st[i]), i),
               nullptr;
  }
  const int64_t* given = strides == Py_None ? nullptr : st;
  if (is_there) {
    Tensor* t = tensor_empty(s, given, n, dtype_of(dtype), d);
    note_fresh(t);
    return t;
  }
  Tensor* t = tensor_empty(s, given, n, dtype_of(dtype), Device{kMeta, 0});
  if (!t) return nullptr;
  t->device = t->storage->device = d;
  t->storage->resizable = false;
  return t;
}

static PyObject* py_empty(PyObject*, PyObject* args) { return as_object(made(args, true)); }

static PyObject* py_stand_in(PyObject*, PyObject* args) { return as_object(made(args, false)); }

// alias(base, sizes, strides, offset, dtype): geometry is checked against the storage, so no view can reach past it.
static PyObject* py_alias(PyObject*, PyObject* args) {
  PyObject *base, *sizes, *strides, *dtype = Py_None;
  Py_ssize_t offset;
  if (!PyArg_ParseTuple(args, "O!OOn|O", TensorType, &base, &sizes, &strides, &offset, &dtype)) return nullptr;
  Tensor* b = as_tensor(base);
  int64_t s[kMaxDims], st[kMaxDims];
  int n = read_ints(sizes, s, kMaxDims, "as_strided"), m = n < 0 ? -1 : read_ints(strides, st, kMaxDims, "as_strided");
  if (n < 0 || m < 0) return nullptr;
  if (n != m)
    return PyErr_Format(PyExc_RuntimeError, "as_strided: expected as many strides as sizes, got %d and %d", m, n),
           nullptr;
  for (int i = 0; i < n; i++)
    if (st[i] < 0)
      return PyErr_SetString(PyExc_RuntimeError, "as_strided: expected strides of at least 0, got negative ones"),
             nullptr;
  if (checked_numel(s, n) < 0) return bad_size(s, n), nullptr;
  DType d = dtype == Py_None ? b->dtype : dtype_of(dtype);
  int64_t span = span_elements(s, st, n), need;
  if (span < 0 || offset < 0 || __builtin_mul_overflow(span + offset, static_cast<int64_t>(itemsize(d)), &need))
    return PyErr_Format(PyExc_RuntimeError, "as_strided: sizes, strides or offset (%zd) out of range", offset), nullptr;
  int sharing = d == DType::QU4X2 ? 2 : d == DType::QU2X4 ? 4 : 1;    // elements in a byte
  need = need / sharing + (need % sharing != 0);
  if (span && static_cast<size_t>(need) > b->storage->nbytes)
    return PyErr_Format(PyExc_RuntimeError,
                        "as_strided: sizes %R, strides %R and storage offset %zd are out of bounds: they need %lld "
                        "bytes, the storage has %zu",
                        sizes, strides, offset, static_cast<long long>(need), b->storage->nbytes),
           nullptr;
  Tensor* t = tensor_alias(b, s, st, n, offset, d);
  if (t && !(b->flags & kInference)) tensor_share_version(b, t);
  note_alias(b, t);
  return as_object(t);
}

static PyObject* py_shallow_copy(PyObject*, PyObject* args) {
  PyObject *tensor, *type = nullptr;
  int share = 1;
  if (!PyArg_ParseTuple(args, "O!|pO", TensorType, &tensor, &share, &type)) return nullptr;
  Tensor* t = as_tensor(tensor);
  if (!type || type == as_object(TensorType)) return as_object(tensor_shallow_copy(t, share));
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), TensorType))
    return PyErr_Format(PyExc_TypeError, "expected a subclass of Tensor, got %R", type), nullptr;
  Tensor* copy = tensor_alloc(reinterpret_cast<PyTypeObject*>(type), t->ndim);
  if (!copy) return nullptr;
  copy->storage = t->storage;
  t->storage->retain();
  copy->dtype = t->dtype;
  copy->device = t->device;
  tensor_set_geometry(copy, t->sizes(), t->strides(), t->ndim, t->offset);
  copy->flags |= t->flags & kInference;
  copy->keys |= t->keys & (kKeyBits | kKeyPrivate);
  if (t->keys & kKeyPrivate) tensor_keep_attributes(t, copy);
  if (t->keys & kKeyQuantized) tensor_quantize(copy, t->extra->quantizer);
  if (share && !(t->flags & kInference)) tensor_share_version(t, copy);
  return as_object(copy);
}

// make_wrapper(cls, sizes, strides|None, dtype, device, offset): a subclass instance that has geometry but no bytes of
// its own.
static PyObject* py_make_wrapper(PyObject*, PyObject* args) {
  PyObject *type, *sizes, *strides, *dtype, *device;
  Py_ssize_t offset = 0;
  if (!PyArg_ParseTuple(args, "O!OOO!O|n", &PyType_Type, &type, &sizes, &strides, DTypeType, &dtype, &device, &offset))
    return nullptr;
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), TensorType))
    return PyErr_Format(PyExc_TypeError, "expected a subclass of Tensor, got %R", type), nullptr;
  int64_t s[kMaxDims], st[kMaxDims];
  Device d;
  int n = read_ints(sizes, s, kMaxDims, "_make_wrapper_subclass");
  if (n < 0 || (device != Py_None && !parse_device(device, &d))) return nullptr;
  if (checked_numel(s, n) < 0) return bad_size(s, n), nullptr;
  if (strides == Py_None) contiguous_strides(s, n, st);
  else if (read_ints(strides, st, kMaxDims, "_make_wrapper_subclass") != n)
    return PyErr_Occurred()
               ? nullptr
               : (PyErr_SetString(PyExc_RuntimeError, "_make_wrapper_subclass: sizes and strides differ in length"),
                  nullptr);
  Tensor* t = tensor_alloc(reinterpret_cast<PyTypeObject*>(type), n);
  if (!t) return nullptr;
  t->dtype = dtype_of(dtype);
  int64_t span = span_elements(s, st, n);
  bool is_private = reinterpret_cast<PyTypeObject*>(type) == TensorType && d.type != kMeta;   // its class holds them
  size_t promised = span > 0 && !is_private ? static_cast<size_t>(span + offset) * itemsize(t->dtype) : 0;
  t->storage = storage_wrap(nullptr, promised, d, nullptr, nullptr);
  t->storage->is_hollow = promised && d.type != kMeta;
  t->device = d;
  tensor_set_geometry(t, s, st, n, offset);
  return as_object(t);
}

// wrap(value, payload, dim): a tensor of a function transform standing for `value`. dim < 0: with its geometry and its
// memory; else without dim `dim` and without memory, since no one example is meant.
static PyObject* py_wrap(PyObject*, PyObject* args) {
  PyObject *value, *payload;
  int dim = -1;
  if (!PyArg_ParseTuple(args, "O!O|i", TensorType, &value, &payload, &dim)) return nullptr;
  Tensor* v = as_tensor(value);
  Tensor* t;
  if (dim < 0) {
    t = tensor_alias(v, v->sizes(), v->strides(), v->ndim, v->offset, v->dtype);
  } else {
    if (dim >= v->ndim)
      return PyErr_Format(PyExc_IndexError, "wrap: dim %d of a tensor with %d dims", dim, v->ndim), nullptr;
    int64_t s[kMaxDims], st[kMaxDims];
    int n = 0;
    for (int i = 0; i < v->ndim; i++)
      if (i != dim) s[n] = v->sizes()[i], st[n++] = v->strides()[i];
    t = tensor_alloc(TensorType, n);
    if (!t) return nullptr;
    t->storage = storage_wrap(nullptr, 0, v->device, nullptr, nullptr);
    t->dtype = v->dtype;
    t->device = v->device;
    tensor_set_geometry(t, s, st, n, v->offset);
    t->keys |= v->keys & kKeyBits;
  }
  if (!t) return nullptr;
  t->flags |= v->flags & kWrappedNumber;
  if (dim >= 0 && v->requires_grad()) t->flags |= kRequiresGrad;   // what derivative rules ask their arguments
  tensor_extra(t)->wrapped = Py_NewRef(payload);
  t->keys |= kKeyFunctorch;
  return as_object(t);
}

// rewrap(tensor, value, dim): the geometry of `tensor` follows what an in-place op made of its value.
static PyObject* py_rewrap(PyObject*, PyObject* args) {
  PyObject *tensor, *value;
  int dim = -1;
  if (!PyArg_ParseTuple(args, "O!O!|i", TensorType, &tensor, TensorType, &value, &dim)) return nullptr;
  Tensor* v = as_tensor(value);
  int64_t s[kMaxDims], st[kMaxDims];
  int n = 0;
  for (int i = 0; i < v->ndim; i++)
    if (i != dim) s[n] = v->sizes()[i], st[n++] = v->strides()[i];
  tensor_set_geometry(as_tensor(tensor), s, st, n, v->offset);
  Py_RETURN_NONE;
}

// Makes `tensor` look at what `source` looks at: the `x.data = y` of training loops.
static PyObject* py_set_data(PyObject*, PyObject* args) {
  PyObject *tensor, *source;
  if (!PyArg_ParseTuple(args, "O!O!", TensorType, &tensor, TensorType, &source)) return nullptr;
  Tensor *t = as_tensor(tensor), *s = as_tensor(source);
  if ((t->keys ^ s->keys) & kKeyQuantized)
    return PyErr_SetString(PyExc_RuntimeError, "data: a quantized tensor can take the place of a quantized one alone"),
           nullptr;
  s->storage->retain();
  t->storage->drop();
  t->storage = s->storage;
  t->dtype = s->dtype;
  t->device = s->device;
  t->keys = (t->keys & ~(kKeyBits | kKeyPrivate)) | (s->keys & (kKeyBits | kKeyPrivate));
  if ((t->keys | s->keys) & kKeyQuantized) tensor_quantize(t, s->extra ? s->extra->quantizer : nullptr);
  tensor_set_geometry(t, s->sizes(), s->strides(), s->ndim, s->offset);
  Py_RETURN_NONE;
}

static PyObject* py_bump(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor))
    return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(tensor)->tp_name), nullptr;
  tensor_bump(as_tensor(tensor));
  Py_RETURN_NONE;
}

static PyObject* py_view_strides(PyObject*, PyObject* args) {
  PyObject *tensor, *sizes;
  if (!PyArg_ParseTuple(args, "O!O", TensorType, &tensor, &sizes)) return nullptr;
  if (as_tensor(tensor)->keys & kKeyFunctorch) {
    Ref behind(ask_behind(tensor, "self"));
    if (behind) return PyObject_CallMethod(behind.p, "_view_strides", "(O)", sizes);
    if (PyErr_Occurred()) return nullptr;
  }
  if (as_tensor(tensor)->keys && PyObject_HasAttrString(tensor, "_view_strides"))   // its sizes may be symbols
    return PyObject_CallMethod(tensor, "_view_strides", "(O)", sizes);
  int64_t s[kMaxDims], st[kMaxDims];
  int n = read_ints(sizes, s, kMaxDims, "view");
  if (n < 0) return nullptr;
  Tensor* t = as_tensor(tensor);
  if (!view_strides(t->sizes(), t->strides(), t->ndim, s, n, st)) Py_RETURN_NONE;
  return int_tuple(st, n);
}

static PyMethodDef functions[] = {
    {"empty", guarded<py_empty>, METH_VARARGS, "empty(sizes, strides|None, dtype, device|None)"},
    {"stand_in", guarded<py_stand_in>, METH_VARARGS,
     "stand_in(sizes, strides|None, dtype, device): the same without memory, for rules to look at"},
    {"alias", guarded<py_alias>, METH_VARARGS,
     "alias(base, sizes, strides, offset[, dtype]): another geometry over the same bytes"},
    {"shallow_copy", guarded<py_shallow_copy>, METH_VARARGS,
     "shallow_copy(tensor, share_version=True, type=Tensor): same bytes, no history"},
    {"make_wrapper", guarded<py_make_wrapper>, METH_VARARGS,
     "make_wrapper(cls, sizes, strides, dtype, device): geometry without bytes"},
    {"wrap", guarded<py_wrap>, METH_VARARGS, "wrap(value, payload, dim=-1): a tensor of a function transform"},
    {"rewrap", guarded<py_rewrap>, METH_VARARGS, "rewrap(tensor, value, dim=-1): take over a changed geometry"},
    {"set_data", guarded<py_set_data>, METH_VARARGS, "set_data(tensor, source)"},
    {"bump_version", guarded<py_bump>, METH_O, "count an in-place write"},
    {"view_strides", guarded<py_view_strides>, METH_VARARGS,
     "view_strides(tensor, sizes): strides of such a view, or None"},
    {}};

int init_tensor_functions(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
