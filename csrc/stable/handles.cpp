// References that cross the boundary, and the last error of each thread.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "stable.h"

namespace rl::stable {

Core core;
PyObject* hooks = nullptr;

// --- references -----------------------------------------------------------------------------------------------------

// The oldest free one is taken first: a mistake with an ended handle is then most likely still seen as one.
constexpr int kChunk = 1024;
struct Chunk {
  Handle handles[kChunk];
  Chunk* next;
};
static Chunk* chunks = nullptr;
static Handle *first_free = nullptr, *last_free = nullptr;
static int64_t living = 0;

static void add_free(Handle* handle) {
  *handle = {kFreeHandle, nullptr, nullptr};
  (last_free ? last_free->next : first_free) = handle;
  last_free = handle;
}

Handle* new_handle(PyObject* object, uint32_t mark) {
  if (!first_free) {
    auto* chunk = static_cast<Chunk*>(malloc(sizeof(Chunk)));
    if (!chunk) return PyErr_NoMemory(), nullptr;
    chunk->next = chunks;
    chunks = chunk;
    for (Handle& one : chunk->handles) add_free(&one);
  }
  Handle* taken = first_free;
  first_free = taken->next;
  if (!first_free) last_free = nullptr;
  Py_XINCREF(object);
  *taken = {mark, object, nullptr};
  living++;
  return taken;
}

void end_handle(Handle* handle) {
  PyObject* object = handle->object;
  add_free(handle);
  living--;
  Py_XDECREF(object);
}

bool is_known(const Handle* handle) {
  auto address = reinterpret_cast<uintptr_t>(handle);
  for (Chunk* chunk = chunks; chunk; chunk = chunk->next) {
    auto begin = reinterpret_cast<uintptr_t>(chunk->handles);
    if (address >= begin && address < begin + sizeof(chunk->handles)) return (address - begin) % sizeof(Handle) == 0;
  }
  return false;
}

int64_t live_handles() { return living + living_values.load(std::memory_order_relaxed); }

PyObject* object_behind(Handle* handle, const char* function) {
  if (!handle) return fail("%s: the handle is null", function), nullptr;
  if (handle->mark != kLiveTensor && handle->mark != kLiveObject)
    return fail("%s: the handle was deleted, or never was one", function), nullptr;
  return handle->object ? handle->object : Py_None;
}

Tensor* tensor_behind(Handle* handle, const char* function) {
  PyObject* object = object_behind(handle, function);
  if (!object) return nullptr;
  if (object == Py_None) return fail("%s: the tensor is undefined", function), nullptr;
  if (handle->mark != kLiveTensor) return fail("%s: the handle is no tensor's", function), nullptr;
  return as_tensor(object);
}

// --- errors ---------------------------------------------------------------------------------------------------------

struct LastError {
  char* text = nullptr;
  PyObject* cause = nullptr;     // an exception of Python's; the lock is needed to touch it
  PyObject* later = nullptr;
};
static thread_local LastError last;

static void say(char* text) {
  free(last.text);
  last.text = text;
}

int fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  char text[512];
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  say(strdup(text));
  return 1;
}

static PyObject* raised() {      // the exception that is set, taken off
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

int fail_python() {
  PyObject* exception = raised();
  if (!exception) return fail("an error that left no exception");
  Ref words(PyObject_Str(exception));
  const char* text = words ? PyUnicode_AsUTF8(words.p) : nullptr;
  if (!text) PyErr_Clear();
  say(strdup(text && *text ? text : Py_TYPE(exception)->tp_name));
  PyObject* before = last.cause;
  last.cause = exception;
  Py_XDECREF(before);
  return 1;
}

PyObject* take_cause() {
  PyObject* cause = last.later ? last.later : last.cause;
  if (last.later) last.later = nullptr;
  else last.cause = nullptr;
  return cause;
}

void keep_for_later() {
  PyObject* exception = raised();
  if (last.later) Py_DECREF(exception);      // the first one led to the others
  else last.later = exception;
}

bool has_later() { return last.later; }

const char* last_error() { return last.text ? last.text : ""; }

void forget_error() {
  PyObject* cause = last.cause;
  last.cause = nullptr;
  Py_XDECREF(cause);
}

// --- Python's part --------------------------------------------------------------------------------------------------

Ref ask(const char* name, const char* format, ...) {
  Ref function(PyObject_GetAttrString(hooks, name));
  if (!function) return Ref();
  va_list args;
  va_start(args, format);
  Ref given(Py_VaBuildValue(format, args));
  va_end(args);
  return given ? Ref(PyObject_CallObject(function.p, given.p)) : Ref();
}

int give_tensor(Ref found, Handle** into, const char* function) {
  if (!found) return fail_python();
  if (!into) return fail("%s: the place for the result is null", function);
  if (found.p != Py_None && !is_tensor(found.p))
    return fail("%s: expected a tensor, got %s", function, Py_TYPE(found.p)->tp_name);
  Handle* made = new_handle(found.p == Py_None ? nullptr : found.p);
  if (!made) return fail_python();
  *into = made;
  return 0;
}

}  // namespace rl::stable

