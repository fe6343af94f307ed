#pragma once
#include <Python.h>

namespace rl {
int init_counters(PyObject* module);
}
