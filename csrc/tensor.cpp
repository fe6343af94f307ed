// The Tensor type: life and geometry. What Python sees of it is in extras/tensor_face.cpp; its ops come from Python.
#include "tensor.h"
#include "boundary.h"

#include <structmember.h>

#include <cstdlib>

#include "element.h"
#include "geometry.h"
#include "index.h"
#include "protocol.h"
#include "tape.h"
#include "symbolic.h"

namespace rl {

PyTypeObject* TensorType;
static PyTypeObject* SizeType;
static PyObject* disabled_torch_function;   // the marker Parameter uses to stay on the fast path
static PyObject* str_torch_function;
static PyObject* str_torch_dispatch;

// --- life ---------------------------------------------------------------------------------------------------------

// Dead plain tensors are kept for the next op: making one through the collector costs as much as a small kernel.
static Tensor* spare_tensors[256];
static int num_spare = 0;

static bool set_ndim(Tensor* t, int ndim) {
  t->ndim = static_cast<uint8_t>(ndim);
  if (ndim <= kInlineDims) {
    t->geometry = t->inline_geometry;
    return true;
  }
  t->geometry = static_cast<int64_t*>(malloc(sizeof(int64_t) * 2 * ndim));
  if (!t->geometry) PyErr_NoMemory();
  return t->geometry != nullptr;
}

bool is_seen(const Tensor* t) {
  if (tls.keys & kKeyAten || t->keys & kKeyPrivate) return true;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(t));
  return (t->keys & kKeySubclass) && has_torch_dispatch(Py_TYPE(t)) && !PyObject_HasAttrString(type, "own_ops");
}

bool has_torch_dispatch(PyTypeObject* type) {
  Ref dispatch(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), str_torch_dispatch));
  if (!dispatch) PyErr_Clear();
  return dispatch && dispatch.p != disabled_torch_function && dispatch.p != Py_None;
}

uint32_t subclass_keys(PyTypeObject* type) {
  if (type == TensorType) return 0;
  Ref handler(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), str_torch_function));
  if (!handler) PyErr_Clear();
  if (!handler || handler.p == disabled_torch_function)
    return handler && !has_torch_dispatch(type) ? 0 : static_cast<uint32_t>(kKeySubclass);
  // The default of every tensor answers an attribute with its value: only handlers of a program's own need be asked.
  Ref usual(PyObject_GetAttr(as_object(TensorType), str_torch_function));
  if (!usual) PyErr_Clear();
  bool is_usual = usual && PyMethod_Check(handler.p) && PyMethod_Check(usual.p) &&
                  PyMethod_GET_FUNCTION(handler.p) == PyMethod_GET_FUNCTION(usual.p);
  return is_usual ? kKeySubclass : kKeySubclass | kKeyFunction;
}

Tensor* tensor_alloc(PyTypeObject* type, int ndim) {
  Tensor* t;
  if (type == TensorType && num_spare) {
    t = spare_tensors[--num_spare];
    PyObject_Init(reinterpret_cast<PyObject*>(t), type);
  } else if (type == TensorType) {
    t = PyObject_GC_New(Tensor, TensorType);
    if (!t) return nullptr;
  } else {
    t = reinterpret_cast<Tensor*>(type->tp_alloc(type, 0));
    if (!t) return nullptr;
  }
  memset(&t->storage, 0, offsetof(Tensor, inline_geometry) - offsetof(Tensor, storage));
  if (type != TensorType) t->keys = subclass_keys(type);
  if (!set_ndim(t, ndim)) {
    t->ndim = 0;
    t->geometry = t->inline_geometry;
    Py_DECREF(t);
    return nullptr;
  }
  return t;
}

void tensor_finish_geometry(Tensor* t) {
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++) n *= t->sizes()[i];
  t->numel = n;
  t->flags &= ~(kContiguous | kDenseNonOverlapping);
  if (is_contiguous(t->sizes(), t->strides(), t->ndim))
    t->flags |= kContiguous | kDenseNonOverlapping;
  else if (is_dense_nonoverlapping(t->sizes(), t->strides(), t->ndim))
    t->flags |= kDenseNonOverlapping;
}

