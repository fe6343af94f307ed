// Tensors from Python data, and Python data from tensors: nested lists, buffers, arrays.
// Everything here holds the interpreter lock.
#pragma once
#include "element.h"

namespace rl {

// A new tensor holding `data`: a number, nested sequences of numbers and one-element tensors, an array, or anything
// with the buffer protocol. `dtype` null: inferred as PyTorch infers it. New reference or null.
Tensor* tensor_from_data(PyObject* data, const DType* dtype, Device device);

// A tensor over the memory of an object with the buffer protocol, without copying. Null with an exception set.
Tensor* tensor_from_buffer(PyObject* object);

int init_build(PyObject* module);
int init_buffer(PyObject* module);   // a tensor's own buffer

}  // namespace rl
