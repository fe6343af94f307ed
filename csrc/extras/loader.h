// Loads relocatable ELF objects made by the code generator, without LLVM.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace rl {

// load_object(bytes) -> {symbol: address}. Holds the interpreter lock. The code stays mapped until the process ends:
// plans keep bare addresses, and a process makes a bounded number of kernels. Raises ValueError for anything that is
// not a complete, well-formed object for this machine, and never reads or writes outside what it checked.
PyObject* load_object(PyObject* self, PyObject* bytes);

int init_loader(PyObject* module);  // adds load_object

}  // namespace rl
