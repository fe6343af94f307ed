// The core as the second module sees it; see core_table.h.
#pragma once
#include "core_table.h"

namespace rl {

int use_core(PyObject* module);        // the table of `rushlight._C`, before anything else here is called
SecondModule& for_core();              // what the core asks of this module
bool& anomalies();                     // anomaly_enabled
DType float_dtype();                   // what Python floats become: default_dtype
void set_float_dtype(DType dtype);
PyObject* shown_module();              // display_module
PyObject* autograd_helpers();          // autograd_callbacks
void use_plan_types(PyTypeObject* plan, PyTypeObject* pointwise);
void use_op_types(PyTypeObject* overload, PyTypeObject* op);
void use_allocator(bool (*take)(Storage*, size_t));    // sets allocate_elsewhere

vectorcallfunc overload_entry();       // what a call of an overload, or of an op, runs: no detour through this module
vectorcallfunc op_entry();

// Adds methods, class methods and attributes to a type of the core. -1 with an exception on failure.
int add_attributes(PyTypeObject* type, PyMethodDef* methods, PyGetSetDef* getset = nullptr);
int add_class_methods(PyTypeObject* type, PyMethodDef* methods);

}  // namespace rl
