// Argument binding: from a vectorcall to one slot per parameter.
#pragma once
#include "call.h"

namespace rl {

constexpr int kMaxParams = 32;

struct Bound {
  PyObject* args[kMaxParams];        // borrowed, or owned through `temporaries`
  PyObject* out = nullptr;           // the out= argument, borrowed
  PyObject* temporaries[3 * kMaxParams];  // at most: a converted value, then the tuple of separate positionals, then
                                          // that converted
  int num_temporaries = 0;
  ~Bound() {
    for (int i = 0; i < num_temporaries; i++) Py_DECREF(temporaries[i]);
  }
  PyObject* own(PyObject* stolen) { return temporaries[num_temporaries++] = stolen; }
};

// 1 bound; 0 the arguments do not fit this overload (no exception); -1 exception set.
int bind_arguments(Overload* op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Bound* bound);

int init_bind();

}  // namespace rl
