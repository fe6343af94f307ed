// Tensors that are written into: resize_, set_ and `_out` functions, and sparse tensors from their parts; each check prints
// its name. Compiled against PyTorch 2.13 it prints the same lines, but for the type that coordinates are asked for in: there
// it is the values'.
#include <torch/torch.h>

#include <iostream>

using at::Tensor;
static void holds(bool condition, const std::string& name) { std::cout << name << (condition ? ": ok" : ": FAILED") << std::endl; }
template <class Run>
static bool throws(Run run) {
  try { run(); } catch (const c10::Error&) { return true; }
  return false;
}

static void check_memory() {
  Tensor x = torch::arange(6.0);
  const Tensor same = x;
  x.resize_({2, 2});
  holds(x.sizes() == at::IntArrayRef({2, 2}) && x[1][1].item<double>() == 3 && same.dim() == 2, "resize_");
  x.resize_({1, 2, 2, 2}, at::MemoryFormat::ChannelsLast);
  holds(x.is_contiguous(at::MemoryFormat::ChannelsLast) && x.numel() == 8, "resize_ in a memory format");
  x.resize_as_(torch::ones({3, 1}));
  holds(x.sizes() == at::IntArrayRef({3, 1}) && !throws([&] { at::resize_as_(x, torch::ones({2})); }) && throws([&] { x.resize_({-1}); }), "resize_as_");
  Tensor source = torch::arange(8.0), view = torch::empty({0});
  view.set_(source.storage(), 1, {2, 2}, {4, 1});
  holds(view.is_alias_of(source) && view[1][0].item<double>() == 5 && view.storage_offset() == 1, "set_ with strides");
  view.set_(source.storage(), 2, {3});
  holds(view.equal(torch::tensor({2.0, 3.0, 4.0})) && view.stride(0) == 1, "set_ without strides");
  view.set_(source.storage());
  holds(view.equal(source), "set_ to a storage");
  source.fill_(7);
  Tensor other = torch::empty({0});
  other.set_(source);
  holds(other[0].item<double>() == 7 && view[3].item<double>() == 7, "set_ to a tensor");
  other.set_();
  holds(other.numel() == 0 && source.numel() == 8, "set_ to nothing");
  holds(throws([&] { other.set_(source.storage(), 0, {2}, {1, 1}); }), "set_ is checked");
}

static void check_sparse() {
  const Tensor indices = torch::tensor({{0, 2, 0}, {1, 0, 1}}), values = torch::tensor({1.0, 2.0, 3.0});
  const Tensor expected = torch::tensor({{0.0, 4.0, 0.0}, {0.0, 0.0, 0.0}, {2.0, 0.0, 0.0}});
  Tensor coo = torch::sparse_coo_tensor(indices, values, {3, 3});
  holds(coo.is_sparse() && coo.to_dense().equal(expected) && coo._nnz() == 3 && coo.coalesce()._nnz() == 2 && coo.sparse_dim() == 2, "coordinates");
  holds(torch::sparse_coo_tensor(indices, values).sizes() == at::IntArrayRef({3, 2}) && torch::sparse_coo_tensor({2, 5}, torch::dtype(torch::kFloat)).sizes() == at::IntArrayRef({2, 5}), "sizes of coordinates");
  Tensor typed = torch::sparse_coo_tensor(indices, values, {3, 3}, torch::dtype(torch::kDouble).requires_grad(true));
  holds(typed.scalar_type() == torch::kDouble, "the type of coordinates");
  holds(typed.requires_grad() && !typed.is_coalesced(), "recording of coordinates");
  Tensor unsafe = at::_sparse_coo_tensor_unsafe(indices, values, {3, 3});
  holds(unsafe.to_dense().equal(expected) && unsafe._indices().equal(indices) && unsafe._values().equal(values), "coordinates unchecked");
  const Tensor rows = torch::tensor({0, 1, 1, 2}), columns = torch::tensor({1, 0}), two = torch::tensor({4.0, 2.0});
  Tensor csr = torch::sparse_csr_tensor(rows, columns, two, {3, 3}, torch::dtype(torch::kFloat));
  holds(csr.is_sparse_csr() && csr.to_dense().equal(expected) && csr.crow_indices().equal(rows) && csr.col_indices().equal(columns), "compressed rows");
  Tensor csc = torch::sparse_csc_tensor(torch::tensor({0, 1, 2, 2}), torch::tensor({2, 0}), torch::tensor({2.0, 4.0}), {3, 3}, torch::dtype(torch::kFloat));
  holds(csc.layout() == torch::kSparseCsc && csc.to_dense().equal(expected) && csc.ccol_indices().numel() == 4 && csc.row_indices().numel() == 2, "compressed columns");
  Tensor bsr = torch::sparse_bsr_tensor(torch::tensor({0, 1}), torch::tensor({1}), torch::ones({1, 2, 2}), {2, 4}, torch::dtype(torch::kFloat));
  holds(bsr.to_dense().sum().item<double>() == 4 && bsr.to_dense()[1][2].item<double>() == 1, "blocks");
  Tensor any = torch::sparse_compressed_tensor(rows, columns, two, {3, 3}, torch::dtype(torch::kFloat).layout(torch::kSparseCsr));
  holds(any.to_dense().equal(expected), "compressed by layout");
  holds(expected.to_sparse().to_dense().equal(expected) && expected.to_sparse(1).sparse_dim() == 1 && expected.to_sparse_csr().to_dense().equal(expected) && expected.to_sparse_bsr({3, 1}).values().size(1) == 3, "from dense tensors");
}

