// Options and arguments of layers on their way to Python and back. Everything here is called with the interpreter lock
// held, but for `run` and `function`, which take it.
#pragma once
#include <deque>

#include <rushlight/generated/functional.h>
#include <rushlight/generated/optim.h>

#include "runtime.h"

namespace rushlight::nn {

using at::Tensor;
using torch::nn::utils::rnn::PackedSequence;

PyObject* face_object(const std::shared_ptr<torch::nn::Module>& module);   // borrowed; throws where it is no layer
Object packed_object(const PackedSequence& sequence);
PackedSequence packed_from(PyObject* object);
inline uint64_t mixed(uint64_t seed, uint64_t value) { return (seed ^ value) * 1099511628211u + (seed >> 31); }

template <class T, class = void>
struct is_word : std::false_type {};
template <class T>
struct is_word<T, std::void_t<decltype(T::text)>> : std::true_type {};

// Values to Python (a new reference), back, and into a number that changes with them.
struct Convert {
  static PyObject* none() { Py_RETURN_NONE; }
  static PyObject* to(int64_t value) { return wrap(value); }
  static PyObject* to(double value) { return wrap(value); }
  static PyObject* to(bool value) { return wrap(value); }
  static PyObject* to(const std::string& value) { return wrap(std::string_view(value)); }
  static PyObject* to(const Tensor& value) { return wrap(value); }
  static PyObject* to(c10::ScalarType value) { return wrap(value); }
  static PyObject* to(c10::IntArrayRef value) { return wrap(value); }
  static PyObject* to(at::TensorList value) { return wrap(value); }
  static PyObject* to(const std::vector<int64_t>& value) { return wrap(c10::IntArrayRef(value)); }
  static PyObject* to(const std::vector<double>& value) { return listed(value.begin(), value.end()); }
  static PyObject* to(const std::deque<Tensor>& value) { return to(std::vector<Tensor>(value.begin(), value.end())); }
  static PyObject* to(const PackedSequence& value) { return packed_object(value).release(); }
  static PyObject* to(const torch::nn::AnyModule& value) { return value.is_empty() ? none() : Object::borrowed(face_object(value.ptr())).release(); }
  template <class M>
  static PyObject* to(const torch::nn::ModuleHolder<M>& value) { return Object::borrowed(face_object(value.ptr())).release(); }
  template <class A, class B>
  static PyObject* to(const std::tuple<A, B>& value) {
    Object a(to(std::get<0>(value))), b(to(std::get<1>(value)));
    return checked(PyTuple_Pack(2, a.get(), b.get())).release();
  }
  template <class T>
  static PyObject* to(const std::optional<T>& value) { return value ? to(*value) : none(); }
  template <size_t D, class T>
  static PyObject* to(const torch::ExpandingArray<D, T>& value) {
    if constexpr (D == 1) return to((*value)[0]);
    else return listed(value->begin(), value->end());
  }
  template <class... T>
  static PyObject* to(const std::variant<T...>& value) {
    return std::visit([](const auto& one) -> PyObject* {
      using One = std::decay_t<decltype(one)>;
      if constexpr (is_word<One>::value) return wrap(std::string_view(One::text));
      else return to(one);
    }, value);
  }
  template <class... Args>
  static PyObject* to(const std::function<Tensor(Args...)>& function) {
    return function_object("function", [function](PyObject* args, PyObject*) {
      TORCH_CHECK_TYPE(PyTuple_GET_SIZE(args) == sizeof...(Args), "expected ", sizeof...(Args), " tensors, got ", PyTuple_GET_SIZE(args), " arguments");
      return with_tensors(function, args, std::index_sequence_for<Args...>());
    });
  }

