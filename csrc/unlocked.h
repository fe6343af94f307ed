// Work without the interpreter lock, and the way back to it; and what the modules say about it to the interpreter.
//
// A daemon thread that asks for the lock while the interpreter shuts down never gets it: up to Python 3.13 it is ended
// by an unwinding of its stack, which would run our destructors, and let go of Python objects, without the lock. Such a
// thread is put to sleep instead, as later Pythons do, and ends with the process.
#pragma once
#include <Python.h>

namespace rl {

void retake_lock(PyThreadState* state);   // PyEval_RestoreThread that returns with the lock or never

// Says that a module needs the interpreter lock: an interpreter that can do without it takes it when the module is
// loaded. The lock is what guards the tables of plans, the graph with its version counters, and the lists of devices and
// streams: they are read and written without a lock of their own. Headers say which of their functions need it not.
// 0, or -1 with an exception.
inline int says_it_needs_lock([[maybe_unused]] PyObject* module) {
#ifdef Py_GIL_DISABLED
  return PyUnstable_Module_SetGIL(module, Py_MOD_GIL_USED);
#else
  return 0;   // there is a lock, and nobody to tell
#endif
}

class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { retake_lock(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace rl
