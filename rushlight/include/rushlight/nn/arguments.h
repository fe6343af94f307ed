// What options are made of: TORCH_ARG, the words torch::kMean and so on, lists that one number fills, ordered names.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <rushlight/functions.h>

// An option: set by calls in a chain, read by the same name.
#define TORCH_ARG(T, name)                                                                              \
 public:                                                                                                \
  inline auto name(const T& value) -> decltype(*this) { this->name##_ = value; return *this; }          \
  inline auto name(T&& value) -> decltype(*this) { this->name##_ = std::move(value); return *this; }    \
  inline const T& name() const noexcept { return this->name##_; }                                       \
  inline T& name() noexcept { return this->name##_; }                                                   \
                                                                                                        \
 private:                                                                                               \
  T name##_

// Each word, and what Python calls it.
#define RUSHLIGHT_WORDS(X)                                                                                            \
  X(Linear, "linear") X(Conv1D, "conv1d") X(Conv2D, "conv2d") X(Conv3D, "conv3d")                                     \
  X(ConvTranspose1D, "conv_transpose1d") X(ConvTranspose2D, "conv_transpose2d")                                       \
  X(ConvTranspose3D, "conv_transpose3d") X(Sigmoid, "sigmoid") X(Tanh, "tanh") X(ReLU, "relu") X(GELU, "gelu")        \
  X(SiLU, "silu") X(Mish, "mish") X(LeakyReLU, "leaky_relu") X(FanIn, "fan_in") X(FanOut, "fan_out")                  \
  X(Constant, "constant") X(Reflect, "reflect") X(Replicate, "replicate") X(Circular, "circular")                     \
  X(Nearest, "nearest") X(Bilinear, "bilinear") X(Bicubic, "bicubic") X(Trilinear, "trilinear") X(Area, "area")       \
  X(NearestExact, "nearest-exact") X(Sum, "sum") X(Mean, "mean") X(Max, "max") X(None, "none")                        \
  X(BatchMean, "batchmean") X(Zeros, "zeros") X(Border, "border") X(Reflection, "reflection")                         \
  X(RNN_TANH, "RNN_TANH") X(RNN_RELU, "RNN_RELU") X(LSTM, "LSTM") X(GRU, "GRU") X(Valid, "valid") X(Same, "same")

namespace rushlight::nn {
// An option: its name in Python, where it lies, and how its value crosses (cxx/runtime/fields.h).
struct Field {
  const char* name;
  void* at;
  void* (*to)(const void*);              // a new reference
  void (*from)(void* object, void*);
  uint64_t (*mix)(uint64_t, const void*);
};
}  // namespace rushlight::nn

namespace at::Reduction {
enum Reduction { None, Mean, Sum, END };
}

namespace torch {

namespace enumtype {
#define X(word, python)                             \
  struct k##word {                                  \
    static constexpr const char* text = python;     \
    static constexpr const char* name = "k" #word;  \
  };
RUSHLIGHT_WORDS(X)
#undef X
template <class Variant>
std::string get_enum_name(const Variant& value) {
  return std::visit([](const auto& word) { return std::string(std::decay_t<decltype(word)>::name); }, value);
}
}  // namespace enumtype
#define X(word, python) constexpr enumtype::k##word k##word{};
RUSHLIGHT_WORDS(X)
#undef X

// D numbers, one for each dimension; one number stands for D times itself.
template <size_t D, class T = int64_t>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) : ExpandingArray(c10::ArrayRef<T>(list)) {}
  ExpandingArray(std::vector<T> list) : ExpandingArray(c10::ArrayRef<T>(list)) {}
  ExpandingArray(c10::ArrayRef<T> list) {
    TORCH_CHECK(list.size() == D, "Expected ", D, " values, but instead got ", list.size());
    std::copy(list.begin(), list.end(), values_.begin());
  }
  ExpandingArray(T one) { values_.fill(one); }
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}
  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator c10::ArrayRef<T>() const { return values_; }
  size_t size() const noexcept { return D; }
  friend std::ostream& operator<<(std::ostream& out, const ExpandingArray& array) {
    return D == 1 ? out << array.values_[0] : out << c10::ArrayRef<T>(array.values_);
  }

 private:
  std::array<T, D> values_{};
};

// The same where a size may be left open: std::nullopt keeps the input's.
template <size_t D, class T = int64_t>
class ExpandingArrayWithOptionalElem : public ExpandingArray<D, std::optional<T>> {
  using Base = ExpandingArray<D, std::optional<T>>;

 public:
  using Base::Base;
  ExpandingArrayWithOptionalElem(std::initializer_list<std::optional<T>> list) : Base(std::vector<std::optional<T>>(list)) {}
  ExpandingArrayWithOptionalElem(std::initializer_list<T> list) : Base(std::vector<std::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(const std::vector<T>& list) : Base(std::vector<std::optional<T>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(T one) : Base(std::optional<T>(one)) {}
};

// Names and values in the order they came.
template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string what = "Key") : what_(std::move(what)) {}
  OrderedDict(std::initializer_list<Item> items) : OrderedDict() { for (const Item& i : items) insert(i.key(), i.value()); }

  const std::string& key_description() const noexcept { return what_; }
  Item& front() { expect_items(); return items_.front(); }
  const Item& front() const { expect_items(); return items_.front(); }
  Item& back() { expect_items(); return items_.back(); }
  const Item& back() const { expect_items(); return items_.back(); }
  Item& operator[](size_t index) { return items_.at(index); }
  const Item& operator[](size_t index) const { return items_.at(index); }
  Value& operator[](const Key& key) { return known(key); }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict*>(this)->known(key); }
  Value* find(const Key& key) noexcept {
    auto at = places_.find(key);
    return at == places_.end() ? nullptr : &items_[at->second].value();
  }
  const Value* find(const Key& key) const noexcept { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const noexcept { return places_.count(key) != 0; }
  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  void reserve(size_t count) { items_.reserve(count); }
  template <class K, class V>
  Value& insert(K&& key, V&& value) {
    const bool is_new = places_.emplace(key, items_.size()).second;
    TORCH_CHECK(is_new, what_, " '", key, "' already defined");
    items_.emplace_back(Key(std::forward<K>(key)), Value(std::forward<V>(value)));
    return items_.back().value();
  }
  Value& insert(Key key, Value&& value) { return insert<Key, Value>(std::move(key), std::move(value)); }
  void update(const OrderedDict& other) { for (const Item& i : other) insert(i.key(), i.value()); }
  void update(OrderedDict&& other) { for (Item& i : other) insert(i.key(), std::move(i.value())); }
  void erase(const Key& key) {
    known(key);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(places_.at(key)));
    places_.clear();
    for (size_t i = 0; i < items_.size(); ++i) places_.emplace(items_[i].key(), i);
  }
  void clear() { items_.clear(); places_.clear(); }
  const std::vector<Item>& items() const noexcept { return items_; }
  std::vector<Key> keys() const { return taken<Key>([](const Item& i) { return i.key(); }); }
  std::vector<Value> values() const { return taken<Value>([](const Item& i) { return i.value(); }); }
  std::vector<std::pair<Key, Value>> pairs() const { return taken<std::pair<Key, Value>>([](const Item& i) { return i.pair(); }); }

 private:
  Value& known(const Key& key) {
    Value* found = find(key);
    TORCH_CHECK(found, what_, " '", key, "' is not defined");
    return *found;
  }
  void expect_items() const { TORCH_CHECK(!items_.empty(), "OrderedDict: it has no items"); }
  template <class T, class Take>
  std::vector<T> taken(Take take) const {
    std::vector<T> list;
    list.reserve(items_.size());
    for (const Item& i : items_) list.push_back(take(i));
    return list;
  }
  std::vector<Item> items_;
  std::unordered_map<Key, size_t> places_;
  std::string what_;
};

namespace nn {
using torch::ExpandingArray;
// The padding of a convolution: numbers, kValid or kSame.
template <size_t D>
struct conv_padding_t : std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame> {
  using Base = std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame>;
  using Base::Base;
  conv_padding_t(std::initializer_list<int64_t> list) : Base(ExpandingArray<D>(list)) {}
  conv_padding_t(int64_t one) : Base(ExpandingArray<D>(one)) {}
};
}  // namespace nn

}  // namespace torch
