// See recording.h. The words of a call: the overload's address; each argument; how many results, and each of them.
//   a tensor         tag | dtype << 8 | ndim << 16 | bits << 32, number of its storage, offset, sizes, strides
//   numbers          the tag alone: their values stand in `objects`, so that calls with others are the same words
//   integers, lists  tag | length << 8, the integers
//   anything else    the tag, a hash; the object stands in `objects`
#include "recording.h"

#include <unordered_map>

#include "boundary.h"
#include "roles.h"

namespace rl {

struct Recording {
  PyObject_HEAD
  uint8_t device;
  int64_t calls;
  std::vector<int64_t>* words;
  std::vector<Storage*>* storages;     // by number; null: nobody has it any more
  std::vector<int64_t>* homes;         // by number: how many bytes, and whether it held a value when it was first named
  std::vector<PyObject*>* objects;     // strong
  std::vector<PyObject*>* values;      // strong; by number, null where there was none
};

namespace {

PyTypeObject* RecordingType;

enum Word : int64_t { kNone = 1, kTensor, kHost, kNumber, kInt, kInts, kList, kObject, kAbsent };

// What a storage of a recording device has for memory.
struct Cell {
  Recording* home = nullptr;   // strong: where it has a number
  int64_t number = -1;
  PyObject* value = nullptr;   // strong: what an engine computed for it
};

void leave_home(Cell* cell) {
  if (!cell->home) return;
  (*cell->home->storages)[cell->number] = nullptr;
  PyObject* home = as_object(cell->home);
  cell->home = nullptr, cell->number = -1;
  Py_DECREF(home);
}

void release_cell(Storage* s) {
  auto* cell = static_cast<Cell*>(s->context);
  PyGILState_STATE lock = PyGILState_Ensure();
  leave_home(cell);
  Py_XDECREF(cell->value);
  PyGILState_Release(lock);
  delete cell;
}

Cell* cell_of(Storage* s) {
  if (!s->context) s->context = new Cell, s->release = release_cell;
  return static_cast<Cell*>(s->context);
}

thread_local std::unordered_map<int, PyObject*> recordings;   // of this thread, by device; strong

Recording* current(uint8_t device) {
  PyObject*& found = recordings[device];
  if (!found) {
    found = RecordingType->tp_alloc(RecordingType, 0);
    if (!found) return nullptr;
    auto* r = reinterpret_cast<Recording*>(found);
    r->device = device, r->calls = 0;
    r->words = new std::vector<int64_t>, r->storages = new std::vector<Storage*>, r->homes = new std::vector<int64_t>;
    r->objects = new std::vector<PyObject*>, r->values = new std::vector<PyObject*>;
  }
  return reinterpret_cast<Recording*>(found);
}

// The storage's number. What another thread wrote down about it is run first; -1 with an exception set.
int64_t number_of(Recording* r, Storage* s) {
  Cell* cell = cell_of(s);
  if (cell->home == r) return cell->number;
  if (cell->home) {
    Ref settled(PyObject_CallMethod(kDevices[r->device].handler, "settle", "O", as_object(cell->home)));
    if (!settled) return -1;
    leave_home(cell);
  }
  cell->home = reinterpret_cast<Recording*>(Py_NewRef(as_object(r)));
  cell->number = static_cast<int64_t>(r->storages->size());
  r->storages->push_back(s);
  r->homes->push_back(static_cast<int64_t>(s->nbytes) * 2 + (cell->value != nullptr));
  r->values->push_back(Py_XNewRef(cell->value));
  return cell->number;
}

void add_geometry(Recording* r, Tensor* t, int64_t tag, int64_t number) {
  auto& w = *r->words;
  w.push_back(tag | static_cast<int64_t>(t->dtype) << 8 | static_cast<int64_t>(t->ndim) << 16 |
              static_cast<int64_t>((t->flags & kWrappedNumber) != 0) << 24 |
              static_cast<int64_t>(t->keys & kKeyBits) << 32);
  w.push_back(number), w.push_back(t->offset);
  w.insert(w.end(), t->geometry, t->geometry + 2 * t->ndim);
}

bool add_object(Recording* r, PyObject* o, int64_t tag, bool hashed) {
  if (hashed) {
    Py_hash_t hash = PyObject_Hash(o);
    if (hash == -1) PyErr_Clear(), hash = static_cast<Py_hash_t>(reinterpret_cast<intptr_t>(o));
    r->words->push_back(tag), r->words->push_back(hash);
  } else {
    r->words->push_back(tag);
  }
  r->objects->push_back(Py_NewRef(o));
  return true;
}

bool add_tensor(Recording* r, PyObject* o) {
  Tensor* t = as_tensor(o);
  if (t->device.type == r->device) {
    int64_t number = number_of(r, t->storage);
    if (number < 0) return false;
    add_geometry(r, t, kTensor, number);
    return true;
  }
  // On the host: its elements as they are now. What lies elsewhere was refused before.
  Ref copy(call_role(Role::Detach, o));
  if (copy && t->device.type != kMeta) copy = Ref(call_role(Role::Copy, copy.p));
  if (!copy) return false;
  add_geometry(r, as_tensor(copy.p), kHost, 0);
  r->objects->push_back(copy.release());
  return true;
}

bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o); }

