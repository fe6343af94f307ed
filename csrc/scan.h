// What the arguments of a bound call say about it: their tensors, keys, devices and whether any wants a gradient.
#pragma once
#include "call.h"
#include "tape.h"

namespace rl {

inline int gather_tensors(Overload* op, PyObject** args, Tensor** out, int max) {
  int n = 0;
  for (size_t i = 0; i < op->params->size(); i++) {
    PyObject* o = args[i];
    if (is_tensor(o)) {
      if (n < max) out[n] = as_tensor(o);
      n++;
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++) {
        PyObject* item = PySequence_Fast_ITEMS(o)[k];
        if (!is_tensor(item)) {
          if (item == Py_None) continue;
          break;
        }
        if (n < max) out[n] = as_tensor(item);
        n++;
      }
    }
  }
  return n;
}

struct Scan {
  uint32_t keys = 0;
  bool requires_grad = false;
};

inline void scan_tensor(Tensor* t, Scan* scan, bool grad) {
  scan->keys |= t->keys;
  if (grad && is_differentiable(t->dtype)) scan->requires_grad |= tape_requires_grad(t);
}

inline void scan_args(Overload* op, PyObject** args, Scan* scan, bool grad) {
  size_t n = op->params->size();
  for (size_t i = 0; i < n; i++) {
    PyObject* o = args[i];
    if (is_tensor(o)) scan_tensor(as_tensor(o), scan, grad);
    else if (PyTuple_Check(o) || PyList_Check(o))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++) {
        PyObject* item = PySequence_Fast_ITEMS(o)[k];
        if (is_tensor(item)) scan_tensor(as_tensor(item), scan, grad);
        else if (item != Py_None) break;
      }
  }
}

// Of a mask of device types: those past the 63rd share the last bit, and Python tells them apart.
inline uint64_t device_bit(Device d) { return uint64_t{1} << (d.type < 63 ? d.type : 63); }

// Whether a registered kernel concerns this call: one for a device where some argument lies. Without tensors, any does.
inline bool is_overridden(Overload* op, PyObject** args) {
  uint64_t mask = op->overridden->load(std::memory_order_relaxed);
  if (!mask || mask == ~uint64_t{0}) return mask;
  uint64_t devices = 0;
  auto visit = [&](PyObject* o) { return is_tensor(o) && (devices |= device_bit(as_tensor(o)->device)); };
  for (size_t i = 0; i < op->params->size(); i++)
    if (!visit(args[i]) && PyTuple_Check(args[i]))
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[i]); k++) visit(PyTuple_GET_ITEM(args[i], k));
  return !devices || (mask & devices);
}

}  // namespace rl
