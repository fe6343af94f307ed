// Questions of GPUs. Streams and launches are in ATen/cuda/CUDAContext.h, which needs CUDA's own headers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace torch::cuda {
size_t device_count();
bool is_available();
bool cudnn_is_available();
void manual_seed(uint64_t seed);
void manual_seed_all(uint64_t seed);
void synchronize(int64_t device_index = -1);
}  // namespace torch::cuda
namespace rushlight {
int64_t current_device();
uint64_t current_stream(int64_t device_index);   // as a number
}  // namespace rushlight
namespace at::cuda {
inline bool is_available() { return torch::cuda::is_available(); }
}
