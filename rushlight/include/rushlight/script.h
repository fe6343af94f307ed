// Scripts: torch::jit::load and compile, and the modules they give, which are Python's.
#pragma once
#include <istream>

#include <rushlight/all.h>
#include <rushlight/library.h>

namespace torch::jit {

using Kwargs = std::unordered_map<std::string, IValue>;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;

// A compiled function; of a module: bound to it.
class Method {
 public:
  Method(IValue owner, std::string name) : owner_(std::move(owner)), name_(std::move(name)) {}
  IValue operator()(std::vector<IValue> arguments, const Kwargs& kwargs = {}) const;
  const std::string& name() const { return name_; }
  std::string graph_text() const;

 private:
  IValue owner_;
  std::string name_;
};
using Function = Method;

template <class T>
struct Named {
  std::string name;
  T value;
};
template <class T>
using NamedList = std::vector<Named<T>>;

class Module {
 public:
  Module() = default;
  explicit Module(const std::string& class_name);          // of no attributes; define and register_* add to it
  explicit Module(const char* class_name) : Module(std::string(class_name)) {}
  explicit Module(IValue face) : face_(std::move(face)) {}
  IValue forward(std::vector<IValue> arguments, const Kwargs& kwargs = {}) const { return get_method("forward")(std::move(arguments), kwargs); }
  IValue operator()(std::vector<IValue> arguments) const { return forward(std::move(arguments)); }
  template <class... Args>
  IValue run_method(const std::string& name, Args&&... args) const { return get_method(name)(std::vector<IValue>{IValue(std::forward<Args>(args))...}); }
  Method get_method(const std::string& name) const;        // throws where there is none
  std::optional<Method> find_method(const std::string& name) const;
  std::vector<Method> get_methods() const;

  bool hasattr(const std::string& name) const;
  IValue attr(const std::string& name) const;
  IValue attr(const std::string& name, IValue otherwise) const { return hasattr(name) ? attr(name) : std::move(otherwise); }
  void setattr(const std::string& name, IValue value) const;
  void register_parameter(const std::string& name, at::Tensor value, bool is_buffer) const;
  void register_buffer(const std::string& name, at::Tensor value) const { register_parameter(name, std::move(value), true); }
  void register_attribute(const std::string& name, IValue value) const;
  void register_module(const std::string& name, const Module& module) const;
  void define(const std::string& source) const;            // methods, as text

  NamedList<at::Tensor> named_parameters(bool recurse = true) const;
  NamedList<at::Tensor> named_buffers(bool recurse = true) const;
  NamedList<IValue> named_attributes(bool recurse = true) const;
  NamedList<Module> named_children() const;
  NamedList<Module> named_modules() const;
  std::vector<at::Tensor> parameters(bool recurse = true) const;
  std::vector<at::Tensor> buffers(bool recurse = true) const;
  std::vector<Module> children() const;
  std::vector<Module> modules() const;

  void train(bool on = true) const;
  void eval() const { train(false); }
  bool is_training() const { return attr("training", true).toBool(); }
  void to(at::Device device, bool non_blocking = false) const;
  void to(at::ScalarType dtype, bool non_blocking = false) const;
  void to(at::Device device, at::ScalarType dtype, bool non_blocking = false) const;
  void save(const std::string& path, const ExtraFilesMap& extra = {}) const;
  void save(std::ostream& out, const ExtraFilesMap& extra = {}) const;
  Module copy() const;                                     // shares tensors and modules
  Module deepcopy() const;
  Module clone() const { return deepcopy(); }
  std::string dump_to_str() const;
  const IValue& _ivalue() const { return face_; }
  friend bool operator==(const Module& a, const Module& b) { return a.face_.is(b.face_); }

 private:
  IValue face_;
};

// Functions defined by a text.
class CompilationUnit {
 public:
  explicit CompilationUnit(IValue face) : face_(std::move(face)) {}
  explicit CompilationUnit(const std::string& source);
  void define(const std::string& source) const;
  Method get_function(const std::string& name) const;      // throws where there is none
  std::optional<Method> find_function(const std::string& name) const;
  template <class... Args>
  IValue run_method(const std::string& name, Args&&... args) const { return get_function(name)(std::vector<IValue>{IValue(std::forward<Args>(args))...}); }

 private:
  IValue face_;
};
namespace script { using torch::jit::CompilationUnit; using torch::jit::Module; }

std::shared_ptr<CompilationUnit> compile(const std::string& source);
Module load(const std::string& path, std::optional<at::Device> device = std::nullopt);
Module load(const std::string& path, std::optional<at::Device> device, ExtraFilesMap& extra);
Module load(std::istream& in, std::optional<at::Device> device = std::nullopt);
Module load(std::istream& in, std::optional<at::Device> device, ExtraFilesMap& extra);
Module freeze(const Module& module, const std::optional<std::vector<std::string>>& preserved = std::nullopt, bool optimize_numerics = true);
Module optimize_for_inference(const Module& module, const std::vector<std::string>& other_methods = {});

}  // namespace torch::jit
