// Messages of protocol buffers as lists of Python's values, by a table that says what each field is. A file of ONNX is
// tens of thousands of small fields: read one by one in Python they took a third of the time of loading a model.
// Memory is taken for what the bytes back alone, and every length is held against the end of its message.
#include "wire.h"
#include "boundary.h"

#include <cstring>

namespace rl {

namespace {

enum Kind { kText, kTexts, kWhole, kWholes, kReal, kReals, kMessage, kMessages, kData, kParts, kKinds };

const char* const kCutOff = "this is no protocol buffer, or one that was cut off";
const char* const kNoBytes = "a number stands where a message should";
const char* const kNoWhole = "bytes stand where an integer should";
const char* const kNoReal = "a float of 32 bits is missing";

struct Place {
  Kind kind;
  Py_ssize_t slot;
  PyObject* inner;   // the table of a message in this one
};

struct Reader {
  const unsigned char* bytes;
  PyObject* memory;   // a memoryview of them: parts of tensors are slices
  int deepest;

  PyObject* message(Py_ssize_t at, Py_ssize_t end, PyObject* table, int depth) const;
  bool field(PyObject* found, const Place& place, int wire, uint64_t number, Py_ssize_t at, Py_ssize_t end,
             int depth) const;
  bool integer(Py_ssize_t& at, Py_ssize_t end, uint64_t& found) const;
  bool put(PyObject* found, const Place& place, PyObject* value) const;
  PyObject* repeated(PyObject* found, Py_ssize_t slot) const;
  bool packed(PyObject* list, Kind kind, Py_ssize_t at, Py_ssize_t end) const;
};

bool refuse(const char* why) {
  PyErr_SetString(PyExc_ValueError, why);
  return false;
}

bool Reader::integer(Py_ssize_t& at, Py_ssize_t end, uint64_t& found) const {
  found = 0;
  for (int shift = 0; at < end && shift < 64; shift += 7) {
    const unsigned char byte = bytes[at++];
    found |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return refuse(kCutOff);
}

PyObject* Reader::repeated(PyObject* found, Py_ssize_t slot) const {
  PyObject* list = PyList_GET_ITEM(found, slot);
  if (PyList_Check(list)) return list;
  PyObject* made = PyList_New(0);
  if (made) PyList_SetItem(found, slot, made);
  return made;
}

// Keep a value (whose reference is taken) in its slot, or at the end of the list there.
bool Reader::put(PyObject* found, const Place& place, PyObject* value) const {
  if (!value) return false;
  const Kind k = place.kind;
  if (k != kTexts && k != kWholes && k != kReals && k != kMessages && k != kParts)
    return PyList_SetItem(found, place.slot, value) == 0;
  PyObject* list = repeated(found, place.slot);
  const bool done = list && PyList_Append(list, value) == 0;
  Py_DECREF(value);
  return done;
}

bool Reader::packed(PyObject* list, Kind kind, Py_ssize_t at, Py_ssize_t end) const {
  if (!list) return false;
  if (kind == kReals && (end - at) % 4) return refuse("a list of floats was cut off");
  while (at < end) {
    PyObject* value;
    if (kind == kReals) {
      float real;
      std::memcpy(&real, bytes + at, 4);
      at += 4;
      value = PyFloat_FromDouble(real);
    } else {
      uint64_t number;
      if (!integer(at, end, number)) return false;
      value = PyLong_FromLongLong(static_cast<long long>(number));
    }
    if (!value || PyList_Append(list, value)) {
      Py_XDECREF(value);
      return false;
    }
    Py_DECREF(value);
  }
  return true;
}

// One field: `number` is its value where it is an integer, its bytes lie between `at` and `end` where it is none.
bool Reader::field(PyObject* found, const Place& place, int wire, uint64_t number, Py_ssize_t at, Py_ssize_t end,
                   int depth) const {
  const bool is_bytes = wire == 2 || wire == 1;
  switch (place.kind) {
    case kText:
    case kTexts:   // strings of a file need not be UTF-8: what is not comes back as the same bytes
      if (!is_bytes) return refuse(kNoBytes);
      return put(found, place,
                 PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(bytes + at), end - at, "surrogateescape"));
    case kWhole:
    case kWholes:
      if (place.kind == kWholes && is_bytes) return packed(repeated(found, place.slot), kWholes, at, end);
      if (wire != 0) return refuse(kNoWhole);
      return put(found, place, PyLong_FromLongLong(static_cast<long long>(number)));
    case kReal:
    case kReals:
      if (place.kind == kReals && is_bytes) return packed(repeated(found, place.slot), kReals, at, end);
      if (wire != 5) return refuse(kNoReal);
      float real;
      std::memcpy(&real, bytes + at, 4);
      return put(found, place, PyFloat_FromDouble(real));
    case kMessage:
    case kMessages:
      if (!is_bytes) return refuse(kNoBytes);
      return put(found, place, message(at, end, place.inner, depth + 1));
    default:
      break;
  }
  if (place.kind == kParts && wire == 0) return put(found, place, PyLong_FromUnsignedLongLong(number));
  if (wire == 0 || (wire == 5 && place.kind == kData)) return refuse(kNoBytes);
  return put(found, place, PySequence_GetSlice(memory, at, end));
}

bool place_of(PyObject* table, uint64_t field, Place& place) {
  if (field >= static_cast<uint64_t>(PyTuple_GET_SIZE(table))) return false;
  PyObject* entry = PyTuple_GET_ITEM(table, static_cast<Py_ssize_t>(field));
  if (entry == Py_None) return false;
  place.kind = static_cast<Kind>(PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)));
  place.slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 1));
  place.inner = PyTuple_GET_ITEM(entry, 2);
  return true;
}