// An `_out` function gives what the function gives, into a tensor without elements of the result's type.
#define ONE(name, ...)                                                      \
  {                                                                         \
    const Tensor expected = at::name(__VA_ARGS__);                          \
    Tensor out = at::empty({0}, expected.options());                        \
    Tensor& given = at::name##_out(out, __VA_ARGS__);                       \
    holds(out.equal(expected) && &given == &out, #name "_out");             \
  }
#define TWO(name, ...)                                                                             \
  {                                                                                                \
    const auto expected = at::name(__VA_ARGS__);                                                   \
    Tensor first = at::empty({0}, std::get<0>(expected).options()), second = at::empty({0}, std::get<1>(expected).options()); \
    at::name##_out(first, second, __VA_ARGS__);                                                    \
    holds(first.equal(std::get<0>(expected)) && second.equal(std::get<1>(expected)), #name "_out"); \
  }

static void check_outs() {
  torch::manual_seed(1);
  const Tensor x = torch::randn({3, 3}), y = torch::randn({3, 3}), image = torch::randn({1, 2, 4, 4});
  const Tensor target = torch::tensor({0, 2, 1});
  ONE(add, x, y, 2) ONE(linalg_det, x) ONE(linalg_inv, x) ONE(linalg_vector_norm, x) ONE(avg_pool2d, image, {2, 2}) ONE(gelu, x, "tanh")
  ONE(silu, x) ONE(leaky_relu, x, 0.2) ONE(hardtanh, x) ONE(softplus, x) ONE(elu, x) ONE(mse_loss, x, y) ONE(nll_loss, x, target) ONE(reflection_pad2d, image, {1, 1, 1, 1})
  ONE(upsample_nearest2d, image, {8, 8}) ONE(linear, x, y) ONE(zeros_like, x) ONE(isnan, x) ONE(relu, x) ONE(clone, x)
  ONE(masked_fill, x, x > 0, 1) ONE(subtract, x, y) ONE(xlogy, x.abs(), y.abs()) ONE(index, x, {target}) ONE(all, x > 0) ONE(zeros, {2, 3})
  TWO(linalg_qr, x) TWO(sort, x, 0, true) TWO(topk, x, 2) TWO(kthvalue, x, 2) TWO(max, x, 1) TWO(mode, x) TWO(adaptive_max_pool2d, image, {2, 2})
  TWO(max_pool2d_with_indices, image, {2, 2}) TWO(var_mean, x, {1})
  Tensor numbers = torch::zeros({5});
  at::arange_out(numbers, 5);
  holds(numbers[4].item<double>() == 4, "arange_out");
  Tensor drawn = torch::empty({0}), filled = torch::empty({0});
  torch::manual_seed(2), at::randn_out(drawn, {4});
  torch::manual_seed(2);
  holds(drawn.equal(torch::randn({4})), "randn_out");
  at::zero_out(filled, x);
  holds(filled.equal(torch::zeros({3, 3})), "zero_out");
  std::vector<Tensor> pieces{torch::empty({2, 3}), torch::empty({1, 3})};
  at::split_copy_out(pieces, x, 2);
  holds(pieces[0].equal(x.slice(0, 0, 2)) && pieces[1].equal(x.slice(0, 2, 3)), "split_copy_out");
  Tensor whole = torch::empty({0}, torch::kLong), out = torch::empty({0});
  const Tensor leaf = x.clone().requires_grad_();
  holds(throws([&] { at::gelu_out(whole, x); }) && throws([&] { at::linalg_det_out(whole, x); }) && throws([&] { at::relu_out(whole, x); }), "types are checked");
  holds(throws([&] { at::gelu_out(out, leaf); }) && throws([&] { at::linalg_det_out(out, leaf); }) && throws([&] { at::silu_out(out, leaf); }), "recording is refused");
}

// Ops under the short names of torch::fft and torch::special.
static void check_spaces() {
  const Tensor x = torch::tensor({0.25, 0.5, 1.0, 2.0});
  holds(torch::fft::fft(x).equal(at::fft_fft(x)) && torch::fft::irfft(torch::fft::rfft(x), 4).allclose(x) && torch::fft::fftfreq(4).equal(at::fft_fftfreq(4)), "torch::fft");
  Tensor out = torch::empty({0});
  torch::special::erf_out(out, x);
  holds(torch::special::erfinv(torch::special::erf(x)).allclose(x) && out.equal(at::erf(x)) && torch::special::xlog1py(x, 2).equal(at::special_xlog1py(x, 2)), "torch::special");
}

int main() {
  check_spaces();
  check_memory();
  check_sparse();
  check_outs();
  std::cout << "end" << std::endl;
}