bool add_value(Recording* r, PyObject* o, bool scalar);

bool add_items(Recording* r, PyObject* o) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  bool ints = true;
  for (Py_ssize_t i = 0; ints && i < n; i++) ints = PyLong_CheckExact(items[i]);
  auto& w = *r->words;
  w.push_back((ints ? kInts : kList) | static_cast<int64_t>(n) << 8);
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!ints) {
      if (!add_value(r, items[i], true)) return false;
      continue;
    }
    w.push_back(PyLong_AsLongLong(items[i]));
    if (w.back() == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

// `scalar`: a number here is data of the call, not its structure.
bool add_value(Recording* r, PyObject* o, bool scalar) {
  if (is_tensor(o)) return add_tensor(r, o);
  if (o == Py_None) return r->words->push_back(kNone), true;
  if (PyTuple_Check(o) || PyList_Check(o)) return add_items(r, o);
  if (scalar && is_number(o)) return add_object(r, o, kNumber, false);
  if (PyLong_CheckExact(o)) {
    int overflow;
    int64_t v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return r->words->push_back(kInt), r->words->push_back(v), true;
  }
  return add_object(r, o, kObject, true);
}

bool holds_numbers(ParamType t) {
  return t == ParamType::TensorOrScalar || t == ParamType::OptTensorOrScalar || t == ParamType::Scalar ||
         t == ParamType::OptScalar || t == ParamType::Float || t == ParamType::OptFloat;
}

bool record_in(Recording* r, Overload* op, PyObject* const* args, PyObject* result) {
  size_t words = r->words->size(), objects = r->objects->size();
  r->words->push_back(reinterpret_cast<int64_t>(op));
  bool ok = true;
  for (size_t i = 0; ok && i < op->params->size(); i++)
    ok = add_value(r, args[i], holds_numbers((*op->params)[i].type));
  if (ok && (PyTuple_Check(result) || PyList_Check(result))) ok = add_items(r, result);
  else if (ok) ok = add_value(r, result, false);
  if (ok) return r->calls++, true;
  r->words->resize(words);      // a call that cannot be written down leaves no trace
  for (size_t k = objects; k < r->objects->size(); k++) Py_DECREF((*r->objects)[k]);
  r->objects->resize(objects);
  return false;
}

uint8_t recorded_type(PyObject* o) {
  if (is_tensor(o)) return is_recorded(as_tensor(o)->device) ? as_tensor(o)->device.type : 0;
  if (PyTuple_Check(o) || PyList_Check(o))
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
      if (uint8_t type = recorded_type(PySequence_Fast_ITEMS(o)[i])) return type;
  return 0;
}

}  // namespace

bool record_call(Overload* op, PyObject** args, PyObject* result) {
  if (op->is_view) return true;      // the tensors themselves say what they see of their storage
  uint8_t type = recorded_type(result);
  for (size_t i = 0; !type && i < op->params->size(); i++) type = recorded_type(args[i]);   // it only writes
  Recording* r = type ? current(type) : nullptr;
  if (!type) return true;
  return r && record_in(r, op, args, result);
}

PyObject* planned_arguments(PyObject* args) {
  if (is_tensor(args)) {
    Tensor* t = as_tensor(args);
    if (!is_recorded(t->device)) return Py_NewRef(args);
    Tensor* meta = tensor_empty(t->sizes(), t->strides(), t->ndim, t->dtype, Device{kMeta, 0});
    if (meta) meta->keys |= t->keys & kKeyBits, meta->flags |= t->flags & kWrappedNumber;
    return as_object(meta);
  }
  if (is_device(args)) {
    Device d = reinterpret_cast<DeviceObject*>(args)->device;
    return is_recorded(d) ? device_object(Device{kMeta, 0}) : Py_NewRef(args);
  }
  if (!PyTuple_CheckExact(args) && !PyList_CheckExact(args)) return Py_NewRef(args);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(args);
  Ref made(PyTuple_CheckExact(args) ? PyTuple_New(n) : PyList_New(n));
  for (Py_ssize_t i = 0; made && i < n; i++) {
    PyObject* item = planned_arguments(PySequence_Fast_ITEMS(args)[i]);
    if (!item) return nullptr;
    if (PyTuple_Check(made.p)) PyTuple_SET_ITEM(made.p, i, item);
    else PyList_SET_ITEM(made.p, i, item);
  }
  return made.release();
}

