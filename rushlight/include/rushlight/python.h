// Between values of C++ and objects of Python, and the interpreter lock. What gives `PyObject*` gives a new reference.
#pragma once
#include <Python.h>

#include <rushlight/functions.h>

namespace rushlight {

// Holds the interpreter lock; starts an interpreter in a program that has none.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  PyGILState_STATE state_;
};

// Lets the lock go, if this thread holds it.
class Unlocked {
 public:
  Unlocked() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() { if (state_) PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

class Object {      // owns a reference; the lock is held where it dies
 public:
  Object() = default;
  explicit Object(PyObject* stolen) : object_(stolen) {}
  Object(Object&& o) noexcept : object_(o.release()) {}
  Object& operator=(Object&& o) noexcept { std::swap(object_, o.object_); return *this; }
  ~Object() { Py_XDECREF(object_); }
  static Object borrowed(PyObject* object) { Py_XINCREF(object); return Object(object); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_; }

 private:
  PyObject* object_ = nullptr;
};

[[noreturn]] void throw_python();                        // the error that is set, as c10::Error that keeps it
Object checked(PyObject* result);                        // throws where it is null
void set_python_error(const std::exception& error);      // the other way
void set_current_error();                                // in a catch block: whatever was thrown, as Python's error
PyObject* module(const char* name = "rushlight");        // borrowed; "rushlight" or a part of it
PyObject* part(const char* name);                        // borrowed: an attribute of the package
Object call_runtime(const char* function, std::initializer_list<PyObject*> arguments);   // of rushlight.cxx.runtime

bool is_tensor(PyObject* object);
PyObject* wrap(const at::Tensor& tensor);                // None where undefined
PyObject* wrap(int64_t value);
PyObject* wrap(double value);
PyObject* wrap(bool value);
PyObject* wrap(std::string_view value);
PyObject* wrap(const c10::Scalar& value);
PyObject* wrap(c10::ScalarType value);
PyObject* wrap(c10::Device value);
PyObject* wrap(c10::Layout value);
PyObject* wrap(c10::MemoryFormat value);
PyObject* wrap(const at::Generator& value);
PyObject* wrap(c10::IntArrayRef values);                 // a tuple
PyObject* wrap(c10::ArrayRef<at::Tensor> values);        // a list
PyObject* wrap(c10::ArrayRef<at::indexing::TensorIndex> at);   // what goes between brackets

// Throw TypeError for another Python type.
at::Tensor tensor_from(PyObject* object);                // None: undefined
int64_t int_from(PyObject* object);
double double_from(PyObject* object);
bool bool_from(PyObject* object);
std::string text_from(PyObject* object);
c10::Scalar scalar_from(PyObject* object);
c10::ScalarType dtype_from(PyObject* object);
c10::Device device_from(PyObject* object);
c10::Layout layout_from(PyObject* object);
c10::MemoryFormat memory_format_from(PyObject* object);
at::Generator generator_from(PyObject* object);
std::vector<int64_t> ints_from(PyObject* object);
std::vector<double> doubles_from(PyObject* object);
std::vector<at::Tensor> tensors_from(PyObject* object);

// A function for Python: `run` gets the arguments as a tuple and the keywords as a dictionary or null.
using Function = std::function<PyObject*(PyObject* args, PyObject* kwargs)>;
PyObject* function_object(std::string name, Function run);
// An object that owns a C++ value, for the runtime's own Python classes; `of_capsule` finds the value again.
PyObject* capsule(std::shared_ptr<void> value);
std::shared_ptr<void> of_capsule(PyObject* object);

}  // namespace rushlight
