// Registrations from C++, made with rushlight.library, and calls of operators by name.
#include <rushlight/ivalue_python.h>
#include <rushlight/library.h>

#include <cxxabi.h>

#include "runtime.h"

using namespace rushlight;

namespace {

// What a kernel's callable holds. It is called for every call of an op, so its arguments are made into no tuple.
struct HeldKernel {
  std::string name;
  torch::detail::Boxed run;
  PyMethodDef method;
};
constexpr const char* kKernel = "rushlight.kernel";

PyObject* run_kernel(const torch::detail::Boxed& run, PyObject* const* args, Py_ssize_t count) {
  c10::Stack stack;
  stack.reserve(count);
  for (Py_ssize_t i = 0; i < count; ++i) stack.push_back(ivalue_from(args[i]));
  run(stack);
  if (stack.empty()) Py_RETURN_NONE;
  if (stack.size() == 1) return wrap(stack[0]);
  Object result(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; i < stack.size(); ++i) PyTuple_SET_ITEM(result.get(), i, wrap(stack[i]));
  return result.release();
}

PyObject* call_kernel(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  try {
    return run_kernel(static_cast<HeldKernel*>(PyCapsule_GetPointer(self, kKernel))->run, args, count);
  } catch (...) {
    set_current_error();
    return nullptr;
  }
}

// A callable for Python: arguments by place, as a kernel wants them.
PyObject* kernel_object(const std::string& name, torch::detail::Boxed run) {
  auto* held = new HeldKernel{name, std::move(run), {}};
  held->method = {held->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_kernel)), METH_FASTCALL, nullptr};
  Object self(PyCapsule_New(held, kKernel, [](PyObject* capsule) { delete static_cast<HeldKernel*>(PyCapsule_GetPointer(capsule, kKernel)); }));
  if (!self) delete held;
  return self ? PyCFunction_New(&held->method, self.get()) : nullptr;
}

Object text(const std::string& value) { return Object(wrap(std::string_view(value))); }

}  // namespace

namespace c10 {

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}
OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) {
  Lock lock;
  Object n = text(name), o = text(overload);
  OperatorHandle found{{name, overload}, call_runtime("operator", {n.get(), o.get()}).release()};
  Object form = call_runtime("calling_form", {static_cast<PyObject*>(found.target)});
  found.callable = Object::borrowed(PyTuple_GET_ITEM(form.get(), 0)).release();
  found.keywords = Object::borrowed(PyTuple_GET_ITEM(form.get(), 1)).release();
  found.count = static_cast<size_t>(int_from(PyTuple_GET_ITEM(form.get(), 2)));
  return found;
}
std::optional<OperatorHandle> Dispatcher::findSchema(const OperatorName& name) {
  try {
    return findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
  } catch (const Error&) {
    return std::nullopt;
  }
}
FunctionSchema OperatorHandle::schema() const {
  Lock lock;
  return {text_from(call_runtime("schema_text", {static_cast<PyObject*>(target)}).get())};
}
void OperatorHandle::callBoxed(Stack* stack) const {
  Lock lock;
  Object args(PyTuple_New(static_cast<Py_ssize_t>(stack->size())));
  for (size_t i = 0; i < stack->size(); ++i) PyTuple_SET_ITEM(args.get(), i, rushlight::wrap((*stack)[i]));
  auto* names = static_cast<PyObject*>(keywords);
  Object result = callable && stack->size() == count
      ? checked(PyObject_Vectorcall(static_cast<PyObject*>(callable), reinterpret_cast<PyTupleObject*>(args.get())->ob_item, count - static_cast<size_t>(PyTuple_GET_SIZE(names)), names))
      : call_runtime("call_operator", {static_cast<PyObject*>(target), args.get()});
  stack->clear();
  if (PyTuple_Check(result.get()))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i) stack->push_back(ivalue_from(PyTuple_GET_ITEM(result.get(), i)));
  else if (result.get() != Py_None) stack->push_back(ivalue_from(result.get()));
}

}  // namespace c10

