// What a kernel asks of its surroundings: threads, devices, streams, modes; warnings.
#include <atomic>
#include <cstdlib>
#include <new>

#include "stable.h"

namespace rl::stable {

// --- threads --------------------------------------------------------------------------------------------------------

struct Region {
  void (*function)(int64_t, int64_t, void*);
  void* context;
  int64_t begin;
  uint64_t number;                       // of this region, among all
  std::atomic<uint32_t> threads{0};      // that took part so far
  std::atomic<bool> failed{false};
  Caught first{};
};
static std::atomic<uint64_t> regions{0};
static thread_local uint64_t region_of_thread = 0;
static thread_local uint32_t index_of_thread = 0;

static void run_chunk(void* context, int64_t begin, int64_t end) {
  auto* region = static_cast<Region*>(context);
  if (region->failed) return;
  uint64_t outer = region_of_thread;
  uint32_t outer_index = index_of_thread;
  if (outer != region->number) {
    region_of_thread = region->number;
    index_of_thread = region->threads++;
  }
  Caught thrown = call_range(region->function, region->begin + begin, region->begin + end, region->context);
  if (thrown.kind) {
    if (!region->failed.exchange(true)) region->first = thrown;
    else free(thrown.text);
  }
  if (outer && outer != region->number) region_of_thread = outer, index_of_thread = outer_index;
}

static int parallel(int64_t begin, int64_t end, int64_t grain, void (*function)(int64_t, int64_t, void*),
                    void* context) {
  if (end <= begin) return 0;
  Region region;
  region.function = function;
  region.context = context;
  region.begin = begin;
  region.number = ++regions;
  int64_t extent = end - begin, threads = core.num_threads();
  int64_t chunk = (extent + threads - 1) / threads;
  if (chunk < grain) chunk = grain;
  core.parallel_for(extent, chunk, run_chunk, &region);
  if (!region.failed) return 0;
  fail("torch_parallel_for: %s", region.first.text ? region.first.text : "the function threw");
  free(region.first.text);
  return 1;
}

// --- what is current ------------------------------------------------------------------------------------------------

// A guard: the Python object whose `close` puts back what was current.
static int guard_of(Ref made, PyObject** into) {
  if (!made) return fail_python();
  *into = made.release();
  return 0;
}

static int end_guard(PyObject* guard) {
  if (!guard) return 0;
  Locked lock;
  if (!lock.held) return 0;
  Ref owned(guard), closed(PyObject_CallMethod(guard, "close", nullptr));
  return closed ? 0 : fail_python();
}

static int number_of(Ref found, int64_t* into) {
  if (!found) return fail_python();
  long long number = PyLong_AsLongLong(found.p);
  if (number == -1 && PyErr_Occurred()) return fail_python();
  *into = number;
  return 0;
}

static int address_of(Ref found, void** into) {
  int64_t number = 0;
  if (number_of(std::move(found), &number)) return 1;
  *into = reinterpret_cast<void*>(number);
  return 0;
}

static int done(Ref answer) { return answer ? 0 : fail_python(); }

}  // namespace rl::stable

using namespace rl::stable;
using rl::Ref;

STABLE_API int torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                  void (*function)(int64_t, int64_t, void*), void* context) {
  if (!function) return fail("torch_parallel_for: the function is null");
  if (Py_IsInitialized() && PyGILState_Check()) {
    rl::Unlocked region;
    return parallel(begin, end, grain, function, context);
  }
  return parallel(begin, end, grain, function, context);
}
STABLE_API int torch_get_thread_idx(uint32_t* into) { return *into = index_of_thread, 0; }
STABLE_API int torch_get_num_threads(uint32_t* into) {
  return *into = static_cast<uint32_t>(rl::stable::core.num_threads()), 0;
}

STABLE_API bool aoti_torch_grad_mode_is_enabled() {
  Locked lock;
  return rl::stable::core.state_of_thread()->grad_enabled;
}
STABLE_API void aoti_torch_grad_mode_set_enabled(bool enabled) {
  Locked lock;
  rl::stable::core.state_of_thread()->grad_enabled = enabled;
}

STABLE_API void aoti_torch_warn(const char* function, const char* file, uint32_t line, const char* text) {
  Locked lock;
  if (lock.held && !ask("warn", "(zzIz)", function, file, line, text)) keep_for_later();
}
// Nothing can be thrown through C: what fails here is raised when the kernel returns.
STABLE_API void aoti_torch_check(bool condition, const char* function, const char* file, uint32_t line,
                                 const char* text) {
  if (condition) return;
  Locked lock;
  PyErr_Format(PyExc_RuntimeError, "%s (in %s, %s:%u)", text ? text : "a check failed", function ? function : "?",
               file ? file : "?", line);
  keep_for_later();
}

STABLE_API int torch_parse_device_string(const char* text, uint32_t* type, int32_t* index) {
  Locked lock;
  Ref device(PyObject_CallFunction(rl::as_object(rl::DeviceType), "s", text));
  if (!device) return fail_python();
  auto* found = reinterpret_cast<rl::DeviceObject*>(device.p);
  *type = static_cast<uint32_t>(device_code(found->device));
  *index = found->has_index ? found->device.index : -1;
  return 0;
}

// --- devices and streams --------------------------------------------------------------------------------------------

