// Functions with derivatives of their own, and hooks, for test_cxx_autograd.py.
#include <torch/extension.h>
#include <torch/csrc/autograd/function.h>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// a * k + the sum of a list, with every kind of argument; says which gradients backward was asked for.
static std::vector<bool> asked;
struct Mixed : torch::autograd::Function<Mixed> {
  static variable_list forward(AutogradContext* ctx, const Tensor& a, int64_t k, at::TensorList more, std::optional<Tensor> last, const std::string&) {
    ctx->saved_data["k"] = k;
    ctx->saved_data["more"] = static_cast<int64_t>(more.size());
    Tensor sum = a * k;
    for (const Tensor& one : more) sum = sum + one;
    if (last) sum = sum + *last;
    ctx->save_for_backward({a, sum});
    return {sum, a.detach()};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const int64_t count = ctx->saved_data["more"].toInt();
    asked.clear();
    for (int64_t i = 0; i < count + 1; ++i) asked.push_back(ctx->needs_input_grad(static_cast<size_t>(i)));
    variable_list all{grads[0] * ctx->saved_data["k"].toInt() + grads[1] * saved[0], Tensor()};
    for (int64_t i = 0; i < count; ++i) all.push_back(grads[0] * static_cast<double>(i + 2));
    all.push_back(Tensor()), all.push_back(Tensor());
    return all;
  }
};
static variable_list mixed(const Tensor& a, int64_t k, std::vector<Tensor> more) { return Mixed::apply(a, k, at::TensorList(more), std::optional<Tensor>(), std::string("word")); }
static std::vector<bool> was_asked() { return asked; }

// One behaviour, chosen by a word.
struct Chosen : torch::autograd::Function<Chosen> {
  static variable_list forward(AutogradContext* ctx, Tensor x, std::string how) {
    ctx->saved_data["how"] = how;
    if (how == "same") return {x};
    if (how == "dirty") {
      x.mul_(3);
      ctx->mark_dirty({x});
      return {x};
    }
    if (how == "not among") {
      ctx->mark_dirty({x});
      return {x * 2};
    }
    if (how == "throws") TORCH_CHECK_VALUE(false, "forward: by design");
    if (how == "none") ctx->set_materialize_grads(false);
    Tensor order = x.argsort();
    ctx->mark_non_differentiable({order});
    ctx->save_for_backward({x, Tensor(), order});
    return {x * 3, order, x * 5};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const std::string how = ctx->saved_data["how"].toStringRef();
    if (how == "count") return {grads[0]};
    if (how == "not a tensor") return {grads[0], grads[0]};
    if (how == "backward throws") TORCH_CHECK_INDEX(false, "backward: by design");
    if (how == "same" || how == "dirty") return {grads[0] * 3, Tensor()};
    const auto saved = ctx->get_saved_variables();
    TORCH_CHECK(!saved[1].defined());
    if (how == "none") return {grads[1].defined() || grads[2].defined() ? grads[0] : grads[0] * 7, Tensor()};
    TORCH_CHECK(grads[1].scalar_type() == at::kLong && grads[1].sizes() == saved[2].sizes(), "zeros of the order");
    return {grads[0] * 3 + grads[1] + grads[2] * 5, Tensor(), Tensor()};
  }
};
static variable_list chosen(Tensor x, const std::string& how) { return Chosen::apply(x, how); }

// --- hooks ------------------------------------------------------------------------------------------------------------

static Tensor hooked(Tensor x) {
  Tensor y = x * 2;
  const unsigned removed = y.register_hook([](Tensor gradient) { return gradient * 100; });
  y.register_hook([](Tensor gradient) { return gradient * 10; });
  static int seen = 0;
  y.register_hook([](Tensor) { ++seen; });
  y.remove_hook(removed);
  y.sum().backward();
  return x.grad() + seen * 1000;
}

struct Before : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& grads) override { return {grads[0] * 2}; }
};
struct After : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override { return {outputs[0] + inputs[0]}; }
};
static Tensor hooked_nodes(Tensor x) {
  Tensor y = x.exp();
  auto node = y.grad_fn();
  TORCH_CHECK(node == y.grad_fn() && node->name() == "ExpBackward0" && node->num_inputs() == 1 && node->num_outputs() == 1);
  TORCH_CHECK(!x.grad_fn() && node->next_edge(0).function == torch::autograd::impl::grad_accumulator(x));
  TORCH_CHECK(torch::autograd::impl::gradient_edge(y) == torch::autograd::Edge(node, 0) && node->next_edges().size() == 1);
  node->add_pre_hook(std::make_unique<Before>());
  const auto removed = node->add_post_hook(std::make_unique<After>());
  TORCH_CHECK(node->del_post_hook(removed) && !node->del_post_hook(removed));
  node->add_post_hook(std::make_unique<After>());
  y.sum().backward();
  return x.grad();
}
static Tensor given(Tensor x) {
  TORCH_CHECK(!x.mutable_grad().defined());
  x.mutable_grad() = torch::ones_like(x);
  x.mutable_grad().mul_(4);
  return x.grad();
}
static std::vector<bool> guarded(const Tensor& x) {
  std::vector<bool> seen;
  {
    at::NoGradGuard off;
    { c10::InferenceMode mode; seen.push_back(c10::InferenceMode::is_enabled()); }
    seen.push_back((x * 2).requires_grad() || c10::InferenceMode::is_enabled());
    at::AutoDispatchBelowAutograd below;
  }
  seen.push_back((x * 2).requires_grad());
  return seen;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
#define D(f) m.def(#f, &f)
  D(mixed); D(was_asked); D(chosen); D(hooked); D(hooked_nodes); D(given); D(guarded);
}
