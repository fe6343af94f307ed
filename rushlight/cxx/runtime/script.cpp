// torch::jit: modules, functions and compilation units over Python's.
#include <rushlight/ivalue_python.h>
#include <rushlight/script.h>

#include <iterator>

#include "runtime.h"

using namespace rushlight;

namespace torch::jit {

namespace {

PyObject* face_of(const IValue& value) {
  TORCH_CHECK(value.isPyObject(), "jit::Module: the module is empty. Load one with torch::jit::load.");
  return static_cast<PyObject*>(static_cast<c10::TensorImpl*>(value.object().get())->object);
}
IValue held(Object object) { return {IValue::Tag::Python, c10::make_intrusive<c10::TensorImpl>(object.release())}; }

// A method of an object of Python. With the lock held.
Object invoke(PyObject* object, const char* method, std::initializer_list<PyObject*> arguments = {}) {
  Object found = checked(PyObject_GetAttrString(object, method));
  return checked(PyObject_Vectorcall(found.get(), arguments.begin(), arguments.size(), nullptr));
}
Object text(std::string_view value) { return Object(wrap(value)); }
Object bytes(const std::string& value) { return checked(PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()))); }
Object device_or_none(const std::optional<at::Device>& device) { return device ? Object(wrap(*device)) : Object::borrowed(Py_None); }
Object files(const ExtraFilesMap& extra) {
  Object made = checked(PyDict_New());
  for (const auto& [name, content] : extra)
    if (PyDict_SetItemString(made.get(), name.c_str(), text(content).get()) < 0) throw_python();
  return made;
}
Object listed(const std::vector<std::string>& words) {
  Object made = checked(PyList_New(0));
  for (const auto& word : words) PyList_Append(made.get(), text(word).get());
  return made;
}
PyObject* jit() { return module("rushlight.jit"); }
Object archives(const char* function, std::initializer_list<PyObject*> arguments) { return invoke(module("rushlight.jit._archives"), function, arguments); }

Module loaded(Object source, const std::optional<at::Device>& device, ExtraFilesMap* extra) {
  Object place = device_or_none(device), wanted = extra ? files(*extra) : Object::borrowed(Py_None);
  Module made(held(archives("load_script", {source.get(), place.get(), wanted.get()})));
  if (extra)
    for (auto& [name, content] : *extra) content = text_from(PyDict_GetItemString(wanted.get(), name.c_str()));
  return made;
}
std::string all_of(std::istream& in) {
  std::string content{std::istreambuf_iterator<char>(in), {}};
  TORCH_CHECK(!in.bad(), "torch::jit::load: the stream cannot be read");
  return content;
}

template <class T>
NamedList<T> members(const IValue& face, const char* kind, bool recurse, T (*read)(PyObject*)) {
  Lock lock;
  Object found = archives("members", {face_of(face), text(kind).get(), recurse ? Py_True : Py_False});
  NamedList<T> made;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(found.get(), i);
    made.push_back({text_from(PyTuple_GET_ITEM(pair, 0)), read(PyTuple_GET_ITEM(pair, 1))});
  }
  return made;
}
Module module_from(PyObject* object) { return Module(held(Object::borrowed(object))); }
template <class T>
std::vector<T> values(NamedList<T> named) {
  std::vector<T> made;
  for (auto& one : named) made.push_back(std::move(one.value));
  return made;
}

}  // namespace

// --- functions --------------------------------------------------------------------------------------------------------

IValue Method::operator()(std::vector<IValue> arguments, const Kwargs& kwargs) const {
  Lock lock;
  Object args(PyTuple_New(static_cast<Py_ssize_t>(arguments.size()))), words(kwargs.empty() ? nullptr : PyDict_New());
  for (size_t i = 0; i < arguments.size(); ++i) PyTuple_SET_ITEM(args.get(), i, wrap(arguments[i]));
  for (const auto& [name, value] : kwargs)
    if (PyDict_SetItemString(words.get(), name.c_str(), Object(wrap(value)).get()) < 0) throw_python();
  Object run = checked(PyObject_GetAttrString(face_of(owner_), name_.c_str()));
  return ivalue_from(checked(PyObject_Call(run.get(), args.get(), words.get())).get());
}
std::string Method::graph_text() const {
  Lock lock;
  Object run = checked(PyObject_GetAttrString(face_of(owner_), name_.c_str()));
  Object graph = checked(PyObject_GetAttrString(run.get(), "graph"));
  return text_from(checked(PyObject_Str(graph.get())).get());
}

