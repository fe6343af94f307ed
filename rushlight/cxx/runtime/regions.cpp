// Loops over threads, and the modes of a thread.
#include <rushlight/cuda.h>
#include <rushlight/guards.h>
#include <rushlight/parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "runtime.h"

namespace rushlight {

namespace {
thread_local bool inside = false;
thread_local int number = 0;
using Pool = void (*)(int64_t, int64_t, void (*)(void*, int64_t, int64_t), void*);
struct Work {
  const std::function<void(int64_t, int64_t)>& body;
  int64_t begin, end, step;
  std::exception_ptr failed;
  std::mutex lock;
};
}  // namespace

void run_parallel(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  static Pool pool = nullptr;   // under the lock
  int64_t threads;
  {
    Lock lock;
    if (!pool) pool = *static_cast<Pool*>(PyCapsule_Import("rushlight._C._parallel_for", 0));
    if (!pool) throw_python();
    threads = at::get_num_threads();
  }
  const int64_t extent = end - begin, least = std::max<int64_t>(grain, 1);
  const int64_t count = std::max<int64_t>(1, std::min(threads, (extent + least - 1) / least));
  Work work{body, begin, end, (extent + count - 1) / count, nullptr, {}};
  Unlocked unlocked;
  pool(count, 1, [](void* context, int64_t from, int64_t to) {
    auto& w = *static_cast<Work*>(context);
    const bool was_inside = std::exchange(inside, true);
    const int was_number = number;
    for (int64_t i = from; i < to; ++i) {
      const int64_t first = w.begin + i * w.step;
      number = static_cast<int>(i);
      try {
        if (first < w.end) w.body(first, std::min(w.end, first + w.step));
      } catch (...) {
        std::lock_guard guard(w.lock);
        if (!w.failed) w.failed = std::current_exception();
      }
    }
    inside = was_inside, number = was_number;
  }, &work);
  if (work.failed) std::rethrow_exception(work.failed);
}

const CoreCalls& core_calls() {
  static std::atomic<const CoreCalls*> known{nullptr};
  if (auto* found = known.load(std::memory_order_acquire)) return *found;
  Lock lock;
  state();                        // the package, which has the modules loaded
  auto* found = static_cast<const CoreCalls*>(PyCapsule_Import("rushlight._C._native_calls", 0));
  if (!found) throw_python();
  if (found->version != kCoreCallsVersion) throw c10::Error("rushlight: this extension was built for another version of Rushlight. Build it again.");
  known.store(found, std::memory_order_release);
  return *found;
}
bool mode(Mode which) { return core_calls().mode(which); }
bool set_mode(Mode which, bool on) { return core_calls().set_mode(which, on); }

}  // namespace rushlight

namespace at {
bool in_parallel_region() { return rushlight::inside; }
int get_thread_num() { return rushlight::number; }
}  // namespace at

namespace c10 {

void OptionalDeviceGuard::reset_device(Device device) {
  current_ = device;
  if (!device.is_cuda()) return;
  rushlight::Lock lock;
  rushlight::Object index(rushlight::wrap(static_cast<int64_t>(device.index())));
  const int64_t before = rushlight::int_from(rushlight::call_runtime("exchange_device", {index.get()}).get());
  if (!original_) original_ = Device(kCUDA, static_cast<DeviceIndex>(before));
}
OptionalDeviceGuard::~OptionalDeviceGuard() {
  if (!original_) return;
  try {
    const Device before = *original_;
    reset_device(before);
  } catch (const Error&) {   // the device has gone: there is nothing to return to
  }
}

}  // namespace c10

namespace rushlight {
int64_t current_device() {
  Lock lock;
  Object run = checked(PyObject_GetAttrString(part("cuda"), "current_device"));
  return int_from(checked(PyObject_CallNoArgs(run.get())).get());
}
uint64_t current_stream(int64_t device_index) {
  Lock lock;
  Object run = checked(PyObject_GetAttrString(part("cuda"), "current_stream")), index(wrap(device_index));
  Object stream = checked(PyObject_CallOneArg(run.get(), index.get())), number = checked(PyObject_GetAttrString(stream.get(), "cuda_stream"));
  return PyLong_AsUnsignedLongLongMask(number.get());
}
}  // namespace rushlight
