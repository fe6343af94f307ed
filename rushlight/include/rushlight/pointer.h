// Objects that count their owners: intrusive_ptr, as custom classes and tensors use it.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include <rushlight/error.h>

namespace c10 {

class intrusive_ptr_target {
 public:
  intrusive_ptr_target() = default;
  intrusive_ptr_target(const intrusive_ptr_target&) {}
  intrusive_ptr_target& operator=(const intrusive_ptr_target&) { return *this; }
  virtual ~intrusive_ptr_target() = default;
  void retain_object() const { owners_.fetch_add(1, std::memory_order_relaxed); }
  bool release_object() const { return owners_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  size_t owners() const { return owners_.load(std::memory_order_acquire); }
  virtual void release_resources() {}

 private:
  mutable std::atomic<size_t> owners_{0};
};

namespace raw {
struct DontIncreaseRefcount {};
}  // namespace raw

template <class T>
class intrusive_ptr {
 public:
  using element_type = T;
  intrusive_ptr() noexcept = default;
  intrusive_ptr(std::nullptr_t) noexcept {}
  explicit intrusive_ptr(T* object) noexcept : object_(object) { if (object_) object_->retain_object(); }
  intrusive_ptr(T* object, raw::DontIncreaseRefcount) noexcept : object_(object) {}
  explicit intrusive_ptr(std::unique_ptr<T> object) noexcept : intrusive_ptr(object.release()) {}
  intrusive_ptr(const intrusive_ptr& o) noexcept : intrusive_ptr(o.object_) {}
  intrusive_ptr(intrusive_ptr&& o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  intrusive_ptr(const intrusive_ptr<U>& o) noexcept : intrusive_ptr(static_cast<T*>(o.get())) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  intrusive_ptr(intrusive_ptr<U>&& o) noexcept : object_(o.release()) {}
  ~intrusive_ptr() { reset(); }
  intrusive_ptr& operator=(intrusive_ptr o) noexcept { std::swap(object_, o.object_); return *this; }

  template <class... Args>
  static intrusive_ptr make(Args&&... args) { return intrusive_ptr(new T(std::forward<Args>(args)...)); }
  static intrusive_ptr reclaim(T* object) { return intrusive_ptr(object, raw::DontIncreaseRefcount()); }
  static intrusive_ptr reclaim_copy(T* object) { return intrusive_ptr(object); }
  static intrusive_ptr unsafe_reclaim_from_nonowning(T* object) { return intrusive_ptr(object); }
  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool defined() const noexcept { return object_ != nullptr; }
  T* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept {
    if (T* old = std::exchange(object_, nullptr))
      if (old->release_object()) delete old;
  }
  void swap(intrusive_ptr& o) noexcept { std::swap(object_, o.object_); }
  size_t use_count() const noexcept { return object_ ? object_->owners() : 0; }
  bool unique() const noexcept { return use_count() == 1; }
  friend bool operator==(const intrusive_ptr& a, const intrusive_ptr& b) { return a.object_ == b.object_; }
  friend bool operator!=(const intrusive_ptr& a, const intrusive_ptr& b) { return a.object_ != b.object_; }
  friend bool operator<(const intrusive_ptr& a, const intrusive_ptr& b) { return a.object_ < b.object_; }
  friend bool operator==(const intrusive_ptr& a, std::nullptr_t) { return !a.object_; }
  friend bool operator!=(const intrusive_ptr& a, std::nullptr_t) { return a.object_; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
inline intrusive_ptr<T> make_intrusive(Args&&... args) { return intrusive_ptr<T>::make(std::forward<Args>(args)...); }
template <class To, class From>
inline intrusive_ptr<To> static_intrusive_pointer_cast(const intrusive_ptr<From>& from) { return intrusive_ptr<To>(static_cast<To*>(from.get())); }
template <class To, class From>
inline intrusive_ptr<To> dynamic_intrusive_pointer_cast(const intrusive_ptr<From>& from) { return intrusive_ptr<To>(dynamic_cast<To*>(from.get())); }

}  // namespace c10

template <class T>
struct std::hash<c10::intrusive_ptr<T>> {
  size_t operator()(const c10::intrusive_ptr<T>& p) const noexcept { return std::hash<T*>()(p.get()); }
};
