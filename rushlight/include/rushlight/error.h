// Errors of extensions: classes that Python sees as its own, and the checks that throw them.
#pragma once
#include <exception>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#ifndef C10_LIKELY
#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#endif
#define C10_API
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_HIDDEN __attribute__((visibility("hidden")))
#define TORCH_API
#define TORCH_PYTHON_API
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
#define C10_CUDA_API
#define C10_NOINLINE __attribute__((noinline))
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_UNUSED __attribute__((unused))
#define C10_NODISCARD [[nodiscard]]
#define C10_RESTRICT __restrict
#define C10_CONCATENATE_IMPL(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_IMPL(a, b)
#define C10_UID __COUNTER__
#define C10_ANONYMOUS_VARIABLE(name) C10_CONCATENATE(name, __COUNTER__)
#define C10_STRINGIZE_IMPL(x) #x
#define C10_STRINGIZE(x) C10_STRINGIZE_IMPL(x)
#if defined(__CUDACC__)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define HOST_DEVICE_INLINE C10_HOST_DEVICE inline

namespace c10 {

struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

// What a check throws. Python sees the class that `python_class` names.
class Error : public std::exception {
 public:
  Error(SourceLocation where, std::string message) : Error(std::move(message), "RuntimeError", where) {}
  explicit Error(std::string message, const char* python_class = "RuntimeError", SourceLocation where = {"", "", 0});
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& msg() const { return message_; }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  void add_context(std::string text) { message_ += "\n  " + std::move(text); }
  const char* python_class() const noexcept { return class_; }
  const std::string& backtrace() const { return where_; }
  void* python_value() const noexcept { return value_.get(); }   // borrowed: the exception itself, if Python raised it

 protected:
  std::string message_, where_;
  const char* class_;
  std::shared_ptr<void> value_;
};

#define RUSHLIGHT_ERROR(name, python)                                                                        \
  class name : public Error {                                                                                \
   public:                                                                                                   \
    name(SourceLocation where, std::string message) : Error(std::move(message), python, where) {}            \
    explicit name(std::string message) : Error(std::move(message), python) {}                                \
  }
RUSHLIGHT_ERROR(IndexError, "IndexError");
RUSHLIGHT_ERROR(ValueError, "ValueError");
RUSHLIGHT_ERROR(TypeError, "TypeError");
RUSHLIGHT_ERROR(NotImplementedError, "NotImplementedError");
RUSHLIGHT_ERROR(LinAlgError, "LinAlgError");
RUSHLIGHT_ERROR(OutOfMemoryError, "OutOfMemoryError");
RUSHLIGHT_ERROR(SyntaxError, "SyntaxError");
RUSHLIGHT_ERROR(BufferError, "BufferError");
RUSHLIGHT_ERROR(AcceleratorError, "AcceleratorError");
RUSHLIGHT_ERROR(DistBackendError, "RuntimeError");
RUSHLIGHT_ERROR(OnnxfiBackendSystemError, "RuntimeError");
#undef RUSHLIGHT_ERROR
using EnforceNotMet = Error;

namespace detail {
struct Joined {
  static std::string of() { return {}; }
  static std::string of(const char* text) { return text; }
  static std::string of(const std::string& text) { return text; }
  template <class... Parts>
  static std::string of(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
  }
};
[[noreturn]] void assert_failed(const char* function, const char* file, uint32_t line, const char* condition,
                                const std::string& message);
[[noreturn]] void not_met(const char* function, const char* file, uint32_t line, const char* condition,
                          const std::string& message);   // RuntimeError
std::string described(const char* condition, const char* file, uint32_t line, std::string message);
void warn(const char* category, const std::string& message, const char* file, uint32_t line);
}  // namespace detail

template <class... Parts>
inline std::string str(const Parts&... parts) {
  return detail::Joined::of(parts...);
}

}  // namespace c10

#define RUSHLIGHT_CHECK_AS(type, condition, ...)                                                              \
  do {                                                                                                        \
    if (C10_UNLIKELY(!(condition)))                                                                           \
      throw ::c10::type({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},                                \
                        ::c10::detail::described(#condition, __FILE__, __LINE__, ::c10::str(__VA_ARGS__)));   \
  } while (false)
#define TORCH_CHECK(condition, ...)                                                                           \
  do {                                                                                                        \
    if (C10_UNLIKELY(!(condition)))                                                                           \
      ::c10::detail::not_met(__func__, __FILE__, static_cast<uint32_t>(__LINE__), #condition,                 \
                             ::c10::str(__VA_ARGS__));                                                        \
  } while (false)
#define TORCH_CHECK_INDEX(condition, ...) RUSHLIGHT_CHECK_AS(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) RUSHLIGHT_CHECK_AS(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) RUSHLIGHT_CHECK_AS(TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) RUSHLIGHT_CHECK_AS(NotImplementedError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) RUSHLIGHT_CHECK_AS(LinAlgError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_BUFFER(condition, ...) RUSHLIGHT_CHECK_AS(BufferError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_WITH(type, condition, ...) RUSHLIGHT_CHECK_AS(type, condition, ##__VA_ARGS__)
#define TORCH_CHECK_WITH_MSG(type, condition, kind, ...) RUSHLIGHT_CHECK_AS(type, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...)                                                                 \
  do {                                                                                                        \
    if (C10_UNLIKELY(!(condition)))                                                                           \
      ::c10::detail::assert_failed(__func__, __FILE__, static_cast<uint32_t>(__LINE__), #condition,           \
                                   ::c10::str(__VA_ARGS__));                                                  \
  } while (false)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) do {} while (false)
#define TORCH_CHECK_DEBUG(...) do {} while (false)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define TORCH_CHECK_DEBUG(...) TORCH_CHECK(__VA_ARGS__)
#endif
// For what has to work without the library behind these headers.
#define STD_TORCH_CHECK(condition, ...)                                                                       \
  do {                                                                                                        \
    if (C10_UNLIKELY(!(condition)))                                                                           \
      throw std::runtime_error(::c10::detail::Joined::of("expected " #condition ", which is not so (" __FILE__ ":", __LINE__, ") ", ##__VA_ARGS__)); \
  } while (false)
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::c10::detail::not_met(__func__, __FILE__, static_cast<uint32_t>(__LINE__), "", ::c10::str(__VA_ARGS__))
#define AT_INDEX_ERROR(...) TORCH_CHECK_INDEX(false, ##__VA_ARGS__)
#define C10_THROW_ERROR(type, message) throw ::c10::type({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message)
#define TORCH_WARN(...) ::c10::detail::warn("UserWarning", ::c10::str(__VA_ARGS__), __FILE__, __LINE__)
#define TORCH_WARN_DEPRECATION(...) ::c10::detail::warn("DeprecationWarning", ::c10::str(__VA_ARGS__), __FILE__, __LINE__)
#define TORCH_WARN_ONCE(...)                                                             \
  do {                                                                                   \
    static const bool said = (TORCH_WARN(__VA_ARGS__), true);                            \
    (void)said;                                                                          \
  } while (false)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
#define CAFFE_ENFORCE(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)

namespace at {
using c10::Error;
}
namespace torch {
using c10::Error;
}