// --- the Python face -------------------------------------------------------------------------------------------------

namespace {

void drop_all(std::vector<PyObject*>& objects) {
  std::vector<PyObject*> old;
  old.swap(objects);
  for (PyObject* o : old) Py_XDECREF(o);
}

void clear(Recording* r) {
  std::vector<Storage*> storages;
  storages.swap(*r->storages);
  r->words->clear(), r->homes->clear(), r->calls = 0;
  for (Storage* s : storages)
    if (s) {
      auto* cell = static_cast<Cell*>(s->context);
      cell->home = nullptr, cell->number = -1;
      Py_DECREF(as_object(r));
    }
  drop_all(*r->objects), drop_all(*r->values);
}

void recording_dealloc(PyObject* self) {
  auto* r = reinterpret_cast<Recording*>(self);
  if (r->words) {
    drop_all(*r->objects), drop_all(*r->values);
    delete r->words, delete r->storages, delete r->homes, delete r->objects, delete r->values;
  }
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* bytes_of(const std::vector<int64_t>& words) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words.data()),
                                   static_cast<Py_ssize_t>(words.size() * sizeof(int64_t)));
}

PyObject* list_of(const std::vector<PyObject*>& objects) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(objects.size()));
  for (size_t i = 0; list && i < objects.size(); i++)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Py_NewRef(objects[i] ? objects[i] : Py_None));
  return list;
}

// state(): (words, homes, alive, objects, values), all as they are now; `alive` has a byte for each storage.
PyObject* recording_state(PyObject* self, PyObject*) {
  auto* r = reinterpret_cast<Recording*>(self);
  Ref words(bytes_of(*r->words)), homes(bytes_of(*r->homes)), objects(list_of(*r->objects)), values(list_of(*r->values));
  Ref alive(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(r->storages->size())));
  if (!words || !homes || !alive || !objects || !values) return nullptr;
  for (size_t i = 0; i < r->storages->size(); i++) PyBytes_AS_STRING(alive.p)[i] = (*r->storages)[i] != nullptr;
  return Py_BuildValue("(OOOOO)", words.p, homes.p, alive.p, objects.p, values.p);
}

// finish(numbers, values): the storages have these values now, and nothing is written down any more.
PyObject* recording_finish(PyObject* self, PyObject* args) {
  auto* r = reinterpret_cast<Recording*>(self);
  PyObject *numbers, *values;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &numbers, &PyList_Type, &values)) return nullptr;
  Py_ssize_t n = PyTuple_GET_SIZE(numbers);
  if (PyList_GET_SIZE(values) != n)
    return PyErr_Format(PyExc_ValueError, "finish: %zd numbers and %zd values", n, PyList_GET_SIZE(values)), nullptr;
  for (Py_ssize_t i = 0; i < n; i++) {
    int64_t number = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i));
    if (number < 0 || number >= static_cast<int64_t>(r->storages->size()))
      return PyErr_SetString(PyExc_IndexError, "finish: no such storage"), nullptr;
    Storage* s = (*r->storages)[number];
    if (!s) continue;       // it died while its value was computed
    auto* cell = static_cast<Cell*>(s->context);
    PyObject* old = cell->value;
    cell->value = Py_NewRef(PyList_GET_ITEM(values, i));
    Py_XDECREF(old);
  }
  Ref self_held = Ref::borrow(self);
  clear(r);
  Py_RETURN_NONE;
}

PyObject* recording_calls(PyObject* self, void*) {
  return PyLong_FromLongLong(reinterpret_cast<Recording*>(self)->calls);
}

PyMethodDef recording_methods[] = {
    {"state", guarded<recording_state>, METH_NOARGS,
     "(words, homes, alive, objects, values): the calls as they are written down"},
    {"finish", guarded<recording_finish>, METH_VARARGS,
     "finish(numbers, values): storages have these values; nothing is written down any more"},
    {}};
PyGetSetDef recording_getset[] = {{"calls", recording_calls, nullptr, "how many calls are written down", nullptr}, {}};

PyObject* py_recording(PyObject*, PyObject* device) {
  Device d;
  if (!parse_device(device, &d)) return nullptr;
  if (!is_recorded(d)) return PyErr_Format(PyExc_ValueError, "recording: device %R records nothing", device), nullptr;
  return Py_XNewRef(as_object(current(d.type)));
}

