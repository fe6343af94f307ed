// Modules made of modules, and lists of parameters.
#pragma once
#include <rushlight/nn/module.h>

namespace torch::nn {

// A module with a name, as Sequential takes it in braces.
class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module) : name_(std::move(name)), module_(AnyModule(std::forward<M>(module))) {}
  NamedAnyModule(std::string name, AnyModule module) : name_(std::move(name)), module_(std::move(module)) {}
  const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  const AnyModule& module() const noexcept { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

namespace detail {
template <class T>
constexpr bool is_name = std::is_convertible_v<T, std::string>;
template <class T>
struct is_list_of_modules : std::false_type {};
}  // namespace detail

// Each module gets what the one before it gave.
class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;
  SequentialImpl() = default;
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& named) { for (auto& item : named) push_back(item.key(), std::move(item.value())); }
  SequentialImpl(std::initializer_list<NamedAnyModule> named) { for (const auto& m : named) push_back(m.name(), m.module()); }
  template <class Head, class... Tail, class = std::enable_if_t<!std::is_base_of_v<SequentialImpl, std::decay_t<Head>> && !std::is_same_v<std::decay_t<Head>, OrderedDict<std::string, AnyModule>>>>
  explicit SequentialImpl(Head&& head, Tail&&... tail) {
    push_back(std::forward<Head>(head));
    (push_back(std::forward<Tail>(tail)), ...);
  }

  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  void reset() override {}                             // the parts keep their own
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Sequential"; }

  template <class Result = at::Tensor, class... Inputs>
  Result forward(Inputs&&... inputs) {
    TORCH_CHECK(!modules_.empty(), "Cannot call forward() on an empty Sequential");
    AnyValue value = modules_.front().any_forward(std::forward<Inputs>(inputs)...);
    for (size_t i = 1; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
    if (auto* found = value.template try_get<Result>()) return std::move(*found);
    throw c10::Error("The type of the return value is " + demangled(value.type_info().name()) + ", but you asked for type " + demangled(typeid(Result).name()));
  }

  void push_back(std::string name, AnyModule module);
  void push_back(AnyModule module) { push_back(std::to_string(modules_.size()), std::move(module)); }
  void push_back(NamedAnyModule module) { push_back(module.name(), module.module()); }
  template <class M, class = std::enable_if_t<!detail::is_name<M>>>
  void push_back(std::shared_ptr<M> module) { push_back(AnyModule(std::move(module))); }
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, std::decay_t<M>>>>
  void push_back(M&& module) { push_back(AnyModule(std::forward<M>(module))); }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) { push_back(AnyModule(holder)); }
  template <class M>
  void push_back(std::string name, std::shared_ptr<M> module) { push_back(std::move(name), AnyModule(std::move(module))); }
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, std::decay_t<M>>>>
  void push_back(std::string name, M&& module) { push_back(std::move(name), AnyModule(std::forward<M>(module))); }
  template <class M>
  void push_back(std::string name, const ModuleHolder<M>& holder) { push_back(std::move(name), AnyModule(holder)); }
  template <class Container>
  void extend(const Container& container) { for (const auto& module : container) push_back(module); }

  Iterator begin() { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator begin() const { return modules_.begin(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t index) {
    TORCH_CHECK(index < size(), "Index out of range");
    return modules_[index].get<M>();
  }
  template <class M>
  const M& at(size_t index) const { return const_cast<SequentialImpl*>(this)->at<M>(index); }
  std::shared_ptr<Module> ptr(size_t index) const;
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    TORCH_CHECK(index < size(), "Index out of range");
    return modules_[index].ptr<M>();
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<AnyModule> modules_;
};
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> named) : ModuleHolder(std::make_shared<SequentialImpl>(named)) {}
  template <class... Args>
  at::Tensor operator()(Args&&... args) { return get()->forward(std::forward<Args>(args)...); }
};

