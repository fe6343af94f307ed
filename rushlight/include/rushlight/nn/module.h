// torch::nn::Module: parameters, buffers and parts by name; holders that make modules behave as values.
#pragma once
#include <rushlight/nn/any.h>

namespace torch::nn {

class Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ConstNamedModuleApplyFunction = std::function<void(const std::string&, const Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedModulePointerApplyFunction = std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

  explicit Module(std::string name);
  Module();
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) noexcept = default;
  virtual ~Module() = default;

  const std::string& name() const noexcept;              // given, or the name of the type
  virtual std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const;

  void apply(const ModuleApplyFunction& function);
  void apply(const ConstModuleApplyFunction& function) const;
  void apply(const NamedModuleApplyFunction& function, const std::string& prefix = "");
  void apply(const ConstNamedModuleApplyFunction& function, const std::string& prefix = "") const;
  void apply(const ModulePointerApplyFunction& function) const;
  void apply(const NamedModulePointerApplyFunction& function, const std::string& prefix = "") const;

  std::vector<at::Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, at::Tensor> named_parameters(bool recurse = true) const;
  std::vector<at::Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, at::Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& prefix = "", bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }

  virtual void train(bool on = true);
  void eval() { train(false); }
  virtual bool is_training() const noexcept { return is_training_; }
  virtual void to(at::Device device, at::ScalarType dtype, bool non_blocking = false);
  virtual void to(at::ScalarType dtype, bool non_blocking = false);
  virtual void to(at::Device device, bool non_blocking = false);
  void to(c10::DeviceType device, bool non_blocking = false) { to(at::Device(device), non_blocking); }
  virtual void zero_grad(bool set_to_none = true);
  virtual bool is_serializable() const { return true; }
  virtual void pretty_print(std::ostream& stream) const;

  template <class M>
  typename M::ContainedType* as() noexcept { return as<typename M::ContainedType>(); }
  template <class M>
  const typename M::ContainedType* as() const noexcept { return as<typename M::ContainedType>(); }
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>, class = void>
  M* as() noexcept { return dynamic_cast<M*>(this); }
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>, class = void>
  const M* as() const noexcept { return dynamic_cast<const M*>(this); }

  at::Tensor& register_parameter(std::string name, at::Tensor tensor, bool requires_grad = true);
  at::Tensor& register_buffer(std::string name, at::Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    put_module(std::move(name), module, false);
    return module;
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) { return register_module(std::move(name), holder.ptr()); }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    put_module(name, module, true);
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) { return replace_module(name, holder.ptr()); }
  void unregister_module(const std::string& name) { children_.erase(name); }

  // What FORWARD_HAS_DEFAULT_ARGS says: the place of each argument of `forward` that has a default, and that value.
  virtual std::vector<std::pair<unsigned, AnyValue>> default_arguments() { return {}; }

 protected:
  OrderedDict<std::string, at::Tensor> parameters_{"Parameter"};
  OrderedDict<std::string, at::Tensor> buffers_{"Buffer"};
  OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};

 private:
  template <class Derived, class Base>
  friend class Cloneable;
  friend std::ostream& operator<<(std::ostream& stream, const Module& module);
  void put_module(std::string name, std::shared_ptr<Module> module, bool replace);
  void copy_values_from(const Module& other, const std::optional<at::Device>& device);
  void forget_registered();
  void pretty_print_recursive(std::ostream& stream, const std::string& indentation) const;
  void move_to(const c10::TensorOptions& floating, const c10::TensorOptions& other, bool non_blocking);
  std::shared_ptr<Module> own_pointer() const;
  mutable std::string name_;
  bool is_training_ = true;
};

#define FORWARD_HAS_DEFAULT_ARGS(...) \
  std::vector<std::pair<unsigned, ::torch::nn::AnyValue>> default_arguments() override { return {__VA_ARGS__}; }

// A base for modules that can be copied: `reset` makes the parameters and parts, the copy takes the values over.
template <class Derived, class Base = Module>
class Cloneable : public Base {
 public:
  using Base::Base;
  virtual void reset() = 0;
  std::shared_ptr<Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    static_cast<Module&>(*copy).forget_registered();
    copy->reset();
    static_cast<Module&>(*copy).copy_values_from(*this, device);
    return copy;
  }
};

namespace detail {
template <class Holder, class Contained, class = void>
struct is_holder_of : std::false_type {};
template <class Holder, class Contained>
struct is_holder_of<Holder, Contained, std::void_t<typename Holder::ContainedType>> : std::is_same<typename Holder::ContainedType, Contained> {};
}  // namespace detail

// A shared pointer to a module that is written like the module itself.
template <class Contained>
class ModuleHolder {
 public:
  using ContainedType = Contained;
  ModuleHolder() : impl_(made()) {}
  ModuleHolder(std::nullptr_t) : impl_(nullptr) {}
  template <class Head, class... Tail,
            class = std::enable_if_t<!(detail::is_holder_of<std::decay_t<Head>, Contained>::value && sizeof...(Tail) == 0)>>
  explicit ModuleHolder(Head&& head, Tail&&... tail) : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    TORCH_CHECK(!is_empty(), "the module is empty: give its holder a module before it is used");
    return impl_;
  }
  Contained* get() { return ptr().get(); }
  const Contained* get() const { return ptr().get(); }
  template <class... Args, class M = Contained>   // some modules have no forward
  auto operator()(Args&&... args) -> decltype(std::declval<M&>().forward(std::forward<Args>(args)...)) {
    return get()->forward(std::forward<Args>(args)...);
  }
  template <class Index>
  decltype(auto) operator[](Index&& index) { return (*get())[std::forward<Index>(index)]; }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  friend std::ostream& operator<<(std::ostream& stream, const ModuleHolder& holder) { return stream << static_cast<const Module&>(*holder); }

 private:
  static std::shared_ptr<Contained> made() {
    static_assert(std::is_default_constructible_v<Contained>,
                  "this module needs arguments: write NAME{nullptr} for a holder that gets its module later");
    return std::make_shared<Contained>();
  }
  std::shared_ptr<Contained> impl_;
};

#define TORCH_MODULE_IMPL(Name, Impl_)                                 \
  class Name : public ::torch::nn::ModuleHolder<Impl_> {               \
   public:                                                             \
    using ::torch::nn::ModuleHolder<Impl_>::ModuleHolder;              \
    using Impl = Impl_;                                                \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)

template <class M>
AnyValue AnyModule::call(Module& module, std::vector<AnyValue> given) {
  static_assert(detail::has_forward<M>::value, "AnyModule: the module needs one method `forward` that is no template");
  return detail::run_forward(static_cast<M&>(module), &M::forward, std::move(given));
}

}  // namespace torch::nn
