// See unlocked.h. Compiled without exceptions (CMakeLists.txt): the C library then takes a cleanup handler by jumping
// back here, which needs no help of the C++ runtime. The other way, a destructor, goes wrong where that runtime is
// linked into the module.
#include "unlocked.h"

#include <pthread.h>
#include <unistd.h>

namespace rl {

static void sleep_for_good(void*) {
  for (;;) pause();
}

void retake_lock(PyThreadState* state) {
  pthread_cleanup_push(sleep_for_good, nullptr);
  PyEval_RestoreThread(state);
  pthread_cleanup_pop(0);
}

}  // namespace rl
