// Tensor.__getitem__ and __setitem__: the index is parsed once, basic parts become one view, the rest goes to ops.
// Everything here holds the interpreter lock.
#pragma once
#include "tensor.h"

namespace rl {

PyObject* tensor_subscript(PyObject* self, PyObject* index);
int tensor_ass_subscript(PyObject* self, PyObject* index, PyObject* value);

int init_index(PyObject* module);

}  // namespace rl
