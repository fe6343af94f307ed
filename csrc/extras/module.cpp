// The second module: what belongs to no call of an op. Random numbers, the walk of optimizers over their parameters,
// the quick paths of nn.Module, checksums of files, counters between processes. Its names are added to `rushlight._C`,
// where programs look for them.
#include "checksum.h"
#include "core.h"
#include "counters.h"
#include "quick_module.h"
#include "random.h"
#include "update.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "rushlight._extras",
                                        "Random numbers, optimizer walks, module calls and checksums, for rushlight._C.",
                                        -1,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr};

PyMODINIT_FUNC PyInit__extras() {
  PyObject* core = PyImport_ImportModule("rushlight._C");
  if (!core) return nullptr;
  int (*parts[])(PyObject*) = {rl::use_core, rl::init_random, rl::init_quick_module, rl::init_update,
                               rl::init_checksum, rl::init_counters};
  for (auto part : parts)
    if (part(core)) {
      Py_DECREF(core);
      return nullptr;
    }
  Py_DECREF(core);
  return PyModule_Create(&definition);
}