using namespace rl::stable;

STABLE_API const char* torch_exception_get_what() { return last_error(); }
STABLE_API const char* torch_exception_get_what_without_backtrace() { return last_error(); }

STABLE_API int aoti_torch_new_tensor_handle(Handle* handle, Handle** copy) {
  if (!copy) return fail("aoti_torch_new_tensor_handle: the place for the result is null");
  Locked lock;
  PyObject* object = object_behind(handle, "aoti_torch_new_tensor_handle");
  if (!object) return 1;
  *copy = new_handle(object == Py_None ? nullptr : object);
  return *copy ? 0 : fail_python();
}

STABLE_API int aoti_torch_new_uninitialized_tensor(Handle** made) {
  if (!made) return fail("aoti_torch_new_uninitialized_tensor: the place for the result is null");
  Locked lock;
  *made = new_handle(nullptr);
  return *made ? 0 : fail_python();
}

static int ended(Handle* handle, uint32_t mark, const char* function) {
  if (!handle) return 0;                      // as `delete` and `free`
  if (handle->mark != mark) return fail("%s: the handle was deleted before, or never was one", function);
  Locked lock;
  if (lock.held) end_handle(handle);          // else the process ends, and its objects are gone
  return 0;
}

STABLE_API int aoti_torch_delete_tensor_object(Handle* handle) {
  return ended(handle, kLiveTensor, "aoti_torch_delete_tensor_object");
}

STABLE_API int torch_new_generator_handle(Handle* handle, Handle** copy) {
  Locked lock;
  PyObject* object = object_behind(handle, "torch_new_generator_handle");
  if (!object) return 1;
  *copy = new_handle(object, kLiveObject);
  return *copy ? 0 : fail_python();
}

STABLE_API int torch_delete_generator(Handle* handle) { return ended(handle, kLiveObject, "torch_delete_generator"); }

STABLE_API int torch_generator_get_device(Handle* handle, int32_t* type, int32_t* index) {
  Locked lock;
  PyObject* object = object_behind(handle, "torch_generator_get_device");
  if (!object) return 1;
  rl::Ref device(PyObject_GetAttrString(object, "device"));
  if (!device) return fail_python();
  auto* found = reinterpret_cast<rl::DeviceObject*>(device.p);
  *type = device_code(found->device);
  *index = found->has_index ? found->device.index : -1;
  return 0;
}

STABLE_API int aoti_torch_is_defined(Handle* handle, bool* defined) {
  PyObject* object = object_behind(handle, "aoti_torch_is_defined");
  if (!object) return 1;
  *defined = object != Py_None;
  return 0;
}

STABLE_API int aoti_torch_assign_tensors(Handle* from, Handle* to) {
  Locked lock;
  PyObject* object = object_behind(from, "aoti_torch_assign_tensors");
  if (!object || !object_behind(to, "aoti_torch_assign_tensors")) return 1;
  PyObject* before = to->object;
  to->object = object == Py_None ? nullptr : Py_NewRef(object);
  Py_XDECREF(before);
  return 0;
}

STABLE_API int aoti_torch_assign_tensors_out(Handle* from, Handle** to) {
  return aoti_torch_new_tensor_handle(from, to);
}
