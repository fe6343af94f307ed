// Mistakes of extensions that have to be caught. REFUSED: registrations that cannot be made.
#include <torch/all.h>
#include <torch/library.h>

using at::Tensor;

#ifdef REFUSED
TORCH_LIBRARY(bad_good, m) { m.def("fine(Tensor x) -> Tensor", [](const Tensor& x) { return x; }); }
struct Kept : torch::CustomClassHolder {};
TORCH_LIBRARY(bad_classes, m) { m.class_<Kept>("Kept").def(torch::init<>()); }
TORCH_LIBRARY(bad_schema, m) {
  m.def("before(Tensor x) -> Tensor", [](const Tensor& x) { return x; });
  m.def("broken(Nonsense x) -> Tensor");
}
TORCH_LIBRARY(bad_count, m) { m.def("two(Tensor x) -> (Tensor, Tensor)", [](const Tensor& x) { return x; }); }
TORCH_LIBRARY(bad_arguments, m) { m.def("more(Tensor x, int n) -> Tensor", [](const Tensor& x) { return x; }); }
TORCH_LIBRARY_IMPL(bad_absent, CPU, m) { m.impl("nowhere", [](const Tensor& x) { return x; }); }
#else
static void gives_too_many(const c10::OperatorHandle&, torch::jit::Stack* stack) { torch::jit::push(*stack, (*stack)[0]); }
static void gives_a_number(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  stack->clear();
  torch::jit::push(*stack, 3);
}
TORCH_LIBRARY(bad_results, m) {
  m.def("too_many(Tensor x) -> Tensor", torch::CppFunction::makeFromBoxedFunction<&gives_too_many>());
  m.def("number(Tensor x) -> Tensor", torch::CppFunction::makeFromBoxedFunction<&gives_a_number>());
  m.def("undefined(Tensor x) -> Tensor", [](const Tensor&) { return Tensor(); });
  m.def("asks_undefined(Tensor x) -> int", [](const Tensor&) { return Tensor().dim(); });
  m.def("calls_undefined(Tensor x) -> Tensor", [](const Tensor& x) { return x + Tensor(); });
  m.def("wrong_type(Tensor x) -> float", [](const Tensor& x) { return *x.data_ptr<double>(); });
  m.def("as_long(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(bad_results, CPU, m) { m.impl("as_long", [](const Tensor& x) { return x.to(at::kLong); }); }
TORCH_LIBRARY_IMPL(bad_results, Meta, m) { m.impl("as_long", [](const Tensor& x) { return at::empty_like(x); }); }
#endif