STABLE_API int aoti_torch_get_current_device_index(int32_t* into) {
  Locked lock;
  int64_t number = 0;
  if (number_of(ask("current_device", "()"), &number)) return 1;
  return *into = static_cast<int32_t>(number), 0;
}
STABLE_API int aoti_torch_create_device_guard(int32_t index, PyObject** into) {
  Locked lock;
  return guard_of(ask("device_guard", "(i)", index), into);
}
STABLE_API int aoti_torch_delete_device_guard(PyObject* guard) { return end_guard(guard); }
STABLE_API int aoti_torch_device_guard_set_index(PyObject* guard, int32_t index) {
  Locked lock;
  return done(Ref(PyObject_CallMethod(guard, "set_index", "i", index)));
}
STABLE_API int aoti_torch_create_cuda_guard(int32_t index, PyObject** into) {
  return aoti_torch_create_device_guard(index, into);
}
STABLE_API int aoti_torch_delete_cuda_guard(PyObject* guard) { return end_guard(guard); }
STABLE_API int aoti_torch_cuda_guard_set_index(PyObject* guard, int32_t index) {
  return aoti_torch_device_guard_set_index(guard, index);
}

STABLE_API int aoti_torch_get_current_stream(int32_t index, PyObject** into) {
  Locked lock;
  return guard_of(ask("current_stream", "(i)", index), into);
}
STABLE_API int aoti_torch_stream_id(PyObject* stream, int64_t* into) {
  Locked lock;
  return number_of(Ref(PyObject_GetAttrString(stream, "stream_id")), into);
}
STABLE_API int torch_stream_native_handle(PyObject* stream, void** into) {
  Locked lock;
  return address_of(ask("native_stream", "(O)", stream), into);
}
STABLE_API int aoti_torch_delete_stream(PyObject* stream) {
  Locked lock;
  if (lock.held) Py_XDECREF(stream);
  return 0;
}
STABLE_API int aoti_torch_get_current_cuda_stream(int32_t index, void** into) {
  Locked lock;
  return address_of(ask("current_cuda_stream", "(i)", index), into);
}
STABLE_API int torch_set_current_cuda_stream(void* stream, int32_t index) {
  Locked lock;
  return done(ask("set_cuda_stream", "(Ki)", reinterpret_cast<unsigned long long>(stream), index));
}
STABLE_API int torch_get_cuda_stream_from_pool(bool high, int32_t index, void** into) {
  Locked lock;
  return address_of(ask("cuda_stream_from_pool", "(ii)", high, index), into);
}
STABLE_API int torch_cuda_stream_synchronize(void* stream, int32_t index) {
  Locked lock;
  return done(ask("synchronize_cuda_stream", "(Ki)", reinterpret_cast<unsigned long long>(stream), index));
}
STABLE_API int aoti_torch_create_cuda_stream_guard(void* stream, int32_t index, PyObject** into) {
  Locked lock;
  return guard_of(ask("cuda_stream_guard", "(Ki)", reinterpret_cast<unsigned long long>(stream), index), into);
}
STABLE_API int aoti_torch_delete_cuda_stream_guard(PyObject* guard) { return end_guard(guard); }
STABLE_API int torch_get_current_cuda_blas_handle(void** into) {
  Locked lock;
  return address_of(ask("cuda_blas_handle", "()"), into);
}
STABLE_API int aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t nbytes, void** into) {
  Locked lock;
  return address_of(ask("cuda_allocate", "(K)", static_cast<unsigned long long>(nbytes)), into);
}
STABLE_API int aoti_torch_cuda_caching_allocator_raw_delete(void* address) {
  Locked lock;
  return done(ask("cuda_free", "(K)", reinterpret_cast<unsigned long long>(address)));
}

// Null, for no error; else words that the caller gives back.
STABLE_API int torch_c10_cuda_check_msg(int32_t error, const char* file, const char* function, uint32_t line, bool,
                                        char** words) {
  *words = nullptr;
  if (error == 0) return 0;
  Locked lock;
  Ref text = ask("cuda_error_words", "(izzI)", error, function, file, line);
  const char* found = text ? PyUnicode_AsUTF8(text.p) : nullptr;
  if (!found) return fail_python();
  return *words = strdup(found), 0;
}
STABLE_API void torch_c10_cuda_free_error_msg(char* words) { free(words); }

// --- of both headers, but for what compiled graphs of PyTorch alone need --------------------------------------------

#define ABSENT(name) \
  STABLE_API int name() { return fail(#name ": this function of PyTorch's C interface is not in Rushlight"); }

ABSENT(aoti_torch_int64_to_ivalue)
ABSENT(aoti_torch_strlist_to_ivalue)
ABSENT(aoti_torch_str_to_ivalue)
ABSENT(aoti_torch_tensor_to_ivalue)
ABSENT(aoti_torch_delete_c10_value_object)
ABSENT(aoti_torch_cpu_wrapped_fbgemm_pack_gemm_matrix_fp16)
ABSENT(aoti_torch_cpu__wrapped_linear_prepack)
ABSENT(aoti_torch_cpu_wrapped_fbgemm_linear_fp16_weight)
ABSENT(aoti_torch_cpu__wrapped_quantized_linear_prepacked)
ABSENT(aoti_record_function_start)
ABSENT(aoti_record_function_end)
ABSENT(aoti_torch_save_tensor_handle)
ABSENT(aoti_torch_proxy_executor_call_function)
