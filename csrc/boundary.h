// Where the interpreter enters the core: a C++ exception may not travel on through the interpreter's own frames, which
// would end the process.
//
// `guarded<f>` is f, with what it throws made the Python error that is set when it returns. It can be an entry of a
// method table or of a type's slots. Nothing is done on the way in, and f is inlined: a call that throws nothing costs
// what it did.
#pragma once
#include <Python.h>

#include <exception>

namespace rl {

void raise_thrown(
    const std::exception& thrown);  // MemoryError where memory or room for it ran out, otherwise RuntimeError

template <auto F>
struct Guarded;

// Only std::exception is caught: the unwinding that ends a daemon thread at exit (unlocked.h) must not be stopped.
template <class... Args, PyObject* (*F)(Args...)>
struct Guarded<F> {
  static PyObject* call(Args... args) {
    try {
      return F(args...);
    } catch (const std::exception& thrown) {
      raise_thrown(thrown);
      return nullptr;
    }
  }
};

template <class... Args, int (*F)(Args...)>
struct Guarded<F> {
  static int call(Args... args) {
    try {
      return F(args...);
    } catch (const std::exception& thrown) {
      raise_thrown(thrown);
      return -1;
    }
  }
};

template <auto F>
inline constexpr auto guarded = &Guarded<F>::call;

template <auto F>
inline PyCFunction guarded_method() {   // for the table of methods, from a function that takes keywords or a vector
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Guarded<F>::call));
}

}  // namespace rl
