// The interpreter: its lock, the package, errors in both directions, functions made for Python.
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "runtime.h"

namespace rushlight {

namespace {

void start_interpreter() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (Py_IsInitialized()) return;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.parse_argv = 0;
    const char* chosen = std::getenv("RUSHLIGHT_PYTHON");
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, chosen ? chosen : RUSHLIGHT_PYTHON);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
      throw c10::Error(std::string("rushlight: the Python interpreter could not start: ") + (status.err_msg ? status.err_msg : "no reason given"));
    PyObject* path = PySys_GetObject("path");
    Object folder(PyUnicode_FromString(RUSHLIGHT_HOME));
    if (path && folder) PyList_Append(path, folder.get());
    PyEval_SaveThread();
  });
}

// The exception that Python raised, on its way through C++.
struct PythonError : c10::Error {
  PythonError(std::string message, PyObject* value) : Error(std::move(message)) {
    value_ = std::shared_ptr<void>(value, [](void* p) {
      if (!Py_IsInitialized()) return;
      Lock lock;
      Py_DECREF(static_cast<PyObject*>(p));
    });
  }
};

PyObject* exception_class(const char* name) {
  if (PyObject* builtins = PyEval_GetBuiltins())
    if (PyObject* found = PyDict_GetItemString(builtins, name)) return found;
  PyObject* own = PyObject_GetAttrString(state().package, name);   // OutOfMemoryError
  if (own) return own;
  PyErr_Clear();
  if (std::string_view(name) == "LinAlgError") {
    Object linalg(PyImport_ImportModule("rushlight.linalg"));
    own = linalg ? PyObject_GetAttrString(linalg.get(), name) : nullptr;
    if (own) return own;
    PyErr_Clear();
  }
  return PyExc_RuntimeError;
}

struct Held {
  std::string name;
  Function run;
  PyMethodDef method;
};

PyObject* run_held(PyObject* self, PyObject* args, PyObject* kwargs) {
  auto* held = static_cast<Held*>(PyCapsule_GetPointer(self, "rushlight.function"));
  try {
    return held->run(args, kwargs);
  } catch (...) {
    set_current_error();
    return nullptr;
  }
}

}  // namespace

Lock::Lock() {
  if (!Py_IsInitialized()) start_interpreter();
  state_ = PyGILState_Ensure();
}
Lock::~Lock() { PyGILState_Release(state_); }

State& state() {
  static State* made = nullptr;
  if (made) return *made;
  auto fresh = std::make_unique<State>();
  fresh->package = checked(PyImport_ImportModule("rushlight")).release();
  auto type = [&](const char* name) {
    return reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(fresh->package, name)).release());
  };
  Object core = checked(PyImport_ImportModule("rushlight._C"));
  fresh->tensor = reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(core.get(), "Tensor")).release());
  fresh->dtype = type("dtype");
  fresh->device = type("device");
  static constexpr struct { c10::ScalarType type; const char* name; } names[] = {
      {c10::kByte, "uint8"}, {c10::kChar, "int8"}, {c10::kShort, "int16"}, {c10::kInt, "int32"}, {c10::kLong, "int64"},
      {c10::kHalf, "float16"}, {c10::kFloat, "float32"}, {c10::kDouble, "float64"}, {c10::kComplexHalf, "complex32"},
      {c10::kComplexFloat, "complex64"}, {c10::kComplexDouble, "complex128"}, {c10::kBool, "bool"},
      {c10::kQInt8, "qint8"}, {c10::kQUInt8, "quint8"}, {c10::kQInt32, "qint32"}, {c10::kBFloat16, "bfloat16"},
      {c10::kFloat8_e5m2, "float8_e5m2"}, {c10::kFloat8_e4m3fn, "float8_e4m3fn"},
      {c10::kFloat8_e5m2fnuz, "float8_e5m2fnuz"}, {c10::kFloat8_e4m3fnuz, "float8_e4m3fnuz"},
      {c10::kUInt16, "uint16"}, {c10::kUInt32, "uint32"}, {c10::kUInt64, "uint64"},
      {c10::kFloat8_e8m0fnu, "float8_e8m0fnu"}, {c10::kFloat4_e2m1fn_x2, "float4_e2m1fn_x2"}};
  std::fill(std::begin(fresh->scalar_types), std::end(fresh->scalar_types), static_cast<int8_t>(c10::ScalarType::Undefined));
  std::fill(std::begin(fresh->device_types), std::end(fresh->device_types), -1);
  for (auto [type, name] : names) {
    PyObject* object = checked(PyObject_GetAttrString(fresh->package, name)).release();
    fresh->dtypes[static_cast<int>(type)] = object;
    fresh->scalar_types[reinterpret_cast<DTypeFields*>(object)->id] = static_cast<int8_t>(type);
  }
  // The fields that are read directly must lie where this library was compiled to expect them.
  Object probe = checked(PyObject_CallMethod(fresh->package, "zeros", "ii", 2, 3));
  const TensorFields* seen = fields(probe.get());
  if (seen->ndim != 2 || seen->numel != 6 || seen->sizes()[1] != 3 || seen->strides()[0] != 3 || !seen->storage->data || seen->storage->nbytes != 24)
    throw c10::Error("rushlight: this extension was built for another version of Rushlight. Build it again.");
  made = fresh.release();
  return *made;
}

