// The profiler's recordings as Python starts, reads and ends them. Everything holds the interpreter lock.
#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "profile.h"
#include "profile_stack.h"

namespace rl {

namespace {

// --- a recording as Python reads it ----------------------------------------------------------------------------------

const char* const kColumns[] = {"begin",  "end",      "name",  "kind",  "thread", "parent", "sequence", "forward_thread",
                                "inputs", "overload", "value", "address", "total", "device", "unit", "module",
                                "source"};
constexpr int kNumColumns = sizeof(kColumns) / sizeof(kColumns[0]);

struct Columns {
  PyObject* bytes[kNumColumns] = {};
  int64_t* at[kNumColumns] = {};
  ~Columns() {
    for (PyObject* b : bytes) Py_XDECREF(b);
  }
  bool make(size_t rows) {
    for (int i = 0; i < kNumColumns; i++) {
      if (!(bytes[i] = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(rows * 8)))) return false;
      at[i] = reinterpret_cast<int64_t*>(PyBytes_AS_STRING(bytes[i]));
    }
    return true;
  }
  PyObject* dict() {
    Ref made(PyDict_New());
    for (int i = 0; made && i < kNumColumns; i++)
      if (PyDict_SetItemString(made.p, kColumns[i], bytes[i])) return nullptr;
    return made.release();
  }
};

void write_row(Columns& c, size_t row, const Event& e, int64_t thread, int64_t first_row, int64_t stopped) {
  bool is_memory = e.kind == EventKind::Memory, is_node = e.kind == EventKind::Node || e.kind == EventKind::Evaluate;
  int64_t parent = e.parent == kNoRow ? -1 : first_row + e.parent;
  int64_t values[kNumColumns] = {
      e.begin,                 is_memory ? e.begin : e.end ? e.end : stopped,
      e.name,                  static_cast<int64_t>(e.kind),
      thread,                  parent,
      is_memory ? -1 : e.sequence, is_node ? e.forward_thread : 0,
      is_memory ? -1 : e.inputs,   -1,
      is_memory ? e.sequence : 0,  is_memory ? e.end : 0,
      is_memory ? e.total : 0,     is_memory ? e.device : -1,
      is_memory ? e.unit : -1,     static_cast<int64_t>(e.module) - 1,
      is_memory || is_node ? 0 : e.source};
  for (int i = 0; i < kNumColumns; i++) c.at[i][row] = values[i];
}

// Blocks go as they are copied: a long recording is never there twice.
PyObject* columns_of(Recording* r, int64_t stopped) {
  size_t rows = 0;
  for (Timeline* line : r->timelines) rows += line->count;
  Columns columns;
  if (!columns.make(rows)) return nullptr;
  size_t row = 0;
  for (size_t t = 0; t < r->timelines.size(); t++) {
    Timeline* line = r->timelines[t];
    auto first = static_cast<int64_t>(row);
    for (uint32_t i = 0; i < line->count; i++, row++) {
      write_row(columns, row, line->at(i), static_cast<int64_t>(t), first, stopped);
      if (i % kBlockEvents == kBlockEvents - 1) {
        std::free(line->blocks[i / kBlockEvents]);
        line->blocks[i / kBlockEvents] = nullptr;
      }
    }
  }
  return columns.dict();
}

PyObject* threads_of(Recording* r) {
  Ref list(PyList_New(0));
  for (Timeline* line : r->timelines) {
    Ref item(Py_BuildValue("(lOI)", line->native_id, line->name, line->order));
    if (!list || !item || PyList_Append(list.p, item.p)) return nullptr;
  }
  return list.release();
}

// What `inputs` holds: made by Python of each call that was seen, once.
PyObject* inputs_of(Recording* r) {
  Py_ssize_t n = PyList_GET_SIZE(r->inputs.shown);
  Ref list(PyList_New(n));
  PyObject* hook = PyDict_GetItemString(autograd_helpers(), "call_inputs");
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject* call = PyList_GET_ITEM(r->inputs.shown, i);
    PyObject* shown = hook ? PyObject_Call(hook, call, nullptr) : Py_NewRef(call);
    if (!shown) {   // a recording is not lost for one call that nobody can spell
      PyErr_WriteUnraisable(hook);
      if (!(shown = Py_BuildValue("([][][][])"))) return nullptr;
    }
    PyList_SET_ITEM(list.p, i, shown);
  }
  return list.release();
}

