// The core as the second module sees it; see core_table.h.
#pragma once
#include "core_table.h"

namespace rl {

int use_core(PyObject* module);        // the table of `rushlight._C`, before anything else here is called
const ThreadState& thread_state();     // the calling thread's

}  // namespace rl
