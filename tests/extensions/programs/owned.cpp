// What extensions do with references to Python's objects, for use_owned.py to count.
#include <rushlight/all.h>
#include <rushlight/autograd.h>
#include <rushlight/library.h>
#include <rushlight/pybind.h>

using at::Tensor;

static std::vector<Tensor> held;

static Tensor same(const Tensor& x) { return x; }
static std::vector<Tensor> turned(std::vector<Tensor> all) { return {all.rbegin(), all.rend()}; }
static Tensor computed(const Tensor& x) { return at::add(x, x.mul(2)).to(at::kDouble).reshape({-1}); }
static void keep(const Tensor& x) { held.push_back(x); }
static void let_go() { held.clear(); }
static void fails(const Tensor& x) { x.view({77}); }
static void fails_of_its_kind(const Tensor& x) { x.select(7, 0); }
static bool catches(const Tensor& x) {
  try {
    x.view({77});
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}
struct Twice : torch::autograd::Function<Twice> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    return {grads[0] * 2 * at::ones_like(ctx->get_saved_variables()[0])};
  }
};
static Tensor twice(const Tensor& x) { return Twice::apply(x); }

TORCH_LIBRARY(owned, m) {
  m.def("same(Tensor x) -> Tensor", &same);
  m.def("both(Tensor x, Tensor y) -> (Tensor, Tensor)", [](const Tensor& x, const Tensor& y) { return std::make_tuple(x, y); });
  m.def("refuses(Tensor x) -> Tensor", [](const Tensor& x) { return x.view({77}); });
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("same", &same);
  m.def("turned", &turned);
  m.def("computed", &computed);
  m.def("keep", &keep);
  m.def("let_go", &let_go);
  m.def("fails", &fails);
  m.def("fails_of_its_kind", &fails_of_its_kind);
  m.def("catches", &catches);
  m.def("twice", &twice);
}
