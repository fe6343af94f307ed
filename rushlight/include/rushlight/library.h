// Operators registered from C++: TORCH_LIBRARY and its kin, calls of any operator by name, custom classes.
#pragma once
#include <rushlight/guards.h>
#include <rushlight/ivalue.h>

namespace c10 {

struct OperatorHandle;

struct OperatorName {
  std::string name, overload_name;
};

struct FunctionSchema {
  std::string text;
  const std::string& toString() const { return text; }
};

// The callable that `name.overload` is in Python.
struct OperatorHandle {
  OperatorName name;
  void* target = nullptr;
  void *callable = nullptr, *keywords = nullptr;   // what takes all arguments at once, the last of them by these names
  size_t count = 0;                                // of its arguments
  const OperatorName& operator_name() const { return name; }
  FunctionSchema schema() const;
  void callBoxed(Stack* stack) const;
  void callBoxed(Stack& stack) const { callBoxed(&stack); }
  void redispatchBoxed(DispatchKey, Stack* stack) const { callBoxed(stack); }
  template <class Signature>
  struct Typed;
  template <class Signature>
  Typed<Signature> typed() const { return Typed<Signature>{*this}; }
  bool hasSchema() const { return target; }
};
template <class R, class... Args>
struct OperatorHandle::Typed<R(Args...)> {
  const OperatorHandle handle;
  R call(Args... args) const {
    Stack stack;
    (stack.emplace_back(IValue(std::decay_t<Args>(args))), ...);
    handle.callBoxed(&stack);
    if constexpr (!std::is_void_v<R>) {
      if constexpr (std::is_reference_v<R>) return std::get<0>(std::tie(args...));
      else if (stack.size() == 1) return stack[0].to<R>();
      else return IValue(ivalue::Tuple::create(std::move(stack))).to<R>();
    }
  }
  R redispatch(DispatchKey, Args... args) const { return call(args...); }
};
template <class Signature>
using TypedOperatorHandle = OperatorHandle::Typed<Signature>;

class Dispatcher {
 public:
  static Dispatcher& singleton();
  static Dispatcher& realSingleton() { return singleton(); }
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload_name);
  std::optional<OperatorHandle> findSchema(const OperatorName& name);
};

struct DispatchKeySet {};
enum class AliasAnalysisKind : uint8_t { INTERNAL_SPECIAL_CASE, CONSERVATIVE, FROM_SCHEMA, PURE_FUNCTION };

}  // namespace c10

