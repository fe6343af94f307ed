// The Python module, and nothing else: each part of the core adds its own names.
#include "blas.h"
#include "build.h"
#include "call.h"
#include "core_table.h"
#include "cuda_device.h"
#include "device.h"
#include "dlpack.h"
#include "extents.h"
#include "guards.h"
#include "index.h"
#include "loader.h"
#include "region.h"
#include "shared.h"
#include "symbolic.h"
#include "tape.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "rushlight._C",
                                        "Rushlight's core: tensors, op calls, tape, kernels' launch.",
                                        -1,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr};

PyMODINIT_FUNC PyInit__C() {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  int (*parts[])(PyObject*) = {
      rl::init_types,  rl::init_device, rl::init_cuda,   rl::init_cuda_blas,
      rl::init_cuda_blas_light, rl::init_symbolic,
      rl::init_extents, rl::init_storage, rl::init_tensor, rl::init_build,           rl::init_dlpack,
      rl::init_plan,   rl::init_call,   rl::init_lookup, rl::init_index,             rl::init_tape,
      rl::init_loader, rl::init_blas,   rl::init_lapack, rl::init_shared,            rl::init_shared_arena,
      rl::init_guard,  rl::init_guards, rl::init_region, rl::init_compiled_callable, rl::init_core_table};
  for (auto part : parts)
    if (part(module)) {
      Py_DECREF(module);
      return nullptr;
    }
  return module;
}
