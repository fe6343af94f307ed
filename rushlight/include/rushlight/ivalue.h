// Values of any type that scripts and operators pass: IValue, List, Dict, custom classes.
#pragma once
#include <array>
#include <map>
#include <unordered_map>

#include <rushlight/functions.h>

namespace torch::jit {
class Module;
}

namespace c10 {

struct IValue;
namespace ivalue {
struct ConstantString : intrusive_ptr_target {
  explicit ConstantString(std::string text) : text(std::move(text)) {}
  const std::string& string() const { return text; }
  std::string text;
};
struct ListImpl;
struct DictImpl;
struct Tuple;
using Object = TensorImpl;                 // any object of Python
}  // namespace ivalue

// Base of what class_<T> makes known.
struct CustomClassHolder : intrusive_ptr_target {};

template <class T>
class List;
template <class K, class V>
class Dict;

struct IValue {
  enum class Tag : uint8_t { None, Tensor, Double, Int, Bool, Complex, String, List, Tuple, Dict, Device, Custom, Python, Generator };
  IValue() = default;
  IValue(std::nullopt_t) {}
  IValue(at::Tensor value) : tag_(Tag::Tensor), object_(retyped(value.getIntrusivePtr())) {}
  IValue(double value) : tag_(Tag::Double) { number_.real = value; }
  IValue(float value) : IValue(double(value)) {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  IValue(T value) : tag_(std::is_same_v<T, bool> ? Tag::Bool : Tag::Int) { number_.whole = static_cast<int64_t>(value); }
  IValue(SymInt value) : IValue(int64_t(value)) {}
  IValue(ScalarType value) : IValue(static_cast<int64_t>(value)) {}
  IValue(Layout value) : IValue(static_cast<int64_t>(value)) {}
  IValue(MemoryFormat value) : IValue(static_cast<int64_t>(value)) {}
  IValue(std::complex<double> value) : tag_(Tag::Complex), imaginary_(value.imag()) { number_.real = value.real(); }
  IValue(std::string value) : tag_(Tag::String), object_(make_intrusive<ivalue::ConstantString>(std::move(value))) {}
  IValue(const char* value) : IValue(std::string(value)) {}
  IValue(std::string_view value) : IValue(std::string(value)) {}
  IValue(Device value) : tag_(Tag::Device) { number_.whole = static_cast<int64_t>(value.type()) * 256 + value.index() + 1; }
  IValue(const Scalar& value);
  IValue(const at::Generator& value);
  template <class T>
  IValue(std::optional<T> value) { if (value) *this = IValue(std::move(*value)); }
  template <class T>
  IValue(ArrayRef<T> values);
  template <class T>
  IValue(const std::vector<T>& values);
  template <class T, size_t n>
  IValue(const std::array<T, n>& values) : IValue(std::vector<T>(values.begin(), values.end())) {}
  template <class K, class V>
  IValue(const std::unordered_map<K, V>& values);
  template <class T>
  IValue(List<T> values);
  template <class K, class V>
  IValue(Dict<K, V> values);
  template <class... T>
  IValue(std::tuple<T...> values);
  template <class T, class = std::enable_if_t<std::is_base_of_v<CustomClassHolder, T>>, class = void>
  IValue(intrusive_ptr<T> value);
  IValue(intrusive_ptr<ivalue::Tuple> value);
  IValue(Tag tag, intrusive_ptr<intrusive_ptr_target> object) : tag_(tag), object_(std::move(object)) {}

  Tag tag() const { return tag_; }
  std::string tagKind() const;
  bool isNone() const { return tag_ == Tag::None; }
  bool isTensor() const { return tag_ == Tag::Tensor; }
  bool isDouble() const { return tag_ == Tag::Double; }
  bool isInt() const { return tag_ == Tag::Int; }
  bool isBool() const { return tag_ == Tag::Bool; }
  bool isComplexDouble() const { return tag_ == Tag::Complex; }
  bool isString() const { return tag_ == Tag::String; }
  bool isList() const { return tag_ == Tag::List; }
  bool isTuple() const { return tag_ == Tag::Tuple; }
  bool isGenericDict() const { return tag_ == Tag::Dict; }
  bool isDevice() const { return tag_ == Tag::Device; }
  bool isCustomClass() const { return tag_ == Tag::Custom; }
  bool isObject() const { return tag_ == Tag::Custom || tag_ == Tag::Python; }
  bool isPyObject() const { return tag_ == Tag::Python; }
  bool isModule() const;
  bool isScalar() const { return isDouble() || isInt() || isBool() || isComplexDouble(); }
  bool isTensorList() const { return is_list_of(Tag::Tensor); }
  bool isIntList() const { return is_list_of(Tag::Int); }
  bool isDoubleList() const { return is_list_of(Tag::Double); }
  bool isBoolList() const { return is_list_of(Tag::Bool); }

  at::Tensor toTensor() const { expect(Tag::Tensor, "a Tensor"); return at::Tensor(static_intrusive_pointer_cast<TensorImpl>(object_)); }
  double toDouble() const { if (isInt()) return static_cast<double>(number_.whole); expect(Tag::Double, "a float"); return number_.real; }
  int64_t toInt() const { expect(Tag::Int, "an int"); return number_.whole; }
  SymInt toSymInt() const { return toInt(); }
  bool toBool() const { expect(Tag::Bool, "a bool"); return number_.whole != 0; }
  std::complex<double> toComplexDouble() const { expect(Tag::Complex, "a complex number"); return {number_.real, imaginary_}; }
  const std::string& toStringRef() const { expect(Tag::String, "a str"); return static_cast<ivalue::ConstantString*>(object_.get())->text; }
  intrusive_ptr<ivalue::ConstantString> toString() const { toStringRef(); return static_intrusive_pointer_cast<ivalue::ConstantString>(object_); }
  std::string_view toStringView() const { return toStringRef(); }
  Device toDevice() const;
  Scalar toScalar() const;
  ScalarType toScalarType() const { return static_cast<ScalarType>(toInt()); }
  at::Generator toGenerator() const;
  List<IValue> toList() const;
  ArrayRef<IValue> toListRef() const;
  intrusive_ptr<ivalue::Tuple> toTuple() const;
  const ivalue::Tuple& toTupleRef() const { return *toTuple(); }
  Dict<IValue, IValue> toGenericDict() const;
  std::vector<at::Tensor> toTensorVector() const;
  List<at::Tensor> toTensorList() const;
  List<int64_t> toIntList() const;
  std::vector<int64_t> toIntVector() const;
  List<double> toDoubleList() const;
  std::vector<double> toDoubleVector() const;
  List<bool> toBoolList() const;
  torch::jit::Module toModule() const;              // with torch/script.h
  template <class T>
  intrusive_ptr<T> toCustomClass() const;
  template <class T>
  std::optional<T> toOptional() const { return isNone() ? std::nullopt : std::optional<T>(to<T>()); }
  template <class T>
  T to() const;
  const intrusive_ptr<intrusive_ptr_target>& object() const { return object_; }
  bool is(const IValue& o) const { return tag_ == o.tag_ && object_ == o.object_ && (object_ || number_.whole == o.number_.whole); }
  friend bool operator==(const IValue& a, const IValue& b) { return a.equals(b); }
  friend bool operator!=(const IValue& a, const IValue& b) { return !a.equals(b); }

 private:
  static intrusive_ptr<intrusive_ptr_target> retyped(const intrusive_ptr<TensorImpl>& p) { return p; }
  void expect(Tag tag, const char* wanted) const { TORCH_CHECK_TYPE(tag_ == tag, "IValue: expected ", wanted, ", got ", tagKind()); }
  bool is_list_of(Tag tag) const;
  bool equals(const IValue& o) const;
  Tag tag_ = Tag::None;
  union { int64_t whole = 0; double real; } number_;
  double imaginary_ = 0;
  intrusive_ptr<intrusive_ptr_target> object_;
};
std::ostream& operator<<(std::ostream& out, const IValue& value);

namespace ivalue {
struct ListImpl : intrusive_ptr_target { std::vector<IValue> items; };
struct DictImpl : intrusive_ptr_target { std::vector<std::pair<IValue, IValue>> items; };
struct Tuple : intrusive_ptr_target {
  std::vector<IValue> items;
  const std::vector<IValue>& elements() const { return items; }
  size_t size() const { return items.size(); }
  static intrusive_ptr<Tuple> create(std::vector<IValue> items) { auto t = make_intrusive<Tuple>(); t->items = std::move(items); return t; }
  template <class... T>
  static intrusive_ptr<Tuple> create(T&&... items) { return create(std::vector<IValue>{IValue(std::forward<T>(items))...}); }
};
}  // namespace ivalue

// Copies share their elements.
template <class T>
class List {
 public:
  using value_type = T;
  List() : impl_(make_intrusive<ivalue::ListImpl>()) {}
  explicit List(intrusive_ptr<ivalue::ListImpl> impl) : impl_(std::move(impl)) {}
  List(std::initializer_list<T> values) : List() { for (const T& v : values) push_back(v); }
  explicit List(ArrayRef<T> values) : List() { for (const T& v : values) push_back(v); }
  template <class V, class = std::enable_if_t<std::is_same_v<V, std::vector<T>>>>
  List(const V& values) : List() { for (T v : values) push_back(v); }
  T get(size_t i) const { return impl_->items.at(i).template to<T>(); }
  T operator[](size_t i) const { return get(i); }
  T extract(size_t i) const { return get(i); }
  void set(size_t i, T value) const { impl_->items.at(i) = IValue(std::move(value)); }
  void push_back(T value) const { impl_->items.emplace_back(std::move(value)); }
  template <class... A>
  void emplace_back(A&&... args) const { push_back(T(std::forward<A>(args)...)); }
  void reserve(size_t n) const { impl_->items.reserve(n); }
  void clear() const { impl_->items.clear(); }
  void pop_back() const { impl_->items.pop_back(); }
  void resize(size_t n) const { impl_->items.resize(n, IValue(T())); }
  size_t size() const { return impl_->items.size(); }
  bool empty() const { return impl_->items.empty(); }
  std::vector<T> vec() const { std::vector<T> r; for (const IValue& v : impl_->items) r.push_back(v.to<T>()); return r; }
  operator std::vector<T>() const { return vec(); }
  List copy() const { return List(vec()); }
  bool is(const List& o) const { return impl_ == o.impl_; }
  struct iterator {
    const List* list;
    size_t at;
    T operator*() const { return list->get(at); }
    iterator& operator++() { ++at; return *this; }
    bool operator!=(const iterator& o) const { return at != o.at; }
    bool operator==(const iterator& o) const { return at == o.at; }
  };
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, size()}; }
  const intrusive_ptr<ivalue::ListImpl>& impl() const { return impl_; }