PyObject* recording_object(Recording* r, int64_t stopped) {
  Ref inputs(inputs_of(r)), threads(threads_of(r));
  if (!inputs || !threads) return nullptr;
  Ref columns(columns_of(r, stopped));
  if (!columns) return nullptr;
  return Py_BuildValue("{sOsOsOsOsOsOs(LL)sKsL}", "columns", columns.p, "names", r->names, "inputs", inputs.p, "calls",
                       r->inputs.shown, "sources", r->sources, "threads", threads.p, "base",
                       static_cast<long long>(r->begin), static_cast<long long>(r->wall), "dropped",
                       static_cast<unsigned long long>(r->dropped.load()), "stopped", static_cast<long long>(stopped));
}

// --- functions -------------------------------------------------------------------------------------------------------

PyObject* py_start(PyObject*, PyObject* flags) {
  unsigned long value = PyLong_AsUnsignedLong(flags);
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  if (!profile_start(static_cast<uint32_t>(value))) return nullptr;
  if (!stacks_start(static_cast<uint32_t>(value))) return stacks_stop(), profile_free(profile_stop()), nullptr;
  Py_RETURN_NONE;
}

PyObject* py_stop(PyObject*, PyObject*) {
  if (profile_recording()) stacks_stop();
  Recording* r = profile_stop();
  if (!r) return nullptr;
  PyObject* made = recording_object(r, profile_now());
  profile_free(r);
  return made;
}

PyObject* py_toggle(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  if (value < 0 || !profile_toggle(value)) return nullptr;
  stacks_toggle(value);
  Py_RETURN_NONE;
}

PyObject* py_is_on(PyObject*, PyObject*) { return PyBool_FromLong(is_recording()); }
PyObject* py_now(PyObject*, PyObject*) { return PyLong_FromLongLong(profile_now()); }

// A handle is the row and the timeline's order in one number, never 0.
PyObject* handle_of(const Mark& mark) {
  if (!mark.recording) return PyLong_FromLong(0);
  return PyLong_FromUnsignedLongLong((mark.recording & 0xFFFFF) << 44 |
                                     static_cast<uint64_t>(mark.line->order & 0xFFF) << 32 | mark.row);
}

// record_begin(name, args=None, kind=4)
PyObject* py_record_begin(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!is_recording()) return PyLong_FromLong(0);
  if (count < 1 || count > 3 || !PyUnicode_Check(args[0]))
    return PyErr_SetString(PyExc_TypeError, "record_begin: expected (name: str, args: str | None = None, kind: int = 4)"),
           nullptr;
  long kind = count == 3 ? PyLong_AsLong(args[2]) : static_cast<long>(EventKind::User);
  if (kind == -1 && PyErr_Occurred()) return nullptr;
  if (!profile_line()) return PyLong_FromLong(0);
  return handle_of(profile_begin(profile_name(args[0]), static_cast<EventKind>(kind)));
}

PyObject* py_record_end(PyObject*, PyObject* handle) {
  unsigned long long value = PyLong_AsUnsignedLongLong(handle);
  if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
  Recording* r = profile_recording();
  if (!value || !r || (r->id & 0xFFFFF) != value >> 44) Py_RETURN_NONE;
  uint32_t order = value >> 32 & 0xFFF;
  for (Timeline* line : r->timelines)
    if ((line->order & 0xFFF) == order) {
      profile_end({r->id, line, static_cast<uint32_t>(value)});
      break;
    }
  Py_RETURN_NONE;
}

