// Archives and pickles, over rushlight/jit/_archives.py.
#include <rushlight/ivalue_python.h>
#include <rushlight/serialize.h>

#include <fstream>
#include <iterator>

#include "runtime.h"

using namespace rushlight;

namespace {

Object archives(const char* function, std::initializer_list<PyObject*> arguments) {
  Object found = checked(PyObject_GetAttrString(module("rushlight.jit._archives"), function));
  return checked(PyObject_Vectorcall(found.get(), arguments.begin(), arguments.size(), nullptr));
}
Object text(const std::string& value) { return Object(wrap(std::string_view(value))); }
Object bytes_of(const char* data, size_t size) { return checked(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size))); }
c10::IValue held(Object object) { return {c10::IValue::Tag::Python, c10::make_intrusive<c10::TensorImpl>(object.release())}; }

}  // namespace

namespace torch::serialize {

// --- writing ----------------------------------------------------------------------------------------------------------

OutputArchive::OutputArchive() {
  Lock lock;
  face_ = held(archives("make_module", {text("__torch__.Module").get()}));
}
void OutputArchive::put(const std::string& key, const c10::IValue& value, const char* kind) {
  Lock lock;
  archives("put", {Object(wrap(face_)).get(), text(key).get(), Object(wrap(value)).get(), text(kind).get()});
}
void OutputArchive::write(const std::string& key, const c10::IValue& value) { put(key, value, "attribute"); }
void OutputArchive::write(const std::string& key, const at::Tensor& tensor, bool is_buffer) {
  TORCH_CHECK_VALUE(tensor.defined(), "OutputArchive: the tensor for '", key, "' is undefined");
  put(key, tensor, is_buffer ? "buffer" : "parameter");
}
void OutputArchive::write(const std::string& key, OutputArchive& nested) { put(key, nested.face_, "module"); }
std::string OutputArchive::bytes() const {
  Lock lock;
  return text_from(archives("archive_bytes", {Object(wrap(face_)).get()}).get());
}
void OutputArchive::save_to(const std::string& path) {
  Lock lock;
  archives("write_file", {Object(wrap(face_)).get(), text(path).get()});
}
void OutputArchive::save_to(std::ostream& out) {
  const std::string content = bytes();
  TORCH_CHECK(out.write(content.data(), static_cast<std::streamsize>(content.size())), "OutputArchive: the stream cannot be written");
}
void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& write) {
  const std::string content = bytes();
  const size_t written = write(content.data(), content.size());
  TORCH_CHECK(written == content.size(), "OutputArchive: expected ", content.size(), " bytes to be written, got ", written);
}

// --- reading ----------------------------------------------------------------------------------------------------------

void InputArchive::missing(const std::string& key, const char* what) const {
  std::string all;
  for (const auto& name : keys()) all += (all.empty() ? "" : ", ") + name;
  throw c10::Error("InputArchive: there is no " + std::string(what) + " '" + place_ + key + "'; there is: " + (all.empty() ? "nothing" : all));
}
bool InputArchive::try_read(const std::string& key, c10::IValue& value) {
  Lock lock;
  Object found = archives("find", {Object(wrap(face_)).get(), text(key).get()});
  if (found.get() == Py_None) return false;
  value = ivalue_from(PyTuple_GET_ITEM(found.get(), 0));
  return true;
}
bool InputArchive::try_read(const std::string& key, at::Tensor& tensor, bool) {
  c10::IValue value;
  if (!try_read(key, value) || !value.isTensor()) return false;
  if (tensor.defined()) {
    c10::NoGradGuard guard;
    tensor.set_data(value.toTensor());
  } else {
    tensor = value.toTensor();
  }
  return true;
}
bool InputArchive::try_read(const std::string& key, InputArchive& nested) {
  c10::IValue value;
  if (!try_read(key, value) || !value.isPyObject()) return false;
  nested.face_ = std::move(value);
  nested.place_ = place_ + key + ".";
  return true;
}
void InputArchive::read(const std::string& key, c10::IValue& value) { if (!try_read(key, value)) missing(key, "value"); }
void InputArchive::read(const std::string& key, at::Tensor& tensor, bool is_buffer) { if (!try_read(key, tensor, is_buffer)) missing(key, "tensor"); }
void InputArchive::read(const std::string& key, InputArchive& nested) { if (!try_read(key, nested)) missing(key, "archive"); }
std::vector<std::string> InputArchive::keys() const {
  Lock lock;
  return ivalue_from(archives("names", {Object(wrap(face_)).get()}).get()).to<std::vector<std::string>>();
}
void InputArchive::load_from(const std::string& path, std::optional<at::Device> device) {
  Lock lock;
  Object place = device ? Object(wrap(*device)) : Object::borrowed(Py_None);
  face_ = held(archives("read_archive", {text(path).get(), place.get()}));
}
void InputArchive::load_from(const char* data, size_t size, std::optional<at::Device> device) {
  Lock lock;
  Object place = device ? Object(wrap(*device)) : Object::borrowed(Py_None);
  face_ = held(archives("read_archive", {bytes_of(data, size).get(), place.get()}));
}
void InputArchive::load_from(std::istream& in, std::optional<at::Device> device) {
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  TORCH_CHECK(!in.bad(), "torch::load: the stream cannot be read");
  load_from(content.data(), content.size(), device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read, const std::function<size_t()>& size, std::optional<at::Device> device) {
  std::string content(size(), '\0');
  const size_t found = read(0, content.data(), content.size());
  TORCH_CHECK(found == content.size(), "torch::load: expected ", content.size(), " bytes, got ", found);
  load_from(content.data(), content.size(), device);
}

}  // namespace torch::serialize

namespace torch {

std::vector<char> pickle_save(const c10::IValue& value) {
  Lock lock;
  const std::string content = text_from(archives("pickled", {Object(wrap(value)).get()}).get());
  return {content.begin(), content.end()};
}
c10::IValue pickle_load(const std::vector<char>& content) {
  Lock lock;
  return ivalue_from(archives("unpickled", {bytes_of(content.data(), content.size()).get()}).get());
}

}  // namespace torch

namespace torch::serialize::detail {

at::Tensor packed(const c10::IValue& value) {
  std::vector<char> content = pickle_save(value);
  return at::from_blob(content.data(), {static_cast<int64_t>(content.size())}, c10::kByte).clone();
}
c10::IValue unpacked(const at::Tensor& bytes) {
  const at::Tensor whole = bytes.cpu().contiguous();
  const char* first = reinterpret_cast<const char*>(whole.const_data_ptr<uint8_t>());
  return pickle_load({first, first + whole.numel()});
}

}  // namespace torch::serialize::detail