 private:
  intrusive_ptr<ivalue::ListImpl> impl_;
};

template <class K, class V>
class Dict {
 public:
  struct entry {
    IValue *first, *second;
    K key() const { return first->to<K>(); }
    V value() const { return second->to<V>(); }
    void setValue(V v) const { *second = IValue(std::move(v)); }
  };
  Dict() : impl_(make_intrusive<ivalue::DictImpl>()) {}
  explicit Dict(intrusive_ptr<ivalue::DictImpl> impl) : impl_(std::move(impl)) {}
  void insert(K key, V value) const { if (!find_item(IValue(key))) impl_->items.emplace_back(IValue(std::move(key)), IValue(std::move(value))); }
  void insert_or_assign(K key, V value) const { if (auto* at = find_item(IValue(key))) at->second = IValue(std::move(value)); else insert(std::move(key), std::move(value)); }
  V at(const K& key) const { auto* found = find_item(IValue(key)); TORCH_CHECK_INDEX(found, "Dict: no such key"); return found->second.template to<V>(); }
  bool contains(const K& key) const { return find_item(IValue(key)); }
  size_t erase(const K& key) const { auto* found = find_item(IValue(key)); if (found) impl_->items.erase(impl_->items.begin() + (found - impl_->items.data())); return found != nullptr; }
  size_t size() const { return impl_->items.size(); }
  bool empty() const { return impl_->items.empty(); }
  void clear() const { impl_->items.clear(); }
  struct iterator {
    std::pair<IValue, IValue>* at;
    entry operator*() const { return {&at->first, &at->second}; }
    iterator& operator++() { ++at; return *this; }
    bool operator!=(const iterator& o) const { return at != o.at; }
  };
  iterator begin() const { return {impl_->items.data()}; }
  iterator end() const { return {impl_->items.data() + impl_->items.size()}; }
  const intrusive_ptr<ivalue::DictImpl>& impl() const { return impl_; }

