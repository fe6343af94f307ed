// The quick paths of nn.Module. In Python, a call of a module without hooks costs two frames and eight lookups before
// its forward runs, and reading a registered parameter first raises and drops an AttributeError; a small network spends
// more time there than in its kernels. Everything that decides stays in Python: with any hook the call goes to
// `_call_impl`, after `compile()` to what that put in its place, and a class that defines `__call__` or `__getattr__`
// of its own keeps Python's slow way. No base class in C: classes of modules keep the memory layout of plain ones, so
// that `module.__class__` can be assigned. The interpreter lock is held throughout.
#include "quick_module.h"
#include "boundary.h"
#include "profile_stack.h"

namespace rl {

static PyObject* name_forward;
static PyObject* name_call_impl;
static PyObject* name_compiled;
static PyObject* name_call;
static PyObject* name_getattr;
static PyObject* name_getattribute;
static PyObject* name_run;
static PyObject* name_modules;
static PyObject* name_original;
static PyObject* hook_names[4];    // dicts of every module that must be empty
static PyObject* table_names[3];   // where registered attributes live
static PyObject* global_hooks;     // a tuple of dicts that must be empty, set once by Python
static PyObject* plain_getattr;    // Module.__getattr__, the only one the quick reader stands in for
static PyObject* plain_call;       // Module.__call__, likewise
static getattrofunc python_getattro;   // what CPython gives classes with a __getattr__
static ternaryfunc python_call;        // and those with a __call__

static bool has_entries(PyObject* dict) { return !dict || !PyDict_Check(dict) || PyDict_GET_SIZE(dict) != 0; }

static bool is_hooked(PyObject* dict) {
  for (PyObject* name : hook_names)
    if (has_entries(PyDict_GetItemWithError(dict, name))) return true;
  if (!global_hooks) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(global_hooks); ++i)
    if (has_entries(PyTuple_GET_ITEM(global_hooks, i))) return true;
  return false;
}

static PyObject* call_method(PyObject* self, PyObject* name, PyObject* args, PyObject* kwargs) {
  PyObject* bound = PyObject_GetAttr(self, name);
  if (!bound) return nullptr;
  PyObject* result = PyObject_Call(bound, args, kwargs);
  Py_DECREF(bound);
  return result;
}

static PyObject* call_module(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  PyObject* compiled = PyDict_GetItemWithError(dict, name_compiled);
  if (compiled && compiled != Py_None) {
    Py_INCREF(compiled);
    Py_DECREF(dict);
    PyObject* result = PyObject_Call(compiled, args, kwargs);
    Py_DECREF(compiled);
    return result;
  }
  bool hooked = is_hooked(dict);
  bool own_forward = !hooked && PyDict_GetItemWithError(dict, name_forward);
  Py_DECREF(dict);
  if (PyErr_Occurred()) return nullptr;
  if (hooked) return call_method(self, name_call_impl, args, kwargs);
  constexpr Py_ssize_t limit = 8;
  Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* forward = own_forward ? nullptr : _PyType_Lookup(Py_TYPE(self), name_forward);
  if (!forward || !PyFunction_Check(forward) || count > limit || (kwargs && PyDict_GET_SIZE(kwargs)))
    return call_method(self, name_forward, args, kwargs);
  PyObject* stack[limit + 1] = {self};
  for (Py_ssize_t i = 0; i < count; ++i) stack[i + 1] = PyTuple_GET_ITEM(args, i);
  Py_INCREF(forward);
  PyObject* result = PyObject_Vectorcall(forward, stack, static_cast<size_t>(count) + 1, nullptr);
  Py_DECREF(forward);
  return result;
}

static PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!is_recording()) return call_module(self, args, kwargs);
  ModuleCall recorded(self);
  return call_module(self, args, kwargs);
}

PyObject* module_call_code() {
  return plain_call && PyFunction_Check(plain_call) ? PyFunction_GET_CODE(plain_call) : nullptr;
}

// What a compiled module runs instead of its original's forward (`_run`, a pair whose first is that, or None); null
// where Python is to say what a call does: before the first one, and with hooks.
static PyObject* compiled_forward(PyObject* dict) {
  PyObject* run = PyDict_GetItemWithError(dict, name_run);
  if (!run || !PyTuple_CheckExact(run) || PyTuple_GET_SIZE(run) != 2 || PyTuple_GET_ITEM(run, 0) == Py_None)
    return nullptr;
  PyObject* modules = PyDict_GetItemWithError(dict, name_modules);
  PyObject* original = modules && PyDict_Check(modules) ? PyDict_GetItemWithError(modules, name_original) : nullptr;
  PyObject* own = original ? PyObject_GenericGetDict(original, nullptr) : nullptr;
  if (!own) return nullptr;
  bool hooked = is_hooked(own);
  Py_DECREF(own);
  return hooked ? nullptr : Py_NewRef(PyTuple_GET_ITEM(run, 0));
}

static PyObject* call_optimized(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  PyObject* forward = compiled_forward(dict);
  Py_DECREF(dict);
  if (PyErr_Occurred()) {
    Py_XDECREF(forward);
    return nullptr;
  }
  if (!forward) return python_call(self, args, kwargs);
  PyObject* result = PyObject_VectorcallDict(forward, PySequence_Fast_ITEMS(args),
                                             static_cast<size_t>(PyTuple_GET_SIZE(args)), kwargs);
  Py_DECREF(forward);
  return result;
}

