// Multi-tensor updates: one generated kernel run over lists of parameters, gradients and their state.
// Its function is called with the interpreter lock, and lets go of it while the kernel runs.
#pragma once
#include "types.h"

namespace rl {

int init_update(PyObject* module);

}  // namespace rl