bool bad_size(const int64_t* sizes, int ndim) {
  Ref shape(int_tuple(sizes, ndim));
  if (!shape) return false;
  for (int i = 0; i < ndim; i++)
    if (sizes[i] < 0) {
      PyErr_Format(PyExc_RuntimeError, "expected sizes of at least 0, got negative dimension %lld: %R",
                   static_cast<long long>(sizes[i]), shape.p);
      return false;
    }
  PyErr_Format(PyExc_RuntimeError, "tensor of size %R is too large: its storage size calculation overflowed", shape.p);
  return false;
}

Tensor* tensor_empty(const int64_t* sizes, const int64_t* strides, int ndim, DType dtype, Device device) {
  int64_t numel = checked_numel(sizes, ndim), span = numel, nbytes;
  if (numel < 0) return bad_size(sizes, ndim), nullptr;
  if (strides && (span = span_elements(sizes, strides, ndim)) < 0) return bad_size(sizes, ndim), nullptr;
  if (__builtin_mul_overflow(span, static_cast<int64_t>(itemsize(dtype)), &nbytes))
    return bad_size(sizes, ndim), nullptr;
  Storage* s = storage_new(static_cast<size_t>(nbytes), device);
  if (!s) return nullptr;
  Tensor* t = tensor_alloc(TensorType, ndim);
  if (!t) {
    s->drop();
    return nullptr;
  }
  t->storage = s;
  t->dtype = dtype;
  t->device = device;
  memcpy(t->geometry, sizes, sizeof(int64_t) * ndim);
  if (strides) {
    memcpy(t->geometry + ndim, strides, sizeof(int64_t) * ndim);
    tensor_finish_geometry(t);
  } else {
    contiguous_strides(sizes, ndim, t->geometry + ndim);
    t->numel = numel;
    t->flags |= kContiguous | kDenseNonOverlapping;
  }
  if (tls.inference) t->flags |= kInference;
  return t;
}

Version* tensor_version(Tensor* t) {
  if (!t->version) t->version = new Version;
  return t->version;
}

void tensor_share_version(Tensor* from, Tensor* to) {
  Version* v = tensor_version(from);
  v->refs++;
  Version* old = to->version;
  to->version = v;
  if (old && --old->refs == 0) delete old;
}

Tensor* tensor_alias(Tensor* base, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset,
                     DType dtype) {
  if (checked_numel(sizes, ndim) < 0)
    return bad_size(sizes, ndim), nullptr;  // repeated elements take no memory, but must be countable
  Tensor* t = tensor_alloc(TensorType, ndim);
  if (!t) return nullptr;
  t->storage = base->storage;
  t->storage->retain();
  t->dtype = dtype;
  t->device = base->device;
  t->offset = offset;
  memcpy(t->geometry, sizes, sizeof(int64_t) * ndim);
  memcpy(t->geometry + ndim, strides, sizeof(int64_t) * ndim);
  tensor_finish_geometry(t);
  t->flags |= base->flags & kInference;
  t->keys = view_bits(base, dtype);
  if (__builtin_expect(base->keys & kKeyQuantized, 0) && dtype == base->dtype)
    tensor_quantize(t, base->extra->quantizer);
  return t;
}

Tensor* tensor_shallow_copy(Tensor* t, bool share_version) {
  Tensor* copy = tensor_alias(t, t->sizes(), t->strides(), t->ndim, t->offset, t->dtype);
  if (copy && share_version && !(t->flags & kInference)) tensor_share_version(t, copy);
  if (copy && __builtin_expect(t->keys & kKeyPrivate, 0)) tensor_keep_attributes(t, copy);
  if (copy && (t->keys & kKeyFunctorch)) {
    copy->keys |= kKeyFunctorch;
    tensor_extra(copy)->wrapped = Py_XNewRef(t->extra->wrapped);
  }
  return copy;
}

bool tensor_has_data(Tensor* t, const char* op) {
  if (t->storage->data || !t->numel || !kDevices[t->device.type].has_data) return true;
  PyErr_Format(
      PyExc_RuntimeError,
      "%s: the tensor has %lld elements, but its data is not allocated (a wrapper subclass, or a storage resized to 0)",
      op, static_cast<long long>(t->numel));
  return false;
}

