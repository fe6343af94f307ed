// The attributes of tensors that need no op. Everything holds the interpreter lock.
#include <string>

#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "profile.h"
#include "geometry.h"
#include "../../rushlight/include/rushlight/tensor_layout.h"

namespace rl {

// What C++ extensions read directly lies where their header says.
#define RL_SAME(ours, theirs) static_assert(offsetof(Tensor, ours) == offsetof(rushlight::TensorFields, theirs))
RL_SAME(storage, storage); RL_SAME(geometry, geometry); RL_SAME(offset, offset); RL_SAME(numel, numel);
RL_SAME(grad_fn, grad_fn); RL_SAME(output_nr, output_nr); RL_SAME(keys, keys); RL_SAME(ndim, ndim);
RL_SAME(dtype, dtype); RL_SAME(device, device_type); RL_SAME(flags, flags);
#undef RL_SAME
static_assert(offsetof(Storage, data) == offsetof(rushlight::StorageFields, data));
static_assert(offsetof(Storage, nbytes) == offsetof(rushlight::StorageFields, nbytes));
static_assert(offsetof(Storage, is_hollow) == offsetof(rushlight::StorageFields, is_hollow));
static_assert(offsetof(DTypeObject, id) == offsetof(rushlight::DTypeFields, id));
static_assert(kRequiresGrad == 1 && kContiguous == 2 && kInference == 4 && kDenseNonOverlapping == 16);

static PyObject* strided_layout;            // rushlight.strided, told to us by Python

// Answers with what a function transform's tensor stands for, where that is a fake one: the core holds hints of its
// sizes, and `meta` for its device.
#define RL_ASK_BEHIND(question)                                                        \
  if (__builtin_expect(as_tensor(self)->keys & kKeyFunctorch, 0)) {                     \
    PyObject* answer = ask_behind(self, question);                                     \
    if (answer || PyErr_Occurred()) return answer;                                     \
  }

static PyObject* get_shape(PyObject* self, void*) {
  RL_ASK_BEHIND("shape");
  return size_object(as_tensor(self)->sizes(), as_tensor(self)->ndim);
}
static PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(dtype_object(as_tensor(self)->dtype)); }
static PyObject* get_device(PyObject* self, void*) {
  RL_ASK_BEHIND("device");
  return device_object(as_tensor(self)->device);
}
static PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(as_tensor(self)->ndim); }
static PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromLong(itemsize(as_tensor(self)->dtype)); }
static PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(as_tensor(self)->numel * itemsize(as_tensor(self)->dtype));
}
static PyObject* get_version(PyObject* self, void*) {
  if (as_tensor(self)->flags & kInference) {
    PyErr_SetString(PyExc_RuntimeError, "_version: inference tensors count no writes.");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(as_tensor(self)->current_version());
}
static PyObject* get_is_cpu(PyObject* self, void*) {
  RL_ASK_BEHIND("is_cpu");
  return PyBool_FromLong(as_tensor(self)->device.type == kCPU);
}
static PyObject* get_is_meta(PyObject* self, void*) { return PyBool_FromLong(as_tensor(self)->device.type == kMeta); }
static PyObject* get_keys(PyObject* self, void*) { return PyLong_FromUnsignedLong(as_tensor(self)->keys); }
static int set_keys(PyObject* self, PyObject* value, void*) {
  unsigned long keys = PyLong_AsUnsignedLong(value);
  if (keys == static_cast<unsigned long>(-1) && PyErr_Occurred()) return -1;
  as_tensor(self)->keys = static_cast<uint32_t>(keys);
  return 0;
}
static PyObject* get_wrapped(PyObject* self, void*) { return PyBool_FromLong(as_tensor(self)->flags & kWrappedNumber); }
static int set_wrapped(PyObject* self, PyObject* value, void*) {
  int on = PyObject_IsTrue(value);
  if (on < 0) return -1;
  if (on) as_tensor(self)->flags |= kWrappedNumber;
  else as_tensor(self)->flags &= ~kWrappedNumber;
  return 0;
}
static PyObject* get_layout(PyObject*, void*) { return Py_NewRef(strided_layout ? strided_layout : Py_None); }

static PyObject* m_dim(PyObject* self, PyObject*) { return PyLong_FromLong(as_tensor(self)->ndim); }
static PyObject* m_numel(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("numel");
  return PyLong_FromLongLong(as_tensor(self)->numel);
}
static PyObject* m_element_size(PyObject* self, PyObject*) { return get_itemsize(self, nullptr); }
static PyObject* m_storage_offset(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("storage_offset");
  thread_state().noting = 0;
  return PyLong_FromLongLong(as_tensor(self)->offset);
}
static PyObject* m_data_ptr(PyObject* self, PyObject*) {
  Tensor* t = as_tensor(self);
  flush_device(t->device);
  thread_state().noting = 0;
  return PyLong_FromVoidPtr(t->storage->data ? t->data() : nullptr);
}
static PyObject* m_is_floating(PyObject* self, PyObject*) { return PyBool_FromLong(is_float(as_tensor(self)->dtype)); }
static PyObject* m_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(is_complex(as_tensor(self)->dtype)); }
static PyObject* m_is_signed(PyObject* self, PyObject*) {
  return PyBool_FromLong(info(as_tensor(self)->dtype).is_signed);
}
static PyObject* m_is_inference(PyObject* self, PyObject*) {
  return PyBool_FromLong(as_tensor(self)->flags & kInference);
}
static PyObject* m_is_conj(PyObject* self, PyObject*) {
  return PyBool_FromLong(as_tensor(self)->keys & kKeyConjugate);
}
static PyObject* m_is_neg(PyObject* self, PyObject*) {
  return PyBool_FromLong(as_tensor(self)->keys & kKeyNegative);
}
static PyObject* m_item(PyObject* self, PyObject*) {
  Recorded recorded;
  if (is_recording()) record_method(&recorded, "aten::item", &self, 1);
  return tensor_item(as_tensor(self));
}
static PyObject* m_is_channels_last(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_is_channels_last");
  Tensor* t = as_tensor(self);
  return PyBool_FromLong(is_channels_last(t->sizes(), t->strides(), t->ndim));
}
static PyObject* m_is_contiguous(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_is_contiguous");
  return PyBool_FromLong(as_tensor(self)->contiguous());
}
// The same where nobody may want to see the question; NotImplemented elsewhere.
static PyObject* m_is_plainly_contiguous(PyObject* self, PyObject*) {
  if (may_ask(as_tensor(self))) Py_RETURN_NOTIMPLEMENTED;
  return m_is_contiguous(self, nullptr);
}
static PyObject* m_is_dense(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_is_dense");
  return PyBool_FromLong(as_tensor(self)->flags & kDenseNonOverlapping);
}
static PyObject* m_overlaps_itself(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_overlaps_itself");
  Tensor* t = as_tensor(self);
  return PyBool_FromLong(has_internal_overlap(t->sizes(), t->strides(), t->ndim));
}