namespace torch {

using c10::DispatchKey;

namespace detail {

// The schema's word for a C++ type, and what an argument is kept in while the kernel runs.
template <class T>
struct Word;
#define RUSHLIGHT_WORD(cpp, word) \
  template <>                     \
  struct Word<cpp> { using kept = cpp; static std::string text() { return word; } }
RUSHLIGHT_WORD(at::Tensor, "Tensor");
RUSHLIGHT_WORD(int64_t, "int");
RUSHLIGHT_WORD(double, "float");
RUSHLIGHT_WORD(bool, "bool");
RUSHLIGHT_WORD(std::string, "str");
RUSHLIGHT_WORD(std::string_view, "str");
RUSHLIGHT_WORD(c10::Scalar, "Scalar");
RUSHLIGHT_WORD(c10::SymInt, "SymInt");
RUSHLIGHT_WORD(c10::ScalarType, "ScalarType");
RUSHLIGHT_WORD(c10::Device, "Device");
RUSHLIGHT_WORD(c10::Layout, "Layout");
RUSHLIGHT_WORD(c10::MemoryFormat, "MemoryFormat");
RUSHLIGHT_WORD(at::Generator, "Generator");
RUSHLIGHT_WORD(c10::IValue, "Any");
#undef RUSHLIGHT_WORD
template <class T>
struct Word { using kept = T; static_assert(!std::is_integral_v<T> && !std::is_floating_point_v<T>, "operators take and give int64_t, double and bool, no other numbers"); };
template <class T>
struct Word<std::optional<T>> { using kept = std::optional<typename Word<T>::kept>; static std::string text() { return Word<T>::text() + "?"; } };
template <class T>
struct Word<std::vector<T>> { using kept = std::vector<T>; static std::string text() { return Word<T>::text() + "[]"; } };
template <class T>
struct Word<c10::List<T>> { using kept = c10::List<T>; static std::string text() { return Word<T>::text() + "[]"; } };
template <class T>
struct Word<c10::ArrayRef<T>> { using kept = std::vector<T>; static std::string text() { return Word<T>::text() + "[]"; } };
template <class T>
struct Word<c10::OptionalArrayRef<T>> { using kept = std::optional<std::vector<T>>; static std::string text() { return Word<T>::text() + "[]?"; } };
template <class K, class V>
struct Word<c10::Dict<K, V>> { using kept = c10::Dict<K, V>; static std::string text() { return "Dict(" + Word<K>::text() + ", " + Word<V>::text() + ")"; } };
template <class... T>
struct Word<std::tuple<T...>> {
  static std::string text() {
    std::string all;
    ((all += (all.empty() ? "" : ", ") + Word<std::decay_t<T>>::text()), ...);
    return "(" + all + ")";
  }
};
std::string class_word(const char* type);       // of a class that class_<T> registered
template <class T>
struct Word<c10::intrusive_ptr<T>> { using kept = c10::intrusive_ptr<T>; static std::string text() { return class_word(typeid(T).name()); } };

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... Args>
struct Signature<R (*)(Args...)> {
  using result = R;
  using arguments = std::tuple<Args...>;
  template <class T>
  static constexpr bool is_tensor_reference = std::is_same_v<T, at::Tensor&>;
  template <class F, size_t... I>
  static void call(F& f, c10::Stack& stack, std::index_sequence<I...>) {
    constexpr size_t count = sizeof...(Args);
    TORCH_CHECK_TYPE(stack.size() >= count, "a kernel expects ", count, " arguments, got ", stack.size());
    const size_t first = stack.size() - count;
    std::tuple<typename Word<std::decay_t<Args>>::kept...> kept{stack[first + I].template to<typename Word<std::decay_t<Args>>::kept>()...};
    stack.resize(first + 0 * (0 + ... + I));
    if constexpr (std::is_void_v<R>) {
      f(std::get<I>(kept)...);
    } else {
      push(stack, f(std::get<I>(kept)...));
    }
  }
  template <class T>
  static void push(c10::Stack& stack, T&& value) {
    using V = std::decay_t<T>;
    if constexpr (is_tuple<V>::value) std::apply([&](auto&... one) { (stack.emplace_back(c10::IValue(std::decay_t<decltype(one)>(one))), ...); }, value);
    else stack.emplace_back(c10::IValue(V(std::forward<T>(value))));
  }
  template <class T>
  struct is_tuple : std::false_type {};
  template <class... T>
  struct is_tuple<std::tuple<T...>> : std::true_type {};
  static std::string schema(const std::string& name) {
    std::string all = name + "(";
    int number = 0;
    ((all += (number ? ", " : "") + Word<std::decay_t<Args>>::text() + " _" + std::to_string(number), ++number), ...);
    if constexpr (std::is_void_v<R>) return all + ") -> ()";
    else return all + ") -> " + Word<std::decay_t<R>>::text();
  }
  static constexpr size_t count = sizeof...(Args);
};
template <class R, class... Args>
struct Signature<R(Args...)> : Signature<R (*)(Args...)> {};
template <class R, class C, class... Args>
struct Signature<R (C::*)(Args...)> : Signature<R (*)(Args...)> {};
template <class R, class C, class... Args>
struct Signature<R (C::*)(Args...) const> : Signature<R (*)(Args...)> {};

using Boxed = std::function<void(c10::Stack&)>;
template <class F>
Boxed boxed(F f) {
  return [f](c10::Stack& stack) mutable { Signature<F>::call(f, stack, std::make_index_sequence<Signature<F>::count>()); };
}
template <auto* f>
struct Compiled {};   // TORCH_FN(f)

}  // namespace detail

#define TORCH_FN(f) ::torch::detail::Compiled<f>()
#define TORCH_FN_TYPE(f) ::torch::detail::Compiled<f>
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema
#define TORCH_SELECTIVE_CLASS(name) name

// A kernel, whatever it was made of.
class CppFunction {
 public:
  template <class F, class = std::enable_if_t<!std::is_base_of_v<CppFunction, std::decay_t<F>>>>
  CppFunction(F&& f) : run(detail::boxed(std::decay_t<F>(std::forward<F>(f)))), inferred(&detail::Signature<std::decay_t<F>>::schema) {}
  template <auto* f>
  CppFunction(detail::Compiled<f>) : CppFunction(f) {}
  static CppFunction makeFallthrough() { CppFunction r; r.is_fallthrough = true; return r; }
  template <void (*f)(const c10::OperatorHandle&, c10::Stack*)>
  static CppFunction makeFromBoxedFunction() { CppFunction r; r.with_handle = f; return r; }
  template <void (*f)(const c10::OperatorHandle&, c10::DispatchKeySet, c10::Stack*)>
  static CppFunction makeFromBoxedFunction() { CppFunction r; r.with_handle = [](const c10::OperatorHandle& op, c10::Stack* s) { f(op, {}, s); }; return r; }
  template <class F>
  static CppFunction makeFromUnboxedFunction(F* f) { return CppFunction(f); }

  detail::Boxed run;
  std::string (*inferred)(const std::string&) = nullptr;
  void (*with_handle)(const c10::OperatorHandle&, c10::Stack*) = nullptr;
  bool is_fallthrough = false;
  std::optional<DispatchKey> key;

