// The C functions that binary extensions of PyTorch 2.9 and later call ("stable ABI"), over our Python objects.
//
// A tensor's handle is a counted reference to a Python tensor. Functions that only look at a tensor need no lock; those
// that make or end a reference, or call an op, take the interpreter lock themselves, so that kernels run without it.
// Nothing is thrown through these functions: they return 0, or 1 with the words in `torch_exception_get_what`.
#pragma once
#include <atomic>

#include "tensor.h"
#include "unlocked.h"

#define STABLE_API extern "C" __attribute__((visibility("default")))

namespace rl::stable {

using Value = uint64_t;                                        // what travels on the stack of a boxed kernel
using BoxedKernel = void (*)(Value* stack, uint64_t num_args, uint64_t num_results);

// A reference to a Python object, of which the other side sees the address. Its memory is never given back, so that one
// that was ended can be told from one that lives.
struct Handle {
  uint32_t mark;
  PyObject* object;      // null: an undefined tensor
  Handle* next;          // of those that are free
};
constexpr uint32_t kLiveTensor = 0x7e450521, kLiveObject = 0x7e450522, kFreeHandle = 0x0f4ee000;

struct List {
  uint32_t mark;
  size_t size, room;
  Value* items;
};
struct String {
  uint32_t mark;
  size_t size;
  char* text;            // ends in a zero
};
constexpr uint32_t kLiveList = 0x7e450523, kLiveString = 0x7e450524;

Handle* new_handle(PyObject* object, uint32_t mark = kLiveTensor);   // takes no reference away; lock held
void end_handle(Handle* handle);                                     // lock held
bool is_known(const Handle* handle);                                 // whether the address is that of some handle
int64_t live_handles();                                              // of lists and strings too
extern std::atomic<int64_t> living_values;                           // lists and strings, made without the lock
inline Value as_value(const void* pointer) { return reinterpret_cast<Value>(pointer); }
template <class T>
T* pointer_in(Value value) {
  return reinterpret_cast<T*>(value);
}

// --- errors ---------------------------------------------------------------------------------------------------------

int fail(const char* format, ...) __attribute__((format(printf, 1, 2)));   // 1; the words are this thread's last error
int fail_python();                       // 1; the Python exception that is set becomes the thread's last error. Lock held
PyObject* take_cause();                  // the Python exception behind the thread's last error, or null; lock held
void keep_for_later();                   // the exception that is set is raised when the running kernel returns
const char* last_error();
void forget_error();

// The interpreter lock, for as long as this lives; not `held` where there is no interpreter any more.
class Locked {
 public:
  Locked() : held(Py_IsInitialized()) {
    if (held) state_ = PyGILState_Ensure();
  }
  ~Locked() {
    if (held) PyGILState_Release(state_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  const bool held;

 private:
  PyGILState_STATE state_{};
};

// The tensor behind a handle. Null, with the thread's error, for handles that are null, were ended, or undefined.
Tensor* tensor_behind(Handle* handle, const char* function);
PyObject* object_behind(Handle* handle, const char* function);   // borrowed; None for an undefined tensor

// --- Python's part --------------------------------------------------------------------------------------------------

extern PyObject* hooks;                  // rushlight.library.abi_calls
// hooks.<name>(arguments as of Py_BuildValue's format, in parentheses). Lock held.
Ref ask(const char* name, const char* format, ...);
int give_tensor(Ref found, Handle** into, const char* function);   // 0, or 1 where there is no such result; lock held

// --- numbers of PyTorch's -------------------------------------------------------------------------------------------

bool dtype_of_code(int32_t code, DType* dtype);
int32_t code_of_dtype(DType dtype);                              // -1: PyTorch has no such type
const char* device_name_of_code(int32_t code);                   // null: none; "" for the device of others
int32_t code_of_device_name(const char* name);
PyObject* device_of_codes(int32_t type, int32_t index);          // new reference; index -1: none. Lock held
int32_t device_code(Device device);

// --- values on the stack --------------------------------------------------------------------------------------------

// A type is spelt: T tensor, i int, f float, b bool, s str, d dtype, D device, L layout, M memory format, G generator;
// `?` before what may be None, `[` before the type of a list's items. Both read one type and move `type` behind it.
bool to_value(const char** type, PyObject* object, Value* out);  // false with an exception set. Lock held
PyObject* to_object(const char** type, Value value);             // takes the value; null with an exception set
void drop_value(const char** type, Value value);                 // ends what nobody will take. Lock held

// --- the core -------------------------------------------------------------------------------------------------------

struct Core {            // what is called of it, by address
  Tensor* (*tensor_alloc)(PyTypeObject* type, int ndim);
  void (*tensor_finish_geometry)(Tensor* t);
  Version* (*tensor_version)(Tensor* t);
  bool (*tensor_has_data)(Tensor* t, const char* op);
  Storage* (*storage_wrap)(char* data, size_t nbytes, Device device, void (*release)(Storage*), void* context);
  PyObject* (*dtype_object)(DType d);
  PyObject* (*python_type_dtype)(PyObject* o);
  bool (*parse_device)(PyObject* o, Device* out);
  const char* (*device_type_name)(uint8_t type);
  void (*parallel_for)(int64_t extent, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                       void* context);
  int (*num_threads)();
  ThreadState* (*state_of_thread)();
};
extern Core core;

// --- foreign code ---------------------------------------------------------------------------------------------------

// What a call threw, if anything: `kind` 0 is nothing. `text` is from malloc.
struct Caught {
  int kind;
  char* text;
};
enum { kNothing, kRuntimeError, kValueError, kIndexError, kOverflowError, kMemoryError, kUnknownThrown };
Caught call_kernel(BoxedKernel kernel, Value* stack, uint64_t num_args, uint64_t num_results);
Caught call_range(void (*function)(int64_t, int64_t, void*), int64_t begin, int64_t end, void* context);

extern PyTypeObject KernelType;          // a registered kernel, as Python calls it
PyObject* make_kernel(PyObject* self, PyObject* args);

}  // namespace rl::stable