  static void from(PyObject* object, int64_t& value) {
    if (PyLong_Check(object)) value = int_from(object);
    else if (is_tensor(object)) value = static_cast<int64_t>(double_from(object));      // counted steps
  }
  static void from(PyObject* object, double& value) { if (PyFloat_Check(object) || PyLong_Check(object) || is_tensor(object)) value = double_from(object); }
  static void from(PyObject* object, bool& value) { value = PyBool_Check(object) ? object == Py_True : object != Py_None; }   // a bias is there
  static void from(PyObject* object, std::string& value) { if (PyUnicode_Check(object)) value = text_from(object); }
  static void from(PyObject* object, Tensor& value) { if (is_tensor(object)) value = tensor_from(object); }
  static void from(PyObject* object, c10::ScalarType& value) { value = dtype_from(object); }
  static void from(PyObject* object, std::vector<int64_t>& value) { if (PySequence_Check(object)) value = ints_from(object); }
  static void from(PyObject* object, std::vector<Tensor>& value) { if (PySequence_Check(object)) value = tensors_from(object); }
  static void from(PyObject* object, std::deque<Tensor>& value) {
    std::vector<Tensor> list;
    from(object, list);
    value.assign(list.begin(), list.end());
  }
  static void from(PyObject* object, std::vector<double>& value) { if (PySequence_Check(object)) value = doubles_from(object); }
  static void from(PyObject*, torch::nn::AnyModule&) {}             // parts are read as parts
  template <class M>
  static void from(PyObject*, torch::nn::ModuleHolder<M>&) {}
  template <class A, class B>
  static void from(PyObject* object, std::tuple<A, B>& value) {
    from(PyTuple_GET_ITEM(object, 0), std::get<0>(value));
    from(PyTuple_GET_ITEM(object, 1), std::get<1>(value));
  }
  template <class T>
  static void from(PyObject* object, std::optional<T>& value) {
    value.reset();
    if (object == Py_None) return;
    if constexpr (std::is_default_constructible_v<T>) from(object, value.emplace());
    else from(object, value.emplace(0));
  }
  template <size_t D, class T>
  static void from(PyObject* object, torch::ExpandingArray<D, T>& value) {
    for (size_t i = 0; i < D; ++i) {
      Object one = PyTuple_Check(object) || PyList_Check(object) ? checked(PySequence_GetItem(object, static_cast<Py_ssize_t>(i))) : Object::borrowed(object);
      from(one.get(), (*value)[i]);
    }
  }
  template <class... T>
  static void from(PyObject* object, std::variant<T...>& value) { (from_alternative<T>(object, value), ...); }
  template <class... Args>
  static void from(PyObject*, std::function<Tensor(Args...)>&) {}   // a layer with one keeps calling it

  static uint64_t mix(uint64_t seed, int64_t value) { return mixed(seed, static_cast<uint64_t>(value)); }
  static uint64_t mix(uint64_t seed, double value) { return mixed(seed, std::hash<double>()(value)); }
  static uint64_t mix(uint64_t seed, bool value) { return mixed(seed, value); }
  static uint64_t mix(uint64_t seed, const std::string& value) { return mixed(seed, std::hash<std::string>()(value)); }
  static uint64_t mix(uint64_t seed, const Tensor& value) { return mixed(seed, reinterpret_cast<uintptr_t>(value.object())); }
  static uint64_t mix(uint64_t seed, c10::ScalarType value) { return mixed(seed, static_cast<uint64_t>(value)); }
  static uint64_t mix(uint64_t seed, const torch::nn::AnyModule& value) { return mixed(seed, reinterpret_cast<uintptr_t>(value.ptr().get())); }
  template <class T>
  static uint64_t mix(uint64_t seed, const std::vector<T>& list) {
    for (const T& one : list) seed = mix(seed, one);
    return seed;
  }
  static uint64_t mix(uint64_t seed, const std::deque<Tensor>& list) { return mix(seed, std::vector<Tensor>(list.begin(), list.end())); }
  template <class M>
  static uint64_t mix(uint64_t seed, const torch::nn::ModuleHolder<M>& value) { return mixed(seed, value.is_empty() ? 0 : reinterpret_cast<uintptr_t>(value.get())); }
  template <class A, class B>
  static uint64_t mix(uint64_t seed, const std::tuple<A, B>& value) { return mix(mix(seed, std::get<0>(value)), std::get<1>(value)); }
  template <class T>
  static uint64_t mix(uint64_t seed, const std::optional<T>& value) { return value ? mix(mixed(seed, 1), *value) : mixed(seed, 0); }
  template <size_t D, class T>
  static uint64_t mix(uint64_t seed, const torch::ExpandingArray<D, T>& value) {
    for (const T& one : *value) seed = mix(seed, one);
    return seed;
  }
  template <class... T>
  static uint64_t mix(uint64_t seed, const std::variant<T...>& value) {
    return std::visit([seed = mixed(seed, value.index())](const auto& one) {
      if constexpr (is_word<std::decay_t<decltype(one)>>::value) return seed;
      else return mix(seed, one);
    }, value);
  }
  template <class... Args>
  static uint64_t mix(uint64_t seed, const std::function<Tensor(Args...)>&) { return seed; }

