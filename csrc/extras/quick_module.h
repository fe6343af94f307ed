// The quick paths of nn.Module: calling one without hooks, and reading an attribute it has registered.
#pragma once
#include "types.h"

namespace rl {
int init_quick_module(PyObject* module);
PyObject* module_call_code();   // of nn.Module.__call__, borrowed; null before there is such a class
}
