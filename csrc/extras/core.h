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

// An attribute of tensors whose access handlers of __torch_function__ see.
struct AskedAttribute {
  const char* name;
  getter get;
  setter set;
  const char* doc;
  PyGetSetDef definition;    // filled in when it is added
};
int add_asked_attribute(AskedAttribute* attribute);      // which must live on
int add_asked_attributes(AskedAttribute* attributes);

// A method of tensors whose calls handlers see: `F` with NAME asked about first. No arguments, or a tuple of them.
template <size_t N>
struct MethodName {
  char text[N];
  constexpr MethodName(const char (&literal)[N]) {
    for (size_t i = 0; i < N; i++) text[i] = literal[i];
  }
};
template <MethodName NAME, PyObject* (*F)(PyObject*, PyObject*)>
PyObject* asked(PyObject* self, PyObject* none) {
  if (may_ask(as_tensor(self))) {
    PyObject* answer = ask_access(NAME.text, self);
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
  }
  return F(self, none);
}
template <MethodName NAME, PyObject* (*F)(PyObject*, PyObject*, PyObject*)>
PyObject* asked_with(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (may_ask(as_tensor(self))) {
    PyObject* answer = ask_access(NAME.text, self, args, kwargs);
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
  }
  return F(self, args, kwargs);
}
int add_class_methods(PyTypeObject* type, PyMethodDef* methods);

}  // namespace rl