 private:
  std::pair<IValue, IValue>* find_item(const IValue& key) const {
    for (auto& item : impl_->items) if (item.first == key) return &item;
    return nullptr;
  }
  intrusive_ptr<ivalue::DictImpl> impl_;
};

template <class T>
inline IValue::IValue(ArrayRef<T> values) : tag_(Tag::List) {
  auto list = make_intrusive<ivalue::ListImpl>();
  for (const T& v : values) list->items.emplace_back(v);
  object_ = std::move(list);
}
template <class T>
inline IValue::IValue(const std::vector<T>& values) : tag_(Tag::List) {
  auto list = make_intrusive<ivalue::ListImpl>();
  for (T v : values) list->items.emplace_back(std::move(v));
  object_ = std::move(list);
}
template <class T>
inline IValue::IValue(List<T> values) : tag_(Tag::List), object_(values.impl()) {}
template <class K, class V>
inline IValue::IValue(Dict<K, V> values) : tag_(Tag::Dict), object_(values.impl()) {}
template <class K, class V>
inline IValue::IValue(const std::unordered_map<K, V>& values) : tag_(Tag::Dict) {
  auto dict = make_intrusive<ivalue::DictImpl>();
  for (const auto& [key, value] : values) dict->items.emplace_back(IValue(key), IValue(value));
  object_ = std::move(dict);
}
template <class... T>
inline IValue::IValue(std::tuple<T...> values) : tag_(Tag::Tuple) {
  object_ = std::apply([](auto&... v) { return ivalue::Tuple::create(std::vector<IValue>{IValue(std::move(v))...}); }, values);
}
inline IValue::IValue(intrusive_ptr<ivalue::Tuple> value) : tag_(Tag::Tuple), object_(std::move(value)) {}
template <class T, class, class>
inline IValue::IValue(intrusive_ptr<T> value) : tag_(Tag::Custom), object_(std::move(value)) {}
template <class T>
inline intrusive_ptr<T> IValue::toCustomClass() const {
  expect(Tag::Custom, "an instance of a custom class");
  auto result = dynamic_intrusive_pointer_cast<T>(object_);
  TORCH_CHECK_TYPE(result, "IValue: the instance is of another custom class");
  return result;
}

