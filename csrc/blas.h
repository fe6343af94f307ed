// Matrix products through a BLAS opened at run time.
#pragma once
#include "types.h"

namespace rl {

int init_blas(PyObject* module);

}  // namespace rl
