// The second module: what belongs to no call of an op. The core's objects as Python sees them, data of other libraries
// and processes, compiled functions and their guards, the loader of generated code, libraries of linear algebra, random
// numbers, the walk of optimizers over their parameters, the quick paths of nn.Module, checksums of files, messages of
// protocol buffers. Its names are added to `rushlight._C`, where programs look for them.
#include "blas.h"
#include "build.h"
#include "checksum.h"
#include "core.h"
#include "counters.h"
#include "dlpack.h"
#include "faces.h"
#include "function_node.h"
#include "frame_hook.h"
#include "guards.h"
#include "loader.h"
#include "quick_module.h"
#include "random.h"
#include "region.h"
#include "shared.h"
#include "unlocked.h"
#include "update.h"
#include "wire.h"

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "rushlight._extras",
                                 "What belongs to no call of an op, for rushlight._C.", -1};

PyMODINIT_FUNC PyInit__extras() {
  PyObject* core = PyImport_ImportModule("rushlight._C");
  if (!core) return nullptr;
  int (*parts[])(PyObject*) = {
      rl::use_core,          rl::init_number_face,    rl::init_storage_face, rl::init_tensor_face,
      rl::init_tensor_functions, rl::init_tape_face,  rl::init_node_face,    rl::init_function_node,    rl::init_tape_tensor,  rl::init_plan_face,
      rl::init_index_face,   rl::init_op_face,
      rl::init_build,        rl::init_buffer,         rl::init_dlpack,       rl::init_shared,
      rl::init_shared_arena, rl::init_guarded_memory, rl::init_region,       rl::init_guards,
      rl::init_compiled_callable, rl::init_frame_hook, rl::init_call_key,  rl::init_loader,       rl::init_blas,
      rl::init_lapack,       rl::init_random,         rl::init_quick_module, rl::init_update,
      rl::init_checksum,     rl::init_counters,       rl::init_profile_stack, rl::init_wire};
  for (auto part : parts)
    if (part(core)) {
      Py_DECREF(core);
      return nullptr;
    }
  Py_DECREF(core);
  PyObject* module = PyModule_Create(&definition);
  if (module && (rl::says_it_needs_lock(module) || rl::init_profile_face(module) || rl::init_trace_face(module)))
    Py_CLEAR(module);
  return module;
}
