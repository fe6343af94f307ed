// pybind11's conversions for tensors and what goes with them, and its exceptions.
#pragma once
#include <rushlight/python.h>

// What pybind11 includes comes first, so that the region below holds pybind11 and nothing that a kernel's loops may use.
#include <Python.h>
#include <cxxabi.h>
#include <frameobject.h>
#include <pythread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <forward_list>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stack>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>

// pybind11's own functions take GCC as long as all the rest of a small extension, and twice as long with -O2 as with -O1,
// which costs a call nothing that can be measured.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#pragma GCC push_options
#pragma GCC optimize("O1")
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#pragma GCC pop_options
#else
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#endif

namespace py = pybind11;

namespace rushlight {
#ifndef RUSHLIGHT_PLAIN_EXCEPTIONS
// C++ exceptions keep their class in whatever module includes this. Not inline: the loader makes one of inline variables
// of all libraries, and only the first module would have its translator.
[[maybe_unused]] static const bool exceptions_keep_their_class = [] {
  if (!Py_IsInitialized()) return false;
  Lock lock;
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const c10::Error& error) {
      set_python_error(error);
    }
  });
  return true;
}();
#endif
// What is thrown while an argument is read means that it does not fit.
template <class Read>
bool fits(Read read) {
  try {
    read();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}
}  // namespace rushlight

namespace pybind11::detail {

#define RUSHLIGHT_CASTER(cpp, text, condition, read)                                               \
  template <>                                                                                      \
  struct type_caster<cpp> {                                                                        \
    PYBIND11_TYPE_CASTER(cpp, const_name(text));                                                   \
    bool load(handle source, bool) {                                                               \
      PyObject* o = source.ptr();                                                                  \
      return (condition) && ::rushlight::fits([&] { value = ::rushlight::read(o); });               \
    }                                                                                              \
    static handle cast(const cpp& from, return_value_policy, handle) { return ::rushlight::wrap(from); } \
  }
#define RUSHLIGHT_CASTER_OF(cpp, text, read)                                                       \
  template <>                                                                                      \
  struct type_caster<cpp> {                                                                        \
    PYBIND11_TYPE_CASTER(cpp, const_name(text));                                                   \
    type_caster() : value(cpp()) {}                                                                \
    bool load(handle source, bool) { return ::rushlight::fits([&] { value = ::rushlight::read(source.ptr()); }); } \
    static handle cast(const cpp& from, return_value_policy, handle) { return ::rushlight::wrap(from); } \
  }
RUSHLIGHT_CASTER(at::Tensor, "torch.Tensor", o == Py_None || ::rushlight::is_tensor(o), tensor_from);
RUSHLIGHT_CASTER(at::Generator, "torch.Generator", true, generator_from);
RUSHLIGHT_CASTER(c10::Device, "torch.device", !PyLong_Check(o), device_from);
RUSHLIGHT_CASTER(c10::Scalar, "Union[int, float, bool, complex]", true, scalar_from);
RUSHLIGHT_CASTER_OF(c10::ScalarType, "torch.dtype", dtype_from);
RUSHLIGHT_CASTER_OF(c10::Layout, "torch.layout", layout_from);
RUSHLIGHT_CASTER_OF(c10::MemoryFormat, "torch.memory_format", memory_format_from);
#undef RUSHLIGHT_CASTER
#undef RUSHLIGHT_CASTER_OF

template <>
struct type_caster<c10::SymInt> {
  PYBIND11_TYPE_CASTER(c10::SymInt, const_name("int"));
  bool load(handle source, bool) { return ::rushlight::fits([&] { value = ::rushlight::int_from(source.ptr()); }); }
  static handle cast(const c10::SymInt& from, return_value_policy, handle) { return PyLong_FromLongLong(from); }
};
template <>
struct type_caster<c10::IntArrayRef> {
  PYBIND11_TYPE_CASTER(c10::IntArrayRef, const_name("Tuple[int, ...]"));
  bool load(handle source, bool) {
    return ::rushlight::fits([&] {
      kept = PyLong_Check(source.ptr()) ? std::vector<int64_t>{::rushlight::int_from(source.ptr())} : ::rushlight::ints_from(source.ptr());
      value = kept;
    });
  }
  static handle cast(c10::IntArrayRef from, return_value_policy, handle) { return ::rushlight::wrap(from); }
  std::vector<int64_t> kept;
};
template <>
struct type_caster<at::TensorList> {
  PYBIND11_TYPE_CASTER(at::TensorList, const_name("List[torch.Tensor]"));
  bool load(handle source, bool) { return ::rushlight::fits([&] { kept = ::rushlight::tensors_from(source.ptr()), value = kept; }); }
  static handle cast(at::TensorList from, return_value_policy, handle) { return ::rushlight::wrap(from); }
  std::vector<at::Tensor> kept;
};
template <class T>
struct type_caster<c10::ArrayRef<T>> {
  PYBIND11_TYPE_CASTER(c10::ArrayRef<T>, const_name("list"));
  bool load(handle source, bool convert) {
    if (!inner.load(source, convert)) return false;
    value = static_cast<std::vector<T>&>(inner);
    return true;
  }
  static handle cast(c10::ArrayRef<T> from, return_value_policy policy, handle parent) { return list_caster<std::vector<T>, T>::cast(from.vec(), policy, parent); }
  list_caster<std::vector<T>, T> inner;
};
template <class T>
struct type_caster<c10::OptionalArrayRef<T>> {
  PYBIND11_TYPE_CASTER(c10::OptionalArrayRef<T>, const_name("list"));
  bool load(handle source, bool convert) {
    if (source.is_none()) return true;
    if (!inner.load(source, convert)) return false;
    value = c10::OptionalArrayRef<T>(static_cast<c10::ArrayRef<T>&>(inner));
    return true;
  }
  static handle cast(c10::OptionalArrayRef<T> from, return_value_policy policy, handle parent) {
    return from.has_value() ? type_caster<c10::ArrayRef<T>>::cast(from.value(), policy, parent) : none().release();
  }
  type_caster<c10::ArrayRef<T>> inner;
};
template <>
struct type_caster<c10::TypeMeta> {
  PYBIND11_TYPE_CASTER(c10::TypeMeta, const_name("torch.dtype"));
  bool load(handle source, bool) { return ::rushlight::fits([&] { value = ::rushlight::dtype_from(source.ptr()); }); }
  static handle cast(c10::TypeMeta from, return_value_policy, handle) { return ::rushlight::wrap(c10::ScalarType(from)); }
};

}  // namespace pybind11::detail

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true)
