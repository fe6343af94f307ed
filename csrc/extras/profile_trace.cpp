// The lines of a trace: the rows of a recording as JSON text, some thousand at a time. In Python one line costs more
// than PyTorch takes for all of it. Everything holds the interpreter lock.
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "profile.h"

namespace rl {

namespace {

struct Text {
  std::string all;
  void put(const char* s, size_t n) { all.append(s, n); }
  template <size_t N>
  void put(const char (&s)[N]) {
    all.append(s, N - 1);
  }
  void number(int64_t v) {
    char digits[24];
    auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;
    all.append(digits, static_cast<size_t>(end - digits));
  }
  void micros(int64_t ns) {          // microseconds with three digits behind the point
    if (ns < 0) all.push_back('-'), ns = -ns;
    number(ns / 1000);
    int64_t rest = ns % 1000;
    char digits[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                      static_cast<char>('0' + rest % 10)};
    all.append(digits, 4);
  }
  bool bytes(PyObject* b) {
    if (!PyBytes_Check(b)) return PyErr_SetString(PyExc_TypeError, "trace_lines: expected bytes"), false;
    put(PyBytes_AS_STRING(b), static_cast<size_t>(PyBytes_GET_SIZE(b)));
    return true;
  }
};

// The columns that lines need, in the order of the tuple that Python gives.
enum Column { kBegin, kEnd, kName, kKind, kThread, kSequence, kForward, kInputs, kValue, kAddress, kTotal, kDevice, kUnit,
              kModule, kIdentity, kAround, kNumColumns };

struct Rows {
  Py_buffer held[kNumColumns] = {};
  const int64_t* at[kNumColumns] = {};
  int count = 0;
  ~Rows() {
    for (int i = 0; i < count; i++) PyBuffer_Release(&held[i]);
  }
  bool take(PyObject* columns, Py_ssize_t rows) {
    if (!PyTuple_Check(columns) || PyTuple_GET_SIZE(columns) != kNumColumns)
      return PyErr_SetString(PyExc_TypeError, "trace_lines: expected a tuple of all columns"), false;
    for (; count < kNumColumns; count++) {
      if (PyObject_GetBuffer(PyTuple_GET_ITEM(columns, count), &held[count], PyBUF_SIMPLE)) return false;
      if (held[count].len < rows * 8)
        return PyBuffer_Release(&held[count]), PyErr_SetString(PyExc_ValueError, "trace_lines: a column is too short"), false;
      at[count] = static_cast<const int64_t*>(held[count].buf);
    }
    return true;
  }
};

// Heads found lately, by what they belong to: `heads` keeps them alive.
struct Lately {
  static constexpr size_t kSlots = 1024;
  struct Slot {
    int64_t key[4];
    PyObject* head;
  };
  std::vector<Slot> slots{kSlots};
  Slot& of(const Rows& r, Py_ssize_t row) {
    auto mixed = static_cast<uint64_t>(r.at[kName][row]) * 0x9E3779B97F4A7C15u +
                 static_cast<uint64_t>(r.at[kInputs][row]) * 0xC2B2AE3D27D4EB4Fu + static_cast<uint64_t>(r.at[kKind][row]);
    return slots[(mixed >> 32) % kSlots];
  }
};

// What lines of one name, kind, thread and arguments share: (before the time, after the arguments), asked of Python once.
// Borrowed.
PyObject* head_of(PyObject* heads, PyObject* make, const Rows& r, Py_ssize_t row) {
  Ref key(Py_BuildValue("(LLLL)", static_cast<long long>(r.at[kName][row]), static_cast<long long>(r.at[kKind][row]),
                        static_cast<long long>(r.at[kThread][row]), static_cast<long long>(r.at[kInputs][row])));
  if (!key) return nullptr;
  PyObject* found = PyDict_GetItemWithError(heads, key.p);
  if (found || PyErr_Occurred()) return found;
  Ref made(PyObject_CallFunction(make, "n", row));
  if (!made || PyDict_SetItem(heads, key.p, made.p)) return nullptr;
  return PyDict_GetItemWithError(heads, key.p);
}

void memory_line(Text& t, const Rows& r, Py_ssize_t row, int64_t shift, int64_t index) {
  bool on_host = r.at[kDevice][row] <= 0;
  t.micros(r.at[kBegin][row] + shift);
  t.put(",\"args\":{\"Total Reserved\":0,\"Total Allocated\":");
  t.number(r.at[kTotal][row]);
  t.put(",\"Bytes\":");
  t.number(r.at[kValue][row]);
  t.put(",\"Device Id\":");
  t.number(on_host ? -1 : r.at[kUnit][row]);
  t.put(",\"Device Type\":");
  t.number(on_host ? 0 : 1);
  t.put(",\"Addr\":");
  t.number(r.at[kAddress][row]);
  t.put(",\"Ev Idx\":");
  t.number(index);
  t.put("}},\n");
}

bool call_line(Text& t, const Rows& r, Py_ssize_t row, PyObject* head, PyObject* modules, PyObject* extra, int64_t shift,
               int64_t index) {
  int64_t kind = r.at[kKind][row];
  bool is_frame = kind >= static_cast<int64_t>(EventKind::Python) && kind <= static_cast<int64_t>(EventKind::Module);
  t.micros(r.at[kBegin][row] + shift);
  t.put(",\"dur\":");
  t.micros(r.at[kEnd][row] - r.at[kBegin][row]);
  if (is_frame) {
    t.put(",\"args\":{\"Python parent id\":");
    if (r.at[kAround][row] < 0) t.put("null");
    else t.number(r.at[kAround][row]);
    t.put(",\"Python id\":");
    t.number(r.at[kIdentity][row]);
  } else {
    t.put(",\"args\":{\"External id\":");
    t.number(r.at[kIdentity][row]);
    t.put(",\"Record function id\":0");
    if (r.at[kSequence][row] >= 0) {
      t.put(",\"Sequence number\":");
      t.number(r.at[kSequence][row]);
      t.put(",\"Fwd thread id\":");
      t.number(r.at[kForward][row]);
    }
    int64_t module = r.at[kModule][row];
    if (module >= 0 && module < PyList_GET_SIZE(modules)) {
      t.put(",\"Module Hierarchy\":");
      if (!t.bytes(PyList_GET_ITEM(modules, module))) return false;
    }
    if (extra != Py_None) {
      Ref number(PyLong_FromSsize_t(row));
      PyObject* more = number ? PyDict_GetItemWithError(extra, number.p) : nullptr;
      if (more ? !t.bytes(more) : PyErr_Occurred() != nullptr) return false;
    }
  }
  if (!t.bytes(PyTuple_GET_ITEM(head, 1))) return false;
  t.put(",\"Ev Idx\":");
  t.number(index);
  t.put("}},\n");
  return true;
}

// trace_lines(columns, first, last, shift, heads, make_head, modules, extra): `modules` has the JSON of each name,
// `extra` what more an event's arguments hold, by row, or None.
PyObject* trace_lines(PyObject*, PyObject* args) {
  PyObject *columns, *heads, *make, *modules, *extra;
  Py_ssize_t first, last;
  long long shift;
  if (!PyArg_ParseTuple(args, "OnnLO!OO!O", &columns, &first, &last, &shift, &PyDict_Type, &heads, &make, &PyList_Type,
                        &modules, &extra))
    return nullptr;
  Rows r;
  if (!r.take(columns, last)) return nullptr;
  Text t;
  Lately lately;
  t.all.reserve(static_cast<size_t>(last - first) * 256);
  for (Py_ssize_t row = first; row < last; row++) {
    int64_t key[4] = {r.at[kName][row], r.at[kKind][row], r.at[kThread][row], r.at[kInputs][row]};
    Lately::Slot& slot = lately.of(r, row);
    if (!slot.head || memcmp(slot.key, key, sizeof key)) {
      slot.head = head_of(heads, make, r, row);
      memcpy(slot.key, key, sizeof key);
    }
    PyObject* head = slot.head;
    if (!head) return nullptr;
    if (!PyTuple_Check(head) || PyTuple_GET_SIZE(head) != 2)
      return PyErr_SetString(PyExc_TypeError, "trace_lines: a head is a tuple of two"), nullptr;
    if (!t.bytes(PyTuple_GET_ITEM(head, 0))) return nullptr;
    if (r.at[kKind][row] == static_cast<int64_t>(EventKind::Memory)) memory_line(t, r, row, shift, row);
    else if (!call_line(t, r, row, head, modules, extra, shift, row)) return nullptr;
  }
  return PyBytes_FromStringAndSize(t.all.data(), static_cast<Py_ssize_t>(t.all.size()));
}

PyMethodDef functions[] = {{"trace_lines", guarded<trace_lines>, METH_VARARGS, "rows of a recording as lines of a trace"},
                           {}};

}  // namespace

int init_trace_face(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
