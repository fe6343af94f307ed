// The current stream and device of CUDA, for sources that launch kernels. Needs CUDA's own headers.
#pragma once
#include <cuda_runtime_api.h>

#include <rushlight/cuda.h>
#include <rushlight/guards.h>

namespace c10::cuda {

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(kCUDA, device_); }
  void synchronize() const { TORCH_CHECK(cudaStreamSynchronize(stream_) == cudaSuccess, "CUDAStream::synchronize failed"); }

 private:
  cudaStream_t stream_;
  DeviceIndex device_;
};
inline DeviceIndex current_device() { return static_cast<DeviceIndex>(::rushlight::current_device()); }
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  const DeviceIndex at = device < 0 ? current_device() : device;
  return {reinterpret_cast<cudaStream_t>(::rushlight::current_stream(at)), at};
}
class CUDAGuard : public DeviceGuard {
 public:
  explicit CUDAGuard(DeviceIndex index) : DeviceGuard(Device(kCUDA, index)) {}
  explicit CUDAGuard(Device device) : DeviceGuard(device) {}
  void set_index(DeviceIndex index) { reset_device(Device(kCUDA, index)); }
};
class OptionalCUDAGuard : public OptionalDeviceGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) : OptionalDeviceGuard(device) {}
  void set_device(Device device) { reset_device(device); }
};
inline void check(cudaError_t result, const char* file, int line) {
  if (result != cudaSuccess) throw Error({"", file, static_cast<uint32_t>(line)}, std::string("CUDA error: ") + cudaGetErrorString(result));
}
}  // namespace c10::cuda
namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
inline int64_t current_device() { return ::rushlight::current_device(); }
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static thread_local cudaDeviceProp found;
  c10::cuda::check(cudaGetDeviceProperties(&found, static_cast<int>(current_device())), __FILE__, __LINE__);
  return &found;
}
}  // namespace at::cuda
#define C10_CUDA_CHECK(call) ::c10::cuda::check(call, __FILE__, __LINE__)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define CUDA_KERNEL_LOOP(i, n) for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); i += int64_t(blockDim.x) * gridDim.x)
