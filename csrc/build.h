// Tensors from Python data, and Python data from tensors.
// Everything here holds the interpreter lock.
#pragma once
#include "number.h"
#include "tensor.h"

namespace rl {

// A new tensor holding `data`: a number, nested sequences of numbers and one-element tensors, an array, or anything
// with the buffer protocol. `dtype` null: inferred as PyTorch infers it. New reference or null.
Tensor* tensor_from_data(PyObject* data, const DType* dtype, Device device);

PyObject* tensor_item(Tensor* t);                         // the only element as a Python number
PyObject* tensor_to_list(Tensor* t);                      // nested lists; a number for 0 dims
bool tensor_fill(Tensor* t, const char* element);         // writes one element everywhere; host memory only

// Host bytes can be read or written at every index of `t`; sets an exception naming `what` if not.
bool check_host_data(Tensor* t, const char* what);

// A tensor over the memory of an object with the buffer protocol, without copying. Null with an exception set.
Tensor* tensor_from_buffer(PyObject* object);
bool is_numpy_array(PyObject* o);
Storage* storage_of_object(char* data, size_t nbytes, PyObject* owner);   // keeps `owner` alive while the storage lives
int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags);
void tensor_release_buffer(PyObject* self, Py_buffer* view);

int init_build(PyObject* module);

}  // namespace rl
