// Single elements of tensors, and tensors from other objects' data: what Python's numbers, lists and arrays are here.
// Everything here holds the interpreter lock.
#pragma once
#include "number.h"
#include "tensor.h"

namespace rl {

PyObject* tensor_item(Tensor* t);                         // the only element as a Python number
PyObject* stored_item(Tensor* t);                         // the number in memory, whatever bits the tensor has

// Host bytes can be read or written at every index of `t`; sets an exception naming `what` if not.
bool check_host_data(Tensor* t, const char* what);
// The tensor whose elements a transform's tensor shows; raises where it stands for many. New reference or null.
PyObject* wrapped_value(Tensor* t, const char* what);
// Elements of a device that is not the host are read through a copy. New reference or null.
PyObject* host_copy(Tensor* t);

bool is_numpy_array(PyObject* o);

}  // namespace rl