// call_begin(function, args): a call of a function of Python that PyTorch may have as one op; a handle, or 0
PyObject* py_call_begin(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(args[1]))
    return PyErr_SetString(PyExc_TypeError, "call_begin: expected (function, tuple of arguments)"), nullptr;
  if (!is_recording()) return PyLong_FromLong(0);
  Recorded recorded;
  record_function(&recorded, args[0], args[1]);
  PyObject* handle = handle_of(recorded.mark);
  recorded.mark = {};
  return handle;
}

// named_begin(name, args): a call of the program's own, by its name; a handle, or 0
PyObject* py_named_begin(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(args[0]) || !PyTuple_Check(args[1]))
    return PyErr_SetString(PyExc_TypeError, "named_begin: expected (name, tuple of arguments)"), nullptr;
  if (!is_recording()) return PyLong_FromLong(0);
  Recorded recorded;
  record_named(&recorded, args[0], args[1]);
  PyObject* handle = handle_of(recorded.mark);
  recorded.mark = {};
  return handle;
}

// profile_instant(name, kind, value=0, address=0, total=0, device=None): what has no length. Memory has no name.
PyObject* py_instant(PyObject*, PyObject* args) {
  PyObject *name, *where = nullptr;
  int kind;
  long long value = 0, address = 0, total = 0;
  if (!PyArg_ParseTuple(args, "Ui|LLLO", &name, &kind, &value, &address, &total, &where)) return nullptr;
  Device device;
  if (where && where != Py_None && !parse_device(where, &device)) return nullptr;
  if (!is_recording() || !profile_line()) Py_RETURN_NONE;
  if (static_cast<EventKind>(kind) == EventKind::Memory) {
    profile_memory(reinterpret_cast<const void*>(static_cast<intptr_t>(address)), value, total, device);
  } else {
    int64_t now = profile_now();
    profile_add(profile_name(name), static_cast<EventKind>(kind), now, now);
  }
  Py_RETURN_NONE;
}

PyObject* py_limit(PyObject*, PyObject* events) {
  unsigned long long value = PyLong_AsUnsignedLongLong(events);
  if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
  profile_limit(value);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"profile_start", guarded<py_start>, METH_O, "profile_start(flags): RuntimeError when a recording runs"},
    {"profile_stop", guarded<py_stop>, METH_NOARGS, "the recording: columns, names, inputs, threads, base, dropped"},
    {"profile_toggle", guarded<py_toggle>, METH_O, "profile_toggle(on): collection pauses, the recording stays"},
    {"profile_is_on", guarded<py_is_on>, METH_NOARGS, "whether events are collected now"},
    {"profile_now", guarded<py_now>, METH_NOARGS, "the clock of recordings, in nanoseconds"},
    {"profile_limit", guarded<py_limit>, METH_O, "profile_limit(events): beyond so many, a recording drops and counts"},
    {"profile_instant", guarded<py_instant>, METH_VARARGS,
     "profile_instant(name, kind, value=0, address=0, total=0, device=None)"},
    {"record_begin", guarded_method<py_record_begin>(), METH_FASTCALL,
     "record_begin(name, args=None, kind=4): a handle for record_end, 0 while nothing records"},
    {"call_begin", guarded_method<py_call_begin>(), METH_FASTCALL, "call_begin(function, args): a handle for record_end"},
    {"named_begin", guarded_method<py_named_begin>(), METH_FASTCALL, "named_begin(name, args): a handle for record_end"},
    {"record_end", guarded<py_record_end>, METH_O, "record_end(handle)"},
    {}};

}  // namespace

int init_profile_face(PyObject* module) {
  return PyModule_AddFunctions(module, functions) ||
                 PyModule_AddIntConstant(module, "COMPILE", static_cast<long>(EventKind::Compile)) ||
                 PyModule_AddIntConstant(module, "COLLECTIVE", static_cast<long>(EventKind::Collective))
             ? -1 : 0;
}

}  // namespace rl
