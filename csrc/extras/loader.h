// Loads relocatable ELF objects made by the code generator, without LLVM.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace rl {

// load_object(bytes, find=None) -> {symbol: address}. Functions that the object calls and does not have are asked of
// `find(name)`, which gives an address or None, then of the process. Holds the interpreter lock. The code stays mapped:
// plans keep bare addresses, and a process makes a bounded number of kernels. Raises ValueError for anything that is
// not a complete, well-formed object for this machine, and never reads or writes outside what it checked.
PyObject* load_object(PyObject* self, PyObject* args);

int init_loader(PyObject* module);  // adds load_object

}  // namespace rl
