// rushlight._stable: the module that binary extensions find behind the names of PyTorch's libraries (CMakeLists.txt).
#include "boundary.h"
#include "core_table.h"
#include "stable.h"

namespace rl {

PyTypeObject *TensorType, *DTypeType, *DeviceType;

namespace stable {

static int use_core(PyObject* module) {
  Ref capsule(PyObject_GetAttrString(module, "_core"));
  auto* table = capsule ? static_cast<const CoreTable*>(PyCapsule_GetPointer(capsule.p, kCoreTable)) : nullptr;
  if (!table) return -1;
  TensorType = table->TensorType;
  DTypeType = table->DTypeType;
  DeviceType = table->DeviceType;
  core = {table->tensor_alloc,  table->tensor_finish_geometry, table->tensor_version,    table->tensor_has_data,
          table->storage_wrap,  table->dtype_object,           table->python_type_dtype, table->parse_device,
          table->device_type_name, table->parallel_for,        table->num_threads,       table->state_of_thread};
  return 0;
}

static PyObject* py_use_hooks(PyObject*, PyObject* module) {
  Py_XSETREF(hooks, Py_NewRef(module));
  Py_RETURN_NONE;
}

static PyObject* py_live_handles(PyObject*, PyObject*) { return PyLong_FromLongLong(live_handles()); }

static PyMethodDef methods[] = {
    {"kernel", guarded<make_kernel>, METH_VARARGS,
     "kernel(address, name, argument types, result types, written bits, bind)."},
    {"use_hooks", guarded<py_use_hooks>, METH_O, "The module whose functions the C functions ask."},
    {"live_handles", guarded<py_live_handles>, METH_NOARGS, "How many references extensions hold."},
    {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "rushlight._stable",
                                 "C functions that binary extensions of PyTorch call.", -1, methods};

}  // namespace stable
}  // namespace rl

PyMODINIT_FUNC PyInit__stable() {
  rl::Ref base(PyImport_ImportModule("rushlight._C"));
  if (!base || rl::stable::use_core(base.p) || PyType_Ready(&rl::stable::KernelType)) return nullptr;
  // Told from functions of Python, which are given what a call says (dispatch/dispatcher.py).
  if (PyDict_SetItemString(rl::stable::KernelType.tp_dict, "takes_every_argument", Py_True)) return nullptr;
  PyObject* module = PyModule_Create(&rl::stable::definition);
  if (module && rl::says_it_needs_lock(module)) Py_CLEAR(module);
  return module;
}

// By this a stand-in is told from the library of PyTorch whose name it has.
STABLE_API int rushlight_stable_is_here() { return 1; }