static PyObject* m_overlap(PyObject* self, PyObject* other) {
  if (!is_tensor(other))
    return PyErr_Format(PyExc_TypeError, "_overlap: expected a Tensor, got %s", Py_TYPE(other)->tp_name), nullptr;
  return PyLong_FromLong(static_cast<long>(memory_overlap(as_tensor(self), as_tensor(other))));
}

static bool one_dim(Tensor* t, PyObject* dim, int64_t* out, const char* op) {
  int64_t d = PyNumber_AsSsize_t(dim, PyExc_IndexError);
  if (d == -1 && PyErr_Occurred()) return false;
  int64_t n = t->ndim;
  if (d < -n || d >= n) {
    PyErr_Format(PyExc_IndexError, "%s: Dimension out of range: expected one in [%lld, %lld], got %lld", op,
                 static_cast<long long>(n ? -n : -1), static_cast<long long>(n ? n - 1 : 0), static_cast<long long>(d));
    return false;
  }
  *out = d < 0 ? d + n : d;
  return true;
}

static PyObject* size_or_stride(PyObject* self, PyObject* args, PyObject* kwargs, bool stride) {
  static const char* names[] = {"dim", nullptr};
  PyObject* dim = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, stride ? "|O:stride" : "|O:size", const_cast<char**>(names), &dim))
    return nullptr;
  Tensor* t = as_tensor(self);
  if (__builtin_expect(t->keys & kKeyFunctorch, 0)) {
    Ref answer(ask_behind(self, stride ? "stride" : "shape"));
    if (answer) return dim == Py_None ? answer.release() : PyObject_GetItem(answer.p, dim);
    if (PyErr_Occurred()) return nullptr;
  }
  const int64_t* values = stride ? t->strides() : t->sizes();
  if (dim == Py_None) return stride ? int_tuple(values, t->ndim) : size_object(values, t->ndim);
  int64_t d;
  if (!one_dim(t, dim, &d, stride ? "stride" : "size")) return nullptr;
  return PyLong_FromLongLong(values[d]);
}
static PyObject* m_size(PyObject* self, PyObject* args, PyObject* kwargs) {
  return size_or_stride(self, args, kwargs, false);
}
static PyObject* m_stride(PyObject* self, PyObject* args, PyObject* kwargs) {
  return size_or_stride(self, args, kwargs, true);
}

