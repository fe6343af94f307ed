// Block programs: one step made of many kernel calls over blocks of its operands.
#pragma once
#include "types.h"

namespace rl {

int init_blocks(PyObject* module);

}  // namespace rl