CompilationUnit::CompilationUnit(const std::string& source) {
  Lock lock;
  face_ = held(archives("compile_text", {text(source).get()}));
}
void CompilationUnit::define(const std::string& source) const { Lock lock; archives("define_text", {face_of(face_), text(source).get()}); }
std::optional<Method> CompilationUnit::find_function(const std::string& name) const {
  Lock lock;
  if (!PyObject_HasAttrString(face_of(face_), name.c_str())) return std::nullopt;
  return Method(face_, name);
}
Method CompilationUnit::get_function(const std::string& name) const {
  auto found = find_function(name);
  TORCH_CHECK(found, "CompilationUnit: there is no function ", name);
  return *found;
}
std::shared_ptr<CompilationUnit> compile(const std::string& source) { return std::make_shared<CompilationUnit>(source); }

// --- modules ----------------------------------------------------------------------------------------------------------

Module::Module(const std::string& class_name) {
  Lock lock;
  face_ = held(archives("new_script", {text(class_name).get()}));
}
std::vector<Method> Module::get_methods() const {
  Lock lock;
  Object names = archives("method_names", {face_of(face_)});
  std::vector<Method> made;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) made.emplace_back(face_, text_from(PyList_GET_ITEM(names.get(), i)));
  return made;
}
std::optional<Method> Module::find_method(const std::string& name) const {
  for (auto& method : get_methods())
    if (method.name() == name) return method;
  return std::nullopt;
}
Method Module::get_method(const std::string& name) const {
  auto found = find_method(name);
  TORCH_CHECK(found, "jit::Module: the module has no compiled method ", name);
  return *found;
}
bool Module::hasattr(const std::string& name) const { Lock lock; return PyObject_HasAttrString(face_of(face_), name.c_str()); }
IValue Module::attr(const std::string& name) const { Lock lock; return ivalue_from(checked(PyObject_GetAttrString(face_of(face_), name.c_str())).get()); }
void Module::setattr(const std::string& name, IValue value) const {
  Lock lock;
  TORCH_CHECK(PyObject_HasAttrString(face_of(face_), name.c_str()), "jit::Module: the module has no attribute ", name, " that could be set; register_attribute adds one");
  if (PyObject_SetAttrString(face_of(face_), name.c_str(), Object(wrap(value)).get()) < 0) throw_python();
}
namespace {
void add(const IValue& face, const std::string& name, const IValue& value, const char* kind) {
  Lock lock;
  archives("register", {face_of(face), text(name).get(), Object(wrap(value)).get(), text(kind).get()});
}
}  // namespace
void Module::register_parameter(const std::string& name, at::Tensor value, bool is_buffer) const { add(face_, name, std::move(value), is_buffer ? "buffer" : "parameter"); }
void Module::register_attribute(const std::string& name, IValue value) const { add(face_, name, value, "attribute"); }
void Module::register_module(const std::string& name, const Module& module) const { add(face_, name, module.face_, "module"); }
void Module::define(const std::string& source) const { Lock lock; archives("define_text", {face_of(face_), text(source).get()}); }

NamedList<at::Tensor> Module::named_parameters(bool recurse) const { return members<at::Tensor>(face_, "parameters", recurse, tensor_from); }
NamedList<at::Tensor> Module::named_buffers(bool recurse) const { return members<at::Tensor>(face_, "buffers", recurse, tensor_from); }
NamedList<IValue> Module::named_attributes(bool recurse) const { return members<IValue>(face_, "attributes", recurse, ivalue_from); }
NamedList<Module> Module::named_children() const { return members<Module>(face_, "children", false, module_from); }
NamedList<Module> Module::named_modules() const { return members<Module>(face_, "modules", true, module_from); }
std::vector<at::Tensor> Module::parameters(bool recurse) const { return values(named_parameters(recurse)); }
std::vector<at::Tensor> Module::buffers(bool recurse) const { return values(named_buffers(recurse)); }
std::vector<Module> Module::children() const { return values(named_children()); }
std::vector<Module> Module::modules() const { return values(named_modules()); }

