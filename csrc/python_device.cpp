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
constexpr size_t kAddressAlign = 64;      // of memory that a device gives
PyObject* device_failure = nullptr;       // callable(handler, method, error, kernel): the error to raise instead

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

// An error on its way that a method raised, as one that names the device, the method and what it was asked for
// (devices/failures.py); those that stop programs stay as they are.
void explain(PythonDevice* device, PyObject* name, PyObject* kernel = nullptr) {
  if (!device_failure || !PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Ref told(PyObject_CallFunctionObjArgs(device_failure, device->handler, name, value, kernel ? kernel : Py_None, nullptr));
  if (told && PyExceptionInstance_Check(told.p)) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(told.p)), told.p);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    return;
  }
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

// The same as `call`, with errors that say who raised them.
PyObject* ask(PythonDevice* device, PyObject* name, std::initializer_list<PyObject*> given,
              void* kernel = nullptr) {
  PyObject* result = call(device, name, given);
  if (__builtin_expect(!result, 0)) explain(device, name, static_cast<PyObject*>(kernel));
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
    if (full && !PyErr_ExceptionMatches(PyExc_NotImplementedError)) return RUSHLIGHT_OUT_OF_MEMORY;
    explain(self_of(context), names.allocate);
    return RUSHLIGHT_PYTHON_ERROR;
  }
  Ref index(PyNumber_Index(result.p));
  unsigned long long place = index ? PyLong_AsUnsignedLongLong(index.p) : 0;
  if (PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "expected an address of %zu bytes as an int, got %R", nbytes, result.p);
  else if (!place || place % kAddressAlign)
    PyErr_Format(PyExc_ValueError, "expected an address that is a multiple of %d and not 0, got %R",
                 static_cast<int>(kAddressAlign), result.p);
  if (PyErr_Occurred()) return explain(self_of(context), names.allocate), RUSHLIGHT_PYTHON_ERROR;
  *address = reinterpret_cast<void*>(place);
  return RUSHLIGHT_OK;
}

int release(void* context, int unit, void* address, size_t nbytes) {
  Locked lock;
  return status_of(
      ask(self_of(context), names.free, {number(address), PyLong_FromSize_t(nbytes), PyLong_FromLong(unit)}));
}

int copy(void* context, int unit, void* stream, int way, void* target, const void* source, size_t nbytes) {
  auto* device = self_of(context);
  PyObject* name = way == RUSHLIGHT_FROM_HOST ? names.copy_from_host
                   : way == RUSHLIGHT_TO_HOST ? names.copy_to_host
                                              : names.copy_within;
  PyObject *to = number(target), *from = number(const_cast<void*>(source)), *count = PyLong_FromSize_t(nbytes),
           *index = PyLong_FromLong(unit);
  return status_of(device->has_streams ? ask(device, name, {to, from, count, index, number(stream)})
                                       : ask(device, name, {to, from, count, index}));
}

int copy_between(void* context, int unit, void* stream, void* target, int source_unit, const void* source,
                 size_t nbytes) {
  auto* device = self_of(context);
  PyObject *to = number(target), *from = number(const_cast<void*>(source)), *count = PyLong_FromSize_t(nbytes);
  PyObject *index = PyLong_FromLong(unit), *source_index = PyLong_FromLong(source_unit);
  return status_of(device->has_streams
                       ? ask(device, names.copy_between, {to, from, count, index, source_index, number(stream)})
                       : ask(device, names.copy_between, {to, from, count, index, source_index}));
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

// The kernel as `load` returned it: an int is kept as a capsule (kernel_handle in device.cpp).
PyObject* handle_of(PyObject* kernel) {
  if (!PyCapsule_IsValid(kernel, "rushlight.kernel")) return Py_NewRef(kernel);
  return PyLong_FromVoidPtr(PyCapsule_GetPointer(kernel, "rushlight.kernel"));
}

int launch(void* context, int unit, void* stream, const RushlightLaunch* what) {
  auto* device = self_of(context);
  PyObject *handle = handle_of(static_cast<PyObject*>(what->kernel)), *operands = operand_tuple(*what),
           *index = PyLong_FromLong(unit);
  if (what->ndim < 0) {
    PyObject *params = tuple_of(what->params, what->num_params), *begin = PyLong_FromLongLong(what->begin),
             *end = PyLong_FromLongLong(what->end);
    return status_of(device->has_streams
                         ? ask(device, names.launch, {handle, operands, params, begin, end, index, number(stream)}, what->kernel)
                         : ask(device, names.launch, {handle, operands, params, begin, end, index}, what->kernel));
  }
  PyObject *sizes = tuple_of(what->sizes, what->ndim), *strides = PyTuple_New(what->num_operands);
  for (int i = 0; strides && i < what->num_operands; i++)
    PyTuple_SET_ITEM(strides, i, tuple_of(what->strides + i * what->pitch, what->ndim));
  return status_of(device->has_streams
                       ? ask(device, names.launch_pointwise, {handle, operands, sizes, strides, index, number(stream)}, what->kernel)
                       : ask(device, names.launch_pointwise, {handle, operands, sizes, strides, index}, what->kernel));
}

// --- streams; the lock is held when these are called, but for `forget`
// ----------------------------------------------------

int synchronize(void* context, int unit, void* stream) {
  auto* device = self_of(context);
  return status_of(device->has_streams ? ask(device, names.synchronize, {PyLong_FromLong(unit), number(stream)})
                                       : ask(device, names.synchronize, {PyLong_FromLong(unit)}));
}

int new_stream(void* context, int unit, int priority, void** stream) {
  Ref result(ask(self_of(context), names.new_stream, {PyLong_FromLong(unit), PyLong_FromLong(priority)}));
  if (!result) return RUSHLIGHT_PYTHON_ERROR;
  *stream = PyLong_AsVoidPtr(result.p);
  if (PyErr_Occurred()) explain(self_of(context), names.new_stream);
  return PyErr_Occurred() ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

int record(void* context, int unit, void* stream, void** event) {
  *event = ask(self_of(context), names.record, {PyLong_FromLong(unit), number(stream)});
  return *event ? RUSHLIGHT_OK : RUSHLIGHT_PYTHON_ERROR;
}

PyObject* event_object(void* event) { return Py_NewRef(static_cast<PyObject*>(event)); }

int wait(void* context, int unit, void* stream, void* event) {
  return status_of(ask(self_of(context), names.wait, {event_object(event), PyLong_FromLong(unit), number(stream)}));
}

int finish(void* context, int, void* event) {
  return status_of(ask(self_of(context), names.finish, {event_object(event)}));
}

int query(void* context, int, void* event, int* reached) {
  Ref answer(ask(self_of(context), names.query, {event_object(event)}));
  *reached = answer ? PyObject_IsTrue(answer.p) : -1;
  return *reached < 0 ? RUSHLIGHT_PYTHON_ERROR : RUSHLIGHT_OK;
}

int forget(void*, int, void* event) {
  Locked lock;
  Py_DECREF(static_cast<PyObject*>(event));
  return RUSHLIGHT_OK;
}

int elapsed(void* context, int, void* start, void* end, double* milliseconds) {
  Ref answer(ask(self_of(context), names.elapsed, {event_object(start), event_object(end)}));
  *milliseconds = answer ? PyFloat_AsDouble(answer.p) : -1;
  if (answer && PyErr_Occurred()) explain(self_of(context), names.elapsed);
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

PyObject* py_set_device_failure(PyObject*, PyObject* callable) {
  Py_XSETREF(device_failure, Py_NewRef(callable));
  Py_RETURN_NONE;
}

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
