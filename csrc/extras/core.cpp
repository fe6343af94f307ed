// The core as the second module sees it: what headers declare, through the table that the core lends.
#include "core.h"

namespace rl {

PyTypeObject* TensorType;
static const CoreTable* core;

void parallel_for(int64_t extent, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  core->run_parallel(extent, grain, body, context);
}
Version* tensor_version(Tensor* t) { return core->version_of(t); }
Tensor* tensor_empty(const int64_t* sizes, const int64_t* strides, int ndim, DType dtype, Device device) {
  return core->new_tensor(sizes, strides, ndim, dtype, device);
}
bool tensor_has_data(Tensor* t, const char* op) { return core->has_data(t, op); }
bool check_host_data(Tensor* t, const char* what) { return core->check_host(t, what); }
PyObject* dtype_object(DType d) { return core->dtype_of(d); }
PyObject* device_object(Device d) { return core->device_of(d); }
bool parse_device(PyObject* o, Device* out) { return core->read_device(o, out); }
const char* device_type_name(uint8_t type) { return core->name_of_device(type); }
Unit* find_unit(Device device) { return core->unit_of(device); }
const ThreadState& thread_state() { return *core->thread_state(); }

int use_core(PyObject* module) {
  PyObject* capsule = PyObject_GetAttrString(module, "_core");
  if (!capsule) return -1;
  core = static_cast<const CoreTable*>(PyCapsule_GetPointer(capsule, kCoreTable));
  Py_DECREF(capsule);
  if (!core) return -1;
  TensorType = core->tensor_type;
  return 0;
}

}  // namespace rl
