// Reading nested Python data into tensors and writing tensors out as nested lists.
#include "build.h"
#include "boundary.h"
#include "core.h"
#include "faces.h"

namespace rl {

static PyObject* py_interop;   // rushlight.tensors.interop's reader of foreign arrays: object -> Tensor or None

// --- out of tensors -------------------------------------------------------------------------------------------------

static PyObject* list_of(Tensor* t, const char* at, int dim) {
  if (dim == t->ndim) return load_number(at, t->dtype);
  int64_t n = t->sizes()[dim], step = t->strides()[dim] * itemsize(t->dtype);
  PyObject* list = PyList_New(n);
  bool last = dim + 1 == t->ndim;
  for (int64_t i = 0; list && i < n; i++) {
    PyObject* item = last ? load_number(at + i * step, t->dtype) : list_of(t, at + i * step, dim + 1);
    if (!item) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

static PyObject* tensor_to_list(Tensor* t) {
  if (t->keys & (kKeyFunctorch | kKeyQuantized)) {
    Ref value(wrapped_value(t, "tolist"));
    return value ? tensor_to_list(as_tensor(value.p)) : nullptr;
  }
  if ((t->keys & kKeySubclass) && has_torch_dispatch(Py_TYPE(t)))
    return PyErr_Format(PyExc_RuntimeError, "tolist: not supported for tensor subclasses with __torch_dispatch__, got %s",
                        Py_TYPE(t)->tp_name),
           nullptr;
  if (t->device.type == kMeta)
    return PyErr_SetString(PyExc_NotImplementedError, "Cannot copy out of meta tensor: it has no data"), nullptr;
  Ref shown(resolved(as_object(t)));
  Ref host(shown ? host_copy(as_tensor(shown.p)) : nullptr);
  if (!host || !check_host_data(as_tensor(host.p), "tolist")) return nullptr;
  Tensor* h = as_tensor(host.p);
  return list_of(h, h->numel ? h->data() : nullptr, 0);
}

// --- into tensors ---------------------------------------------------------------------------------------------------

static bool refuse_text(PyObject* data) {
  PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name);
  return false;
}

static bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o); }

// Tensors have no sequence slots, so PySequence_Check is false for them: a tensor inside a list stands for one number.
static bool is_nested(PyObject* o) { return PySequence_Check(o) && !is_tensor(o); }

static bool infer_dtype(PyObject* data, DType* out, int depth) {
  if (number_dtype(data, out)) return true;
  if (is_tensor(data)) return *out = as_tensor(data)->dtype, true;
  if (is_text(data)) return refuse_text(data);
  if (is_numpy_array(data)) {
    Ref view(as_object(tensor_from_buffer(data)));
    return view && (*out = as_tensor(view.p)->dtype, true);
  }
  if (!is_nested(data)) {
    PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(data)->tp_name);
    return false;
  }
  if (depth > kMaxDims) {
    PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(data)->tp_name);
    return false;
  }
  Ref items(PySequence_Fast(data, "not a sequence"));
  if (!items) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.p);
  if (n == 0) return *out = float_dtype(), true;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.p); i++) {
    Ref held =
        Ref::borrow(PySequence_Fast_GET_ITEM(items.p, i));  // reading it may run Python code that empties the list
    PyObject* item = held.p;
    DType here;
    if (item == data) return PyErr_SetString(PyExc_TypeError, "new(): self-referential lists are incompatible"), false;
    if (!infer_dtype(item, &here, depth + 1)) return false;
    if (i == 0) *out = here;
    else if (!promote_dtypes(*out, here, out)) return false;
    if (*out == DType::C128) return true;   // nothing is wider
  }
  return true;
}

// The sizes along the first elements; ragged data is found while storing.
static int measure(PyObject* data, int64_t* sizes) {
  Ref current = Ref::borrow(data);
  int ndim = 0;
  while (is_nested(current.p)) {
    Py_ssize_t n = PySequence_Length(current.p);
    if (n < 0) {
      // A 0-d array looks like a sequence but has no length.
      if (!is_numpy_array(current.p)) return -1;
      PyErr_Clear();
      break;
    }
    if (ndim == kMaxDims || is_text(current.p)) {
      PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(current.p)->tp_name);
      return -1;
    }
    sizes[ndim++] = n;
    if (n == 0) break;
    Ref first(PySequence_GetItem(current.p, 0));
    if (!first) {
      if (PyErr_ExceptionMatches(PyExc_KeyError) || PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_ValueError, "could not determine the shape of object type '%s'", Py_TYPE(data)->tp_name);
      return -1;
    }
    current = std::move(first);
  }
  return ndim;
}