void tensor_set_geometry(Tensor* t, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset) {
  int64_t copy[2 * kMaxDims];
  memcpy(copy, sizes, sizeof(int64_t) * ndim);
  memcpy(copy + ndim, strides, sizeof(int64_t) * ndim);
  if (t->geometry != t->inline_geometry) free(t->geometry);
  if (!set_ndim(t, ndim)) return;
  memcpy(t->geometry, copy, sizeof(int64_t) * 2 * ndim);
  t->offset = offset;
  tensor_finish_geometry(t);
}

AutogradExtra* tensor_extra(Tensor* t) {
  if (!t->extra) {
    t->extra = new AutogradExtra;
    tensor_track(t);
  }
  return t->extra;
}

void tensor_keep_attributes(Tensor* from, Tensor* to) {
  if (!from->dict) return;
  Py_XSETREF(to->dict, PyDict_Copy(from->dict));
  if (!to->dict) PyErr_Clear();
  tensor_track(to);
}

void tensor_quantize(Tensor* t, PyObject* quantizer) {
  Py_XSETREF(tensor_extra(t)->quantizer, Py_XNewRef(quantizer));
  t->keys = quantizer ? t->keys | kKeyQuantized : t->keys & ~static_cast<uint32_t>(kKeyQuantized);
}

void tensor_track(Tensor* t) {
  if (!PyObject_GC_IsTracked(as_object(t))) PyObject_GC_Track(t);
}

static int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Tensor* t = as_tensor(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(t->dict);
  return tape_traverse(t, visit, arg);
}

static int tensor_clear(PyObject* self) {
  Tensor* t = as_tensor(self);
  Py_CLEAR(t->dict);
  tape_free_autograd(t);
  return 0;
}

static void tensor_dealloc(PyObject* self) {
  Tensor* t = as_tensor(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (t->weakrefs) PyObject_ClearWeakRefs(self);
  if (t->dict && !(t->keys & kKeyPrivate)) Py_CLEAR(t->dict);
  if (t->grad_fn || t->grad || t->view || t->extra) tape_free_autograd(t);   // where a node may keep a result
  if (t->dict) Py_CLEAR(t->dict);
  if (t->version && --t->version->refs == 0) delete t->version;
  t->version = nullptr;
  if (t->storage) t->storage->drop();
  t->storage = nullptr;
  if (t->geometry != t->inline_geometry) free(t->geometry);
  PyTypeObject* type = Py_TYPE(self);
  if (type == TensorType && num_spare < 256)
    spare_tensors[num_spare++] = t;
  else
    type->tp_free(self);
  Py_DECREF(type);
}

static int tensor_setattr(PyObject* self, PyObject* name, PyObject* value) {
  tensor_track(as_tensor(self));   // attributes can close a cycle
  PyTypeObject* before = Py_TYPE(self);
  int failed = PyObject_GenericSetAttr(self, name, value);
  if (Py_TYPE(self) != before)     // `x.__class__ = Other`: its handlers are asked from now on
    as_tensor(self)->keys = (as_tensor(self)->keys & ~(kKeySubclass | kKeyFunction)) | subclass_keys(Py_TYPE(self));
  return failed;
}

// --- reading Python values ------------------------------------------------------------------------------------------

PyObject* int_tuple(const int64_t* values, int n) {
  PyObject* tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(values[i]));
  return tuple;
}

PyObject* size_object(const int64_t* sizes, int ndim) {
  PyObject* self = SizeType->tp_alloc(SizeType, ndim);
  for (int i = 0; self && i < ndim; i++) PyTuple_SET_ITEM(self, i, PyLong_FromLongLong(sizes[i]));
  return self;
}

