#include "core_table.h"

#include "boundary.h"

namespace rl {

SecondModule second;
static CoreTable table;

int init_core_table(PyObject* module) {
#define X(name) table.name = rl::name;
  RUSHLIGHT_LENT_TYPES(X)
  RUSHLIGHT_LENT_FUNCTIONS(X)
#undef X
  table.destroy_storage = [](Storage* s) { s->destroy(); };
  table.state_of_thread = [] { return &tls; };
  table.anomaly_enabled = &anomaly_enabled;
  table.profile_key = &profile_key;
  table.default_dtype = &default_dtype;
  table.allocate_elsewhere = &allocate_elsewhere;
  table.overload_vectorcall = guarded<overload_vectorcall>;
  table.op_vectorcall = guarded<op_vectorcall>;
  table.second = &second;
  table.autograd_callbacks = autograd_callbacks;
  table.display_module = &display_module;
  table.plan_type = &PlanType;
  table.pointwise_plan_type = &PointwisePlanType;
  table.overload_type = &OverloadType;
  table.op_type = &OpType;
  PyObject* capsule = PyCapsule_New(&table, kCoreTable, nullptr);
  if (!capsule) return -1;
  int failed = PyModule_AddObjectRef(module, "_core", capsule);
  Py_DECREF(capsule);
  if (failed) return failed;
  // The threads alone, for C++ that is compiled elsewhere (rushlight/cxx/runtime): it needs none of our headers for them.
  static auto* threads = &parallel_for;
  capsule = PyCapsule_New(&threads, "rushlight._C._parallel_for", nullptr);
  failed = capsule ? PyModule_AddObjectRef(module, "_parallel_for", capsule) : -1;
  Py_XDECREF(capsule);
  return failed;
}

}  // namespace rl
