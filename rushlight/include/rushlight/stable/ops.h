// Ops that libraries of the stable ABI may call, and what runs loops on the pool.
#pragma once
#include <rushlight/stable/values.h>

namespace torch {
namespace stable __attribute__((visibility("hidden"))) {

namespace detail {
// Any op by its name: arguments of every parameter of its schema, results read as R.
template <class R, class... Args>
R call(const char* name, const char* overload, const Args&... args) {
  StableIValue stack[sizeof...(Args) ? sizeof...(Args) : 1] = {from(args)...};
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
#else
  TORCH_ERROR_CODE_CHECK(aoti_torch_call_dispatcher(name, overload, stack));
#endif
  return to<R>(stack[0]);
}
#define RUSHLIGHT_MADE(call)                    \
  AtenTensorHandle made_ = nullptr;             \
  TORCH_ERROR_CODE_CHECK(call);                 \
  return Tensor(made_)
}  // namespace detail

inline Tensor empty_like(const Tensor& self) { return detail::call<Tensor>("aten::empty_like", "", self, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt); }
inline Tensor fill_(const Tensor& self, double value) { TORCH_ERROR_CODE_CHECK(aoti_torch_aten_fill__Scalar(self.get(), value)); return self; }
inline Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) { RUSHLIGHT_MADE(aoti_torch_aten_narrow(self.get(), dim, start, length, &made_)); }
inline Tensor pad(const Tensor& self, IntHeaderOnlyArrayRef pad, const std::string& mode = "constant", double value = 0) {
  RUSHLIGHT_MADE(aoti_torch_aten_pad(self.get(), pad.data(), static_cast<int64_t>(pad.size()), mode.c_str(), &value, &made_));
}
inline Tensor amax(const Tensor& self, IntHeaderOnlyArrayRef dims, bool keepdim = false) {
  RUSHLIGHT_MADE(aoti_torch_aten_amax(self.get(), dims.data(), static_cast<int64_t>(dims.size()), keepdim, &made_));
}
inline Tensor amax(const Tensor& self, int64_t dim, bool keepdim = false) { return amax(self, IntHeaderOnlyArrayRef(&dim, 1), keepdim); }
inline Tensor subtract(const Tensor& self, const Tensor& other, double alpha = 1) { RUSHLIGHT_MADE(aoti_torch_aten_subtract_Tensor(self.get(), other.get(), alpha, &made_)); }
inline Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) { return detail::call<Tensor>("aten::transpose", "int", self, dim0, dim1); }
inline Tensor zero_(const Tensor& self) { return detail::call<Tensor>("aten::zero_", "", self); }
inline Tensor copy_(const Tensor& self, const Tensor& from, std::optional<bool> non_blocking = std::nullopt) { return detail::call<Tensor>("aten::copy_", "", self, from, non_blocking.value_or(false)); }
inline Tensor clone(const Tensor& self) { return detail::call<Tensor>("aten::clone", "", self, std::nullopt); }
inline Tensor flatten(const Tensor& self, int64_t from = 0, int64_t to = -1) { return detail::call<Tensor>("aten::flatten", "using_ints", self, from, to); }
inline Tensor unsqueeze(const Tensor& self, int64_t dim) { return detail::call<Tensor>("aten::unsqueeze", "", self, dim); }
inline Tensor squeeze(const Tensor& self, int64_t dim) { return detail::call<Tensor>("aten::squeeze", "dim", self, dim); }
inline Tensor select(const Tensor& self, int64_t dim, int64_t index) { return detail::call<Tensor>("aten::select", "int", self, dim, index); }
inline Tensor matmul(const Tensor& self, const Tensor& other) { return detail::call<Tensor>("aten::matmul", "", self, other); }

