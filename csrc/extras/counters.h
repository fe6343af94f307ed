// Counters in memory that processes share. Functions are called with the interpreter lock, and wait without it.
#pragma once
#include <Python.h>

namespace rl {
int init_counters(PyObject* module);
}