 private:
  template <class Iterator>
  static PyObject* listed(Iterator begin, Iterator end) {
    PyObject* made = PyTuple_New(end - begin);
    for (Py_ssize_t i = 0; begin != end; ++begin, ++i) PyTuple_SET_ITEM(made, i, to(*begin));
    return made;
  }
  template <class F, size_t... I>
  static PyObject* with_tensors(const F& function, PyObject* args, std::index_sequence<I...>) {
    return wrap(function(tensor_from(PyTuple_GET_ITEM(args, I))...));
  }
  template <class T, class Variant>
  static void from_alternative(PyObject* object, Variant& value) {
    if constexpr (is_word<T>::value) {
      if (PyUnicode_Check(object) && text_from(object) == T::text) value = T{};
    } else if constexpr (std::is_constructible_v<T, int64_t>) {
      if (PyUnicode_Check(object)) return;
      T read(0);
      from(object, read);
      value = read;
    }
  }
};

template <class T>
Field field(const char* name, T& value) {
  return {name, &value,
          [](const void* p) -> void* { return Convert::to(*static_cast<const T*>(p)); },
          [](void* object, void* p) { Convert::from(static_cast<PyObject*>(object), *static_cast<T*>(p)); },
          [](uint64_t seed, const void* p) { return Convert::mix(seed, *static_cast<const T*>(p)); }};
}
Object words_of(const std::vector<Field>& fields);        // a dictionary
uint64_t mark_of(const std::vector<Field>& fields);       // another one when an option changed

struct Face {
  explicit Face(PyObject* stolen) : object(stolen) {}
  Face(const Face&) = delete;
  ~Face() {
    if (!Py_IsInitialized()) return;
    Lock lock;
    Py_DECREF(object);
  }
  PyObject* object;
  std::vector<void*> tensors;     // the objects behind the tensor fields when last seen
  std::vector<std::vector<std::shared_ptr<torch::nn::Module>>> parts;   // behind the holders; of a list the items too
  uint64_t mark = 0;              // of the options
  bool is_training = true;
};

template <class Holder>
Layer::Part part(const char* name, Holder& holder) {
  return {name,
          [&holder](const std::shared_ptr<torch::nn::Module>& module) { holder = Holder(std::dynamic_pointer_cast<typename Holder::ContainedType>(module)); },
          [&holder]() -> std::shared_ptr<torch::nn::Module> { return holder.is_empty() ? nullptr : holder.ptr(); }};
}

// --- calls ------------------------------------------------------------------------------------------------------------

Object call_layer(const Layer& layer, const char* method, PyObject* const* arguments, size_t count);
Object call_function(const char* name, const std::vector<Field>& options, const char* const* names, PyObject* const* arguments, size_t count);
Object module_call(const char* function, std::initializer_list<PyObject*> arguments);   // of rushlight.cxx_layers.calls
std::shared_ptr<Layer> typed_layer(std::string_view name, const Adopted& face);
std::tuple<Tensor, Tensor> with_indices(const Layer& layer, const Tensor& input);
Tensor causal_mask(int64_t size);

template <class T>
struct Result;
template <>
struct Result<Tensor> { static Tensor of(PyObject* o) { return tensor_from(o); } };
template <>
struct Result<PackedSequence> { static PackedSequence of(PyObject* o) { return packed_from(o); } };
template <>
struct Result<torch::nn::ASMoutput> {
  static torch::nn::ASMoutput of(PyObject* o) { return {tensor_from(PyTuple_GET_ITEM(o, 0)), double_from(PyTuple_GET_ITEM(o, 1))}; }
};
template <class A, class B>
struct Result<std::tuple<A, B>> {
  static std::tuple<A, B> of(PyObject* o) {
    TORCH_CHECK_TYPE(PyTuple_Check(o) && PyTuple_GET_SIZE(o) == 2, "expected two results, got ", Py_TYPE(o)->tp_name);
    return {Result<A>::of(PyTuple_GET_ITEM(o, 0)), Result<B>::of(PyTuple_GET_ITEM(o, 1))};
  }
};

template <class R, class... Args>
R run(const Layer& layer, const char* method, const Args&... args) {
  Lock lock;
  const Object values[] = {Object(Convert::to(args))...};
  PyObject* list[sizeof...(Args)];
  for (size_t i = 0; i < sizeof...(Args); ++i) list[i] = values[i].get();
  return Result<R>::of(call_layer(layer, method, list, sizeof...(Args)).get());
}

template <class R, class... Args>
R function(const char* name, const std::vector<Field>& options, std::initializer_list<const char*> names, const Args&... args) {
  Lock lock;
  const Object values[] = {Object(Convert::to(args))...};
  PyObject* list[sizeof...(Args)];
  for (size_t i = 0; i < sizeof...(Args); ++i) list[i] = values[i].get();
  return Result<R>::of(call_function(name, options, names.begin(), list, sizeof...(Args)).get());
}

}  // namespace rushlight::nn