 private:
  CppFunction() = default;
};
template <class F>
inline CppFunction dispatch(DispatchKey key, F&& f) { CppFunction r(std::forward<F>(f)); r.key = key; return r; }
template <class F>
inline CppFunction dispatch(c10::DeviceType type, F&& f) { return dispatch(type == c10::kCUDA ? DispatchKey::CUDA : type == c10::kMeta ? DispatchKey::Meta : DispatchKey::CPU, std::forward<F>(f)); }
inline c10::FunctionSchema schema(const char* text, c10::AliasAnalysisKind = c10::AliasAnalysisKind::FROM_SCHEMA, bool = false) { return {text}; }
enum class _RegisterOrVerify { REGISTER, VERIFY };

template <class T>
class class_;

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind kind, std::string space, std::optional<DispatchKey> key, const char* file, uint32_t line);
  Library(Library&&) = default;
  Library& def(const char* schema) & { define(schema); return *this; }
  Library& def(const std::string& schema) & { define(schema); return *this; }
  Library& def(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& = {}) & { define(schema.text); return *this; }
  template <class F>
  Library& def(const std::string& name_or_schema, F&& f) & { define_with(name_or_schema, CppFunction(std::forward<F>(f))); return *this; }
  template <class F>
  Library& def(const c10::FunctionSchema& schema, F&& f) & { define_with(schema.text, CppFunction(std::forward<F>(f))); return *this; }
  template <class F>
  Library& impl(const std::string& name, F&& f) & { implement(name, CppFunction(std::forward<F>(f))); return *this; }
  template <class F>
  Library& impl_UNBOXED(const std::string& name, F* f) & { return impl(name, f); }
  template <class F>
  Library& fallback(F&& f) & { fall_back(CppFunction(std::forward<F>(f))); return *this; }
  template <class T>
  class_<T> class_(const std::string& name);
  Library& set_python_module(const char* module, const char* = "") { (void)module; return *this; }
  Library& impl_abstract_pystub(const char* module, const char* = "") { return set_python_module(module); }
  void reset();

 private:
  void define(const std::string& schema);
  void define_with(const std::string& name_or_schema, CppFunction f);
  void implement(const std::string& name, CppFunction f);
  void fall_back(CppFunction f);
  std::string space_;
  std::optional<DispatchKey> key_;
  std::shared_ptr<void> face_;          // the Library of Python
};

namespace detail {
struct LibraryInit {
  using Init = void(Library&);
  LibraryInit(Library::Kind kind, Init* init, const char* space, std::optional<DispatchKey> key, const char* file, uint32_t line);
};
}  // namespace detail

