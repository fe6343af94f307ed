// torch::save and torch::load: archives that Python's jit.load reads, and pickles that its load reads.
#pragma once
#include <istream>
#include <memory>

#include <rushlight/guards.h>
#include <rushlight/ivalue.h>

namespace torch::jit {
class CompilationUnit;
}

namespace torch::serialize {

// Names with values, to be written.
class OutputArchive {
 public:
  OutputArchive();
  explicit OutputArchive(std::shared_ptr<jit::CompilationUnit>) : OutputArchive() {}
  OutputArchive(OutputArchive&&) = default;
  OutputArchive& operator=(OutputArchive&&) = default;
  std::shared_ptr<jit::CompilationUnit> compilation_unit() const { return nullptr; }   // archives need none
  void write(const std::string& key, const c10::IValue& value);
  void write(const std::string& key, const at::Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, OutputArchive& nested);
  void save_to(const std::string& path);
  void save_to(std::ostream& out);
  void save_to(const std::function<size_t(const void*, size_t)>& write);
  template <class... Args>
  void operator()(Args&&... args) { write(std::forward<Args>(args)...); }

 private:
  void put(const std::string& key, const c10::IValue& value, const char* kind);
  std::string bytes() const;
  c10::IValue face_;
};

// What a file holds. Nested archives share it.
class InputArchive {
 public:
  InputArchive() = default;
  InputArchive(InputArchive&&) = default;
  InputArchive& operator=(InputArchive&&) = default;
  void read(const std::string& key, c10::IValue& value);      // throw where the name is missing
  void read(const std::string& key, at::Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, InputArchive& nested);
  bool try_read(const std::string& key, c10::IValue& value);
  bool try_read(const std::string& key, at::Tensor& tensor, bool is_buffer = false);   // a tensor that is there gets the bytes
  bool try_read(const std::string& key, InputArchive& nested);
  std::vector<std::string> keys() const;
  void load_from(const std::string& path, std::optional<at::Device> device = std::nullopt);
  void load_from(std::istream& in, std::optional<at::Device> device = std::nullopt);
  void load_from(const char* data, size_t size, std::optional<at::Device> device = std::nullopt);
  void load_from(const std::function<size_t(uint64_t, void*, size_t)>& read, const std::function<size_t()>& size, std::optional<at::Device> device = std::nullopt);
  template <class... Args>
  void operator()(Args&&... args) { read(std::forward<Args>(args)...); }

