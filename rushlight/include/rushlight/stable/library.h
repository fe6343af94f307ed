// STABLE_TORCH_LIBRARY: operators registered over the C functions, and TORCH_BOX, which makes kernels of functions.
#pragma once
#include <tuple>

#include <rushlight/stable/values.h>

namespace torch::stable {
namespace detail __attribute__((visibility("hidden"))) {

class StableLibrary {
 public:
  enum class Kind { DEF, IMPL, FRAGMENT };
  StableLibrary(Kind kind, const char* space, const char* key, const char* file, uint32_t line) {
    if (kind == Kind::IMPL) TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_impl(space, key, file, line, &handle_));
    else if (kind == Kind::DEF) TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_def(space, file, line, &handle_));
    else TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_fragment(space, file, line, &handle_));
  }
  ~StableLibrary() { aoti_torch_delete_library_object(handle_); }
  StableLibrary(const StableLibrary&) = delete;
  StableLibrary& operator=(const StableLibrary&) = delete;
  StableLibrary& def(const char* schema) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_library_def(handle_, schema));
    return *this;
  }
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_12_0
  StableLibrary& def(const char* schema, const std::vector<at::Tag>& tags) {
    std::vector<int32_t> numbers;
    for (at::Tag tag : tags) numbers.push_back(number_of(tag));
    TORCH_ERROR_CODE_CHECK(torch_library_def_with_tags(handle_, schema, numbers.data(), static_cast<int32_t>(numbers.size())));
    return *this;
  }
#endif
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
  StableLibrary& set_python_module(const char* module, const char* context = "") {
    TORCH_ERROR_CODE_CHECK(torch_library_set_python_module(handle_, module, context));
    return *this;
  }
#endif
  StableLibrary& impl(const char* name, StableKernel kernel) {
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
    TORCH_ERROR_CODE_CHECK(torch_library_impl(handle_, name, kernel, TORCH_ABI_VERSION));
#else
    TORCH_ERROR_CODE_CHECK(aoti_torch_library_impl(handle_, name, kernel));
#endif
    return *this;
  }

 private:
  TorchLibraryHandle handle_ = nullptr;
};

struct StableTorchLibraryInit {      // registrations last as long as their library object
  StableTorchLibraryInit(StableLibrary::Kind kind, void (*fill)(StableLibrary&), const char* space, const char* key, const char* file, uint32_t line)
      : library(kind, space, key, file, line) { fill(library); }
  StableLibrary library;
};

// What an argument is kept as while a function runs: views need somebody who owns.
template <class T>
struct Kept { using type = T; };
template <class T>
struct Kept<torch::headeronly::HeaderOnlyArrayRef<T>> { using type = std::vector<T>; };
template <>
struct Kept<std::string_view> { using type = std::string; };
template <class T>
struct Kept<std::optional<T>> { using type = std::optional<typename Kept<T>::type>; };

template <class F, F* function>
struct boxer;
template <class R, class... Args, R (*function)(Args...)>
struct boxer<R(Args...), function> {
  template <size_t... I>
  static void run(StableIValue* stack, std::index_sequence<I...>) {
    std::tuple<typename Kept<std::decay_t<Args>>::type...> kept{to<typename Kept<std::decay_t<Args>>::type>(stack[I])...};
    if constexpr (std::is_void_v<R>) function(static_cast<Args>(std::get<I>(kept))...);
    else give(stack, function(static_cast<Args>(std::get<I>(kept))...));
  }
  template <class... T>
  static void give(StableIValue* stack, const std::tuple<T...>& results) {
    std::apply([stack](const auto&... one) { size_t at = 0; ((stack[at++] = from(one)), ...); }, results);
  }
  template <class T>
  static void give(StableIValue* stack, const T& result) { stack[0] = from(result); }
  static void boxed_fn(StableIValue* stack, uint64_t arguments, uint64_t) {
    STD_TORCH_CHECK(arguments == sizeof...(Args), "the schema has ", arguments, " arguments, the kernel ", sizeof...(Args));
    run(stack, std::index_sequence_for<Args...>());
  }
};

}  // namespace detail
}  // namespace torch::stable

#define TORCH_BOX(function) \
  ::torch::stable::detail::boxer<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>, (function)>::boxed_fn

#define RUSHLIGHT_STABLE_LIBRARY(kind, space, key, m, name)                                                            \
  static void C10_CONCATENATE(rushlight_stable_fill_, name)(::torch::stable::detail::StableLibrary&);                   \
  static const ::torch::stable::detail::StableTorchLibraryInit C10_CONCATENATE(rushlight_stable_library_, name)(        \
      ::torch::stable::detail::StableLibrary::Kind::kind, &C10_CONCATENATE(rushlight_stable_fill_, name), #space, key,  \
      __FILE__, __LINE__);                                                                                              \
  void C10_CONCATENATE(rushlight_stable_fill_, name)(::torch::stable::detail::StableLibrary & m)
#define STABLE_TORCH_LIBRARY(space, m) RUSHLIGHT_STABLE_LIBRARY(DEF, space, nullptr, m, space##_whole)
#define STABLE_TORCH_LIBRARY_FRAGMENT(space, m) RUSHLIGHT_STABLE_NUMBERED(FRAGMENT, space, nullptr, m, __COUNTER__)
#define STABLE_TORCH_LIBRARY_IMPL(space, key, m) RUSHLIGHT_STABLE_NUMBERED(IMPL, space, #key, m, __COUNTER__)
#define RUSHLIGHT_STABLE_NUMBERED(kind, space, key, m, number) RUSHLIGHT_STABLE_LIBRARY(kind, space, key, m, C10_CONCATENATE(space##_, number))
