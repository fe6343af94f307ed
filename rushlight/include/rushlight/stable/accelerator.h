// The current device and its stream.
#pragma once
#include <rushlight/stable/values.h>

namespace torch::stable {
namespace accelerator __attribute__((visibility("hidden"))) {

using torch::headeronly::DeviceIndex;
using StreamId = int64_t;

class DeviceGuard {      // another device is the current one, as long as this lives
 public:
  explicit DeviceGuard(DeviceIndex index) {
    DeviceGuardHandle made = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_create_device_guard(index, &made));
    handle_.reset(made);
  }
  void set_index(DeviceIndex index) { TORCH_ERROR_CODE_CHECK(aoti_torch_device_guard_set_index(handle_.get(), index)); }

 private:
  struct Delete { void operator()(DeviceGuardHandle h) const { aoti_torch_delete_device_guard(h); } };
  std::unique_ptr<DeviceGuardOpaque, Delete> handle_;
};

class Stream {
 public:
  explicit Stream(StreamHandle owned) : handle_(owned, [](StreamHandle h) { aoti_torch_delete_stream(h); }) {}
  StreamId id() const {
    StreamId found;
    TORCH_ERROR_CODE_CHECK(aoti_torch_stream_id(handle_.get(), &found));
    return found;
  }
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
  void* nativeHandle() const {
    void* found = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_stream_native_handle(handle_.get(), &found));
    return found;
  }
#endif

 private:
  std::shared_ptr<StreamOpaque> handle_;
};
inline Stream getCurrentStream(DeviceIndex index) {
  StreamHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_stream(index, &made));
  return Stream(made);
}
inline DeviceIndex getCurrentDeviceIndex() {
  int32_t index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_device_index(&index));
  return static_cast<DeviceIndex>(index);
}

}  // namespace accelerator
}  // namespace torch::stable
