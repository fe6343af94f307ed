// Protocol buffers read by a table of fields.
// Called with the interpreter lock, which is held throughout: Python's objects are made of the bytes.
#pragma once
#include "types.h"

namespace rl {

int init_wire(PyObject* module);

}  // namespace rl
