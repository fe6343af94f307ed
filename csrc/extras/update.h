// Multi-tensor updates: one generated kernel run over lists of parameters, gradients and their state.
#pragma once
#include "types.h"

namespace rl {

int init_update(PyObject* module);

}  // namespace rl