 private:
  [[noreturn]] void missing(const std::string& key, const char* what) const;
  c10::IValue face_;
  std::string place_;             // names on the way here, with dots
};

namespace detail {
template <class T, class = void>
struct HasSave : std::false_type {};
template <class T>
struct HasSave<T, std::void_t<decltype(std::declval<const T&>().save(std::declval<OutputArchive&>()))>> : std::true_type {};
template <class T, class = void>
struct PointsAtSave : std::false_type {};
template <class T>
struct PointsAtSave<T, std::void_t<decltype(std::declval<const T&>()->save(std::declval<OutputArchive&>()))>> : std::true_type {};
template <class T, class = void>
struct PointsAtModule : std::false_type {};
template <class T>
struct PointsAtModule<T, std::void_t<decltype(std::declval<const T&>()->named_children())>> : std::true_type {};
template <class T, class = void>
struct HasState : std::false_type {};
template <class T>
struct HasState<T, std::void_t<decltype(std::declval<T&>().load_state_dict(std::declval<T&>().state_dict()))>> : std::true_type {};

// A module of torch::nn: parameters, buffers, and an archive for each of its modules.
template <class M>
void write_module(OutputArchive& archive, const M& module) {
  for (const auto& one : module.named_parameters(false)) if (one.value().defined()) archive.write(one.key(), one.value());
  for (const auto& one : module.named_buffers(false)) if (one.value().defined()) archive.write(one.key(), one.value(), true);
  for (const auto& one : module.named_children()) {
    if (!one.value()->is_serializable()) continue;
    OutputArchive nested;
    write_module(nested, *one.value());
    archive.write(one.key(), nested);
  }
}
template <class M>
void read_module(InputArchive& archive, M& module) {
  for (auto& one : module.named_parameters(false)) if (one.value().defined()) archive.read(one.key(), one.value());
  for (auto& one : module.named_buffers(false)) if (one.value().defined()) archive.read(one.key(), one.value(), true);
  for (auto& one : module.named_children()) {
    if (!one.value()->is_serializable()) continue;
    InputArchive nested;
    archive.read(one.key(), nested);
    read_module(nested, *one.value());
  }
}
at::Tensor packed(const c10::IValue& value);            // the bytes of `pickle_save`
c10::IValue unpacked(const at::Tensor& bytes);
}  // namespace detail

// Tensors, modules and optimizers, and pointers to them; other types bring operators of their own.
inline OutputArchive& operator<<(OutputArchive& archive, const at::Tensor& tensor) { archive.write("0", tensor); return archive; }
inline InputArchive& operator>>(InputArchive& archive, at::Tensor& tensor) { archive.read("0", tensor); return archive; }
template <class T, std::enable_if_t<detail::HasSave<T>::value, int> = 0>
OutputArchive& operator<<(OutputArchive& archive, const T& value) { value.save(archive); return archive; }
template <class T, std::enable_if_t<detail::HasSave<T>::value, int> = 0>
InputArchive& operator>>(InputArchive& archive, T& value) { value.load(archive); return archive; }
template <class T, std::enable_if_t<!detail::HasSave<T>::value && detail::PointsAtSave<T>::value, int> = 0>
OutputArchive& operator<<(OutputArchive& archive, const T& value) { value->save(archive); return archive; }
template <class T, std::enable_if_t<!detail::HasSave<T>::value && detail::PointsAtSave<T>::value, int> = 0>
InputArchive& operator>>(InputArchive& archive, T& value) { value->load(archive); return archive; }

template <class T, std::enable_if_t<!detail::PointsAtSave<T>::value && detail::PointsAtModule<T>::value, int> = 0>
OutputArchive& operator<<(OutputArchive& archive, const T& module) { detail::write_module(archive, *module); return archive; }
template <class T, std::enable_if_t<!detail::PointsAtSave<T>::value && detail::PointsAtModule<T>::value, int> = 0>
InputArchive& operator>>(InputArchive& archive, T& module) { detail::read_module(archive, *module); return archive; }
template <class T, std::enable_if_t<!detail::HasSave<T>::value && detail::HasState<T>::value, int> = 0>
OutputArchive& operator<<(OutputArchive& archive, const T& optimizer) { archive.write("state", detail::packed(const_cast<T&>(optimizer).state_dict()), true); return archive; }
template <class T, std::enable_if_t<!detail::HasSave<T>::value && detail::HasState<T>::value, int> = 0>
InputArchive& operator>>(InputArchive& archive, T& optimizer) {
  at::Tensor bytes;
  archive.read("state", bytes, true);
  optimizer.load_state_dict(detail::unpacked(bytes));
  return archive;
}

}  // namespace torch::serialize

namespace torch {

// To a path, a stream or a function that takes bytes; from a path, a stream, bytes or functions.
template <class Value, class... To>
void save(const Value& value, To&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
template <class... To>
void save(const std::vector<at::Tensor>& tensors, To&&... to) {
  serialize::OutputArchive archive;
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i]);
  archive.save_to(std::forward<To>(to)...);
}
template <class Value, class... From>
void load(Value& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}
template <class... From>
void load(std::vector<at::Tensor>& tensors, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  at::Tensor one;
  for (size_t i = 0; archive.try_read(std::to_string(i), one); ++i) {
    tensors.push_back(std::move(one));
    one = at::Tensor();
  }
}

// The files of Python's save and load: tensors, numbers, texts and containers of them.
std::vector<char> pickle_save(const c10::IValue& value);
c10::IValue pickle_load(const std::vector<char>& content);
namespace jit {
using torch::pickle_load;
using torch::pickle_save;
}

}  // namespace torch
