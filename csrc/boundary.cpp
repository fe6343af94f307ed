#include "boundary.h"

#include <new>
#include <stdexcept>

namespace rl {

void raise_thrown(const std::exception& thrown) {
  if (PyErr_Occurred()) return;   // an error of Python's is what led to it, and says more
  if (dynamic_cast<const std::bad_alloc*>(&thrown) || dynamic_cast<const std::length_error*>(&thrown)) {
    PyErr_NoMemory();
    return;
  }
  PyErr_Format(PyExc_RuntimeError, "the core could not go on: %s", thrown.what());
}

}  // namespace rl
