// Operators and classes registered from C++, for test_operators.py.
#include <torch/all.h>
#include <torch/custom_class.h>
#include <torch/library.h>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

static Tensor blend(const Tensor& a, const Tensor& b, double k) { return a + b * k; }
static Tensor blend_meta(const Tensor& a, const Tensor&, double) { return at::empty_like(a); }
static std::tuple<Tensor, int64_t> two(Tensor a, std::optional<Tensor> b, at::IntArrayRef sizes, std::string word) {
  return {b ? a + *b : a, static_cast<int64_t>(sizes.size() + word.size())};
}
static void tenfold(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK(op.operator_name().name == "extops::tenfold");
  auto t = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, t * 10);
}
struct Blend : torch::autograd::Function<Blend> {
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b, double k) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("extops::blend", "").typed<Tensor(const Tensor&, const Tensor&, double)>();
    ctx->saved_data["k"] = k;
    return op.call(a, b, k);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0], grads[0] * ctx->saved_data["k"].toDouble(), Tensor()};
  }
};
static Tensor blend_autograd(const Tensor& a, const Tensor& b, double k) { return Blend::apply(a, b, k); }

struct Pile : torch::CustomClassHolder {
  std::vector<std::string> items;
  int64_t mark = 0;
  explicit Pile(std::vector<std::string> items) : items(std::move(items)) {}
  void push(std::string v) { items.push_back(std::move(v)); }
  std::string pop() {
    TORCH_CHECK_INDEX(!items.empty(), "pop: the pile is empty");
    auto v = items.back();
    items.pop_back();
    return v;
  }
  int64_t size() const { return static_cast<int64_t>(items.size()); }
};
using PilePtr = c10::intrusive_ptr<Pile>;

TORCH_LIBRARY(extops, m) {
  m.def("blend(Tensor a, Tensor b, float k=2.0) -> Tensor");
  m.def("two", &two);
  m.def("tenfold(Tensor x) -> Tensor", torch::CppFunction::makeFromBoxedFunction<&tenfold>());
  m.def("inc_(Tensor(a!) x) -> Tensor(a!)", [](Tensor x) { x.add_(1); return x; });
  m.def("fails(Tensor x) -> Tensor", [](const Tensor& x) { TORCH_CHECK_VALUE(false, "fails: by design"); return x; });
  m.def("sorted(Tensor x) -> (Tensor, Tensor)", [](const Tensor& x) { return x.sort(); });
  m.class_<Pile>("Pile")
      .def(torch::init<std::vector<std::string>>())
      .def("push", &Pile::push, "", {torch::arg("value") = "default"})
      .def("pop", &Pile::pop)
      .def("top", [](const PilePtr& self) { return self->items.back(); })
      .def_readwrite("mark", &Pile::mark)
      .def_property("size", &Pile::size)
      .def_static("of", [](std::string word) { return c10::make_intrusive<Pile>(std::vector<std::string>{std::move(word)}); })
      .def_pickle([](const PilePtr& self) { return self->items; }, [](std::vector<std::string> state) { return c10::make_intrusive<Pile>(std::move(state)); });
  m.def("depth(__torch__.torch.classes.extops.Pile pile, Tensor x) -> int", [](const PilePtr& pile, const Tensor&) { return pile->size(); });
}
TORCH_LIBRARY_IMPL(extops, CPU, m) { m.impl("blend", blend); }
TORCH_LIBRARY_IMPL(extops, Meta, m) { m.impl("blend", TORCH_FN(blend_meta)); }
TORCH_LIBRARY_IMPL(extops, Autograd, m) { m.impl("blend", blend_autograd); }
TORCH_LIBRARY_FRAGMENT(extops, m) {
  m.def("totals(Dict(str, Tensor) d, str[] keys) -> Tensor[]", [](const c10::Dict<std::string, Tensor>& d, const std::vector<std::string>& keys) {
    std::vector<Tensor> found;
    for (const auto& key : keys) found.push_back(d.at(key).sum());
    return found;
  });
}
static auto older = torch::RegisterOperators().op("extops::older", [](const Tensor& x, int64_t n) { return x * n; });
