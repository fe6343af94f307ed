// The Python face of a storage, and what tensors say of theirs. Everything holds the interpreter lock.
#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "geometry.h"

#include <structmember.h>

namespace rl {

PyTypeObject* StorageType;

PyObject* storage_object(Storage* s) {
  // One object per storage: pickle and deepcopy recognise what is shared by identity.
  if (s->face) return Py_NewRef(s->face);
  auto* o = PyObject_New(StorageObject, StorageType);
  if (!o) return nullptr;
  s->face = reinterpret_cast<PyObject*>(o);
  s->retain();
  o->storage = s;
  o->weakrefs = nullptr;
  o->extent = nullptr;
  o->is_watching = false;
  return reinterpret_cast<PyObject*>(o);
}

static Storage* self_storage(PyObject* self) { return reinterpret_cast<StorageObject*>(self)->storage; }

static void storage_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<StorageObject*>(self);
  o->storage->face = nullptr;
  if (o->is_watching) o->storage->lent--;
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->extent);
  o->storage->drop();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* storage_nbytes(PyObject* self, PyObject*) {
  auto* o = reinterpret_cast<StorageObject*>(self);
  return o->extent ? Py_NewRef(o->extent) : PyLong_FromSize_t(o->storage->nbytes);
}
static Py_ssize_t storage_length(PyObject* self) {
  auto* o = reinterpret_cast<StorageObject*>(self);
  return o->extent ? PyNumber_AsSsize_t(o->extent, PyExc_OverflowError) : static_cast<Py_ssize_t>(o->storage->nbytes);
}
static PyObject* storage_extent(PyObject* self, void*) {
  PyObject* extent = reinterpret_cast<StorageObject*>(self)->extent;
  return Py_NewRef(extent ? extent : Py_None);
}
static int storage_set_extent(PyObject* self, PyObject* value, void*) {
  Py_XSETREF(reinterpret_cast<StorageObject*>(self)->extent, value && value != Py_None ? Py_NewRef(value) : nullptr);
  return 0;
}
// Every way from a storage to its bytes asks here first.
static bool has_bytes(Storage* s, const char* what) {
  if (!s->is_hollow) return true;
  PyErr_Format(PyExc_RuntimeError,
               "%s: the storage has %zu bytes by name, but its data is not allocated: it belongs to a wrapper subclass",
               what, s->nbytes);
  return false;
}

static PyObject* storage_data_ptr(PyObject* self, PyObject*) {
  if (!has_bytes(self_storage(self), "data_ptr")) return nullptr;
  flush_device(self_storage(self)->device);
  return PyLong_FromVoidPtr(self_storage(self)->data);
}
static PyObject* storage_device(PyObject* self, void*) { return device_object(self_storage(self)->device); }
static PyObject* storage_resizable(PyObject* self, PyObject*) { return PyBool_FromLong(self_storage(self)->resizable); }

static PyObject* storage_resize_method(PyObject* self, PyObject* arg) {
  Py_ssize_t n = PyNumber_AsSsize_t(arg, PyExc_OverflowError);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 0) {
    PyErr_Format(PyExc_RuntimeError, "resize_: storage size must not be negative, got %zd", n);
    return nullptr;
  }
  if (!storage_resize(self_storage(self), static_cast<size_t>(n))) return nullptr;
  Py_CLEAR(reinterpret_cast<StorageObject*>(self)->extent);
  return Py_NewRef(self);
}

static bool check_host(Storage* s, const char* what) {
  if (s->device.type == kCPU) return has_bytes(s, what);
  PyErr_Format(PyExc_RuntimeError, "%s: the storage is on device '%s'; move it to cpu first", what,
               device_type_name(s->device.type));
  return false;
}

static PyObject* storage_item(PyObject* self, Py_ssize_t i) {
  Storage* s = self_storage(self);
  if (!check_host(s, "UntypedStorage indexing")) return nullptr;
  if (i < 0 || static_cast<size_t>(i) >= s->nbytes) {
    PyErr_Format(PyExc_IndexError, "index %zd out of range for storage of size %zu", i, s->nbytes);
    return nullptr;
  }
  return PyLong_FromLong(static_cast<uint8_t>(s->data[i]));
}

static PyObject* storage_bytes(PyObject* self, PyObject*) {
  Storage* s = self_storage(self);
  if (!check_host(s, "UntypedStorage.tobytes")) return nullptr;
  return PyBytes_FromStringAndSize(s->data, static_cast<Py_ssize_t>(s->nbytes));
}

