// torch::cuda: what is asked of the package's module of that name.
#include <rushlight/cuda.h>

#include "runtime.h"

using namespace rushlight;

namespace torch::cuda {
static Object ask(const char* name, PyObject* argument = nullptr) {
  Object run = checked(PyObject_GetAttrString(part("cuda"), name));
  return checked(argument ? PyObject_CallOneArg(run.get(), argument) : PyObject_CallNoArgs(run.get()));
}
size_t device_count() { Lock lock; return static_cast<size_t>(int_from(ask("device_count").get())); }
bool is_available() { Lock lock; return bool_from(ask("is_available").get()); }
bool cudnn_is_available() { return is_available(); }
void manual_seed(uint64_t seed) { Lock lock; Object n(PyLong_FromUnsignedLongLong(seed)); ask("manual_seed", n.get()); }
void manual_seed_all(uint64_t seed) { Lock lock; Object n(PyLong_FromUnsignedLongLong(seed)); ask("manual_seed_all", n.get()); }
void synchronize(int64_t device) { Lock lock; Object n(wrap(device)); if (device < 0) ask("synchronize"); else ask("synchronize", n.get()); }
}  // namespace torch::cuda