void Module::train(bool on) const { Lock lock; invoke(face_of(face_), "train", {on ? Py_True : Py_False}); }
void Module::to(at::Device device, bool non_blocking) const {
  Lock lock;
  invoke(face_of(face_), "to", {Object(wrap(device)).get(), Py_None, non_blocking ? Py_True : Py_False});
}
void Module::to(at::ScalarType dtype, bool non_blocking) const {
  Lock lock;
  invoke(face_of(face_), "to", {Object(wrap(dtype)).get(), non_blocking ? Py_True : Py_False});
}
void Module::to(at::Device device, at::ScalarType dtype, bool non_blocking) const {
  Lock lock;
  invoke(face_of(face_), "to", {Object(wrap(device)).get(), Object(wrap(dtype)).get(), non_blocking ? Py_True : Py_False});
}
Module Module::copy() const { Lock lock; return Module(held(invoke(module("copy"), "copy", {face_of(face_)}))); }
Module Module::deepcopy() const { Lock lock; return Module(held(invoke(module("copy"), "deepcopy", {face_of(face_)}))); }
std::string Module::dump_to_str() const { Lock lock; return text_from(checked(PyObject_Str(face_of(face_))).get()); }

// --- files ------------------------------------------------------------------------------------------------------------

void Module::save(const std::string& path, const ExtraFilesMap& extra) const {
  Lock lock;
  invoke(jit(), "save", {face_of(face_), text(path).get(), files(extra).get()});
}
void Module::save(std::ostream& out, const ExtraFilesMap& extra) const {
  std::string content;
  {
    Lock lock;
    content = text_from(archives("script_bytes", {face_of(face_), files(extra).get()}).get());
  }
  TORCH_CHECK(out.write(content.data(), static_cast<std::streamsize>(content.size())), "jit::Module::save: the stream cannot be written");
}
Module load(const std::string& path, std::optional<at::Device> device) { Lock lock; return loaded(text(path), device, nullptr); }
Module load(const std::string& path, std::optional<at::Device> device, ExtraFilesMap& extra) { Lock lock; return loaded(text(path), device, &extra); }
Module load(std::istream& in, std::optional<at::Device> device) {
  const std::string content = all_of(in);
  Lock lock;
  return loaded(bytes(content), device, nullptr);
}
Module load(std::istream& in, std::optional<at::Device> device, ExtraFilesMap& extra) {
  const std::string content = all_of(in);
  Lock lock;
  return loaded(bytes(content), device, &extra);
}
Module freeze(const Module& module, const std::optional<std::vector<std::string>>& preserved, bool optimize_numerics) {
  Lock lock;
  Object names = preserved ? listed(*preserved) : Object::borrowed(Py_None);
  return Module(held(invoke(jit(), "freeze", {face_of(module._ivalue()), names.get(), optimize_numerics ? Py_True : Py_False})));
}
Module optimize_for_inference(const Module& module, const std::vector<std::string>& other_methods) {
  Lock lock;
  return Module(held(invoke(jit(), "optimize_for_inference", {face_of(module._ivalue()), listed(other_methods).get()})));
}

}  // namespace torch::jit
namespace c10 {
bool IValue::isModule() const {
  if (!isPyObject()) return false;
  rushlight::Lock lock;
  return PyObject_HasAttrString(rushlight::Object(rushlight::wrap(*this)).get(), "__script_object__");
}
torch::jit::Module IValue::toModule() const {
  TORCH_CHECK_TYPE(isModule(), "IValue: expected a module, got ", tagKind());
  return torch::jit::Module(*this);
}
}  // namespace c10