int read_ints(PyObject* seq, int64_t* out, int max, const char* what) {
  Ref fast(PySequence_Fast(seq, ""));
  if (!fast) {
    PyErr_Format(PyExc_TypeError, "%s: expected a sequence of ints, got %s", what, Py_TYPE(seq)->tp_name);
    return -1;
  }
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.p);
  if (n > max) {
    PyErr_Format(PyExc_RuntimeError, "%s: at most %d dimensions are supported, got %zd", what, max, n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    // An item's __index__ is Python code, which may change the list.
    if (i >= PySequence_Fast_GET_SIZE(fast.p))
      return PyErr_Format(PyExc_RuntimeError, "%s: the list changed while it was read", what), -1;
    Ref held = Ref::borrow(PySequence_Fast_GET_ITEM(fast.p, i));
    PyObject* item = held.p;
    int overflow = 0;
    if (PyLong_Check(item)) {
      out[i] = PyLong_AsLongLongAndOverflow(item, &overflow);
    } else {
      Ref index(PyNumber_Index(item));
      if (!index) {
        PyErr_Format(PyExc_TypeError, "%s: expected ints, but element %zd is a %s", what, i, Py_TYPE(item)->tp_name);
        return -1;
      }
      out[i] = PyLong_AsLongLongAndOverflow(index.p, &overflow);
    }
    if (overflow) {
      PyErr_Format(PyExc_RuntimeError, "%s: element %zd (%R) does not fit in 64 bits", what, i, item);
      return -1;
    }
  }
  return static_cast<int>(n);
}

// --- the type -------------------------------------------------------------------------------------------------------

Overlap shared_overlap(Tensor* a, Tensor* b) {
  if (!a->numel || !b->numel) return Overlap::None;
  bool same = a->offset == b->offset && a->ndim == b->ndim && a->dtype == b->dtype &&
              !memcmp(a->geometry, b->geometry, sizeof(int64_t) * 2 * a->ndim);
  if (same) return Overlap::Full;
  if (!(a->flags & b->flags & kDenseNonOverlapping)) return Overlap::TooHard;
  int64_t a_begin = a->offset * itemsize(a->dtype),
          b_begin = b->offset * itemsize(b->dtype);  // not addresses: fake tensors have none
  return a_begin < b_begin + b->numel * itemsize(b->dtype) && b_begin < a_begin + a->numel * itemsize(a->dtype)
             ? Overlap::Partial
             : Overlap::None;
}

static Py_ssize_t tensor_length(PyObject* self) {
  Tensor* t = as_tensor(self);
  if (may_ask(t)) {
    Ref answer(ask_access("__len__", self));
    if (answer.p != Py_NotImplemented) return answer ? PyNumber_AsSsize_t(answer.p, PyExc_OverflowError) : -1;
  }
  if (__builtin_expect(t->keys & kKeyFunctorch, 0)) {
    Ref answer(ask_behind(self, "length"));
    if (answer || PyErr_Occurred()) return answer ? PyNumber_AsSsize_t(answer.p, PyExc_OverflowError) : -1;
  }
  if (t->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t->sizes()[0];
}

static PyGetSetDef tensor_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

static PyMemberDef tensor_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, nullptr},
    {}};

static PyObject* tensor_new(PyTypeObject* type, PyObject*, PyObject*) {
  Tensor* t = tensor_alloc(type, 1);
  if (!t) return nullptr;
  t->dtype = DType::F32;
  t->storage = storage_new(0, Device{});
  t->geometry[0] = 0;
  t->geometry[1] = 1;
  tensor_finish_geometry(t);
  return as_object(t);
}

