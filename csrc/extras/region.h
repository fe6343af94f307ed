// Regions: a compiled function as the tape sees it. One native call runs the forward and records one node, one runs the
// backward. Everything here holds the interpreter lock, as calls of plans do.
#pragma once
#include "tape.h"

namespace rl {

int init_region(PyObject* module);

}  // namespace rl
