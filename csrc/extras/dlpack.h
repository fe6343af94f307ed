// DLPack, both ways, old and versioned capsules. The structures follow the published ABI (dlpack 1.x).
#pragma once
#include "tensor.h"

namespace rl {

int init_dlpack(PyObject* module);   // to_dlpack, from_dlpack; hold the interpreter lock

}  // namespace rl
