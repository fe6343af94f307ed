// Work without the interpreter lock, and the way back to it.
//
// A daemon thread that asks for the lock while the interpreter shuts down never gets it: up to Python 3.13 it is ended
// by an unwinding of its stack, which would run our destructors, and let go of Python objects, without the lock. Such a
// thread is put to sleep instead, as later Pythons do, and ends with the process.
#pragma once
#include <Python.h>

namespace rl {

void retake_lock(PyThreadState* state);   // PyEval_RestoreThread that returns with the lock or never

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