Cell* checked_cell(PyObject* o) {
  if (!is_tensor(o) || !is_recorded(as_tensor(o)->device))
    return PyErr_SetString(PyExc_TypeError, "expected a tensor of a recording device"), nullptr;
  return cell_of(as_tensor(o)->storage);
}

// stored_value(tensor): what an engine computed for its storage; None where there is nothing yet.
PyObject* py_stored_value(PyObject*, PyObject* o) {
  Cell* cell = checked_cell(o);
  if (!cell) return nullptr;
  return Py_NewRef(cell->value && !cell->home ? cell->value : Py_None);
}

// set_stored_value(tensor, value): from here on its storage is this, whatever was written down about it.
PyObject* py_set_stored_value(PyObject*, PyObject* args) {
  PyObject *o, *value;
  if (!PyArg_ParseTuple(args, "OO", &o, &value)) return nullptr;
  Cell* cell = checked_cell(o);
  if (!cell) return nullptr;
  leave_home(cell);
  PyObject* old = cell->value;
  cell->value = Py_NewRef(value);
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

// recorded_at(tensor): (recording, number) of its storage, or None.
PyObject* py_recorded_at(PyObject*, PyObject* o) {
  Cell* cell = checked_cell(o);
  if (!cell) return nullptr;
  if (!cell->home) Py_RETURN_NONE;
  return Py_BuildValue("(OL)", as_object(cell->home), static_cast<long long>(cell->number));
}

// record(overload, args, results): a call that Python made out.
PyObject* py_record(PyObject*, PyObject* args) {
  PyObject *overload, *given, *result;
  if (!PyArg_ParseTuple(args, "O!O!O", OverloadType, &overload, &PyTuple_Type, &given, &result)) return nullptr;
  auto* op = reinterpret_cast<Overload*>(overload);
  if (static_cast<size_t>(PyTuple_GET_SIZE(given)) != op->params->size())
    return PyErr_Format(PyExc_TypeError, "record: %U has %zu parameters, got %zd arguments", op->name,
                        op->params->size(), PyTuple_GET_SIZE(given)),
           nullptr;
  if (!record_call(op, PySequence_Fast_ITEMS(given), result)) return nullptr;
  Py_RETURN_NONE;
}

// record_device(name): calls on a registered device are written down from now on, and its tensors have no memory.
PyObject* py_record_device(PyObject*, PyObject* name) {
  Device d;
  if (!parse_device(name, &d)) return nullptr;
  if (!kDevices[d.type].handler) return PyErr_Format(PyExc_RuntimeError, "record_device: %R is not registered", name);
  kDevices[d.type].records = true, kDevices[d.type].has_data = false;
  Py_RETURN_NONE;
}

PyObject* py_records(PyObject*, PyObject* device) {
  Device d;
  if (!parse_device(device, &d)) return nullptr;
  return PyBool_FromLong(is_recorded(d));
}

PyObject* py_overload_at(PyObject*, PyObject* address) {
  int64_t word = PyLong_AsLongLong(address);
  if (word == -1 && PyErr_Occurred()) return nullptr;
  return Py_NewRef(reinterpret_cast<PyObject*>(word));     // overloads live as long as the process
}

PyMethodDef functions[] = {
    {"recording", guarded<py_recording>, METH_O, "recording(device): what this thread wrote down for a device"},
    {"stored_value", guarded<py_stored_value>, METH_O,
     "stored_value(tensor): what an engine computed for its storage, or None"},
    {"set_stored_value", guarded<py_set_stored_value>, METH_VARARGS,
     "set_stored_value(tensor, value): what its storage is from here on"},
    {"recorded_at", guarded<py_recorded_at>, METH_O, "recorded_at(tensor): (recording, number) of its storage, or None"},
    {"record", guarded<py_record>, METH_VARARGS, "record(overload, args, results): write a call down"},
    {"record_device", guarded<py_record_device>, METH_O,
     "record_device(name): write calls on a registered device down instead of running them"},
    {"records", guarded<py_records>, METH_O, "records(device): whether calls on it are written down"},
    {"overload_at", guarded<py_overload_at>, METH_O, "the overload that a word of a recording names"},
    {}};

}  // namespace

int init_recording(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(recording_dealloc)},
                                {Py_tp_methods, recording_methods},
                                {Py_tp_getset, recording_getset},
                                {Py_tp_doc, const_cast<char*>("Calls of one thread that were written down.")},
                                {0, nullptr}};
  static PyType_Spec spec = {"rushlight._C.Recording", sizeof(Recording), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  RecordingType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!RecordingType) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
