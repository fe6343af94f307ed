// torch::nn::Module: the tree of parameters, buffers and parts.
#include <cxxabi.h>

#include <rushlight/guards.h>
#include <rushlight/nn/containers.h>

#include <cstdlib>
#include <memory>

namespace torch::nn {

std::string demangled(const char* type_name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type_name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type_name;
}

namespace detail {

void wrong_argument(size_t place, const char* expected, const char* got, const std::string& module) {
  throw c10::Error("Expected argument #" + std::to_string(place) + " to be of type " + demangled(expected) + ", but received value of type " + demangled(got) + " (forward of " + module + ")");
}
void complete_arguments(Module& module, std::vector<AnyValue>& given, size_t wanted) {
  for (size_t place = given.size(); place < wanted; ++place) {
    bool found = false;
    for (auto& [known, value] : module.default_arguments())
      if (known == place) given.push_back(value), found = true;
    if (!found) break;
  }
  TORCH_CHECK(given.size() == wanted, module.name(), "'s forward() method expects ", wanted, " argument(s), but received ", given.size(),
              ". If it has default arguments, name them with FORWARD_HAS_DEFAULT_ARGS in the class.");
}
std::string module_name(const Module& module) { return module.name(); }

std::string joined(const std::string& prefix, const std::string& name) { return prefix.empty() ? name : prefix + "." + name; }

}  // namespace detail

using detail::joined;

Module::Module(std::string name) : name_(std::move(name)) {}
Module::Module() = default;

const std::string& Module::name() const noexcept {
  if (name_.empty()) name_ = demangled(typeid(*this).name());
  return name_;
}

std::shared_ptr<Module> Module::clone(const std::optional<at::Device>&) const {
  throw c10::NotImplementedError("clone: " + name() + " does not say how it is copied. Derive it from torch::nn::Cloneable<" + name() + "> instead of torch::nn::Module and make its parts in reset().");
}

std::shared_ptr<Module> Module::own_pointer() const {
  try {
    return std::const_pointer_cast<Module>(shared_from_this());
  } catch (const std::bad_weak_ptr&) {
    throw c10::Error("It looks like you attempted to retrieve your top-level module as a shared_ptr, but it is not stored in one: make it with std::make_shared<" + name() + ">(...)");
  }
}

// --- walks ------------------------------------------------------------------------------------------------------------

void Module::apply(const ModuleApplyFunction& function) {
  function(*this);
  for (auto& child : children_) child.value()->apply(function);
}
void Module::apply(const ConstModuleApplyFunction& function) const {
  function(*this);
  for (const auto& child : children_) std::as_const(*child.value()).apply(function);
}
void Module::apply(const NamedModuleApplyFunction& function, const std::string& prefix) {
  function(prefix, *this);
  for (auto& child : children_) child.value()->apply(function, joined(prefix, child.key()));
}
void Module::apply(const ConstNamedModuleApplyFunction& function, const std::string& prefix) const {
  function(prefix, *this);
  for (const auto& child : children_) std::as_const(*child.value()).apply(function, joined(prefix, child.key()));
}
void Module::apply(const ModulePointerApplyFunction& function) const {
  function(own_pointer());
  for (const auto& child : children_) child.value()->apply(function);
}
void Module::apply(const NamedModulePointerApplyFunction& function, const std::string& prefix) const {
  function(prefix, own_pointer());
  for (const auto& child : children_) child.value()->apply(function, joined(prefix, child.key()));
}

std::vector<at::Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }
OrderedDict<std::string, at::Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, at::Tensor> found("Parameter");
  for (const auto& one : parameters_) if (one.value().defined()) found.insert(one.key(), one.value());
  if (recurse)
    for (const auto& child : children_)
      for (const auto& one : child.value()->named_parameters()) found.insert(joined(child.key(), one.key()), one.value());
  return found;
}
std::vector<at::Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }
OrderedDict<std::string, at::Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, at::Tensor> found("Buffer");
  for (const auto& one : buffers_) if (one.value().defined()) found.insert(one.key(), one.value());
  if (recurse)
    for (const auto& child : children_)
      for (const auto& one : child.value()->named_buffers()) found.insert(joined(child.key(), one.key()), one.value());
  return found;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const { return named_modules("", include_self).values(); }
OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& prefix, bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> found("Submodule");
  if (include_self) found.insert(prefix, own_pointer());
  for (const auto& child : children_)
    for (auto& one : child.value()->named_modules(joined(prefix, child.key()))) found.insert(one.key(), one.value());
  return found;
}

// --- states -----------------------------------------------------------------------------------------------------------

void Module::train(bool on) {
  for (auto& child : children_) child.value()->train(on);
  is_training_ = on;
}

void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) child.value()->zero_grad(set_to_none);
  for (auto& one : parameters_) {
    if (!one.value().defined()) continue;
    at::Tensor grad = one.value().grad();
    if (!grad.defined()) continue;
    if (set_to_none) one.value().set_grad({});
    else grad.detach().zero_();
  }
}

// Whole numbers keep their type, as in Python: they count.
void Module::move_to(const c10::TensorOptions& floating, const c10::TensorOptions& other, bool non_blocking) {
  c10::NoGradGuard guard;
  for (auto& child : children_) child.value()->move_to(floating, other, non_blocking);
  auto move = [&](at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto& options = tensor.is_floating_point() || tensor.is_complex() ? floating : other;
    at::Tensor grad = tensor.grad();
    if (grad.defined()) tensor.set_grad({});
    tensor.set_data(tensor.detach().to(options, non_blocking));
    if (grad.defined()) tensor.set_grad(grad.to(options, non_blocking));
  };
  for (auto& one : parameters_) move(one.value());
  for (auto& one : buffers_) move(one.value());
}
void Module::to(at::Device device, at::ScalarType dtype, bool non_blocking) {
  move_to(at::TensorOptions(dtype).device(device), at::TensorOptions(device), non_blocking);
}
void Module::to(at::ScalarType dtype, bool non_blocking) {
  TORCH_CHECK(c10::isFloatingType(dtype) || c10::isComplexType(dtype), "Module::to: expected a floating point or complex dtype, got ", dtype);
  move_to(at::TensorOptions(dtype), {}, non_blocking);
}
void Module::to(at::Device device, bool non_blocking) { move_to(at::TensorOptions(device), at::TensorOptions(device), non_blocking); }

// --- registration -----------------------------------------------------------------------------------------------------

namespace {
void expect_name(const std::string& name, const char* what) {
  TORCH_CHECK(!name.empty(), what, " name must not be empty");
  TORCH_CHECK(name.find('.') == std::string::npos, what, " name must not contain a dot (got '", name, "')");
}
}  // namespace

at::Tensor& Module::register_parameter(std::string name, at::Tensor tensor, bool requires_grad) {
  expect_name(name, "Parameter");
  if (!tensor.defined()) {
    if (requires_grad) TORCH_WARN("An undefined tensor cannot require grad. Ignoring the `requires_grad=true` function parameter.");
  } else {
    tensor.set_requires_grad(requires_grad);
  }
  return parameters_.insert(std::move(name), std::move(tensor));
}
at::Tensor& Module::register_buffer(std::string name, at::Tensor tensor) {
  expect_name(name, "Buffer");
  return buffers_.insert(std::move(name), std::move(tensor));
}
void Module::put_module(std::string name, std::shared_ptr<Module> module, bool replace) {
  expect_name(name, "Submodule");
  TORCH_CHECK(module != nullptr, "register_module: '", name, "' is an empty module");
  if (replace) children_[name] = std::move(module);
  else children_.insert(std::move(name), std::move(module));
}

void Module::forget_registered() {
  parameters_.clear();
  buffers_.clear();
  children_.clear();
}
void Module::copy_values_from(const Module& other, const std::optional<at::Device>& device) {
  TORCH_CHECK(parameters_.size() == other.parameters_.size() && buffers_.size() == other.buffers_.size() && children_.size() == other.children_.size(),
              "clone: reset() of ", name(), " registered other parameters, buffers or parts than the original has. Make all of them in reset(), with the names they have elsewhere.");
  c10::NoGradGuard guard;
  auto copy = [&](auto& into, const auto& from) {
    for (auto& one : into) {
      const at::Tensor& value = from[one.key()];
      if (!one.value().defined() || !value.defined()) continue;
      one.value().set_data(device ? value.detach().to(*device, false, true) : value.detach().clone());
    }
  };
  copy(parameters_, other.parameters_);
  copy(buffers_, other.buffers_);
  for (auto& child : children_) child.value()->copy_values_from(*other.children_[child.key()], device);
}

