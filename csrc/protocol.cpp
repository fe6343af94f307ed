// What Python asks of a tensor by itself: bool(), int(), float(), use as an index, iter(), hash().
#include "protocol.h"

#include "element.h"
#include "profile.h"
#include "tape.h"
#include "roles.h"

namespace rl {

PyObject* ask_access(const char* name, PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* handler = PyDict_GetItemString(autograd_callbacks, "access");
  if (!handler) return Py_NewRef(Py_NotImplemented);
  Ref first(PyTuple_Pack(1, self));
  Ref all(!first ? nullptr : args ? PySequence_Concat(first.p, args) : first.release());
  return all ? PyObject_CallFunction(handler, "sOO", name, all.p, kwargs ? kwargs : Py_None) : nullptr;
}

// The only element. Subclasses and modes see the call as `item`, as they would in PyTorch.
static Ref element_of(Tensor* t, const char* shown = "aten::item") {
  Recorded recorded;
  PyObject* self = as_object(t);
  if (is_recording()) record_method(&recorded, shown, &self, 1);
  bool plain = !((t->keys | tls.keys) & ~tls.excluded & ~kKeyAutocast);
  return Ref(plain ? tensor_item(t) : ask_role(Role::Element, as_object(t)));
}

static Ref only_element(PyObject* self) {
  if (as_tensor(self)->numel != 1) {
    PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return Ref();
  }
  return element_of(as_tensor(self));
}

int tensor_truth(PyObject* self) {
  Tensor* t = as_tensor(self);
  if (may_ask(t)) {
    Ref answer(ask_access("__bool__", self));
    if (answer.p != Py_NotImplemented) return answer ? PyObject_IsTrue(answer.p) : -1;
  }
  if (t->numel == 0)
    return PyErr_SetString(PyExc_RuntimeError, "Boolean value of Tensor with no values is ambiguous"), -1;
  if (t->numel != 1)
    return PyErr_SetString(PyExc_RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"), -1;
  Ref element = element_of(t, "aten::is_nonzero");
  return element ? PyObject_IsTrue(element.p) : -1;
}

static Ref real_element(PyObject* self, const char* type) {
  Ref element = only_element(self);
  if (!element || !PyComplex_Check(element.p)) return element;
  if (PyComplex_ImagAsDouble(element.p) == 0.0) return Ref(PyFloat_FromDouble(PyComplex_RealAsDouble(element.p)));
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", type);
  return Ref();
}

PyObject* tensor_as_int(PyObject* self) {
  if (may_ask(as_tensor(self))) {
    Ref answer(ask_access("__int__", self));
    if (answer.p != Py_NotImplemented) return answer.release();
  }
  Ref element = real_element(self, "int64");
  return element ? PyNumber_Long(element.p) : nullptr;
}

PyObject* tensor_as_float(PyObject* self) {
  if (may_ask(as_tensor(self))) {
    Ref answer(ask_access("__float__", self));
    if (answer.p != Py_NotImplemented) return answer.release();
  }
  Ref element = real_element(self, "double");
  return element ? PyNumber_Float(element.p) : nullptr;
}

PyObject* tensor_as_index(PyObject* self) {
  Tensor* t = as_tensor(self);
  if (may_ask(t)) {
    Ref answer(ask_access("__index__", self));
    if (answer.p != Py_NotImplemented) return answer.release();
  }
  if (is_differentiable(t->dtype) || t->numel != 1)
    return PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index"),
           nullptr;
  Ref element = element_of(t);
  return element ? PyNumber_Long(element.p) : nullptr;
}

PyObject* tensor_iter(PyObject* self) {
  if (as_tensor(self)->ndim == 0) return PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor"), nullptr;
  Ref parts(ask_role(Role::Rows, self));
  return parts ? PyObject_GetIter(parts.p) : nullptr;
}

Py_hash_t tensor_hash(PyObject* self) {
  // Address bits above the alignment, as object.__hash__ takes them.
  auto bits = reinterpret_cast<uintptr_t>(self);
  auto hash = static_cast<Py_hash_t>((bits >> 4) | (bits << (8 * sizeof bits - 4)));
  return hash == -1 ? -2 : hash;
}

}  // namespace rl
