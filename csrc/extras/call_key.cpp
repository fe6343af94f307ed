// What the cache of a compiled function is asked with: the layouts of its tensors, and the state of its modules, as
// bytes. In Python this took 30 us for an MLP of two layers (its whole training step takes 80), here 3. Everything
// holds the lock.
#include <string>
#include <unordered_map>
#include <vector>

#include "boundary.h"
#include "core.h"
#include "guards.h"

namespace rl {

// Numbers pointers in the order in which they come. Most calls know few: those lie on the stack.
class Numbers {
 public:
  // The pointer's number; `is_new` where it had none.
  uint32_t of(PyObject* p, bool* is_new) {
    if (!more_.empty()) return of_many(p, is_new);
    size_t at = (reinterpret_cast<uintptr_t>(p) >> 4) * 0x9E3779B97F4A7C15ull >> (64 - kBits);
    for (; slots_[at].pointer; at = (at + 1) & (kSlots - 1))
      if (slots_[at].pointer == p) return *is_new = false, slots_[at].number;
    if (count_ == kSlots / 2) {
      for (const Slot& s : slots_)
        if (s.pointer) more_.emplace(s.pointer, s.number);
      return of_many(p, is_new);
    }
    slots_[at] = {p, count_};
    return *is_new = true, count_++;
  }

 private:
  static constexpr int kBits = 7, kSlots = 1 << kBits;
  struct Slot {
    PyObject* pointer;
    uint32_t number;
  };
  uint32_t of_many(PyObject* p, bool* is_new) {
    auto [at, inserted] = more_.try_emplace(p, count_);
    count_ += inserted;
    return *is_new = inserted, at->second;
  }
  Slot slots_[kSlots] = {};
  uint32_t count_ = 0;
  std::unordered_map<PyObject*, uint32_t> more_;
};

template <class T>
static void append(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

static void append_layout(std::string& key, Tensor* t, bool requires_grad) {
  append(key, t->ndim);
  append(key, static_cast<uint8_t>(t->dtype));
  append(key, t->device.type);
  append(key, t->device.index);
  append(key, static_cast<uint8_t>(requires_grad | (tape_grad_fn(t) ? 2 : 0) | (t->flags & kInference ? 4 : 0) |
                                   (t->keys & kKeyConjugate ? 8 : 0) | (t->keys & kKeyNegative ? 16 : 0)));
  key.append(reinterpret_cast<const char*>(t->geometry), 2 * sizeof(int64_t) * t->ndim);
}

// Appends the layouts of a list's tensors to the key, and each tensor once to `once`. False without an exception: one
// has rules of its own.
static bool append_layouts(PyObject* list, PyObject* types, PyObject* once, std::string& key, bool* any) {
  Numbers seen;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject* o = PyList_GET_ITEM(list, i);
    bool is_new;
    append(key, seen.of(o, &is_new));
    if (!is_new) continue;
    bool is_plain = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(types); k++)
      is_plain |= reinterpret_cast<PyObject*>(Py_TYPE(o)) == PyTuple_GET_ITEM(types, k);
    if (!is_plain) return false;
    bool requires_grad = tape_requires_grad(as_tensor(o));
    *any |= requires_grad;
    append_layout(key, as_tensor(o), requires_grad);
    if (PyList_Append(once, o)) return false;
  }
  return true;
}

// layout_key(tensors, plain types) -> (each tensor once, key, whether one requires a gradient); None where one has
// rules of its own.
static PyObject* py_layout_key(PyObject*, PyObject* args) {
  PyObject *list, *types;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &list, &PyTuple_Type, &types)) return nullptr;
  Ref once(PyList_New(0));
  if (!once) return nullptr;
  std::string key;
  bool any = false;
  if (!append_layouts(list, types, once.p, key, &any)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
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

static bool append_modules(PyObject* roots, PyObject* tensors, std::string& key) {
  Numbers seen;
  std::vector<PyObject*> waiting, children;
  for (Py_ssize_t i = PyTuple_GET_SIZE(roots); i-- > 0;) waiting.push_back(PyTuple_GET_ITEM(roots, i));
  while (!waiting.empty()) {
    PyObject* module = waiting.back();
    waiting.pop_back();
    bool is_new = false;
    if (module != Py_None) seen.of(module, &is_new);
    if (!is_new) continue;
    Ref dict(PyObject_GenericGetDict(module, nullptr));
    if (!dict || !append_module(dict.p, module, tensors, key)) return false;
    PyObject* table = PyDict_GetItemWithError(dict.p, names[kModules]);
    if (!table || !PyDict_Check(table)) continue;
    children.clear();
    Py_ssize_t at = 0;
    PyObject *unused, *child;
    while (PyDict_Next(table, &at, &unused, &child)) children.push_back(child);
    waiting.insert(waiting.end(), children.rbegin(), children.rend());
  }
  return true;
}

// module_key(modules) -> (tensors of the modules and all in them, key): in the order of aot.module_state.ModuleState.
static PyObject* py_module_key(PyObject*, PyObject* roots) {
  if (!PyTuple_Check(roots))
    return PyErr_SetString(PyExc_TypeError, "module_key: expected a tuple of modules"), nullptr;
  Ref tensors(PyList_New(0));
  std::string key;
  if (!tensors || !append_modules(roots, tensors.p, key)) return nullptr;
  Ref bytes(PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  return bytes ? PyTuple_Pack(2, tensors.p, bytes.p) : nullptr;
}

// call_key(modules, arguments, plain types) -> (tensors of both, each once, and everything that the graph of such a
// call depends on as bytes); None where an argument is more than a plain tensor, or mixed precision is on.
static PyObject* py_call_key(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]))
    return PyErr_SetString(PyExc_TypeError, "call_key: expected modules, arguments and types, tuples all"), nullptr;
  PyObject *given = args[1], *types = args[2];
  const ThreadState& now = thread_state();
  if (now.keys & ~now.excluded) Py_RETURN_NONE;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++)
    if (!is_tensor(PyTuple_GET_ITEM(given, i))) Py_RETURN_NONE;
  Ref all(PyList_New(0)), once(PyList_New(0));
  std::string key;
  key.reserve(1024);
  append(key, static_cast<uint8_t>(now.grad_enabled | now.inference << 1));
  append(key, static_cast<uint8_t>(float_dtype()));
  append(key, PyTuple_GET_SIZE(given));
  if (!all || !once || !append_modules(args[0], all.p, key)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++)
    if (PyList_Append(all.p, PyTuple_GET_ITEM(given, i))) return nullptr;
  bool any = false;
  if (!append_layouts(all.p, types, once.p, key, &any)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref bytes(PyBytes_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  return bytes ? PyTuple_Pack(2, once.p, bytes.p) : nullptr;
}

static PyMethodDef functions[] = {
    {"layout_key", guarded<py_layout_key>, METH_VARARGS,
     "layout_key(tensors, types): each tensor once, their layouts as bytes, whether one requires grad"},
    {"call_key", guarded_method<py_call_key>(), METH_FASTCALL,
     "call_key(modules, arguments, types): their tensors once, and all that a call's graph depends on as bytes"},
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
