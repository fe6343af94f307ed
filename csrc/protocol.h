// Python's protocols for a tensor that need no op: truth, conversion to numbers, iteration, hashing.
#pragma once
#include "tensor.h"

namespace rl {

int tensor_truth(PyObject* self);
PyObject* tensor_as_int(PyObject* self);
PyObject* tensor_as_float(PyObject* self);
PyObject* tensor_as_index(PyObject* self);
PyObject* tensor_iter(PyObject* self);
Py_hash_t tensor_hash(PyObject* self);      // identity: tensors are mutable and == is elementwise

}  // namespace rl