// --- printing ---------------------------------------------------------------------------------------------------------

void Module::pretty_print(std::ostream& stream) const { stream << name(); }
void Module::pretty_print_recursive(std::ostream& stream, const std::string& indentation) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  stream << "(\n";
  const std::string next = indentation + "  ";
  for (const auto& child : children_) {
    stream << next << "(" << child.key() << "): ";
    child.value()->pretty_print_recursive(stream, next);
    stream << "\n";
  }
  stream << indentation << ")";
}
std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.pretty_print_recursive(stream, "");
  return stream;
}

// --- containers -------------------------------------------------------------------------------------------------------

AnyModule AnyModule::clone(std::optional<at::Device> device) const {
  AnyModule copy = *this;
  copy.module_ = module_ ? module_->clone(device) : nullptr;
  return copy;
}
template <>
AnyValue AnyModule::call<SequentialImpl>(Module& module, std::vector<AnyValue> given) {
  TORCH_CHECK(given.size() == 1, "a Sequential inside another gets one argument, got ", given.size());
  AnyValue value = std::move(given[0]);
  for (AnyModule& part : static_cast<SequentialImpl&>(module)) value = part.any_forward(std::move(value));
  return value;
}
std::shared_ptr<Module> SequentialImpl::clone(const std::optional<at::Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  for (const auto& child : children_) copy->push_back(child.key(), modules_[copy->size()].clone(device));
  return copy;
}
void SequentialImpl::push_back(std::string name, AnyModule module) {
  modules_.push_back(std::move(module));
  register_module(std::move(name), modules_.back().ptr());
}
std::shared_ptr<Module> SequentialImpl::ptr(size_t index) const {
  TORCH_CHECK(index < size(), "Index out of range");
  return modules_[index].ptr();
}
std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<at::Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  return copy;
}
void ModuleListImpl::insert(size_t index, std::shared_ptr<Module> module) {
  TORCH_CHECK(index <= size(), "Index out of range");
  modules_.insert(modules_.begin() + static_cast<std::ptrdiff_t>(index), std::move(module));
  children_.clear();
  for (size_t i = 0; i < size(); ++i) register_module(std::to_string(i), modules_[i]);
}
std::shared_ptr<Module> ModuleDictImpl::clone(const std::optional<at::Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& child : children_) copy->register_module(child.key(), child.value()->clone(device));
  return copy;
}

namespace {
template <class List>
std::shared_ptr<Module> copied(const OrderedDict<std::string, at::Tensor>& parameters, const std::optional<at::Device>& device) {
  auto copy = std::make_shared<List>();
  for (const auto& one : parameters) {
    const at::Tensor value = one.value().detach();
    copy->register_parameter(one.key(), device ? value.to(*device, false, true) : value.clone(), one.value().requires_grad());
  }
  return copy;
}
void print_parameters(std::ostream& stream, const char* name, const OrderedDict<std::string, at::Tensor>& parameters) {
  stream << "torch::nn::" << name << "(\n";
  for (const auto& one : parameters)
    stream << "(" << one.key() << "): Parameter containing: [" << c10::toString(one.value().scalar_type()) << " of size " << one.value().sizes() << "]\n";
  stream << ")";
}
}  // namespace

std::shared_ptr<Module> ParameterListImpl::clone(const std::optional<at::Device>& device) const { return copied<ParameterListImpl>(parameters_, device); }
std::shared_ptr<Module> ParameterDictImpl::clone(const std::optional<at::Device>& device) const { return copied<ParameterDictImpl>(parameters_, device); }
void ParameterListImpl::pretty_print(std::ostream& stream) const { print_parameters(stream, "ParameterList", parameters_); }
void ParameterDictImpl::pretty_print(std::ostream& stream) const { print_parameters(stream, "ParameterDict", parameters_); }

}  // namespace torch::nn