PyObject* module(const char* name) {
  if (std::string_view(name) == "rushlight") return state().package;
  static auto& known = *new std::unordered_map<std::string, PyObject*>;
  auto& found = known[name];
  if (!found) found = checked(PyImport_ImportModule(name)).release();
  return found;
}

PyObject* part(const char* name) {
  static auto& known = *new std::unordered_map<std::string, PyObject*>;
  auto& found = known[name];
  if (!found) found = checked(PyObject_GetAttrString(state().package, name)).release();
  return found;
}

Object checked(PyObject* result) {
  if (!result) throw_python();
  return Object(result);
}

Object call_runtime(const char* function, std::initializer_list<PyObject*> arguments) {
  static auto& known = *new std::unordered_map<std::string, PyObject*>;
  PyObject*& target = known[function];
  if (!target) target = checked(PyObject_GetAttrString(module("rushlight.cxx.runtime"), function)).release();
  return checked(PyObject_Vectorcall(target, arguments.begin(), arguments.size(), nullptr));
}

void throw_python() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (!value) throw c10::Error("rushlight: Python failed without an error");
  if (trace) PyException_SetTraceback(value, trace);
  std::string message = Py_TYPE(value)->tp_name;
  Object text(PyObject_Str(value));
  const char* said = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!said) PyErr_Clear();
  message = said ? said : message;
  Py_XDECREF(type);
  Py_XDECREF(trace);
  throw PythonError(message, value);
}

void set_python_error(const std::exception& error) {
  if (PyErr_Occurred()) PyErr_Clear();
  if (auto* ours = dynamic_cast<const c10::Error*>(&error)) {
    if (auto* value = static_cast<PyObject*>(ours->python_value())) {
      Py_INCREF(value);
      Py_INCREF(Py_TYPE(value));
      PyErr_Restore(reinterpret_cast<PyObject*>(Py_TYPE(value)), value, PyException_GetTraceback(value));
    } else {
      PyErr_SetString(exception_class(ours->python_class()), ours->what());
    }
  } else if (dynamic_cast<const std::bad_alloc*>(&error)) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } else if (dynamic_cast<const std::out_of_range*>(&error)) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } else if (dynamic_cast<const std::invalid_argument*>(&error) || dynamic_cast<const std::domain_error*>(&error)) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } else {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void set_current_error() {
  try {
    throw;
  } catch (const std::exception& error) {
    set_python_error(error);
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "a C++ extension threw something that is no std::exception");
  }
}

PyObject* function_object(std::string name, Function run) {
  auto* held = new Held{std::move(name), std::move(run), {}};
  held->method = {held->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_held)), METH_VARARGS | METH_KEYWORDS, nullptr};
  Object self(PyCapsule_New(held, "rushlight.function", [](PyObject* capsule) {
    delete static_cast<Held*>(PyCapsule_GetPointer(capsule, "rushlight.function"));
  }));
  return self ? PyCFunction_New(&held->method, self.get()) : nullptr;
}

PyObject* capsule(std::shared_ptr<void> value) {
  return PyCapsule_New(new std::shared_ptr<void>(std::move(value)), "rushlight.value", [](PyObject* object) {
    delete static_cast<std::shared_ptr<void>*>(PyCapsule_GetPointer(object, "rushlight.value"));
  });
}

std::shared_ptr<void> of_capsule(PyObject* object) {
  auto* found = static_cast<std::shared_ptr<void>*>(PyCapsule_GetPointer(object, "rushlight.value"));
  if (!found) throw_python();
  return *found;
}

}  // namespace rushlight

namespace c10 {

Error::Error(std::string message, const char* python_class, SourceLocation where)
    : message_(std::move(message)), where_(std::string(where.file) + ":" + std::to_string(where.line)), class_(python_class) {}

namespace detail {

std::string described(const char* condition, const char* file, uint32_t line, std::string message) {
  if (!message.empty()) return message;
  return std::string("expected ") + condition + ", which is not so (" + file + ":" + std::to_string(line) + ")";
}

void assert_failed(const char* function, const char* file, uint32_t line, const char* condition, const std::string& message) {
  throw Error({function, file, line}, std::string(condition) + " INTERNAL ASSERT FAILED at " + file + ":" + std::to_string(line) + (message.empty() ? "" : ": ") + message);
}

void not_met(const char* function, const char* file, uint32_t line, const char* condition, const std::string& message) {
  throw Error({function, file, line}, described(condition, file, line, message));
}

void warn(const char* category, const std::string& message, const char*, uint32_t) {
  rushlight::Lock lock;
  PyObject* type = PyDict_GetItemString(PyEval_GetBuiltins(), category);
  if (PyErr_WarnEx(type, message.c_str(), 1) < 0) rushlight::throw_python();
}

}  // namespace detail
}  // namespace c10
