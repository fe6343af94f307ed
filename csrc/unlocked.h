// Work without the interpreter lock, and the way back to it.
//
// A daemon thread that asks for the lock while the interpreter shuts down never gets it: up to Python 3.13 it is ended by an
// unwinding of its stack, which would run our destructors, and let go of Python objects, without the lock. Such a thread is
// put to sleep instead, as later Pythons do, and ends with the process.
#pragma once
#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace rl {

class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace rl