namespace detail {
template <class T>
struct FromIValue;
#define RUSHLIGHT_FROM(cpp, method) \
  template <>                       \
  struct FromIValue<cpp> { static cpp of(const IValue& v) { return v.method; } }
RUSHLIGHT_FROM(double, toDouble());
RUSHLIGHT_FROM(float, toDouble());
RUSHLIGHT_FROM(bool, toBool());
RUSHLIGHT_FROM(std::string, toStringRef());
RUSHLIGHT_FROM(std::string_view, toStringRef());
RUSHLIGHT_FROM(Scalar, toScalar());
RUSHLIGHT_FROM(ScalarType, toScalarType());
RUSHLIGHT_FROM(Device, toDevice());
RUSHLIGHT_FROM(SymInt, toInt());
RUSHLIGHT_FROM(std::complex<double>, toComplexDouble());
RUSHLIGHT_FROM(at::Generator, toGenerator());
RUSHLIGHT_FROM(intrusive_ptr<ivalue::Tuple>, toTuple());
#undef RUSHLIGHT_FROM
template <>
struct FromIValue<at::Tensor> { static at::Tensor of(const IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); } };
template <>
struct FromIValue<IValue> { static IValue of(const IValue& v) { return v; } };
template <class T>
struct FromIValue {
  static T of(const IValue& v) {
    static_assert(std::is_integral_v<T>, "IValue holds no values of this type");
    return static_cast<T>(v.toInt());
  }
};
template <class T>
struct FromIValue<std::optional<T>> { static std::optional<T> of(const IValue& v) { return v.toOptional<T>(); } };
template <class T>
struct FromIValue<intrusive_ptr<T>> { static intrusive_ptr<T> of(const IValue& v) { return v.toCustomClass<T>(); } };
template <class T>
struct FromIValue<List<T>> { static List<T> of(const IValue& v) { return List<T>(v.toList().impl()); } };
template <class K, class V>
struct FromIValue<Dict<K, V>> { static Dict<K, V> of(const IValue& v) { return Dict<K, V>(v.toGenericDict().impl()); } };
template <class T>
struct FromIValue<std::vector<T>> {
  static std::vector<T> of(const IValue& v) {
    std::vector<T> r;
    for (const IValue& one : v.toListRef()) r.push_back(one.to<T>());
    return r;
  }
};
template <class... T>
struct FromIValue<std::tuple<T...>> {
  template <size_t... I>
  static std::tuple<T...> parts(const std::vector<IValue>& v, std::index_sequence<I...>) { return {v[I].to<T>()...}; }
  static std::tuple<T...> of(const IValue& v) {
    auto tuple = v.toTuple();
    TORCH_CHECK(tuple->size() == sizeof...(T), "IValue: expected a tuple of ", sizeof...(T), ", got ", tuple->size());
    return parts(tuple->items, std::index_sequence_for<T...>());
  }
};
}  // namespace detail
template <class T>
inline T IValue::to() const { return detail::FromIValue<T>::of(*this); }
inline List<at::Tensor> IValue::toTensorList() const { return to<List<at::Tensor>>(); }
inline List<int64_t> IValue::toIntList() const { return to<List<int64_t>>(); }
inline List<double> IValue::toDoubleList() const { return to<List<double>>(); }
inline List<bool> IValue::toBoolList() const { return to<List<bool>>(); }
inline std::vector<at::Tensor> IValue::toTensorVector() const { return to<std::vector<at::Tensor>>(); }
inline std::vector<int64_t> IValue::toIntVector() const { return to<std::vector<int64_t>>(); }
inline std::vector<double> IValue::toDoubleVector() const { return to<std::vector<double>>(); }

using Stack = std::vector<IValue>;

}  // namespace c10
namespace at { using c10::IValue; using c10::List; using c10::Dict; }
namespace torch {
using c10::CustomClassHolder; using c10::Dict; using c10::IValue; using c10::List;
namespace jit {
using c10::IValue; using c10::Stack;
inline IValue pop(Stack& stack) { IValue v = std::move(stack.back()); stack.pop_back(); return v; }
inline void drop(Stack& stack, size_t n) { stack.resize(stack.size() - n); }
inline const IValue& peek(const Stack& stack, size_t i, size_t n) { return stack[stack.size() - n + i]; }
inline ArrayRef<IValue> last(const Stack& stack, size_t n) { return ArrayRef<IValue>(stack.data() + stack.size() - n, n); }
template <class... T>
inline void push(Stack& stack, T&&... values) { (stack.emplace_back(std::forward<T>(values)), ...); }
}
}
