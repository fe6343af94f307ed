// What the core lends to the second module (csrc/extras): functions and types, by address. The second module finds the
// table in the capsule `rushlight._C._core`, so neither has to be linked with the other.
#pragma once
#include "build.h"
#include "device.h"
#include "pool.h"
#include "tensor.h"

namespace rl {

struct CoreTable {
  PyTypeObject* tensor_type;
  decltype(&parallel_for) run_parallel;
  decltype(&tensor_version) version_of;
  decltype(&tensor_empty) new_tensor;
  decltype(&tensor_has_data) has_data;
  decltype(&check_host_data) check_host;
  decltype(&dtype_object) dtype_of;
  decltype(&device_object) device_of;
  decltype(&parse_device) read_device;
  decltype(&device_type_name) name_of_device;
  decltype(&find_unit) unit_of;
  const ThreadState* (*thread_state)();   // the calling thread's
};

constexpr const char* kCoreTable = "rushlight._C._core";

int init_core_table(PyObject* module);   // after everything that it names

}  // namespace rl