static PyObject* storage_write(PyObject* self, PyObject* args) {
  Py_buffer view;
  Py_ssize_t at = 0;
  if (!PyArg_ParseTuple(args, "y*|n", &view, &at)) return nullptr;
  Storage* s = self_storage(self);
  bool ok = check_host(s, "UntypedStorage.write");
  if (ok && (at < 0 || static_cast<size_t>(at) + view.len > s->nbytes)) {
    PyErr_Format(PyExc_ValueError, "UntypedStorage.write: %zd bytes at %zd do not fit in a storage of %zu bytes",
                 view.len, at, s->nbytes);
    ok = false;
  }
  if (ok) memcpy(s->data + at, view.buf, view.len);
  PyBuffer_Release(&view);
  if (!ok) return nullptr;
  Py_RETURN_NONE;
}

static int storage_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  Storage* s = self_storage(self);
  if (!check_host(s, "buffer of UntypedStorage")) return -1;
  s->resizable = false;   // whoever looks at the buffer (an array made by Tensor.numpy) holds its address
  static char nothing[16];   // NumPy takes a null address for "allocate memory of your own"
  return PyBuffer_FillInfo(view, self, s->data ? s->data : nothing, static_cast<Py_ssize_t>(s->nbytes), 0, flags);
}

static PyObject* storage_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(a) != StorageType || Py_TYPE(b) != StorageType || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((self_storage(a) == self_storage(b)) == (op == Py_EQ));
}
static Py_hash_t storage_hash(PyObject* self) { return reinterpret_cast<Py_hash_t>(self_storage(self)) >> 4; }
// How many hold it, this object included. Who follows memory asks, to learn when nobody else does: from the first time
// on, this object does not mind if a gradient keeps the memory.
static PyObject* storage_holders(PyObject* self, void*) {
  auto* o = reinterpret_cast<StorageObject*>(self);
  if (!o->is_watching) o->storage->lent++;
  o->is_watching = true;
  return PyLong_FromLongLong(self_storage(self)->refs.load(std::memory_order_relaxed));
}
static PyObject* storage_cdata(PyObject* self, void*) { return PyLong_FromVoidPtr(self_storage(self)); }

static PyObject* storage_new_method(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "device", nullptr};
  PyObject *what = nullptr, *device = nullptr;
  Device d;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:UntypedStorage", const_cast<char**>(names), &what, &device))
    return nullptr;
  if (device && device != Py_None && !parse_device(device, &d)) return nullptr;
  Py_ssize_t size = 0;
  Ref bytes;   // of a sequence of numbers
  if (what && PyIndex_Check(what)) {
    size = PyNumber_AsSsize_t(what, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) return nullptr;
  } else if (what) {
    bytes = Ref(PyBytes_FromObject(what));
    if (!bytes) return nullptr;
    size = PyBytes_GET_SIZE(bytes.p);
    d = Device{};
  }
  if (size < 0) {
    PyErr_Format(PyExc_RuntimeError, "UntypedStorage: size must not be negative, got %zd", size);
    return nullptr;
  }
  Storage* s = storage_new(static_cast<size_t>(size), d);
  if (!s) return nullptr;
  if (bytes && size) memcpy(s->data, PyBytes_AS_STRING(bytes.p), size);
  PyObject* o = storage_object(s);
  s->drop();
  return o;
}

static PyMethodDef storage_methods[] = {
    {"nbytes", guarded<storage_nbytes>, METH_NOARGS, "size in bytes"},
    {"size", guarded<storage_nbytes>, METH_NOARGS, "size in bytes"},
    {"data_ptr", guarded<storage_data_ptr>, METH_NOARGS, "address of the first byte"},
    {"resizable", guarded<storage_resizable>, METH_NOARGS, "whether resize_ may be called"},
    {"resize_", guarded<storage_resize_method>, METH_O, "grow or shrink in place, keeping the leading bytes"},
    {"tobytes", guarded<storage_bytes>, METH_NOARGS, "a copy of the bytes"},
    {"write", guarded<storage_write>, METH_VARARGS, "write(bytes, at=0): overwrite bytes"},
    {}};
static PyGetSetDef storage_getset[] = {
    {"device", storage_device, nullptr, nullptr, nullptr},
    {"_cdata", storage_cdata, nullptr, nullptr, nullptr},
    {"_holders", storage_holders, nullptr, "how many tensors and objects hold the storage", nullptr},
    {"_extent", storage_extent, storage_set_extent, "the formula that nbytes() answers, or None", nullptr},
    {}};
