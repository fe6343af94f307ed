// Kernels that were registered for an op of `library`, by type of device, where the core may call them itself: no mode,
// subclass, transform or cast has a say in such a call. Everything here holds the interpreter lock.
#pragma once
#include <vector>

#include "call.h"
#include "scan.h"

namespace rl {

// One registered kernel, as dispatch/dispatcher.py describes it. All references are owned.
struct Rung {
  PyObject* entry;                   // (op's name, key): stands among the thread's running kernels while it runs
  PyObject* kernel;                  // takes every bound argument by place; None: Python runs this one
  PyObject* check;                   // callable(result): the result, or an error; None where nothing is to be checked
  bool records_only;                 // has nothing to do where no gradient is wanted
  bool is_backend;                   // below autograd
  bool one_tensor;                   // a tensor passes the check
};

// For each type of device, in the order of dispatch. Empty: nobody told yet, or Python has to be asked every time.
struct Registered {
  std::vector<std::vector<Rung>> of_device;

  void clear() {
    std::vector<std::vector<Rung>> old;
    old.swap(of_device);             // freeing may run Python, which may come by here
    for (auto& rungs : old)
      for (Rung& r : rungs) Py_DECREF(r.entry), Py_DECREF(r.kernel), Py_DECREF(r.check);
  }
};

// The call by a registered kernel; null without an error, and `*asked` false, where Python has to decide.
PyObject* call_registered(Overload* op, PyObject** args, const Scan& scan, bool* asked);
// The (name, key) of registered kernels now on this thread's stack: a list, borrowed.
PyObject* running_kernels();

}  // namespace rl