// Modules by number.
class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;
  ModuleListImpl() = default;
  template <class Head, class... Tail, class = std::enable_if_t<!std::is_base_of_v<ModuleListImpl, std::decay_t<Head>>>>
  explicit ModuleListImpl(Head&& head, Tail&&... tail) {
    push_back(std::forward<Head>(head));
    (push_back(std::forward<Tail>(tail)), ...);
  }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleList"; }

  void push_back(std::shared_ptr<Module> module) { modules_.push_back(register_module(std::to_string(size()), std::move(module))); }
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, std::decay_t<M>>>>
  void push_back(M&& module) { push_back(std::static_pointer_cast<Module>(std::make_shared<std::decay_t<M>>(std::forward<M>(module)))); }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) { push_back(std::static_pointer_cast<Module>(holder.ptr())); }
  template <class Container>
  void extend(const Container& container) { for (const auto& module : container) push_back(module); }
  void insert(size_t index, std::shared_ptr<Module> module);
  template <class M>
  void insert(size_t index, const ModuleHolder<M>& holder) { insert(index, std::static_pointer_cast<Module>(holder.ptr())); }

  Iterator begin() { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator begin() const { return modules_.begin(); }
  ConstIterator end() const { return modules_.end(); }
  std::shared_ptr<Module> ptr(size_t index) const {
    TORCH_CHECK(index < size(), "Index out of range");
    return modules_[index];
  }
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    auto found = std::dynamic_pointer_cast<M>(ptr(index));
    TORCH_CHECK(found, "Unable to cast module[", index, "] to ", demangled(typeid(M).name()));
    return found;
  }
  template <class M>
  M& at(size_t index) const { return *ptr<M>(index); }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

// Modules by name.
class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) { update(modules); }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) { update(modules.pairs()); }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleDict"; }

  std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const { return children_.pairs(); }
  std::vector<std::string> keys() const { return children_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  auto begin() { return children_.begin(); }
  auto end() { return children_.end(); }
  auto begin() const { return children_.begin(); }
  auto end() const { return children_.end(); }
  size_t size() const noexcept { return children_.size(); }
  bool empty() const noexcept { return children_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return children_.contains(key); }
  void clear() { children_.clear(); }
  void insert(std::string key, std::shared_ptr<Module> module) { update({{std::move(key), std::move(module)}}); }
  std::shared_ptr<Module> pop(const std::string& key) {
    auto found = children_[key];
    children_.erase(key);
    return found;
  }
  void update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
    for (const auto& [key, module] : modules)
      if (contains(key)) replace_module(key, module);
      else register_module(key, module);
  }
  std::shared_ptr<Module> operator[](const std::string& key) const { return children_[key]; }
  template <class M>
  M& at(const std::string& key) const {
    auto* found = dynamic_cast<M*>(children_[key].get());
    TORCH_CHECK(found, "Unable to cast module[", key, "] to ", demangled(typeid(M).name()));
    return *found;
  }
};
TORCH_MODULE(ModuleDict);

// Parameters by number and by name.
class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  ParameterListImpl() = default;
  template <class Head, class... Tail, class = std::enable_if_t<!std::is_base_of_v<ParameterListImpl, std::decay_t<Head>>>>
  explicit ParameterListImpl(const Head& head, const Tail&... tail) {
    append(head);
    (append(tail), ...);
  }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  void append(const at::Tensor& parameter) { register_parameter(std::to_string(size()), parameter, parameter.requires_grad()); }
  void append(const OrderedDict<std::string, at::Tensor>::Item& item) { append(item.value()); }
  template <class Container>
  void extend(const Container& container) { for (const auto& parameter : container) append(parameter); }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  at::Tensor& at(size_t index) { return (*this)[index]; }
  at::Tensor& operator[](size_t index) {
    TORCH_CHECK(index < size(), "Index out of range");
    return parameters_[index].value();
  }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterList);

class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, at::Tensor>& parameters) { for (const auto& p : parameters) insert(p.key(), p.value()); }
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  at::Tensor& insert(std::string key, const at::Tensor& parameter) { return register_parameter(std::move(key), parameter, parameter.requires_grad()); }
  at::Tensor pop(const std::string& key) {
    at::Tensor found = parameters_[key];
    parameters_.erase(key);
    return found;
  }
  std::vector<std::string> keys() const { return parameters_.keys(); }
  std::vector<at::Tensor> values() const { return parameters_.values(); }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
  void clear() { parameters_.clear(); }
  bool contains(const std::string& key) const noexcept { return parameters_.contains(key); }
  at::Tensor& get(const std::string& key) { return parameters_[key]; }
  at::Tensor& operator[](const std::string& key) { return parameters_[key]; }
};
TORCH_MODULE(ParameterDict);

// A function that stands in a Sequential: torch::relu, or a lambda.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<at::Tensor(at::Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... Args, class = std::enable_if_t<(sizeof...(Args) > 0)>>
  explicit FunctionalImpl(F function, Args&&... args)
      : function_([function, args...](at::Tensor input) mutable { return function(std::move(input), args...); }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Functional()"; }
  at::Tensor forward(at::Tensor input) { return function_(std::move(input)); }
  at::Tensor operator()(at::Tensor input) { return forward(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

}  // namespace torch::nn
