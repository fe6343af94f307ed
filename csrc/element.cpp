// Reading one element of a tensor.
#include "element.h"

#include "call.h"
#include "geometry.h"
#include "tape.h"

namespace rl {

bool check_host_data(Tensor* t, const char* what) {
  tls.noting = 0;
  if (t->device.type != kCPU) {
    PyErr_Format(PyExc_RuntimeError, "%s: expected a tensor on cpu, got one on %s", what,
                 device_type_name(t->device.type));
    return false;
  }
  if (!tensor_readable(t, what)) return false;
  int64_t span = span_elements(t->sizes(), t->strides(), t->ndim);
  if (t->numel == 0) return true;
  if (span >= 0 && static_cast<size_t>(t->offset + span) * itemsize(t->dtype) <= t->storage->nbytes) return true;
  PyErr_Format(PyExc_RuntimeError, "%s: the tensor needs %lld bytes but its storage now holds %zu (was it resized?)",
               what, static_cast<long long>((t->offset + span) * itemsize(t->dtype)), t->storage->nbytes);
  return false;
}

PyObject* host_copy(Tensor* t) {
  return t->device.type == kCPU ? Py_NewRef(as_object(t)) : call_role(Role::ToHost, as_object(t));
}

PyObject* wrapped_value(Tensor* t, const char* what) {
  const char* kind = t->keys & kKeyFunctorch ? "wrapped_value" : "quantized_value";
  PyObject* handler = PyDict_GetItemString(autograd_callbacks, kind);
  if (!handler) return PyErr_Format(PyExc_RuntimeError, "%s: function transforms are not loaded", what);
  return PyObject_CallFunction(handler, "Os", as_object(t), what);
}

bool is_numpy_array(PyObject* o) {
  for (PyTypeObject* type = Py_TYPE(o); type; type = type->tp_base)
    if (strcmp(type->tp_name, "numpy.ndarray") == 0) return true;
  return false;
}

PyObject* tensor_item(Tensor* t) {
  tls.noting = 0;
  if (t->keys & (kKeyFunctorch | kKeyQuantized)) {
    Ref value(wrapped_value(t, "item"));
    return value ? tensor_item(as_tensor(value.p)) : nullptr;
  }
  if (is_seen(t) && t->numel == 1) {
    PyObject* rule = PyDict_GetItemString(autograd_callbacks, "seen_item");
    if (rule) return PyObject_CallOneArg(rule, as_object(t));
  }
  if (t->numel != 1)
    return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                        static_cast<long long>(t->numel)),
           nullptr;
  if (t->device.type == kMeta)
    return PyErr_SetString(PyExc_RuntimeError, "Tensor.item(): meta tensors hold no data"), nullptr;
  if (t->keys & kKeyBits) {
    Ref shown(resolved(as_object(t)));
    return shown ? tensor_item(as_tensor(shown.p)) : nullptr;
  }
  Ref host(host_copy(t));
  if (!host || !check_host_data(as_tensor(host.p), "item")) return nullptr;
  return load_number(as_tensor(host.p)->data(), t->dtype);
}

PyObject* stored_item(Tensor* t) {
  if (!(t->keys & kKeyBits)) return tensor_item(t);
  Ref bare(as_object(tensor_shallow_copy(t, true)));
  if (!bare) return nullptr;
  as_tensor(bare.p)->keys &= ~kKeyBits;
  return tensor_item(as_tensor(bare.p));
}

}  // namespace rl
