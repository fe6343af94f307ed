// Matrix products and linear algebra through a BLAS opened at run time.
// Everything here holds the interpreter lock, while the library computes too.
#pragma once
#include "types.h"

namespace rl {

// How many threads the library may use from now on; our own pool shares most work, and then it is one.
void use_blas_threads(int n);

// A symbol of the loaded library by its full name; null if there is none or nothing is loaded.
void* blas_symbol(const char* name);

int init_blas(PyObject* module);
int init_lapack(PyObject* module);

}  // namespace rl