PyObject* Reader::message(Py_ssize_t at, Py_ssize_t end, PyObject* holder, int depth) const {
  if (depth > deepest) {
    PyErr_Format(PyExc_ValueError, "messages lie in one another more than %d deep", deepest);
    return nullptr;
  }
  PyObject* table = PyList_GET_ITEM(holder, 1);   // a list around it, so that tables can hold one another
  const Py_ssize_t slots = PyLong_AsSsize_t(PyList_GET_ITEM(holder, 0));
  PyObject* found = PyList_New(slots);
  if (!found) return nullptr;
  for (Py_ssize_t i = 0; i < slots; ++i) PyList_SET_ITEM(found, i, Py_NewRef(Py_None));
  while (at < end) {
    uint64_t tag, number = 0;
    Py_ssize_t from = at, after = at;
    bool is_read = integer(at, end, tag);
    const int wire = static_cast<int>(tag & 7);
    if (is_read && (wire == 0 || wire == 2)) is_read = integer(at, end, number);
    if (is_read) {
      const uint64_t left = static_cast<uint64_t>(end - at);
      const uint64_t length = wire == 2 ? number : wire == 5 ? 4 : wire == 1 ? 8 : wire == 0 ? 0 : left + 1;
      is_read = length <= left || refuse(kCutOff);
      from = at;
      after = is_read ? at + static_cast<Py_ssize_t>(length) : at;
    }
    Place place;
    if (is_read && place_of(table, tag >> 3, place))
      is_read = field(found, place, wire, number, from, after, depth);
    if (!is_read) {
      Py_DECREF(found);
      return nullptr;
    }
    at = after;
  }
  return found;
}

// Whether a table, and those in it, are what `place_of` takes them for. `seen` holds those that were looked at.
bool check_table(PyObject* holder, PyObject* seen) {
  if (!PyList_Check(holder) || PyList_GET_SIZE(holder) != 2 || !PyLong_Check(PyList_GET_ITEM(holder, 0)) ||
      !PyTuple_Check(PyList_GET_ITEM(holder, 1)))
    return false;
  PyObject* key = PyLong_FromVoidPtr(holder);
  if (!key) return false;
  const int known = PySet_Contains(seen, key);
  const int added = known == 0 ? PySet_Add(seen, key) : 0;
  Py_DECREF(key);
  if (known || added) return known == 1;
  const Py_ssize_t slots = PyLong_AsSsize_t(PyList_GET_ITEM(holder, 0));
  PyObject* table = PyList_GET_ITEM(holder, 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(table); ++i) {
    PyObject* entry = PyTuple_GET_ITEM(table, i);
    if (entry == Py_None) continue;
    if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 3 || !PyLong_Check(PyTuple_GET_ITEM(entry, 0)) ||
        !PyLong_Check(PyTuple_GET_ITEM(entry, 1)))
      return false;
    const long kind = PyLong_AsLong(PyTuple_GET_ITEM(entry, 0));
    const Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 1));
    if (kind < 0 || kind >= kKinds || slot < 0 || slot >= slots) return false;
    if ((kind == kMessage || kind == kMessages) && !check_table(PyTuple_GET_ITEM(entry, 2), seen)) return false;
  }
  return true;
}

PyObject* py_read_message(PyObject*, PyObject* args) {
  PyObject *memory, *table;
  int deepest;
  if (!PyArg_ParseTuple(args, "O!O!i", &PyMemoryView_Type, &memory, &PyList_Type, &table, &deepest)) return nullptr;
  PyObject* seen = PySet_New(nullptr);
  if (!seen) return nullptr;
  const bool fits = check_table(table, seen);
  Py_DECREF(seen);
  if (!fits) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "read_message: the table of fields is none");
    return nullptr;
  }
  Py_buffer view;
  if (PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)) return nullptr;
  const Reader reader{static_cast<const unsigned char*>(view.buf), memory, deepest};
  PyObject* found = reader.message(0, view.len, table, 0);
  PyBuffer_Release(&view);
  return found;
}

PyMethodDef functions[] = {
    {"read_message", guarded<py_read_message>, METH_VARARGS,
     "read_message(memory, table, deepest): a message of protocol buffers as a list of values. `table`: how many there"
     " are, and for each field None or its kind, its place and the table of the message that it is"},
    {}};

}  // namespace

int init_wire(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl
