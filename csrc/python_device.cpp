// The table of a device written in Python: each function calls a method of the object, found by an interned name and
// called without packing its arguments. A device that says `streams = True` queues its work, and is told the stream as
// well.
#include <initializer_list>

#include "device.h"

namespace rl {

namespace {

struct Names {
  PyObject *allocate, *free, *copy_from_host, *copy_to_host, *copy_within, *copy_between, *launch, *launch_pointwise,
      *synchronize, *new_stream, *record, *wait, *finish, *query, *elapsed;
} names;

struct PythonDevice {
  RushlightDevice table;
  PyObject* handler;      // strong
  bool has_streams;
};

PythonDevice* self_of(void* context) { return static_cast<PythonDevice*>(context); }

// For functions that are called from anywhere: the lock, and whatever exception was on its way kept aside.
class Locked {
 public:
  Locked() : state_(PyGILState_Ensure()) { PyErr_Fetch(&type_, &value_, &trace_); }
  ~Locked() {
    if (PyErr_Occurred()) PyErr_WriteUnraisable(nullptr);
    PyErr_Restore(type_, value_, trace_);
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_;
  PyObject *type_, *value_, *trace_;
};

PyObject* number(void* address) { return PyLong_FromVoidPtr(address); }

constexpr int kMostArguments = 8;

// Calls a method and lets go of the arguments, which are new references (null where making one failed).
PyObject* call(PythonDevice* device, PyObject* name, std::initializer_list<PyObject*> given) {
  PyObject* args[kMostArguments + 1] = {device->handler};
  size_t n = 1;
  bool whole = true;
  for (PyObject* o : given) whole &= (args[n++] = o) != nullptr;
  PyObject* result =
      whole ? PyObject_VectorcallMethod(name, args, n | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr) : nullptr;
  for (size_t i = 1; i < n; i++) Py_XDECREF(args[i]);
  return result;
}

int status_of(PyObject* result) {
  if (!result) return RUSHLIGHT_PYTHON_ERROR;
  Py_DECREF(result);
  return RUSHLIGHT_OK;
}

// --- memory
// -----------------------------------------------------------------------------------------------------------

int allocate(void* context, int unit, size_t nbytes, void** address) {
  Ref result(call(self_of(context), names.allocate, {PyLong_FromSize_t(nbytes), PyLong_FromLong(unit)}));
  if (!result) {
    // Devices say that they are full in one of these; the allocator makes room and asks again before it is an error.
    bool full = PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_RuntimeError);
    return full && !PyErr_ExceptionMatches(PyExc_NotImplementedError) ? RUSHLIGHT_OUT_OF_MEMORY
                                                                      : RUSHLIGHT_PYTHON_ERROR;
  }
  *address = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(result.p));
  return PyErr_Occurred() ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

int release(void* context, int unit, void* address, size_t nbytes) {
  Locked lock;
  return status_of(
      call(self_of(context), names.free, {number(address), PyLong_FromSize_t(nbytes), PyLong_FromLong(unit)}));
}

int copy(void* context, int unit, void* stream, int way, void* target, const void* source, size_t nbytes) {
  auto* device = self_of(context);
  PyObject* name = way == RUSHLIGHT_FROM_HOST ? names.copy_from_host
                   : way == RUSHLIGHT_TO_HOST ? names.copy_to_host
                                              : names.copy_within;
  PyObject *to = number(target), *from = number(const_cast<void*>(source)), *count = PyLong_FromSize_t(nbytes),
           *index = PyLong_FromLong(unit);
  return status_of(device->has_streams ? call(device, name, {to, from, count, index, number(stream)})
                                       : call(device, name, {to, from, count, index}));
}

int copy_between(void* context, int unit, void* stream, void* target, int source_unit, const void* source,
                 size_t nbytes) {
  auto* device = self_of(context);
  PyObject *to = number(target), *from = number(const_cast<void*>(source)), *count = PyLong_FromSize_t(nbytes);
  PyObject *index = PyLong_FromLong(unit), *source_index = PyLong_FromLong(source_unit);
  return status_of(device->has_streams
                       ? call(device, names.copy_between, {to, from, count, index, source_index, number(stream)})
                       : call(device, names.copy_between, {to, from, count, index, source_index}));
}

// --- kernels
// ----------------------------------------------------------------------------------------------------------

PyObject* tuple_of(const int64_t* values, int n) {
  PyObject* tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(values[i]));
  return tuple;
}

PyObject* operand_tuple(const RushlightLaunch& launch) {
  PyObject* tuple = PyTuple_New(launch.num_operands);
  for (int i = 0; tuple && i < launch.num_operands; i++) {
    int bytes = launch.constant_bytes[i];
    PyTuple_SET_ITEM(tuple, i,
                     bytes ? PyBytes_FromStringAndSize(static_cast<const char*>(launch.operands[i]), bytes)
                           : number(launch.operands[i]));
  }
  return tuple;
}

int launch(void* context, int unit, void* stream, const RushlightLaunch* what) {
  auto* device = self_of(context);
  PyObject *handle = Py_NewRef(static_cast<PyObject*>(what->kernel)), *operands = operand_tuple(*what),
           *index = PyLong_FromLong(unit);
  if (what->ndim < 0) {
    PyObject *params = tuple_of(what->params, what->num_params), *begin = PyLong_FromLongLong(what->begin),
             *end = PyLong_FromLongLong(what->end);
    return status_of(device->has_streams
                         ? call(device, names.launch, {handle, operands, params, begin, end, index, number(stream)})
                         : call(device, names.launch, {handle, operands, params, begin, end, index}));
  }
  PyObject *sizes = tuple_of(what->sizes, what->ndim), *strides = PyTuple_New(what->num_operands);
  for (int i = 0; strides && i < what->num_operands; i++)
    PyTuple_SET_ITEM(strides, i, tuple_of(what->strides + i * what->pitch, what->ndim));
  return status_of(device->has_streams
                       ? call(device, names.launch_pointwise, {handle, operands, sizes, strides, index, number(stream)})
                       : call(device, names.launch_pointwise, {handle, operands, sizes, strides, index}));
}

// --- streams; the lock is held when these are called, but for `forget`
// ----------------------------------------------------

int synchronize(void* context, int unit, void* stream) {
  auto* device = self_of(context);
  return status_of(device->has_streams ? call(device, names.synchronize, {PyLong_FromLong(unit), number(stream)})
                                       : call(device, names.synchronize, {PyLong_FromLong(unit)}));
}

int new_stream(void* context, int unit, int priority, void** stream) {
  Ref result(call(self_of(context), names.new_stream, {PyLong_FromLong(unit), PyLong_FromLong(priority)}));
  if (!result) return RUSHLIGHT_PYTHON_ERROR;
  *stream = PyLong_AsVoidPtr(result.p);
  return PyErr_Occurred() ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

int record(void* context, int unit, void* stream, void** event) {
  *event = call(self_of(context), names.record, {PyLong_FromLong(unit), number(stream)});
  return *event ? RUSHLIGHT_OK : RUSHLIGHT_PYTHON_ERROR;
}

PyObject* event_object(void* event) { return Py_NewRef(static_cast<PyObject*>(event)); }

int wait(void* context, int unit, void* stream, void* event) {
  return status_of(call(self_of(context), names.wait, {event_object(event), PyLong_FromLong(unit), number(stream)}));
}

int finish(void* context, int, void* event) {
  return status_of(call(self_of(context), names.finish, {event_object(event)}));
}

int query(void* context, int, void* event, int* reached) {
  Ref answer(call(self_of(context), names.query, {event_object(event)}));
  *reached = answer ? PyObject_IsTrue(answer.p) : -1;
  return *reached < 0 ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

int forget(void*, int, void* event) {
  Locked lock;
  Py_DECREF(static_cast<PyObject*>(event));
  return RUSHLIGHT_OK;
}

int elapsed(void* context, int, void* start, void* end, double* milliseconds) {
  Ref answer(call(self_of(context), names.elapsed, {event_object(start), event_object(end)}));
  *milliseconds = answer ? PyFloat_AsDouble(answer.p) : -1;
  return PyErr_Occurred() ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

bool make_names() {
  if (names.elapsed) return true;
  struct { PyObject** place; const char* text;
  } all[] = {{&names.allocate, "allocate"},
             {&names.free, "free"},
             {&names.copy_from_host, "copy_from_host"},
             {&names.copy_to_host, "copy_to_host"},
             {&names.copy_within, "copy_within"},
             {&names.copy_between, "copy_between"},
             {&names.launch, "launch"},
             {&names.launch_pointwise, "launch_pointwise"},
             {&names.synchronize, "synchronize"},
             {&names.new_stream, "new_stream"},
             {&names.record, "record"},
             {&names.wait, "wait"},
             {&names.finish, "finish"},
             {&names.query, "query"},
             {&names.elapsed, "elapsed"}};
  for (auto& entry : all)
    if (!(*entry.place = PyUnicode_InternFromString(entry.text))) return false;
  return true;
}

// Whether the object has a method of that name: the class of all devices says None where one may be left out.
int provides(PyObject* handler, const char* name) {
  Ref method(PyObject_GetAttrString(handler, name));
  if (!method) PyErr_Clear();
  return method && method.p != Py_None;
}

}  // namespace

const RushlightDevice* python_device_table(PyObject* handler) {
  if (!make_names()) return nullptr;
  Ref streams(PyObject_GetAttrString(handler, "streams"));
  if (!streams) PyErr_Clear();
  int has_streams = streams ? PyObject_IsTrue(streams.p) : 0;
  if (has_streams < 0) return nullptr;
  auto* device = new PythonDevice{};
  device->handler = Py_NewRef(handler);
  device->has_streams = has_streams;
  device->table = {RUSHLIGHT_DEVICE_VERSION,
                   static_cast<uint32_t>(provides(handler, "launch_pointwise")),
                   device,
                   allocate,
                   release,
                   copy,
                   launch,
                   synchronize,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr};
  if (has_streams) {
    device->table.new_stream = new_stream, device->table.record = record, device->table.wait = wait,
    device->table.finish = finish;
    device->table.query = query, device->table.forget = forget, device->table.elapsed = elapsed;
  }
  if (provides(handler, "copy_between")) device->table.copy_between = copy_between;
  return &device->table;
}

}  // namespace rl
