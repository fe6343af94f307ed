// What the cache of a compiled function is asked with: the layouts of its tensors, and the state of its modules, as
// bytes. In Python this took 30 us for an MLP of two layers (its whole training step takes 80), here 3. Everything
// holds the lock.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "boundary.h"
#include "tape.h"

namespace rl {

template <class T>
static void append(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

static void append_layout(std::string& key, Tensor* t, bool requires_grad) {
  append(key, t->ndim);
  append(key, static_cast<uint8_t>(t->dtype));
  append(key, t->device.type);
  append(key, t->device.index);
  append(key, static_cast<uint8_t>(requires_grad | (tape_grad_fn(t) ? 2 : 0) | (t->flags & kInference ? 4 : 0)));
  key.append(reinterpret_cast<const char*>(t->geometry), 2 * sizeof(int64_t) * t->ndim);
}

// layout_key(tensors, plain types) -> (each tensor once, key, whether one requires a gradient); None where one has
// rules of its own.
static PyObject* py_layout_key(PyObject*, PyObject* args) {
  PyObject *list, *types;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &list, &PyTuple_Type, &types)) return nullptr;
  Ref once(PyList_New(0));
  if (!once) return nullptr;
  std::unordered_map<PyObject*, uint32_t> seen;
  std::string key;
  bool any = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject* o = PyList_GET_ITEM(list, i);
    auto [at, is_new] = seen.try_emplace(o, static_cast<uint32_t>(seen.size()));
    append(key, at->second);
    if (!is_new) continue;
    bool is_plain = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(types); k++)
      is_plain |= reinterpret_cast<PyObject*>(Py_TYPE(o)) == PyTuple_GET_ITEM(types, k);
    if (!is_plain) Py_RETURN_NONE;
    bool requires_grad = tape_requires_grad(as_tensor(o));
    any |= requires_grad;
    append_layout(key, as_tensor(o), requires_grad);
    if (PyList_Append(once.p, o)) return nullptr;
  }
  Ref bytes(PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  return bytes ? PyTuple_Pack(3, once.p, bytes.p, any ? Py_True : Py_False) : nullptr;
}

enum Name { kTraining, kModules, kParameters, kBuffers, kFirstHook, kNumNames = kFirstHook + 4 };
static PyObject* names[kNumNames];

// A module's own part of the state: its tensors, and the flags that decide what its forward does.
static bool append_module(PyObject* dict, PyObject* module, PyObject* tensors, std::string& key) {
  append(key, module);
  uint64_t hooks = PyDict_GetItemWithError(dict, names[kTraining]) == Py_True;
  for (int name = kFirstHook; name < kNumNames; name++) {
    PyObject* table = PyDict_GetItemWithError(dict, names[name]);
    if (table && PyDict_Check(table)) hooks += static_cast<uint64_t>(PyDict_GET_SIZE(table)) << 1;
  }
  append(key, hooks);
  for (int name : {kParameters, kBuffers}) {
    PyObject* table = PyDict_GetItemWithError(dict, names[name]);
    if (!table || !PyDict_Check(table)) continue;
    Py_ssize_t at = 0;
    PyObject *unused, *value;
    while (PyDict_Next(table, &at, &unused, &value)) {
      append(key, static_cast<uint8_t>(value != Py_None));
      if (value != Py_None && PyList_Append(tensors, value)) return false;
    }
  }
  return !PyErr_Occurred();
}

// module_key(modules) -> (tensors of the modules and all in them, key): in the order of aot.module_state.ModuleState.
static PyObject* py_module_key(PyObject*, PyObject* roots) {
  if (!PyTuple_Check(roots))
    return PyErr_SetString(PyExc_TypeError, "module_key: expected a tuple of modules"), nullptr;
  Ref tensors(PyList_New(0));
  if (!tensors) return nullptr;
  std::string key;
  std::unordered_set<PyObject*> seen;
  std::vector<PyObject*> waiting, children;
  for (Py_ssize_t i = PyTuple_GET_SIZE(roots); i-- > 0;) waiting.push_back(PyTuple_GET_ITEM(roots, i));
  while (!waiting.empty()) {
    PyObject* module = waiting.back();
    waiting.pop_back();
    if (module == Py_None || !seen.insert(module).second) continue;
    Ref dict(PyObject_GenericGetDict(module, nullptr));
    if (!dict || !append_module(dict.p, module, tensors.p, key)) return nullptr;
    PyObject* table = PyDict_GetItemWithError(dict.p, names[kModules]);
    if (!table || !PyDict_Check(table)) continue;
    children.clear();
    Py_ssize_t at = 0;
    PyObject *unused, *child;
    while (PyDict_Next(table, &at, &unused, &child)) children.push_back(child);
    waiting.insert(waiting.end(), children.rbegin(), children.rend());
  }
  Ref bytes(PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  return bytes ? PyTuple_Pack(2, tensors.p, bytes.p) : nullptr;
}

static PyMethodDef functions[] = {
    {"layout_key", guarded<py_layout_key>, METH_VARARGS,
     "layout_key(tensors, types): each tensor once, their layouts as bytes, whether one requires grad"},
    {"module_key", guarded<py_module_key>, METH_O,
     "module_key(modules): their tensors, and what else decides what they do as bytes"},
    {}};

int init_call_key(PyObject* module) {
  const char* texts[kNumNames] = {"training",       "_modules",           "_parameters",     "_buffers",
                                  "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};
  for (int i = 0; i < kNumNames; i++)
    if (!(names[i] = PyUnicode_InternFromString(texts[i]))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