#define RUSHLIGHT_LIBRARY(kind, space, key, number)                                                              \
  static void C10_CONCATENATE(TORCH_LIBRARY_init_##space##_, number)(::torch::Library&);                         \
  static const ::torch::detail::LibraryInit C10_CONCATENATE(TORCH_LIBRARY_static_##space##_, number)(            \
      ::torch::Library::kind, &C10_CONCATENATE(TORCH_LIBRARY_init_##space##_, number), #space, key, __FILE__, __LINE__); \
  void C10_CONCATENATE(TORCH_LIBRARY_init_##space##_, number)
#define TORCH_LIBRARY(space, m) RUSHLIGHT_LIBRARY(DEF, space, std::nullopt, whole)(::torch::Library & m)
#define TORCH_LIBRARY_FRAGMENT(space, m) RUSHLIGHT_LIBRARY_AT(FRAGMENT, space, std::nullopt, __COUNTER__)(::torch::Library & m)
#define TORCH_LIBRARY_IMPL(space, key, m) RUSHLIGHT_LIBRARY_AT(IMPL, space, ::c10::DispatchKey::key, __COUNTER__)(::torch::Library & m)
#define RUSHLIGHT_LIBRARY_AT(kind, space, key, number) RUSHLIGHT_LIBRARY(kind, space, key, number)

// --- custom classes ---------------------------------------------------------------------------------------------------

template <class... Types>
struct types {};
template <class... Args>
inline types<Args...> init() { return {}; }
template <class F>
struct InitLambda { F f; };
template <class F>
inline InitLambda<std::decay_t<F>> init(F&& f) { return {std::forward<F>(f)}; }
struct arg {
  explicit arg(std::string name) : name(std::move(name)) {}
  arg& operator=(const c10::IValue& v) { value = v; has_value = true; return *this; }
  std::string name;
  c10::IValue value;
  bool has_value = false;
};

namespace detail {
struct Defaults { std::vector<std::string> names; std::vector<c10::IValue> values; };
class ClassBase {
 public:
  ClassBase(const std::string& space, const std::string& name, const char* type, std::string doc);

 protected:
  void add(const std::string& kind, const std::string& name, Boxed run, const std::string& doc, std::initializer_list<arg> defaults, size_t count) const;
  std::string qualified_;
};
}  // namespace detail

template <class T>
class class_ : public detail::ClassBase {
  static_assert(std::is_base_of_v<c10::CustomClassHolder, T>, "class_<T>: T must inherit from torch::CustomClassHolder");
  using Self = c10::intrusive_ptr<T>;

 public:
  explicit class_(const std::string& space, const std::string& name, std::string doc = "") : ClassBase(space, name, typeid(T).name(), std::move(doc)) {}
  template <class... Args>
  class_& def(types<Args...>, std::string doc = "", std::initializer_list<arg> defaults = {}) {
    return construct([](Args... args) { return c10::make_intrusive<T>(std::forward<Args>(args)...); }, doc, defaults);
  }
  template <class F>
  class_& def(InitLambda<F> made, std::string doc = "", std::initializer_list<arg> defaults = {}) { return construct(made.f, doc, defaults); }
  template <class F>
  class_& def(const std::string& name, F f, std::string doc = "", std::initializer_list<arg> defaults = {}) { return method("method", name, f, doc, defaults); }
  template <class F>
  class_& def_static(const std::string& name, F f, std::string doc = "") {
    add("static", name, detail::boxed(f), doc, {}, detail::Signature<F>::count);
    return *this;
  }
  template <class V>
  class_& def_readonly(const std::string& name, V T::*field) { return method("get", name, [field](const Self& self) { return self.get()->*field; }, "", {}); }
  template <class V>
  class_& def_readwrite(const std::string& name, V T::*field) { def_readonly(name, field); return method("set", name, [field](const Self& self, V v) { self.get()->*field = std::move(v); }, "", {}); }
  template <class G>
  class_& def_property(const std::string& name, G get, std::string doc = "") { return method("get", name, get, doc, {}); }
  template <class G, class S, class = std::enable_if_t<!std::is_convertible_v<S, std::string>>>
  class_& def_property(const std::string& name, G get, S set, std::string doc = "") { method("get", name, get, doc, {}); return method("set", name, set, doc, {}); }
  template <class G, class S>
  class_& def_pickle(G get, S set) {
    method("method", "__getstate__", get, "", {});
    add("static", "__setstate__", detail::boxed(set), "", {}, 1);
    return *this;
  }

 private:
  template <class F>
  class_& construct(F f, const std::string& doc, std::initializer_list<arg> defaults) {
    add("init", "__init__", detail::boxed(f), doc, defaults, detail::Signature<F>::count);
    return *this;
  }
  template <class R, class C, class... Args>
  class_& method(const char* kind, const std::string& name, R (C::*f)(Args...), const std::string& doc, std::initializer_list<arg> defaults) {
    return method(kind, name, [f](const Self& self, Args... args) -> R { return (self.get()->*f)(std::forward<Args>(args)...); }, doc, defaults);
  }
  template <class R, class C, class... Args>
  class_& method(const char* kind, const std::string& name, R (C::*f)(Args...) const, const std::string& doc, std::initializer_list<arg> defaults) {
    return method(kind, name, [f](const Self& self, Args... args) -> R { return (self.get()->*f)(std::forward<Args>(args)...); }, doc, defaults);
  }
  template <class F>
  class_& method(const char* kind, const std::string& name, F f, const std::string& doc, std::initializer_list<arg> defaults) {
    add(kind, name, detail::boxed(f), doc, defaults, detail::Signature<F>::count - 1);
    return *this;
  }
};
template <class T>
inline torch::class_<T> Library::class_(const std::string& name) { return torch::class_<T>(space_, name); }
template <class T, class... Args>
c10::IValue make_custom_class(Args&&... args) { return c10::make_intrusive<T>(std::forward<Args>(args)...); }

// Registration as it was before TORCH_LIBRARY: RegisterOperators().op("namespace::name", &function)
class RegisterOperators {
 public:
  RegisterOperators() = default;
  template <class F>
  explicit RegisterOperators(const std::string& name_or_schema, F&& f) { op(name_or_schema, std::forward<F>(f)); }
  template <class F>
  RegisterOperators&& op(const std::string& name_or_schema, F&& f) && { add(name_or_schema, CppFunction(std::forward<F>(f))); return std::move(*this); }
  template <class F>
  RegisterOperators& op(const std::string& name_or_schema, F&& f) & { add(name_or_schema, CppFunction(std::forward<F>(f))); return *this; }

 private:
  static void add(const std::string& name_or_schema, CppFunction f);
};

namespace jit {
template <class T>
using class_ = torch::class_<T>;
using torch::RegisterOperators;
}

}  // namespace torch
namespace c10 {
using torch::Library;
using torch::RegisterOperators;
}