static PyMemberDef storage_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(StorageObject, weakrefs), READONLY, nullptr}, {}};
static PyType_Slot storage_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(storage_dealloc)},
                                      {Py_tp_methods, storage_methods},
                                      {Py_tp_getset, storage_getset},
                                      {Py_tp_members, storage_members},
                                      {Py_sq_length, reinterpret_cast<void*>(storage_length)},
                                      {Py_sq_item, reinterpret_cast<void*>(guarded<storage_item>)},
                                      {Py_bf_getbuffer, reinterpret_cast<void*>(storage_getbuffer)},
                                      {Py_tp_richcompare, reinterpret_cast<void*>(guarded<storage_compare>)},
                                      {Py_tp_hash, reinterpret_cast<void*>(storage_hash)},
                                      {Py_tp_new, reinterpret_cast<void*>(guarded<storage_new_method>)},
                                      {Py_tp_doc, const_cast<char*>("The bytes one or more tensors look at.")},
                                      {0, nullptr}};
static PyType_Spec storage_spec = {"rushlight.UntypedStorage", sizeof(StorageObject), 0, Py_TPFLAGS_DEFAULT,
                                   storage_slots};

static PyObject* py_memory_stats(PyObject*, PyObject*) {
  MemoryStats s = memory_stats();
  return Py_BuildValue("{s:n,s:n,s:n}", "allocated", s.allocated, "cached", s.cached, "peak", s.peak);
}
static PyObject* py_empty_cache(PyObject*, PyObject*) {
  arena_empty();
  Py_RETURN_NONE;
}
static PyObject* py_reset_peak(PyObject*, PyObject*) {
  reset_peak_memory();
  Py_RETURN_NONE;
}

// --- what tensors say of theirs --------------------------------------------------------------------------------------

static PyObject* m_untyped_storage(PyObject* self, PyObject*) {
  thread_state().noting = 0;
  return storage_object(as_tensor(self)->storage);
}

static PyObject* m_set_storage(PyObject* self, PyObject* args) {
  PyObject *storage, *sizes, *strides;
  Py_ssize_t offset;
  if (!PyArg_ParseTuple(args, "O!nOO", StorageType, &storage, &offset, &sizes, &strides)) return nullptr;
  Tensor* t = as_tensor(self);
  int64_t s[kMaxDims], st[kMaxDims];
  int n = read_ints(sizes, s, kMaxDims, "set_"), m = n < 0 ? -1 : read_ints(strides, st, kMaxDims, "set_");
  if (n < 0 || m < 0) return nullptr;
  if (n != m)
    return PyErr_Format(PyExc_RuntimeError, "set_: mismatched lengths of size (%d) and stride (%d)", n, m), nullptr;
  Storage* fresh = reinterpret_cast<StorageObject*>(storage)->storage;
  if (checked_numel(s, n) < 0) return bad_size(s, n), nullptr;
  // One negative stride may hide behind a positive one: the sum would be in range, elements between would not.
  bool backwards = false;
  for (int i = 0; i < n; i++) backwards |= st[i] < 0;
  int64_t span = span_elements(s, st, n), need;
  if (backwards || span < 0 || offset < 0 || __builtin_add_overflow(span, static_cast<int64_t>(offset), &need) ||
      __builtin_mul_overflow(need, static_cast<int64_t>(itemsize(t->dtype)), &need))
    return PyErr_SetString(PyExc_RuntimeError, "set_: sizes, strides or offset are out of range"), nullptr;
  if (span && static_cast<size_t>(need) > fresh->nbytes)
    return PyErr_Format(PyExc_RuntimeError, "set_: needs %lld bytes but the storage holds %zu",
                        static_cast<long long>(need), fresh->nbytes),
           nullptr;
  fresh->retain();
  t->storage->drop();
  t->storage = fresh;
  t->device = fresh->device;
  tensor_set_geometry(t, s, st, n, offset);
  Py_RETURN_NONE;
}

static PyMethodDef tensor_methods[] = {
    {"untyped_storage", guarded<asked<"untyped_storage", m_untyped_storage>>, METH_NOARGS,
     "untyped_storage($self, /)\n--\n\nthe bytes this tensor looks at"},
    {"_set_storage", guarded<m_set_storage>, METH_VARARGS, "(storage, offset, size, stride): look at other bytes"},
    {}};

// --- module functions -----------------------------------------------------------------------------------------------

static PyMethodDef functions[] = {
    {"memory_stats", guarded<py_memory_stats>, METH_NOARGS, "bytes allocated, cached and at the peak on the cpu"},
    {"empty_cache", guarded<py_empty_cache>, METH_NOARGS, "give cached large blocks back to the system"},
    {"reset_peak_memory", guarded<py_reset_peak>, METH_NOARGS, "start a new peak measurement"},
    {}};

int init_storage_face(PyObject* module) {
  StorageType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&storage_spec));
  if (!StorageType || PyModule_AddObjectRef(module, "UntypedStorage", reinterpret_cast<PyObject*>(StorageType)))
    return -1;
  return add_attributes(TensorType, tensor_methods) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}

}  // namespace rl
