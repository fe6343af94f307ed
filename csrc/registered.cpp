// Calls of ops of `library` that go to a registered kernel without Python's dispatcher between.
#include "registered.h"

namespace rl {

PyObject* running_kernels() {
  static PyObject* key = PyUnicode_InternFromString("rushlight running kernels");
  PyObject* thread = PyThreadState_GetDict();
  if (!thread) return PyErr_SetString(PyExc_RuntimeError, "this thread has no state of the interpreter"), nullptr;
  PyObject* found = PyDict_GetItemWithError(thread, key);
  if (found || PyErr_Occurred()) return found;
  Ref made(PyList_New(0));
  if (!made || PyDict_SetItem(thread, key, made.p)) return nullptr;
  return made.p;                     // the dictionary holds it
}

// The type of device a call runs on, as dispatcher.py's plain_kernel says; -1: no tensors, or of several types.
static int device_type(Overload* op, PyObject** args) {
  Tensor* tensors[32];
  int count = gather_tensors(op, args, tensors, 32), found = -1;
  if (count > 32) return -1;
  for (int i = 0; i < count; i++)
    if (found < 0 || tensors[i]->ndim) {
      if (found >= 0 && found != tensors[i]->device.type) return -1;
      found = tensors[i]->device.type;
    }
  return found;
}

// 1: the kernel is on this thread's stack, and is passed over; -1: an error.
static int is_running(PyObject* running, PyObject* entry) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(running); i++) {
    PyObject* one = PyList_GET_ITEM(running, i);
    if (one == entry) return 1;
    Ref kept = Ref::borrow(one);
    int same = PyObject_RichCompareBool(one, entry, Py_EQ);
    if (same) return same;
  }
  return 0;
}

// Leaves the list as it was found, whatever the kernel did.
struct Running {
  PyObject* list;
  Py_ssize_t before;
  bool ok;
  Running(PyObject* list, PyObject* entry)
      : list(Py_NewRef(list)), before(PyList_GET_SIZE(list)), ok(!PyList_Append(list, entry)) {}
  ~Running() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyList_GET_SIZE(list) > before) PyList_SetSlice(list, before, PyList_GET_SIZE(list), nullptr);
    PyErr_Restore(type, value, trace);
    Py_DECREF(list);
  }
};

static PyObject* run_rung(Overload* op, PyObject** args, const Scan& scan, const Rung& rung, PyObject* running) {
  Ref kernel = Ref::borrow(rung.kernel), check = Ref::borrow(rung.check);   // it may take its own registration back
  bool one_tensor = rung.one_tensor, recorded = rung.is_backend && scan.requires_grad;
  Running region(running, rung.entry);
  if (!region.ok) return nullptr;
  Ref result(recorded ? call_recorded(op, args, true, scan.keys, kernel.p)
                      : PyObject_Vectorcall(kernel.p, args, op->params->size(), nullptr));
  if (!result || check.p == Py_None || (one_tensor && is_tensor(result.p))) return result.release();
  return PyObject_CallOneArg(check.p, result.p);
}

PyObject* call_registered(Overload* op, PyObject** args, const Scan& scan, bool* asked) {
  *asked = false;
  auto& known = op->registered->of_device;
  int type = device_type(op, args);
  if (type < 0 || static_cast<size_t>(type) >= known.size()) return nullptr;
  PyObject* running = nullptr;
  for (size_t i = 0; i < known[type].size(); i++) {
    const Rung& rung = known[type][i];
    if (rung.records_only && !scan.requires_grad) continue;
    if (!running && !(running = running_kernels())) return *asked = true, nullptr;
    int passed = PyList_GET_SIZE(running) ? is_running(running, rung.entry) : 0;
    if (passed < 0) return *asked = true, nullptr;
    if (passed) continue;
    if (rung.kernel == Py_None) return nullptr;
    *asked = true;
    return run_rung(op, args, scan, rung, running);
  }
  return nullptr;
}

}  // namespace rl
