// The Python module, and nothing else: each part of the core adds its own names.
#include "call.h"
#include "core_table.h"
#include "cuda/device.h"
#include "device.h"
#include "extents.h"
#include "index.h"
#include "profile.h"
#include "recording.h"
#include "roles.h"
#include "symbolic.h"
#include "tape.h"
#include "transcript.h"
#include "unlocked.h"

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "rushlight._C",
                                 "Rushlight's core: tensors, op calls, tape, kernels' launch.", -1};

PyMODINIT_FUNC PyInit__C() {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  int (*parts[])(PyObject*) = {
      rl::says_it_needs_lock, rl::init_types, rl::init_device, rl::init_cuda, rl::init_cuda_blas, rl::init_cuda_blas_light, rl::init_cuda_fft, rl::init_cuda_host,
      rl::init_cuda_segments, rl::init_cuda_activity, rl::init_cuda_timing, rl::init_cuda_dnn, rl::init_cuda_replay, rl::init_roles, rl::init_symbolic,
      rl::init_extents, rl::init_storage, rl::init_tensor, rl::init_call, rl::init_lookup, rl::init_index,
      rl::init_tape, rl::init_transcript, rl::init_profile, rl::init_recording, rl::init_core_table};
  for (auto part : parts)
    if (part(module)) {
      Py_DECREF(module);
      return nullptr;
    }
  return module;
}
