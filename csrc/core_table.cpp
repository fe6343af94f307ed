#include "core_table.h"

namespace rl {

static CoreTable table;

int init_core_table(PyObject* module) {
  table = {TensorType, parallel_for, tensor_version, tensor_empty, tensor_has_data, check_host_data, dtype_object,
           device_object, parse_device, device_type_name, find_unit,
           []() -> const ThreadState* { return &tls; }};
  PyObject* capsule = PyCapsule_New(&table, kCoreTable, nullptr);
  if (!capsule) return -1;
  int failed = PyModule_AddObjectRef(module, "_core", capsule);
  Py_DECREF(capsule);
  return failed;
}

}  // namespace rl