static bool store(PyObject* data, const Tensor* t, char* at, int dim) {
  if (dim == t->ndim) return store_number(data, t->dtype, at);
  if (is_tensor(data)) return PyErr_SetString(PyExc_TypeError, "not a sequence"), false;
  Ref items(PySequence_Fast(data, "not a sequence"));
  if (!items) return false;
  int64_t n = PySequence_Fast_GET_SIZE(items.p), step = t->strides()[dim] * itemsize(t->dtype);
  if (n != t->sizes()[dim]) {
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %lld)",
                 static_cast<long long>(t->sizes()[dim]), dim, static_cast<long long>(n));
    return false;
  }
  for (int64_t i = 0; i < n; i++) {
    // Converting an element may run Python code that shrinks the list.
    if (i >= PySequence_Fast_GET_SIZE(items.p))
      return PyErr_SetString(PyExc_ValueError, "the data changed size while it was read"), false;
    Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(items.p, i));
    if (!store(item.p, t, at + i * step, dim + 1)) return false;
  }
  return true;
}

// Arrays and buffers come in as tensors over foreign memory; null without an exception when `data` is neither.
static Tensor* read_foreign(PyObject* data) {
  if (is_numpy_array(data)) return tensor_from_buffer(data);
  if (!py_interop || is_nested(data) || is_number(data)) return nullptr;
  Ref found(PyObject_CallOneArg(py_interop, data));
  if (!found) return nullptr;
  if (!is_tensor(found.p)) return nullptr;
  return as_tensor(found.release());
}

static Tensor* move_to(Tensor* built, Device device) {
  if (device.type == kCPU) return built;
  Ref owned(as_object(built));
  if (device.type == kMeta) return tensor_empty(built->sizes(), nullptr, built->ndim, built->dtype, device);
  Ref target(device_object(device));
  if (!target) return nullptr;
  PyObject* moved = call_role(Role::Convert, owned.p, target.p);
  return moved ? as_tensor(moved) : nullptr;
}

// Foreign memory is copied: converting through the caster when the dtype differs.
static Tensor* copy_foreign(Tensor* foreign, const DType* dtype) {
  Ref view(as_object(foreign));
  if (dtype && *dtype != foreign->dtype) {
    PyObject* cast = call_role(Role::Convert, view.p, dtype_object(*dtype));
    return cast ? as_tensor(cast) : nullptr;
  }
  PyObject* clone = call_role(Role::Copy, view.p);
  return clone ? as_tensor(clone) : nullptr;
}

Tensor* tensor_from_data(PyObject* data, const DType* dtype, Device device) {
  if (is_text(data)) return refuse_text(data), nullptr;
  Tensor* foreign = read_foreign(data);
  if (PyErr_Occurred()) return nullptr;
  if (foreign) {
    Tensor* copy = copy_foreign(foreign, dtype);
    return copy ? move_to(copy, device) : nullptr;
  }
  int64_t sizes[kMaxDims];
  int ndim = measure(data, sizes);
  if (ndim < 0) return nullptr;
  DType element;
  if (dtype) element = *dtype;
  else if (!infer_dtype(data, &element, 0)) return nullptr;
  Tensor* t = tensor_empty(sizes, nullptr, ndim, element, Device{});
  if (!t) return nullptr;
  // PyTorch looks no further once the first elements say that there is nothing to store.
  if (t->numel && !store(data, t, t->data(), 0)) {
    Py_DECREF(t);
    return nullptr;
  }
  return move_to(t, device);
}

// --- module functions -----------------------------------------------------------------------------------------------

static PyObject* py_from_data(PyObject*, PyObject* args) {
  PyObject *data, *dtype = Py_None, *device = Py_None;
  if (!PyArg_ParseTuple(args, "O|OO:from_data", &data, &dtype, &device)) return nullptr;
  Device where;
  if (device != Py_None && !parse_device(device, &where)) return nullptr;
  if (PyObject* meant = python_type_dtype(dtype)) dtype = meant;
  if (dtype != Py_None && !is_dtype(dtype))
    return PyErr_Format(PyExc_TypeError, "tensor: dtype must be a dtype, got %s", Py_TYPE(dtype)->tp_name), nullptr;
  DType element = dtype == Py_None ? DType::F32 : dtype_of(dtype);
  return as_object(tensor_from_data(data, dtype == Py_None ? nullptr : &element, where));
}

static PyObject* py_from_buffer(PyObject*, PyObject* object) { return as_object(tensor_from_buffer(object)); }

static PyObject* py_set_foreign_reader(PyObject*, PyObject* reader) {
  py_interop = Py_NewRef(reader);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"from_data", guarded<py_from_data>, METH_VARARGS,
     "from_data(data, dtype=None, device=None): a new tensor holding the data"},
    {"from_buffer", guarded<py_from_buffer>, METH_O, "a tensor over the memory of an object with the buffer protocol"},
    {"_set_foreign_reader", guarded<py_set_foreign_reader>, METH_O,
     "callable(object) -> Tensor over a foreign array, or None"},
    {}};

static PyObject* m_tolist(PyObject* self, PyObject*) { return tensor_to_list(as_tensor(self)); }

static PyMethodDef methods[] = {
    {"tolist", guarded<asked<"tolist", m_tolist>>, METH_NOARGS, "tolist($self, /)\n--\n\nnested lists of Python numbers"}, {}};

int init_build(PyObject* module) {
  for_core().tensor_from_data = tensor_from_data;
  for_core().tensor_from_buffer = tensor_from_buffer;
  return add_attributes(TensorType, methods) || PyModule_AddFunctions(module, functions) ? -1 : 0;
}

}  // namespace rl
