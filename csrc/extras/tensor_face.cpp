// The attributes of tensors that need no op. Everything holds the interpreter lock.
#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "geometry.h"

namespace rl {

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
  return PyLong_FromLongLong(as_tensor(self)->offset);
}
static PyObject* m_data_ptr(PyObject* self, PyObject*) {
  Tensor* t = as_tensor(self);
  flush_device(t->device);
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
static PyObject* m_item(PyObject* self, PyObject*) { return tensor_item(as_tensor(self)); }
static PyObject* m_is_channels_last(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_is_channels_last");
  Tensor* t = as_tensor(self);
  return PyBool_FromLong(is_channels_last(t->sizes(), t->strides(), t->ndim));
}
static PyObject* m_is_contiguous(PyObject* self, PyObject*) {
  RL_ASK_BEHIND("_is_contiguous");
  return PyBool_FromLong(as_tensor(self)->contiguous());
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

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, nullptr, "the sizes, as a Size", nullptr},
    {"dtype", get_dtype, nullptr, "the type of the elements", nullptr},
    {"device", get_device, nullptr, "where the elements live", nullptr},
    {"ndim", get_ndim, nullptr, "how many dimensions", nullptr},
    {"itemsize", get_itemsize, nullptr, "bytes per element", nullptr},
    {"nbytes", get_nbytes, nullptr, "bytes of all elements", nullptr},
    {"layout", get_layout, nullptr, "always rushlight.strided here", nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, "how many in-place writes this tensor and its views have seen", nullptr},
    {"_keys", get_keys, set_keys, "dispatch key bits of this tensor", nullptr},
    {"_is_wrapped_number", get_wrapped, set_wrapped, "made from a Python number: weak in type promotion", nullptr},
    {}};

static PyMethodDef tensor_methods[] = {
    {"dim", guarded<m_dim>, METH_NOARGS, "dim($self, /)\n--\n\nhow many dimensions"},
    {"ndimension", guarded<m_dim>, METH_NOARGS, "ndimension($self, /)\n--\n\nhow many dimensions"},
    {"numel", guarded<m_numel>, METH_NOARGS, "numel($self, /)\n--\n\nhow many elements"},
    {"nelement", guarded<m_numel>, METH_NOARGS, "nelement($self, /)\n--\n\nhow many elements"},
    {"size", guarded_method<m_size>(), METH_VARARGS | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nthe sizes, or one of them"},
    {"stride", guarded_method<m_stride>(), METH_VARARGS | METH_KEYWORDS,
     "stride($self, dim=None)\n--\n\nsteps in elements, or one of them"},
    {"item", guarded<m_item>, METH_NOARGS, "item($self, /)\n--\n\nthe only element, as a Python number"},
    {"element_size", guarded<m_element_size>, METH_NOARGS, "element_size($self, /)\n--\n\nbytes per element"},
    {"storage_offset", guarded<m_storage_offset>, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nfirst element, counted in the storage"},
    {"data_ptr", guarded<m_data_ptr>, METH_NOARGS, "data_ptr($self, /)\n--\n\naddress of the first element"},
    {"is_floating_point", guarded<m_is_floating>, METH_NOARGS,
     "is_floating_point($self, /)\n--\n\nwhether elements are floats"},
    {"is_complex", guarded<m_is_complex>, METH_NOARGS, "is_complex($self, /)\n--\n\nwhether elements are complex"},
    {"is_signed", guarded<m_is_signed>, METH_NOARGS, "is_signed($self, /)\n--\n\nwhether elements can be negative"},
    {"is_inference", guarded<m_is_inference>, METH_NOARGS,
     "is_inference($self, /)\n--\n\nwhether it was made in inference mode"},
    {"is_conj", guarded<m_is_conj>, METH_NOARGS,
     "is_conj($self, /)\n--\n\nwhether the memory holds the conjugates of the elements"},
    {"is_neg", guarded<m_is_neg>, METH_NOARGS,
     "is_neg($self, /)\n--\n\nwhether the memory holds the negatives of the elements"},
    {"_is_contiguous", guarded<m_is_contiguous>, METH_NOARGS, "row-major and dense"},
    {"_is_channels_last", guarded<m_is_channels_last>, METH_NOARGS, nullptr},
    {"_is_dense", guarded<m_is_dense>, METH_NOARGS, "dense and non-overlapping in some order of dims"},
    {"_overlaps_itself", guarded<m_overlaps_itself>, METH_NOARGS, "two indices may reach one element"},
    {"_overlap", guarded<m_overlap>, METH_O,
     "_overlap(other): 0 no byte in common, 1 the same elements, 2 some of them, 3 too hard to tell"},
    {}};

static PyObject* py_set_layout(PyObject*, PyObject* layout) {
  strided_layout = Py_NewRef(layout);
  Py_RETURN_NONE;
}
static PyMethodDef functions[] = {{"_set_layout", guarded<py_set_layout>, METH_O, nullptr}, {}};

int init_tensor_face(PyObject* module) {
  return add_attributes(TensorType, tensor_methods, tensor_getset) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}

}  // namespace rl