namespace torch {

Library::Library(Kind kind, std::string space, std::optional<DispatchKey> key, const char* file, uint32_t line) : space_(std::move(space)), key_(key) {
  Lock lock;
  static constexpr const char* kinds[] = {"DEF", "IMPL", "FRAGMENT"};
  Object k = text(kinds[kind]), s = text(space_), d = text(key ? c10::toString(*key) : ""), where = text(std::string(file) + ":" + std::to_string(line));
  face_ = std::shared_ptr<void>(call_runtime("library", {s.get(), k.get(), d.get(), where.get()}).release(), [](void* p) {
    if (!Py_IsInitialized()) return;
    Lock lock;
    Py_DECREF(static_cast<PyObject*>(p));
  });
}
void Library::reset() { face_.reset(); }
void Library::define(const std::string& schema) {
  Lock lock;
  Object s = text(schema);
  call_runtime("define", {static_cast<PyObject*>(face_.get()), s.get()});
}
void Library::define_with(const std::string& name_or_schema, CppFunction f) {
  const bool is_schema = name_or_schema.find('(') != std::string::npos;
  TORCH_CHECK(is_schema || f.inferred, "def: a boxed function has no schema of its own. Give one for ", name_or_schema);
  std::string schema = is_schema ? name_or_schema : f.inferred(name_or_schema);
  define(schema);
  std::string name = schema.substr(0, schema.find('('));
  implement(name, std::move(f));
}
void Library::implement(const std::string& name, CppFunction f) {
  Lock lock;
  const std::string plain = name.rfind(space_ + "::", 0) == 0 ? name.substr(space_.size() + 2) : name;
  Object n = text(plain), key = text(f.key ? c10::toString(*f.key) : key_ ? c10::toString(*key_) : "");
  auto run = f.run;
  if (f.with_handle) {
    const size_t dot = plain.find('.');
    const std::string full = space_ + "::" + plain.substr(0, dot), overload = dot == std::string::npos ? "" : plain.substr(dot + 1);
    run = [g = f.with_handle, full, overload](c10::Stack& stack) { g(c10::Dispatcher::singleton().findSchemaOrThrow(full.c_str(), overload.c_str()), &stack); };
  }
  Object function = f.is_fallthrough ? Object::borrowed(Py_None) : Object(kernel_object(plain, run));
  Object own = text(f.inferred && !f.is_fallthrough ? f.inferred(plain) : "");
  call_runtime("implement", {static_cast<PyObject*>(face_.get()), n.get(), function.get(), key.get(), own.get()});
}
void Library::fall_back(CppFunction f) {
  Lock lock;
  TORCH_CHECK(f.is_fallthrough || f.with_handle, "fallback: expected a boxed function or a fallthrough");
  Object function = f.is_fallthrough ? Object::borrowed(Py_None) : Object(function_object("fallback", [g = f.with_handle](PyObject* args, PyObject*) -> PyObject* {
    c10::Stack stack;   // the operator's name comes first
    const std::string name = text_from(PyTuple_GET_ITEM(args, 0)), overload = text_from(PyTuple_GET_ITEM(args, 1));
    for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(args); ++i) stack.push_back(ivalue_from(PyTuple_GET_ITEM(args, i)));
    g(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()), &stack);
    if (stack.size() == 1) return wrap(stack[0]);
    Object result(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
    for (size_t i = 0; i < stack.size(); ++i) PyTuple_SET_ITEM(result.get(), i, wrap(stack[i]));
    return result.release();
  }));
  call_runtime("fall_back", {static_cast<PyObject*>(face_.get()), function.get()});
}

void RegisterOperators::add(const std::string& name_or_schema, CppFunction f) {
  const size_t colons = name_or_schema.find("::");
  TORCH_CHECK(colons != std::string::npos, "RegisterOperators: expected namespace::name, got ", name_or_schema);
  const std::string space = name_or_schema.substr(0, colons);
  try {
    auto* library = new Library(Library::FRAGMENT, space, std::nullopt, "RegisterOperators", 0);   // as long as the process
    library->def(name_or_schema.substr(colons + 2), std::move(f));
  } catch (const std::exception& error) {   // of a static object: see LibraryInit
    Lock lock;
    Object message = text(error.what()), where = text(name_or_schema);
    PyErr_Clear();
    call_runtime("note_failure", {message.get(), where.get()});
  }
}

namespace detail {

LibraryInit::LibraryInit(Library::Kind kind, Init* init, const char* space, std::optional<DispatchKey> key, const char* file, uint32_t line) {
  // An exception out of a static object would end the process: the import that runs it raises instead.
  try {
    Lock lock;
    auto* library = new Library(kind, space, key, file, line);   // as long as the process: nobody unloads it
    try {
      init(*library);
    } catch (...) {
      delete library;                                            // no half of it stays registered
      throw;
    }
  } catch (const std::exception& error) {
    Lock lock;
    Object message(wrap(std::string_view(error.what()))), where(wrap(std::string_view(file)));
    PyErr_Clear();
    call_runtime("note_failure", {message.get(), where.get()});
  }
}

std::string class_word(const char* type) {
  Lock lock;
  Object t(wrap(std::string_view(type)));
  return text_from(call_runtime("class_word", {t.get()}).get());
}

ClassBase::ClassBase(const std::string& space, const std::string& name, const char* type, std::string doc) {
  Lock lock;
  Object s = text(space), n = text(name), t = text(type), d = text(doc);
  qualified_ = text_from(call_runtime("make_class", {s.get(), n.get(), t.get(), d.get()}).get());
}
void ClassBase::add(const std::string& kind, const std::string& name, Boxed run, const std::string& doc, std::initializer_list<arg> given, size_t count) const {
  Lock lock;
  Object q = text(qualified_), k = text(kind), n = text(name), d = text(doc), f(kernel_object(name, std::move(run))), size(wrap(static_cast<int64_t>(count)));
  Object defaults(PyList_New(0));
  for (const arg& one : given) {
    Object value(one.has_value ? wrap(one.value) : Object::borrowed(Py_Ellipsis).release());
    Object pair(Py_BuildValue("(sO)", one.name.c_str(), value.get()));
    PyList_Append(defaults.get(), pair.get());
  }
  call_runtime("add_member", {q.get(), k.get(), n.get(), f.get(), d.get(), defaults.get(), size.get()});
}

}  // namespace detail
}  // namespace torch
