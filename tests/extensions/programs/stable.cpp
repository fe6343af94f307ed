// An extension for the stable ABI by its C++ headers, PyTorch's or ours: what it is built with and loaded into may
// differ. Read by use_stable.py.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/core/TensorAccessor.h>

#include <vector>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor doubled(Tensor x) {
  Tensor input = torch::stable::contiguous(x), made = torch::stable::empty_like(input);
  THO_DISPATCH_V2(x.scalar_type(), "doubled", AT_WRAP([&] {
    const scalar_t* from = input.const_data_ptr<scalar_t>();
    scalar_t* to = made.mutable_data_ptr<scalar_t>();
    torch::stable::parallel_for(0, input.numel(), 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = from[i] + from[i];
    });
  }), AT_EXPAND(AT_FLOATING_TYPES), torch::headeronly::kLong);
  return made;
}
Tensor add_scaled_(Tensor self, const Tensor& other, double scale) {
  return torch::stable::copy_(self, torch::stable::subtract(self, other, -scale));
}
std::tuple<Tensor, int64_t, std::string> described(Tensor x, std::optional<std::string> word) {
  return {torch::stable::flatten(x), x.dim(), word.value_or("none") + (x.is_cpu() ? " cpu" : " other")};
}
Tensor joined(std::vector<Tensor> parts, std::vector<int64_t> shape) {
  STD_TORCH_CHECK(!parts.empty(), "joined: no tensors");
  Tensor total = torch::stable::clone(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) total = torch::stable::subtract(total, parts[i], -1.0);
  return torch::stable::reshape(total, shape);
}
Tensor made(std::vector<int64_t> size, std::optional<ScalarType> dtype, std::optional<torch::stable::Device> device, bool zero) {
  Tensor t = torch::stable::empty(size, dtype, std::nullopt, device);
  return zero ? torch::stable::zero_(t) : torch::stable::fill_(t, 3.0);
}
Tensor corner(Tensor x) {
  Tensor square = torch::stable::matmul(x, torch::stable::transpose(x, 0, 1));
  Tensor cut = torch::stable::narrow(square, 0, 0, 1);
  return torch::stable::sum(torch::stable::select(cut, 0, 0), std::nullopt, false);
}
int64_t strided(Tensor x) {
  torch::headeronly::HeaderOnlyTensorAccessor<int64_t, 2> at(x.mutable_data_ptr<int64_t>(), x.sizes().data(), x.strides().data());
  return at[1][0];
}
bool maybe(std::optional<Tensor> x, std::optional<double> y) { return x.has_value() && x->defined() && y.value_or(0) > 1; }
Tensor from_memory(int64_t n) {
  auto* data = new float[n];
  for (int64_t i = 0; i < n; ++i) data[i] = static_cast<float>(i);
  int64_t sizes[] = {n}, strides[] = {1};
  return torch::stable::from_blob(data, {sizes, 1}, {strides, 1}, torch::stable::Device(torch::headeronly::DeviceType::CPU), ScalarType::Float, [](void* p) { delete[] static_cast<float*>(p); });
}
Tensor beyond(Tensor x) { return torch::stable::select(x, 5, 0); }

}  // namespace

STABLE_TORCH_LIBRARY(stable_probe, m) {
  m.def("doubled(Tensor x) -> Tensor");
  m.def("add_scaled_(Tensor(a!) self, Tensor other, float scale=1.0) -> Tensor(a!)");
  m.def("described(Tensor x, str? word=None) -> (Tensor, int, str)");
  m.def("joined(Tensor[] parts, int[] shape) -> Tensor");
  m.def("made(int[] size, ScalarType? dtype=None, Device? device=None, bool zero=False) -> Tensor");
  m.def("corner(Tensor x) -> Tensor");
  m.def("strided(Tensor x) -> int");
  m.def("from_memory(int n) -> Tensor");
  m.def("beyond(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_FRAGMENT(stable_probe, m) { m.def("maybe(Tensor? x=None, float? y=None) -> bool"); }
STABLE_TORCH_LIBRARY_IMPL(stable_probe, CompositeExplicitAutograd, m) {
  m.impl("doubled", TORCH_BOX(&doubled));
  m.impl("add_scaled_", TORCH_BOX(&add_scaled_));
  m.impl("described", TORCH_BOX(&described));
  m.impl("joined", TORCH_BOX(&joined));
  m.impl("made", TORCH_BOX(&made));
  m.impl("corner", TORCH_BOX(&corner));
  m.impl("strided", TORCH_BOX(&strided));
  m.impl("maybe", TORCH_BOX(&maybe));
  m.impl("from_memory", TORCH_BOX(&from_memory));
  m.impl("beyond", TORCH_BOX(&beyond));
}
