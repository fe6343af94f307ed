// Derivatives written in C++: torch::autograd::Function, and gradients on demand. The nodes of the graph are in node.h.
#pragma once
#include <rushlight/guards.h>
#include <rushlight/ivalue.h>
#include <rushlight/node.h>

#include <typeinfo>

namespace torch::autograd {

namespace detail {
struct Call;
struct Running;
}

// What one call keeps for its derivative.
class AutogradContext {
 public:
  AutogradContext() = default;
  AutogradContext(const AutogradContext&) = delete;
  std::unordered_map<std::string, at::IValue> saved_data;
  void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
  variable_list get_saved_variables() const;
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  void mark_non_differentiable(const variable_list& outputs) { constant_ = outputs; }
  void set_materialize_grads(bool value) { materializes_ = value; }
  bool needs_input_grad(size_t tensor) const;   // of the tensors among the arguments of forward, in backward

 private:
  friend struct detail::Running;
  variable_list to_save_, dirty_, constant_;
  bool materializes_ = true;
  void* node_ = nullptr;           // while backward runs: the graph's node
  void* face_ = nullptr;           // instead of it, where a transform of functions runs: the context of Python's Function
};

namespace detail {
using Backward = variable_list (*)(AutogradContext*, variable_list);
struct Call {                      // of one Function, without its type
  variable_list (*forward)(void* arguments, AutogradContext*);
  void* arguments;
  Backward backward;
  const char* name;
  variable_list tensors;           // the arguments that are, and the tensors of those that are lists
  std::vector<char> is_tensor;     // of all of them
};
variable_list apply(Call call);
const char* type_name(const std::type_info& type);   // never freed
template <class A>
void collect(const A& argument, Call& call) {
  if constexpr (std::is_convertible_v<const A&, at::Tensor>) {
    call.tensors.push_back(argument), call.is_tensor.push_back(true);
  } else if constexpr (std::is_same_v<A, std::optional<at::Tensor>>) {
    const bool given = argument && argument->defined();
    if (given) call.tensors.push_back(*argument);
    call.is_tensor.push_back(given);
  } else if constexpr (std::is_same_v<A, at::TensorList>) {
    for (const at::Tensor& one : argument) call.tensors.push_back(one), call.is_tensor.push_back(true);
  } else {
    call.is_tensor.push_back(false);
  }
}
inline variable_list listed(at::Tensor one) {
  variable_list all;
  all.push_back(std::move(one));
  return all;
}
inline variable_list listed(variable_list all) { return all; }
template <class T>
T result(variable_list all) {
  if constexpr (std::is_same_v<T, at::Tensor>) return std::move(all.at(0));
  else return all;
}
}  // namespace detail

template <class T>
struct Function {
  template <class X = T, class... Args>
  static auto apply(Args&&... args) -> std::decay_t<decltype(X::forward(nullptr, std::forward<Args>(args)...))> {
    auto forward = [&](AutogradContext* ctx) { return detail::listed(X::forward(ctx, std::forward<Args>(args)...)); };
    static const char* const name = detail::type_name(typeid(T));
    detail::Call call{[](void* arguments, AutogradContext* ctx) { return (*static_cast<decltype(forward)*>(arguments))(ctx); }, &forward,
                      [](AutogradContext* ctx, variable_list grads) { return detail::listed(X::backward(ctx, std::move(grads))); }, name, {}, {}};
    call.tensors.reserve(sizeof...(Args)), call.is_tensor.reserve(sizeof...(Args));
    (detail::collect(args, call), ...);
    return detail::result<std::decay_t<decltype(X::forward(nullptr, std::forward<Args>(args)...))>>(detail::apply(std::move(call)));
  }
};

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false, bool allow_unused = false);
void backward(const variable_list& tensors, const variable_list& grad_tensors = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false, const variable_list& inputs = {});
inline bool any_variable_requires_grad(const variable_list& tensors) {
  for (const Variable& t : tensors) if (t.requires_grad()) return true;
  return false;
}
inline Variable make_variable(at::Tensor data, bool requires_grad = false) { at::Tensor t = data.detach(); t.set_requires_grad(requires_grad); return t; }

}  // namespace torch::autograd
