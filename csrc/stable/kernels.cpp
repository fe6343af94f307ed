// Registered kernels as Python calls them, registrations of libraries, and calls of ops from a kernel.
#include <cstdlib>

#include "stable.h"

namespace rl::stable {

bool has_later();

// --- a kernel -------------------------------------------------------------------------------------------------------

struct Kernel {
  PyObject_HEAD
  vectorcallfunc call;
  BoxedKernel function;
  PyObject* name;          // "namespace::op", for messages
  PyObject* bind;          // (*args, **kwargs) -> all arguments in order, for calls that leave some out
  char *args, *results;    // types; see stable.h
  uint64_t num_args, num_results;
  uint64_t written;        // bits of the arguments that the schema says are written
};

constexpr uint64_t kMost = 64;      // arguments, or results

static PyObject* raise_caught(Kernel* self, Caught thrown) {
  PyObject* types[] = {nullptr,           PyExc_RuntimeError,  PyExc_ValueError,  PyExc_IndexError,
                       PyExc_OverflowError, PyExc_MemoryError, PyExc_RuntimeError};
  PyObject* cause = take_cause();
  if (cause && !PyObject_IsInstance(cause, PyExc_Exception)) {      // an interruption goes on as what it is
    PyErr_SetObject(as_object(Py_TYPE(cause)), cause);
  } else {
    if (thrown.kind == kUnknownThrown) PyErr_Format(PyExc_RuntimeError, "%U threw %s", self->name, thrown.text);
    else PyErr_SetString(types[thrown.kind], thrown.text);
    if (cause) {
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      PyErr_NormalizeException(&type, &value, &trace);
      PyException_SetCause(value, Py_NewRef(cause));
      PyErr_Restore(type, value, trace);
    }
  }
  Py_XDECREF(cause);
  free(thrown.text);
  return nullptr;
}

static PyObject* results_of(Kernel* self, Value* stack) {
  const char* type = self->results;
  if (self->num_results == 0) return Py_NewRef(Py_None);
  if (self->num_results == 1) return to_object(&type, stack[0]);
  PyObject* found = PyTuple_New(static_cast<Py_ssize_t>(self->num_results));
  for (uint64_t i = 0; i < self->num_results; i++) {
    PyObject* one = found ? to_object(&type, stack[i]) : nullptr;
    if (one) PyTuple_SET_ITEM(found, static_cast<Py_ssize_t>(i), one);
    else {
      Py_CLEAR(found);
      while (++i < self->num_results) drop_value(&type, stack[i]);
    }
  }
  return found;
}

static PyObject* run(Kernel* self, PyObject* const* args) {
  Value stack[kMost] = {};
  uint32_t versions[kMost];
  const char* type = self->args;
  for (uint64_t i = 0; i < self->num_args; i++) {
    if (!to_value(&type, args[i], &stack[i])) {
      type = self->args;
      for (uint64_t k = 0; k < i; k++) drop_value(&type, stack[k]);
      return nullptr;
    }
    if ((self->written >> i & 1) && is_tensor(args[i])) versions[i] = as_tensor(args[i])->current_version();
  }
  forget_error();
  Caught thrown;
  {
    Unlocked region;
    thrown = call_kernel(self->function, stack, self->num_args, self->num_results);
  }
  for (uint64_t i = 0; i < self->num_args; i++)
    if ((self->written >> i & 1) && is_tensor(args[i]) && as_tensor(args[i])->current_version() == versions[i])
      core.tensor_version(as_tensor(args[i]))->value++;
  if (thrown.kind) return raise_caught(self, thrown);
  PyObject* found = results_of(self, stack);
  if (!has_later()) return found;
  Py_XDECREF(found);
  PyObject* later = take_cause();
  PyErr_SetObject(as_object(Py_TYPE(later)), later);
  Py_DECREF(later);
  return nullptr;
}

static PyObject* kernel_call(PyObject* object, PyObject* const* args, size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Kernel*>(object);
  Py_ssize_t given = PyVectorcall_NARGS(flags);
  if (static_cast<uint64_t>(given) == self->num_args && (!names || !PyTuple_GET_SIZE(names))) return run(self, args);
  Ref bound(PyObject_Vectorcall(self->bind, args, static_cast<size_t>(given), names));
  Ref all(bound ? PySequence_Tuple(bound.p) : nullptr);
  if (!all) return nullptr;
  if (static_cast<uint64_t>(PyTuple_GET_SIZE(all.p)) != self->num_args)
    return PyErr_Format(PyExc_TypeError, "%U: expected %llu arguments, got %zd", self->name, self->num_args, given);
  return run(self, reinterpret_cast<PyTupleObject*>(all.p)->ob_item);
}

static void kernel_free(PyObject* object) {
  auto* self = reinterpret_cast<Kernel*>(object);
  Py_XDECREF(self->name);
  Py_XDECREF(self->bind);
  free(self->args);
  free(self->results);
  Py_TYPE(object)->tp_free(object);
}

static PyObject* kernel_repr(PyObject* object) {
  auto* self = reinterpret_cast<Kernel*>(object);
  return PyUnicode_FromFormat("<kernel of %U from an extension, at %p>", self->name,
                              reinterpret_cast<void*>(self->function));
}

PyTypeObject KernelType = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "rushlight._stable.Kernel";
  type.tp_doc = "A kernel of a binary extension, as Python calls it: the arguments of its schema, in order.";
  type.tp_basicsize = sizeof(Kernel);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = offsetof(Kernel, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = kernel_free;
  type.tp_repr = kernel_repr;
  return type;
}();

static uint64_t count_types(const char* types) {
  uint64_t found = 0;
  for (; *types; types++) found += *types != '?' && *types != '[';
  return found;
}

PyObject* make_kernel(PyObject*, PyObject* args) {
  unsigned long long address, written;
  PyObject *name, *bind;
  const char *given, *made;
  if (!PyArg_ParseTuple(args, "KUssKO", &address, &name, &given, &made, &written, &bind)) return nullptr;
  if (count_types(given) > kMost || count_types(made) > kMost)
    return PyErr_Format(PyExc_ValueError, "%U: kernels of extensions have at most %d arguments and results", name,
                        static_cast<int>(kMost));
  auto* self = PyObject_New(Kernel, &KernelType);
  if (!self) return nullptr;
  self->call = kernel_call;
  self->function = reinterpret_cast<BoxedKernel>(address);
  self->name = Py_NewRef(name);
  self->bind = Py_NewRef(bind);
  self->args = strdup(given);
  self->results = strdup(made);
  self->num_args = count_types(given);
  self->num_results = count_types(made);
  self->written = written;
  return as_object(self);
}

// --- registrations --------------------------------------------------------------------------------------------------

// Asked of Python, which keeps what goes wrong: initializers of a library are no place to fail in (see abi_calls.py).
static int open_library(const char* kind, const char* space, const char* key, const char* file, uint32_t line,
                        PyObject** made) {
  *made = nullptr;
  Locked lock;
  if (!lock.held) return fail("there is no interpreter any more");
  Ref found = ask("open_library", "(sszsI)", kind, space, key, file ? file : "?", line);
  if (!found) return fail_python();
  *made = found.release();
  return 0;
}

static int tell_library(const char* what, PyObject* library, Ref args) {
  if (!library) return fail("%s: the library is null", what);
  if (!args) return fail_python();
  Ref method(PyObject_GetAttrString(library, what));
  Ref done(method ? PyObject_CallObject(method.p, args.p) : nullptr);
  return done ? 0 : fail_python();
}

static int implement(PyObject* library, const char* name, BoxedKernel function, uint64_t version) {
  Locked lock;
  if (!lock.held) return fail("there is no interpreter any more");
  return tell_library("implement", library,
                      Ref(Py_BuildValue("(sKK)", name, reinterpret_cast<unsigned long long>(function),
                                        static_cast<unsigned long long>(version))));
}

// --- calls of ops ---------------------------------------------------------------------------------------------------

static PyObject* signatures = nullptr;     // "aten::sum.dim_IntList" -> (function, types, results, names of the last)

static Ref signature_of(const char* name, const char* overload) {
  Ref key(PyUnicode_FromFormat(*overload ? "%s.%s" : "%s", name, overload));
  if (!key || (!signatures && !(signatures = PyDict_New()))) return Ref();
  if (PyObject* known = PyDict_GetItemWithError(signatures, key.p)) return Ref::borrow(known);
  if (PyErr_Occurred()) return Ref();
  Ref found = ask("signature_of", "(ss)", name, overload);
  // an op of an extension may be taken back, and defined anew: only those of ATen stay what they are
  if (found && !strncmp(name, "aten::", 6) && PyDict_SetItem(signatures, key.p, found.p)) return Ref();
  return found;
}

static int call_op(const char* name, const char* overload, Value* stack) {
  Locked lock;
  if (!lock.held) return fail("there is no interpreter any more");
  Ref signature = signature_of(name, overload);
  PyObject *function, *names;
  const char *given, *made;
  if (!signature || !PyArg_ParseTuple(signature.p, "OssO!", &function, &given, &made, &PyTuple_Type, &names))
    return fail_python();
  uint64_t count = count_types(given), results = count_types(made);
  if (count > kMost || results > kMost) return fail("%s: too many arguments or results", name);
  PyObject* args[kMost];
  const char* type = given;
  uint64_t read = 0;
  for (; read < count; read++)
    if (!(args[read] = to_object(&type, stack[read]))) break;
  Ref found;
  if (read == count)
    found = Ref(PyObject_Vectorcall(function, args, count - static_cast<uint64_t>(PyTuple_GET_SIZE(names)), names));
  else
    for (uint64_t k = read + 1; k < count; k++) drop_value(&type, stack[k]);
  for (uint64_t k = 0; k < read; k++) Py_DECREF(args[k]);
  if (!found) return fail_python();
  type = made;
  if (results == 0) return 0;
  if (results == 1) return to_value(&type, found.p, &stack[0]) ? 0 : fail_python();
  Ref all(PySequence_Fast(found.p, "an op with several results gave one"));
  if (!all) return fail_python();
  if (static_cast<uint64_t>(PySequence_Fast_GET_SIZE(all.p)) != results)
    return fail("%s gave %zd results, its schema has %llu", name, PySequence_Fast_GET_SIZE(all.p),
                static_cast<unsigned long long>(results));
  for (uint64_t i = 0; i < results; i++)
    if (!to_value(&type, PySequence_Fast_GET_ITEM(all.p, static_cast<Py_ssize_t>(i)), &stack[i])) {
      type = made;
      for (uint64_t k = 0; k < i; k++) drop_value(&type, stack[k]);
      return fail_python();
    }
  return 0;
}

}  // namespace rl::stable