static AskedAttribute asked_attributes[] = {
    {"shape", get_shape, nullptr, "the sizes, as a Size", {}},
    {"dtype", get_dtype, nullptr, "the type of the elements", {}},
    {"device", get_device, nullptr, "where the elements live", {}},
    {"ndim", get_ndim, nullptr, "how many dimensions", {}},
    {"itemsize", get_itemsize, nullptr, "bytes per element", {}},
    {"nbytes", get_nbytes, nullptr, "bytes of all elements", {}},
    {"layout", get_layout, nullptr, "always rushlight.strided here", {}},
    {"is_cpu", get_is_cpu, nullptr, nullptr, {}},
    {"is_meta", get_is_meta, nullptr, nullptr, {}},
    {"_version", get_version, nullptr, "how many in-place writes this tensor and its views have seen", {}},
    {}};
static PyGetSetDef tensor_getset[] = {
    {"_keys", get_keys, set_keys, "dispatch key bits of this tensor", nullptr},
    {"_is_wrapped_number", get_wrapped, set_wrapped, "made from a Python number: weak in type promotion", nullptr},
    {}};

static PyMethodDef tensor_methods[] = {
    {"dim", guarded<asked<"dim", m_dim>>, METH_NOARGS, "dim($self, /)\n--\n\nhow many dimensions"},
    {"ndimension", guarded<asked<"ndimension", m_dim>>, METH_NOARGS, "ndimension($self, /)\n--\n\nhow many dimensions"},
    {"numel", guarded<asked<"numel", m_numel>>, METH_NOARGS, "numel($self, /)\n--\n\nhow many elements"},
    {"nelement", guarded<asked<"nelement", m_numel>>, METH_NOARGS, "nelement($self, /)\n--\n\nhow many elements"},
    {"size", guarded_method<asked_with<"size", m_size>>(), METH_VARARGS | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nthe sizes, or one of them"},
    {"stride", guarded_method<asked_with<"stride", m_stride>>(), METH_VARARGS | METH_KEYWORDS,
     "stride($self, dim=None)\n--\n\nsteps in elements, or one of them"},
    {"item", guarded<asked<"item", m_item>>, METH_NOARGS, "item($self, /)\n--\n\nthe only element, as a Python number"},
    {"element_size", guarded<asked<"element_size", m_element_size>>, METH_NOARGS, "element_size($self, /)\n--\n\nbytes per element"},
    {"storage_offset", guarded<asked<"storage_offset", m_storage_offset>>, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nfirst element, counted in the storage"},
    {"data_ptr", guarded<asked<"data_ptr", m_data_ptr>>, METH_NOARGS, "data_ptr($self, /)\n--\n\naddress of the first element"},
    {"is_floating_point", guarded<asked<"is_floating_point", m_is_floating>>, METH_NOARGS,
     "is_floating_point($self, /)\n--\n\nwhether elements are floats"},
    {"is_complex", guarded<asked<"is_complex", m_is_complex>>, METH_NOARGS, "is_complex($self, /)\n--\n\nwhether elements are complex"},
    {"is_signed", guarded<asked<"is_signed", m_is_signed>>, METH_NOARGS, "is_signed($self, /)\n--\n\nwhether elements can be negative"},
    {"is_inference", guarded<asked<"is_inference", m_is_inference>>, METH_NOARGS,
     "is_inference($self, /)\n--\n\nwhether it was made in inference mode"},
    {"is_conj", guarded<m_is_conj>, METH_NOARGS,
     "is_conj($self, /)\n--\n\nwhether the memory holds the conjugates of the elements"},
    {"is_neg", guarded<m_is_neg>, METH_NOARGS,
     "is_neg($self, /)\n--\n\nwhether the memory holds the negatives of the elements"},
    {"_is_contiguous", guarded<m_is_contiguous>, METH_NOARGS, "row-major and dense"},
    {"_is_plainly_contiguous", guarded<m_is_plainly_contiguous>, METH_NOARGS, "as _is_contiguous, but for handlers"},
    {"_is_channels_last", guarded<m_is_channels_last>, METH_NOARGS, nullptr},
    {"_is_dense", guarded<m_is_dense>, METH_NOARGS, "dense and non-overlapping in some order of dims"},
    {"_overlaps_itself", guarded<m_overlaps_itself>, METH_NOARGS, "two indices may reach one element"},
    {"_overlap", guarded<m_overlap>, METH_O,
     "_overlap(other): 0 no byte in common, 1 the same elements, 2 some of them, 3 too hard to tell"},
    {}};

// An attribute that Python computes, or that is the same for all tensors. Lives as long as the type.
struct PythonAttribute {
  AskedAttribute asked;   // first: its address is what getters are given
  std::string name, doc;
  PyObject *read, *write;
};

static PyObject* python_get(PyObject* self, void* closure) {
  PyObject* read = static_cast<PythonAttribute*>(closure)->read;
  Recorded recorded;
  if (is_recording() && PyFunction_Check(read)) {
    Ref args(PyTuple_Pack(1, self));
    if (!args) return nullptr;
    record_function(&recorded, read, args.p);
  }
  return PyFunction_Check(read) ? PyObject_CallOneArg(read, self) : Py_NewRef(read);
}
static int python_set(PyObject* self, PyObject* value, void* closure) {
  if (!value) return PyErr_SetString(PyExc_AttributeError, "attributes of tensors cannot be deleted"), -1;
  return Ref(PyObject_CallFunctionObjArgs(static_cast<PythonAttribute*>(closure)->write, self, value, nullptr)) ? 0 : -1;
}

// add_attribute(name, read, write, doc): `read` is a function of the tensor, or what every tensor answers
static PyObject* py_add_attribute(PyObject*, PyObject* args) {
  const char *name, *doc;
  PyObject *read, *write;
  if (!PyArg_ParseTuple(args, "sOOz:add_attribute", &name, &read, &write, &doc)) return nullptr;
  auto* a = new PythonAttribute{{}, name, doc ? doc : "", Py_NewRef(read), Py_NewRef(write)};
  a->asked = {a->name.c_str(), python_get, write == Py_None ? nullptr : python_set, a->doc.c_str(), {}};
  if (add_asked_attribute(&a->asked)) return nullptr;
  Py_RETURN_NONE;
}

static PyObject* py_is_asked(PyObject*, PyObject* o) { return PyBool_FromLong(!is_tensor(o) || may_ask(as_tensor(o))); }

static PyObject* py_is_odd(PyObject*, PyObject* o) {
  if (!is_tensor(o)) Py_RETURN_TRUE;
  Tensor* t = as_tensor(o);
  return PyBool_FromLong(t->keys || may_ask(t) || (t->numel && !t->storage->data));
}

static PyObject* py_set_layout(PyObject*, PyObject* layout) {
  strided_layout = Py_NewRef(layout);
  Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_set_layout", guarded<py_set_layout>, METH_O, nullptr},
    {"add_attribute", guarded<py_add_attribute>, METH_VARARGS,
     "add_attribute(name, read, write, doc): an attribute of tensors that handlers of __torch_function__ see"},
    {"is_odd", guarded<py_is_odd>, METH_O, "whether a tensor is of a class, seen by handlers, or without its memory"},
    {"is_asked", guarded<py_is_asked>, METH_O, "whether a handler may want to see what is done with a tensor, or with what stands for one"},
    {}};

int init_tensor_face(PyObject* module) {
  bool failed = add_attributes(TensorType, tensor_methods, tensor_getset) || add_asked_attributes(asked_attributes) ||
                PyModule_AddFunctions(module, functions);
  return failed ? -1 : 0;
}

}  // namespace rl