static PyObject* optimized_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!is_recording()) return call_optimized(self, args, kwargs);
  ModuleCall recorded(self);
  return call_optimized(self, args, kwargs);
}

// As PyObject_GenericGetAttr, and then the tables of registered things, with no exception in between.
static PyObject* module_getattro(PyObject* self, PyObject* name) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject* found = _PyType_Lookup(type, name);
  descrgetfunc get = found ? Py_TYPE(found)->tp_descr_get : nullptr;
  if (get && Py_TYPE(found)->tp_descr_set) return PyObject_GenericGetAttr(self, name);
  Py_XINCREF(found);
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) {
    Py_XDECREF(found);
    return nullptr;
  }
  PyObject* value = PyDict_GetItemWithError(dict, name);
  for (int i = 0; !value && !found && i < 3 && !PyErr_Occurred(); ++i) {
    PyObject* table = PyDict_GetItemWithError(dict, table_names[i]);
    if (table && PyDict_CheckExact(table)) value = PyDict_GetItemWithError(table, name);
  }
  Py_XINCREF(value);
  Py_DECREF(dict);
  if (value || PyErr_Occurred()) {
    Py_XDECREF(found);
    return value;
  }
  if (!found) return PyObject_CallFunctionObjArgs(plain_getattr, self, name, nullptr);
  if (!get) return found;
  PyObject* result = get(found, self, reinterpret_cast<PyObject*>(type));
  Py_DECREF(found);
  return result;
}

// Give a class the quick call and reader, if it calls and reads exactly as Module does. CPython puts its own back by
// itself when one of the special methods is assigned to the class or one of its bases later.
static PyObject* quick_paths(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) {
    PyErr_SetString(PyExc_TypeError, "quick_paths: expected a class");
    return nullptr;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (plain_call && type->tp_call == python_call && _PyType_Lookup(type, name_call) == plain_call)
    type->tp_call = module_call;
  PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, name_getattribute);
  if (plain_getattr && type->tp_getattro == python_getattro && _PyType_Lookup(type, name_getattr) == plain_getattr &&
      _PyType_Lookup(type, name_getattribute) == of_object)
    type->tp_getattro = module_getattro;
  Py_RETURN_NONE;
}

// The same for the class of compiled modules, whose own `__call__` is asked where `compiled_forward` finds nothing.
static PyObject* quick_optimized(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) return PyErr_SetString(PyExc_TypeError, "quick_optimized: expected a class"), nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (python_call && type->tp_call == python_call) type->tp_call = optimized_call;
  Py_RETURN_NONE;
}

// Whether a call of a module does more than run its forward: hooks of its own or of all modules.
static PyObject* module_is_hooked(PyObject*, PyObject* self) {
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  bool hooked = is_hooked(dict);
  Py_DECREF(dict);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(hooked);
}

static PyObject* set_module_class(PyObject*, PyObject* args) {
  PyObject *cls, *hooks;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &cls, &PyTuple_Type, &hooks)) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  PyObject* call = _PyType_Lookup(type, name_call);
  PyObject* getattr = _PyType_Lookup(type, name_getattr);
  if (!getattr || !call) {
    PyErr_SetString(PyExc_TypeError, "set_module_class: the class needs a __getattr__ and a __call__");
    return nullptr;
  }
  Py_INCREF(call);
  Py_XSETREF(plain_call, call);
  Py_INCREF(getattr);
  Py_XSETREF(plain_getattr, getattr);
  Py_INCREF(hooks);
  Py_XSETREF(global_hooks, hooks);
  python_call = type->tp_call;
  python_getattro = type->tp_getattro;
  return quick_paths(nullptr, cls);
}

static PyMethodDef functions[] = {
    {"module_is_hooked", guarded<module_is_hooked>, METH_O, "whether a module has hooks, or all modules have"},
    {"quick_paths", guarded<quick_paths>, METH_O,
     "Let a subclass of nn.Module be called, and its registered attributes be read, quickly."},
    {"quick_optimized", guarded<quick_optimized>, METH_O, "Let modules of the class of compiled ones run quickly."},
    {"set_module_class", guarded<set_module_class>, METH_VARARGS,
     "Tell the core which class nn.Module is, and its global hook dicts."},
    {nullptr}};

int init_quick_module(PyObject* module) {
  const char* hooks[] = {"_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"};
  const char* tables[] = {"_parameters", "_buffers", "_modules"};
  for (int i = 0; i < 4; ++i)
    if (!(hook_names[i] = PyUnicode_InternFromString(hooks[i]))) return -1;
  for (int i = 0; i < 3; ++i)
    if (!(table_names[i] = PyUnicode_InternFromString(tables[i]))) return -1;
  name_forward = PyUnicode_InternFromString("forward");
  name_call_impl = PyUnicode_InternFromString("_call_impl");
  name_compiled = PyUnicode_InternFromString("_compiled_call_impl");
  name_call = PyUnicode_InternFromString("__call__");
  name_getattr = PyUnicode_InternFromString("__getattr__");
  name_getattribute = PyUnicode_InternFromString("__getattribute__");
  name_run = PyUnicode_InternFromString("_run");
  name_modules = table_names[2];
  name_original = PyUnicode_InternFromString("_orig_mod");
  if (!name_forward || !name_call_impl || !name_compiled || !name_call || !name_getattr || !name_getattribute ||
      !name_run || !name_original)
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