#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
inline Tensor empty(IntHeaderOnlyArrayRef size, std::optional<ScalarType> dtype = std::nullopt, std::optional<Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt, std::optional<MemoryFormat> format = std::nullopt) {
  return detail::call<Tensor>("aten::empty", "memory_format", size, dtype, layout, device, pin_memory, format);
}
inline Tensor new_empty(const Tensor& self, IntHeaderOnlyArrayRef size, std::optional<ScalarType> dtype = std::nullopt, std::optional<Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt) {
  return detail::call<Tensor>("aten::new_empty", "", self, size, dtype, layout, device, pin_memory);
}
inline Tensor new_zeros(const Tensor& self, IntHeaderOnlyArrayRef size, std::optional<ScalarType> dtype = std::nullopt, std::optional<Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt) {
  return detail::call<Tensor>("aten::new_zeros", "", self, size, dtype, layout, device, pin_memory);
}
inline Tensor full(IntHeaderOnlyArrayRef size, double value, std::optional<ScalarType> dtype = std::nullopt, std::optional<Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt) {
  int32_t type = 0, place = 0, arrangement = 0, pinned = pin_memory.value_or(false);
  if (dtype) type = detail::number_of(*dtype);
  if (layout) arrangement = detail::number_of(*layout);
  if (device) place = detail::number_of(device->type());
  RUSHLIGHT_MADE(aoti_torch_aten_full(size.data(), static_cast<int64_t>(size.size()), value, dtype ? &type : nullptr, layout ? &arrangement : nullptr, device ? &place : nullptr, device ? device->index() : 0, pin_memory ? &pinned : nullptr, &made_));
}
inline Tensor reshape(const Tensor& self, IntHeaderOnlyArrayRef shape) { return detail::call<Tensor>("aten::reshape", "", self, shape); }
inline Tensor view(const Tensor& self, IntHeaderOnlyArrayRef size) { return detail::call<Tensor>("aten::view", "", self, size); }
inline Tensor to(const Tensor& self, std::optional<ScalarType> dtype = std::nullopt, std::optional<Layout> layout = std::nullopt, std::optional<Device> device = std::nullopt, std::optional<bool> pin_memory = std::nullopt, bool non_blocking = false, bool copy = false, std::optional<MemoryFormat> format = std::nullopt) {
  return detail::call<Tensor>("aten::to", "dtype_layout", self, dtype, layout, device, pin_memory, non_blocking, copy, format);
}
inline Tensor to(const Tensor& self, Device device, bool non_blocking = false, bool copy = false) { return to(self, std::nullopt, std::nullopt, device, std::nullopt, non_blocking, copy); }
inline Tensor contiguous(const Tensor& self, MemoryFormat format = MemoryFormat::Contiguous) { return detail::call<Tensor>("aten::contiguous", "", self, format); }
inline Tensor sum(const Tensor& self, std::optional<IntHeaderOnlyArrayRef> dims = std::nullopt, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) {
  return detail::call<Tensor>("aten::sum", "dim_IntList", self, dims, keepdim, dtype);
}
inline Tensor& sum_out(Tensor& out, const Tensor& self, std::optional<IntHeaderOnlyArrayRef> dims = std::nullopt, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) {
  detail::call<Tensor>("aten::sum", "IntList_out", self, dims, keepdim, dtype, out);
  return out;
}
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  auto run = [](int64_t from, int64_t to, void* context) { (*static_cast<const F*>(context))(from, to); };
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, run, const_cast<F*>(&f)));
}
inline uint32_t get_num_threads() {
  uint32_t count = 0;
  TORCH_ERROR_CODE_CHECK(torch_get_num_threads(&count));
  return count;
}
#endif

#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
// A tensor in memory that somebody else keeps, or that `deleter(data)` ends.
inline Tensor from_blob(void* data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides, Device device, ScalarType dtype, int64_t storage_offset = 0, Layout layout = Layout::Strided) {
  RUSHLIGHT_MADE(torch_from_blob(data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), storage_offset, detail::number_of(dtype), detail::number_of(device.type()), device.index(), &made_, detail::number_of(layout), nullptr, 0, nullptr, nullptr));
}
template <class F, std::enable_if_t<std::is_invocable_v<F, void*>, int> = 0>
Tensor from_blob(void* data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides, Device device, ScalarType dtype, F deleter, int64_t storage_offset = 0, Layout layout = Layout::Strided) {
  auto kept = std::make_unique<F>(std::move(deleter));
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_from_blob(data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), storage_offset, detail::number_of(dtype), detail::number_of(device.type()), device.index(), &made, detail::number_of(layout), nullptr, 0, [](void* at, void* context) {
    std::unique_ptr<F> owned(static_cast<F*>(context));
    (*owned)(at);
  }, kept.get()));
  (void)kept.release();
  return Tensor(made);
}
#endif
#undef RUSHLIGHT_MADE

}  // namespace stable
}  // namespace torch
