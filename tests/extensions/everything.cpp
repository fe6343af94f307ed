// One source for most tests: a compiler is slow, so it runs once.
#include <torch/extension.h>

using torch::Tensor;
namespace idx = torch::indexing;

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13, "sources ask for the release");

Tensor affine(const Tensor& x, double k) { return x * k + at::ones_like(x); }
Tensor squares(const Tensor& x) {
  TORCH_CHECK(x.dim() == 1, "squares: expected one dimension, got ", x.dim());
  auto y = torch::empty_like(x);
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "squares", [&] {
    auto a = x.accessor<scalar_t, 1>();
    auto b = y.accessor<scalar_t, 1>();
    at::parallel_for(0, x.size(0), 16, [&](int64_t from, int64_t to) { for (int64_t i = from; i < to; ++i) b[i] = a[i] * a[i]; });
  });
  return y;
}
Tensor corner(const Tensor& x) {
  auto a = x.packed_accessor32<float, 2>();
  return torch::tensor({a[0][0], a[1][1]});
}
double total(const Tensor& x) {
  const double* data = x.data_ptr<double>();
  return at::parallel_reduce(int64_t(0), x.numel(), int64_t(7), 0.0, [&](int64_t from, int64_t to, double sum) { for (int64_t i = from; i < to; ++i) sum += data[i]; return sum; }, std::plus<double>());
}
void fails(const std::string& how) {
  TORCH_CHECK_INDEX(how != "index", "index ", 3);
  TORCH_CHECK_VALUE(how != "value", "value");
  TORCH_CHECK_TYPE(how != "type", "type");
  TORCH_CHECK_NOT_IMPLEMENTED(how != "todo", "todo");
  TORCH_CHECK(how != "check", "check");
  TORCH_INTERNAL_ASSERT(how != "assert", "assert");
  if (how == "range") throw std::out_of_range("range");
  if (how == "python") torch::ones({2}).view({3});
  if (how == "thread") at::parallel_for(0, 100, 1, [](int64_t i, int64_t) { TORCH_CHECK_VALUE(i < 50, "thread"); });
  if (how == "undefined") Tensor().sizes();
  if (how == "dtype") torch::ones({2}).data_ptr<int>();
}
Tensor part(const Tensor& x) { return x.index({idx::Slice(1, idx::None), 0}); }
Tensor parts(const Tensor& x) {
  auto y = x.clone();
  y.index_put_({0, idx::Ellipsis}, 7);
  y[1] = y[0] * 2;
  return y;
}
std::tuple<Tensor, Tensor> most(const Tensor& x, int64_t dim) { return x.max(dim); }
std::vector<Tensor> pieces(const Tensor& x) { return x.split(2); }
Tensor joined(std::vector<Tensor> list, std::optional<Tensor> more) { if (more) list.push_back(*more); return torch::cat(list); }
std::string described(torch::Dtype dtype, torch::Device device, torch::Scalar number, std::optional<int64_t> k) {
  return c10::str(dtype, " ", device, " ", number, " ", k.value_or(-1));
}
torch::Dtype wider(torch::Dtype a, torch::Dtype b) { return at::promoteTypes(a, b); }
torch::Scalar same(torch::Scalar s) { return s; }
int64_t product(at::IntArrayRef sizes) { int64_t r = 1; for (auto s : sizes) r *= s; return r; }
static int freed = 0;
Tensor borrowed(bool strided) {
  auto* data = new float[6]{0, 1, 2, 3, 4, 5};
  auto release = [](void* p) { delete[] static_cast<float*>(p); ++freed; };
  return strided ? torch::from_blob(data, {2, 3}, {1, 2}, release) : torch::from_blob(data, {2, 3}, release, torch::kFloat);
}
int count_freed() { return freed; }
std::vector<bool> modes(const Tensor& x) {
  std::vector<bool> seen{torch::GradMode::is_enabled()};
  { torch::NoGradGuard guard; seen.push_back(torch::GradMode::is_enabled()); seen.push_back((x * 2).requires_grad()); }
  seen.push_back(torch::GradMode::is_enabled());
  return seen;
}
std::vector<Tensor> made() {
  auto options = torch::dtype(torch::kDouble).requires_grad(true);
  return {torch::zeros({2, 3}, options), torch::arange(5), torch::full({2}, 3, torch::kInt), torch::tensor({{1, 2}, {3, 4}}), torch::tensor({1.5, 2.5}), torch::eye(2), torch::linspace(0, 1, 3)};
}
Tensor out_of(const Tensor& a) { auto out = torch::empty({0}); at::add_out(out, a, a, 2); return out; }
Tensor all_ops(Tensor x) { x += 1; x *= x; return (2 - x).abs().sum(0, true).sqrt().clamp(0, 3) / 2; }
std::vector<int64_t> geometry(const Tensor& x) { return {x.dim(), x.numel(), x.stride(0), x.storage_offset(), x.is_contiguous(), static_cast<int64_t>(x.nbytes()), x.size(-1)}; }
void nothing(const Tensor&) {}

struct Cube : torch::autograd::Function<Cube> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, double k) {
    ctx->save_for_backward({x});
    ctx->saved_data["k"] = k;
    return x * x * x * k;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto x = ctx->get_saved_variables()[0];
    return {grads[0] * x * x * (3 * ctx->saved_data["k"].toDouble()), Tensor()};
  }
};
Tensor cube(const Tensor& x, double k) { return Cube::apply(x, k); }
struct Two : torch::autograd::Function<Two> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, Tensor a, std::optional<Tensor> b) {
    ctx->saved_data["both"] = b.has_value();
    auto order = a.argsort();
    ctx->mark_non_differentiable({order});
    return {b ? a + *b : a * 1, order};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    return {grads[0] * 5, ctx->saved_data["both"].toBool() ? grads[0] * 7 : Tensor()};
  }
};
std::vector<Tensor> two(const Tensor& a, std::optional<Tensor> b) { return Two::apply(a, b); }
std::vector<Tensor> gradients(const Tensor& x) { return torch::autograd::grad({(x * x).sum()}, {x}); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
#define D(f) m.def(#f, &f)
  D(affine); D(squares); D(corner); D(total); D(fails); D(part); D(parts); D(most); D(pieces); D(joined); D(described); D(wider);
  D(same); D(product); D(borrowed); D(count_freed); D(modes); D(made); D(out_of); D(all_ops); D(geometry); D(nothing); D(cube);
  D(two); D(gradients);
}
