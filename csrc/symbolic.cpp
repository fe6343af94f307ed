// A symbolic number goes through argument binding as it is. Whoever needs the number asks `__index__` or `__float__`,
// which leave a guard.
#include "symbolic.h"
#include "boundary.h"

namespace rl {

PyTypeObject *SymbolicIntType, *SymbolicFloatType, *SymbolicBoolType;

static PyObject* layout_hook = nullptr;

PyObject* ask_behind(PyObject* tensor, const char* question) {
  if (!layout_hook) return nullptr;
  PyObject* answer = PyObject_CallFunction(layout_hook, "Os", tensor, question);
  if (answer != Py_None) return answer;
  Py_DECREF(answer);
  return nullptr;
}

static PyObject* set_layout_hook(PyObject*, PyObject* hook) {
  Py_XSETREF(layout_hook, Py_NewRef(hook));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_layout_hook", guarded<set_layout_hook>, METH_O,
     "callable(tensor, question): the layout of a tensor of a function transform, or None"},
    {}};

int init_symbolic(PyObject* module) {
  static PyType_Slot slots[] = {{0, nullptr}};
  struct {
    PyTypeObject** type;
    const char *name, *short_name;
  } kinds[] = {{&SymbolicIntType, "rushlight._C.SymbolicInt", "SymbolicInt"},
               {&SymbolicFloatType, "rushlight._C.SymbolicFloat", "SymbolicFloat"},
               {&SymbolicBoolType, "rushlight._C.SymbolicBool", "SymbolicBool"}};
  for (auto& kind : kinds) {
    PyType_Spec spec = {kind.name, sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    *kind.type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (!*kind.type || PyModule_AddObjectRef(module, kind.short_name, reinterpret_cast<PyObject*>(*kind.type)))
      return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