using namespace rl::stable;

STABLE_API int aoti_torch_library_init_def(const char* space, const char* file, uint32_t line, PyObject** made) {
  return open_library("DEF", space, nullptr, file, line, made);
}
STABLE_API int aoti_torch_library_init_fragment(const char* space, const char* file, uint32_t line, PyObject** made) {
  return open_library("FRAGMENT", space, nullptr, file, line, made);
}
STABLE_API int aoti_torch_library_init_impl(const char* space, const char* key, const char* file, uint32_t line,
                                            PyObject** made) {
  return open_library("IMPL", space, key, file, line, made);
}
STABLE_API int torch_library_def_with_tags(PyObject* library, const char* schema, const int32_t* tags, int32_t count);
STABLE_API int aoti_torch_library_def(PyObject* library, const char* schema) {
  return torch_library_def_with_tags(library, schema, nullptr, 0);
}
STABLE_API int aoti_torch_library_impl(PyObject* library, const char* name, BoxedKernel function) {
  return implement(library, name, function, 0);
}
STABLE_API int torch_library_impl(PyObject* library, const char* name, BoxedKernel function, uint64_t version) {
  return implement(library, name, function, version);
}
STABLE_API int torch_library_def_with_tags(PyObject* library, const char* schema, const int32_t* tags, int32_t count) {
  Locked lock;
  if (!lock.held) return fail("there is no interpreter any more");
  rl::Ref numbers(PyTuple_New(count));
  if (!numbers) return fail_python();
  for (int32_t i = 0; i < count; i++) PyTuple_SET_ITEM(numbers.p, i, PyLong_FromLong(tags[i]));
  return tell_library("define", library, rl::Ref(Py_BuildValue("(sO)", schema, numbers.p)));
}
STABLE_API int torch_library_set_python_module(PyObject* library, const char* module, const char* context) {
  Locked lock;
  if (!lock.held) return fail("there is no interpreter any more");
  return tell_library("set_python_module", library, rl::Ref(Py_BuildValue("(ss)", module, context ? context : "")));
}
STABLE_API int aoti_torch_delete_library_object(PyObject* library) {
  Locked lock;
  if (lock.held) Py_XDECREF(library);       // what it registered stays; see abi_calls.py
  return 0;
}

STABLE_API int aoti_torch_call_dispatcher(const char* name, const char* overload, Value* stack) {
  return call_op(name, overload, stack);
}
STABLE_API int torch_call_dispatcher(const char* name, const char* overload, Value* stack, uint64_t version) {
  (void)version;           // no signature of ATen that extensions call has changed since 2.9
  return call_op(name, overload, stack);
}