static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
                                     {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
                                     {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
                                     {Py_tp_setattro, reinterpret_cast<void*>(guarded<tensor_setattr>)},
                                     {Py_tp_getset, tensor_getset},
                                     {Py_tp_members, tensor_members},
                                     {Py_tp_new, reinterpret_cast<void*>(guarded<tensor_new>)},
                                     {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
                                     {Py_mp_subscript, reinterpret_cast<void*>(guarded<tensor_subscript>)},
                                     {Py_mp_ass_subscript, reinterpret_cast<void*>(guarded<tensor_ass_subscript>)},
                                     {Py_nb_bool, reinterpret_cast<void*>(guarded<tensor_truth>)},
                                     {Py_nb_int, reinterpret_cast<void*>(guarded<tensor_as_int>)},
                                     {Py_nb_float, reinterpret_cast<void*>(guarded<tensor_as_float>)},
                                     {Py_nb_index, reinterpret_cast<void*>(guarded<tensor_as_index>)},
                                     {Py_tp_iter, reinterpret_cast<void*>(guarded<tensor_iter>)},
                                     {Py_tp_hash, reinterpret_cast<void*>(tensor_hash)},
                                     {Py_tp_doc, const_cast<char*>("An array with a place in the autograd graph.")},
                                     {0, nullptr}};
static PyType_Spec tensor_spec = {"rushlight.Tensor", sizeof(Tensor), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, tensor_slots};

// --- module functions -----------------------------------------------------------------------------------------------

static PyObject* py_set_size_type(PyObject*, PyObject* type) {
  SizeType = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_RETURN_NONE;
}
static PyObject* py_subclass_keys(PyObject*, PyObject* type) {
  if (!PyType_Check(type))
    return PyErr_Format(PyExc_TypeError, "expected a class, got %s", Py_TYPE(type)->tp_name), nullptr;
  return PyLong_FromUnsignedLong(subclass_keys(reinterpret_cast<PyTypeObject*>(type)));
}
static PyObject* py_disabled(PyObject*, PyObject*) {
  Py_RETURN_NOTIMPLEMENTED;
}

// storage_holders(tensor): how many tensors, and Python objects of storages, hold its memory.
static PyObject* py_storage_holders(PyObject*, PyObject* o) {
  if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "storage_holders: expected a tensor"), nullptr;
  Storage* storage = as_tensor(o)->storage;
  return PyLong_FromLongLong(storage ? storage->refs.load(std::memory_order_relaxed) : 0);
}

// lend_storage(tensor, is_lent): whether those who hold its memory now let a gradient keep it, as if they did not.
static PyObject* py_lend_storage(PyObject*, PyObject* args) {
  PyObject* o;
  int is_lent;
  if (!PyArg_ParseTuple(args, "Op", &o, &is_lent)) return nullptr;
  if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "lend_storage: expected a tensor"), nullptr;
  if (Storage* storage = as_tensor(o)->storage)
    storage->lent = is_lent ? storage->refs.load(std::memory_order_relaxed) : 0;
  Py_RETURN_NONE;
}

// exchange_memory(a, b): each one's holders see the other's memory from now on. Both of one size, on one device.
static PyObject* py_exchange_memory(PyObject*, PyObject* args) {
  PyObject *first, *second;
  if (!PyArg_ParseTuple(args, "O!O!", TensorType, &first, TensorType, &second)) return nullptr;
  Storage *a = as_tensor(first)->storage, *b = as_tensor(second)->storage;
  if (!a || !b || a->nbytes != b->nbytes || !(a->device == b->device))
    return PyErr_SetString(PyExc_RuntimeError, "exchange_memory: expected memory of one size on one device"), nullptr;
  std::swap(a->data, b->data), std::swap(a->capacity, b->capacity);
  std::swap(a->release, b->release), std::swap(a->context, b->context);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"exchange_memory", guarded<py_exchange_memory>, METH_VARARGS,
     "exchange_memory(a, b): each one's holders see the other's memory from now on"},
    {"lend_storage", guarded<py_lend_storage>, METH_VARARGS,
     "lend_storage(tensor, is_lent): whether a gradient may keep memory that is held"},
    {"storage_holders", guarded<py_storage_holders>, METH_O, "storage_holders(tensor): how many hold its memory"},
    {"subclass_keys", guarded<py_subclass_keys>, METH_O, "dispatch key bits that tensors of a class carry"},
    {"_set_size_type", guarded<py_set_size_type>, METH_O, nullptr},
    {"_disabled_torch_function_impl", guarded<py_disabled>, METH_VARARGS,
     "marks a subclass that needs no dispatch of its own"},
    {}};

int init_tensor(PyObject* module) {
  str_torch_function = PyUnicode_InternFromString("__torch_function__");
  str_torch_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  SizeType = &PyTuple_Type;
  TensorType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&tensor_spec));
  if (!TensorType || PyModule_AddObjectRef(module, "Tensor", as_object(TensorType))) return -1;
  if (PyModule_AddFunctions(module, functions)) return -1;
  disabled_torch_function = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  return disabled_torch_function ? 0 : -1;
}

}  // namespace rl
