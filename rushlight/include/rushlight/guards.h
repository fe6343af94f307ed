// Modes that hold while an object lives.
#pragma once
#include <rushlight/functions.h>
#include <rushlight/modes.h>

namespace rushlight {
bool set_mode(Mode mode, bool on);   // of the calling thread; gives what it was
bool mode(Mode mode);
struct ModeGuard {
  ModeGuard(Mode mode, bool on) : mode(mode), before(set_mode(mode, on)) {}
  ~ModeGuard() { set_mode(mode, before); }
  ModeGuard(const ModeGuard&) = delete;
  const Mode mode;
  const bool before;
};
}  // namespace rushlight

namespace c10 {
struct AutoGradMode : ::rushlight::ModeGuard { explicit AutoGradMode(bool on) : ModeGuard(::rushlight::Mode::kGrad, on) {} };
struct NoGradGuard : AutoGradMode { NoGradGuard() : AutoGradMode(false) {} };
struct InferenceMode {
  explicit InferenceMode(bool on = true) : grad_(!on), inference_(::rushlight::Mode::kInference, on) {}
  static bool is_enabled() { return ::rushlight::mode(::rushlight::Mode::kInference); }

 private:
  AutoGradMode grad_;
  ::rushlight::ModeGuard inference_;
};
struct GradMode {
  static bool is_enabled() { return ::rushlight::mode(::rushlight::Mode::kGrad); }
  static void set_enabled(bool on) { ::rushlight::set_mode(::rushlight::Mode::kGrad, on); }
};
// Calls made meanwhile pass by what was registered for Autograd, and are not recorded.
struct AutoDispatchBelowAutograd {
  AutoDispatchBelowAutograd() : below_(::rushlight::Mode::kBelowAutograd, true), grad_(false) {}

 private:
  ::rushlight::ModeGuard below_;
  AutoGradMode grad_;
};
struct AutoDispatchBelowADInplaceOrView : AutoDispatchBelowAutograd {};
struct AutoNonVariableTypeMode : AutoDispatchBelowAutograd { explicit AutoNonVariableTypeMode(bool = true) {} };

// The current device, for a while; the CPU has one only.
class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<Device> device) { if (device) reset_device(*device); }
  ~OptionalDeviceGuard();
  OptionalDeviceGuard(const OptionalDeviceGuard&) = delete;
  void reset_device(Device device);
  std::optional<Device> original_device() const { return original_; }
  std::optional<Device> current_device() const { return current_; }

 private:
  std::optional<Device> original_, current_;
};
class DeviceGuard : public OptionalDeviceGuard {
 public:
  explicit DeviceGuard(Device device) : OptionalDeviceGuard(device) {}
};
}  // namespace c10
namespace at {
using c10::AutoGradMode;
using c10::GradMode;
using c10::NoGradGuard;
using c10::OptionalDeviceGuard;
using c10::DeviceGuard;
inline std::optional<Device> device_of(const Tensor& t) { return t.defined() ? std::make_optional(t.device()) : std::nullopt; }
}
namespace at {
using c10::AutoDispatchBelowAutograd;
using c10::AutoDispatchBelowADInplaceOrView;
using c10::AutoNonVariableTypeMode;
using c10::InferenceMode;
}
namespace torch {
using c10::AutoGradMode;
using c10::GradMode;
using c10::InferenceMode;
using c10::NoGradGuard;
namespace autograd { using c10::AutoGradMode; using c10::GradMode; }
}
