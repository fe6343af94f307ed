// Views of sequences, and optional values.
#pragma once
#include <array>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rushlight/error.h>

namespace c10 {

using std::in_place;
using std::in_place_t;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

template <class T, unsigned N = 6>
class SmallVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  SmallVector() = default;
  SmallVector(std::vector<T> other) : std::vector<T>(std::move(other)) {}
  template <class Range, class = decltype(std::declval<const Range&>().begin()),
            class = std::enable_if_t<!std::is_base_of_v<std::vector<T>, Range>>>
  explicit SmallVector(const Range& range) : std::vector<T>(range.begin(), range.end()) {}
  template <class Iterator>
  void append(Iterator from, Iterator to) { this->insert(this->end(), from, to); }
};
template <class T>
using SmallVectorImpl = SmallVector<T>;

#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
// A view of elements that somebody else keeps.
template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  using reverse_iterator = std::reverse_iterator<iterator>;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& from) : data_(from.data()), size_(from.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& from) : data_(from.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&from)[N]) : data_(from), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& from)
      : data_(from.begin() == from.end() ? nullptr : from.begin()), size_(from.size()) {}
  template <class C, class = std::enable_if_t<!std::is_same_v<C, ArrayRef> && !std::is_same_v<C, T> &&
                     std::is_same_v<std::remove_const_t<std::remove_pointer_t<decltype(std::declval<const C&>().data())>>, T>>,
            class = decltype(std::declval<const C&>().size())>
  ArrayRef(const C& from) : data_(from.data()), size_(from.size()) {}

  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + size_; }
  constexpr iterator cbegin() const { return data_; }
  constexpr iterator cend() const { return data_ + size_; }
  reverse_iterator rbegin() const { return reverse_iterator(end()); }
  reverse_iterator rend() const { return reverse_iterator(begin()); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  const T& front() const { return at(0); }
  const T& back() const { TORCH_CHECK(size_, "ArrayRef: back() of an empty array"); return data_[size_ - 1]; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < size_, "ArrayRef: index ", i, " is out of range for ", size_, " elements");
    return data_[i];
  }
  ArrayRef slice(size_t from, size_t count) const {
    TORCH_CHECK(from + count <= size_, "ArrayRef: ", count, " elements from ", from, " do not lie in ", size_);
    return {data_ + from, count};
  }
  ArrayRef slice(size_t from) const { return slice(from, size_ - from); }
  bool equals(ArrayRef o) const {
    if (size_ != o.size_) return false;
    for (size_t i = 0; i < size_; ++i) if (!(data_[i] == o.data_[i])) return false;
    return true;
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  friend std::ostream& operator<<(std::ostream& out, ArrayRef list) {
    out << "[";
    for (size_t i = 0; i < list.size_; ++i) out << (i ? ", " : "") << list.data_[i];
    return out << "]";
  }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, const std::vector<T>& b) { return !a.equals(b); }
  friend bool operator==(const std::vector<T>& a, ArrayRef b) { return b.equals(a); }
  friend bool operator!=(const std::vector<T>& a, ArrayRef b) { return !b.equals(a); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

#pragma GCC diagnostic pop

using IntArrayRef = ArrayRef<int64_t>;

template <class T>
class OptionalArrayRef {
 public:
  OptionalArrayRef() = default;
  OptionalArrayRef(std::nullopt_t) {}
  template <class U, class = std::enable_if_t<!std::is_same_v<std::decay_t<U>, OptionalArrayRef> &&
                                              !std::is_convertible_v<U&&, T> &&   // a number is kept, see below
                                              std::is_constructible_v<ArrayRef<T>, U&&>>>
  OptionalArrayRef(U&& from) : value_(ArrayRef<T>(std::forward<U>(from))) {}
  OptionalArrayRef(const T& one) : kept_(one), single_(true) {}
  OptionalArrayRef(const std::initializer_list<T>& from) : value_(ArrayRef<T>(from)) {}
  OptionalArrayRef(const std::optional<std::vector<T>>& from) { if (from) value_ = *from; }
  OptionalArrayRef(const std::optional<ArrayRef<T>>& from) : value_(from) {}
  bool has_value() const { return single_ || value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  ArrayRef<T> value() const { return single_ ? ArrayRef<T>(kept_) : value_.value(); }
  ArrayRef<T> operator*() const { return value(); }
  ArrayRef<T> value_or(ArrayRef<T> other) const { return has_value() ? value() : other; }
  operator std::optional<ArrayRef<T>>() const { return has_value() ? std::optional<ArrayRef<T>>(value()) : std::nullopt; }

 private:
  std::optional<ArrayRef<T>> value_;
  T kept_{};
  bool single_ = false;
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

template <class T>
ArrayRef<T> makeArrayRef(const T* data, size_t size) { return {data, size}; }
template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& from) { return from; }

// A size that PyTorch may not know yet; here it is always a number.
class SymInt {
 public:
  SymInt() = default;
  SymInt(int64_t value) : value_(value) {}
  operator int64_t() const { return value_; }
  int64_t expect_int() const { return value_; }
  int64_t guard_int(const char*, int64_t) const { return value_; }
  int64_t as_int_unchecked() const { return value_; }
  std::optional<int64_t> maybe_as_int() const { return value_; }
  bool is_symbolic() const { return false; }

 private:
  int64_t value_ = 0;
};
using SymIntArrayRef = ArrayRef<SymInt>;
using OptionalSymIntArrayRef = OptionalArrayRef<SymInt>;
static_assert(sizeof(SymInt) == sizeof(int64_t), "lists of the two are read as each other");
inline IntArrayRef asIntArrayRefUnchecked(SymIntArrayRef list) { return {reinterpret_cast<const int64_t*>(list.data()), list.size()}; }
inline SymIntArrayRef fromIntArrayRefUnchecked(IntArrayRef list) { return {reinterpret_cast<const SymInt*>(list.data()), list.size()}; }
inline SymIntArrayRef fromIntArrayRef(IntArrayRef list) { return fromIntArrayRefUnchecked(list); }
inline IntArrayRef asIntArrayRefSlow(SymIntArrayRef list, const char* = "", int64_t = 0) { return asIntArrayRefUnchecked(list); }
#define C10_AS_INTARRAYREF_SLOW(list) ::c10::asIntArrayRefUnchecked(list)

// for (const auto i : c10::irange(n))
template <class T>
struct integer_range {
  struct iterator {
    T at;
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;
    T operator*() const { return at; }
    iterator& operator++() { ++at; return *this; }
    bool operator==(iterator o) const { return at == o.at; }
    bool operator!=(iterator o) const { return at != o.at; }
  };
  T from, to;
  iterator begin() const { return {from}; }
  iterator end() const { return {to < from ? from : to}; }
};
template <class T>
integer_range<T> irange(T to) { return {T(0), to}; }
template <class A, class B>
integer_range<B> irange(A from, B to) { return {static_cast<B>(from), to}; }

}  // namespace c10
namespace at {
using namespace c10;
using DimVector = c10::SmallVector<int64_t, 5>;
}
