// Values and modules of any type: what Sequential passes on and holds.
#pragma once
#include <any>
#include <memory>
#include <typeinfo>

#include <rushlight/nn/arguments.h>

namespace torch::nn {

class Module;

std::string demangled(const char* type_name);   // the name of a type as its author wrote it

// A value of any type that can be copied.
class AnyValue {
 public:
  template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, AnyValue>>>
  explicit AnyValue(T&& value) : value_(std::decay_t<T>(std::forward<T>(value))) {}
  template <class T>
  T* try_get() { return std::any_cast<std::remove_const_t<T>>(&value_); }
  template <class T>
  T get() {
    static_assert(!std::is_reference_v<T>, "AnyValue::get gives a value: name the type without a reference");
    if (T* found = try_get<T>()) return *found;
    throw c10::Error("AnyValue: it holds " + demangled(type_info().name()) + ", not " + demangled(typeid(T).name()));
  }
  const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  std::any value_;
};

namespace detail {

[[noreturn]] void wrong_argument(size_t place, const char* expected, const char* got, const std::string& module);
// The arguments of a call of `forward` with `wanted` parameters: what was given, and the module's own defaults.
void complete_arguments(Module& module, std::vector<AnyValue>& given, size_t wanted);
std::string module_name(const Module& module);

template <class T>
T argument_of(AnyValue& value, size_t place, const Module& module) {
  if (T* found = value.try_get<T>()) return std::move(*found);
  wrong_argument(place, typeid(T).name(), value.type_info().name(), module_name(module));
}

template <class M, class Result, class... Args, size_t... I>
AnyValue call_forward(M& module, Result (M::*)(Args...), std::vector<AnyValue>& given, std::index_sequence<I...>) {
  (void)given;
  return AnyValue(module.forward(argument_of<std::decay_t<Args>>(given[I], I, module)...));
}
template <class Owner, class M, class Result, class... Args>
AnyValue run_forward(M& module, Result (Owner::*)(Args...), std::vector<AnyValue> given) {
  complete_arguments(module, given, sizeof...(Args));
  return call_forward<M, Result, Args...>(module, static_cast<Result (M::*)(Args...)>(nullptr), given, std::index_sequence_for<Args...>());
}
template <class Owner, class M, class Result, class... Args>
AnyValue run_forward(M& module, Result (Owner::*)(Args...) const, std::vector<AnyValue> given) {
  complete_arguments(module, given, sizeof...(Args));
  return call_forward<M, Result, Args...>(module, static_cast<Result (M::*)(Args...)>(nullptr), given, std::index_sequence_for<Args...>());
}

template <class M, class = void>
struct has_forward : std::false_type {};
template <class M>
struct has_forward<M, std::void_t<decltype(&M::forward)>> : std::true_type {};

}  // namespace detail

template <class Contained>
class ModuleHolder;

// A module whose type the holder need not know. Its `forward` is no template and has one form.
class AnyModule {
  template <class M>
  static AnyValue call(Module& module, std::vector<AnyValue> given);

 public:
  AnyModule() = default;
  template <class M>
  explicit AnyModule(std::shared_ptr<M> module) : module_(module), call_(&AnyModule::call<M>), type_(&typeid(M)) {}
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, std::decay_t<M>>>>
  explicit AnyModule(M&& module) : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <class M>
  AnyModule& operator=(std::shared_ptr<M> module) { return *this = AnyModule(std::move(module)); }

  template <class... Args>
  AnyValue any_forward(Args&&... args) {
    TORCH_CHECK(!is_empty(), "AnyModule: there is no module to call");
    std::vector<AnyValue> given;
    given.reserve(sizeof...(Args));
    (given.push_back(wrapped(std::forward<Args>(args))), ...);
    return call_(*module_, std::move(given));
  }
  template <class Result = at::Tensor, class... Args>
  Result forward(Args&&... args) { return any_forward(std::forward<Args>(args)...).template get<Result>(); }

  AnyModule clone(std::optional<at::Device> device = std::nullopt) const;
  template <class M, class = std::enable_if_t<std::is_base_of_v<Module, M>>>
  M& get() {
    TORCH_CHECK(!is_empty(), "AnyModule: there is no module");
    TORCH_CHECK(*type_ == typeid(M), "AnyModule: it holds ", demangled(type_->name()), ", not ", demangled(typeid(M).name()));
    return static_cast<M&>(*module_);
  }
  template <class M, class = std::enable_if_t<!std::is_base_of_v<Module, M>>, class Contained = typename M::ContainedType>
  M get() {
    get<Contained>();
    return M(std::static_pointer_cast<Contained>(module_));
  }
  std::shared_ptr<Module> ptr() const { return module_; }
  template <class M>
  std::shared_ptr<M> ptr() const {
    const_cast<AnyModule*>(this)->template get<M>();
    return std::static_pointer_cast<M>(module_);
  }
  const std::type_info& type_info() const { return type_ ? *type_ : typeid(void); }
  bool is_empty() const noexcept { return module_ == nullptr; }

 private:
  template <class T>
  static AnyValue wrapped(T&& value) {
    if constexpr (std::is_same_v<std::decay_t<T>, AnyValue>) return value;
    else return AnyValue(std::forward<T>(value));
  }
  std::shared_ptr<Module> module_;
  AnyValue (*call_)(Module&, std::vector<AnyValue>) = nullptr;
  const std::type_info* type_ = nullptr;
};

// One Sequential in another: its forward is a template, and gets one value of any type.
class SequentialImpl;
template <>
AnyValue AnyModule::call<SequentialImpl>(Module& module, std::vector<AnyValue> given);

}  // namespace torch::nn
