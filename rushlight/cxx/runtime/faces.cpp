// Layers over Python's: how they are made, kept in step, called and printed; torch::nn::init and torch::nn::utils.
#include <rushlight/guards.h>
#include <rushlight/nn/init.h>

#include "fields.h"

namespace rushlight::nn {

using torch::nn::Module;

Object module_call(const char* name, std::initializer_list<PyObject*> arguments) {
  Object target = checked(PyObject_GetAttrString(module("rushlight.cxx_layers.calls"), name));
  return checked(PyObject_Vectorcall(target.get(), arguments.begin(), arguments.size(), nullptr));
}

PyObject* face_object(const std::shared_ptr<Module>& module) {
  auto* layer = dynamic_cast<Layer*>(module.get());
  if (!layer) throw c10::NotImplementedError("a layer of Rushlight is expected here, " + (module ? module->name() : std::string("nothing")) + " is a module of this program. Call it from a forward() of your own instead.");
  return layer->face()->object;
}

Object words_of(const std::vector<Field>& fields) {
  Object words = checked(PyDict_New());
  for (const Field& field : fields) {
    Object value(static_cast<PyObject*>(field.to(field.at)));
    if (PyDict_SetItemString(words.get(), field.name, value.get()) < 0) throw_python();
  }
  return words;
}
uint64_t mark_of(const std::vector<Field>& fields) {
  uint64_t mark = 14695981039346656037u;
  for (const Field& field : fields) mark = field.mix(mark, field.at);
  return mark;
}

// --- making -----------------------------------------------------------------------------------------------------------

void Layer::make() {
  Lock lock;
  Object name(wrap(std::string_view(python_class_))), words = words_of(options_fields());
  hold(std::make_shared<Face>(module_call("build", {name.get(), words.get()}).release()));
}

void Layer::adopt(const Adopted& adopted) {
  Lock lock;
  for (const Field& field : options_fields()) {
    Object value(PyObject_GetAttrString(adopted.face->object, field.name));
    if (value) field.from(value.get(), field.at);
    else PyErr_Clear();
  }
  hold(adopted.face);
}

namespace {

std::shared_ptr<Module> module_over(PyObject* object, const std::string& kind);

struct Contents {
  Object parts;
  explicit Contents(PyObject* module) : parts(module_call("contents", {module})) {}
  template <class Take>
  void each(Py_ssize_t which, Take take) const {
    PyObject* list = PyTuple_GET_ITEM(parts.get(), which);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* item = PyList_GET_ITEM(list, i);
      take(text_from(PyTuple_GET_ITEM(item, 0)), item);
    }
  }
};

// A part whose class has no face in C++: it shows what it holds.
struct OtherLayer : Layer {
  explicit OtherLayer(const Adopted& face) : Layer("Module") { adopt(face); }
};

std::shared_ptr<Module> module_over(PyObject* object, const std::string& kind) {
  if (kind == "ModuleList" || kind == "Sequential") {
    auto list = std::make_shared<torch::nn::ModuleListImpl>();
    Contents(object).each(2, [&](const std::string&, PyObject* item) { list->push_back(module_over(PyTuple_GET_ITEM(item, 1), text_from(PyTuple_GET_ITEM(item, 2)))); });
    return list;
  }
  const Adopted face{std::make_shared<Face>(Object::borrowed(object).release())};
  if (auto typed = typed_layer(kind, face)) return typed;
  return std::make_shared<OtherLayer>(face);
}

// A module and, of a list, what is in it.
void seen_behind(const std::shared_ptr<Module>& module, std::vector<std::shared_ptr<Module>>& seen) {
  seen.push_back(module);
  if (auto* list = dynamic_cast<torch::nn::ModuleListImpl*>(module.get()))
    for (const auto& item : *list) seen_behind(item, seen);
}
std::vector<std::shared_ptr<Module>> seen_behind(const std::shared_ptr<Module>& module) {
  std::vector<std::shared_ptr<Module>> seen;
  seen_behind(module, seen);
  return seen;
}

// The Python side of what a holder holds: a layer's, or a list of them.
Object part_object(const std::shared_ptr<Module>& module) {
  auto* list = dynamic_cast<torch::nn::ModuleListImpl*>(module.get());
  if (!list) return Object::borrowed(face_object(module));
  Object items = checked(PyList_New(0));
  for (const auto& item : *list) {
    Object one = part_object(item);
    if (PyList_Append(items.get(), one.get()) < 0) throw_python();
  }
  return items;
}

void follow_below(const Module& module, const std::function<void(const Layer&)>& follow) {
  for (const auto& child : module.children()) {
    if (auto* layer = dynamic_cast<const Layer*>(child.get())) follow(*layer);
    else follow_below(*child, follow);
  }
}

}  // namespace

void Layer::hold(std::shared_ptr<Face> face) {
  parameters_.clear();
  buffers_.clear();
  children_.clear();
  face_ = std::move(face);
  Contents contents(face_->object);
  contents.each(0, [&](const std::string& name, PyObject* item) { parameters_.insert(name, tensor_from(PyTuple_GET_ITEM(item, 1))); });
  contents.each(1, [&](const std::string& name, PyObject* item) { buffers_.insert(name, tensor_from(PyTuple_GET_ITEM(item, 1))); });
  const Parts parts = part_fields();
  contents.each(2, [&](const std::string& name, PyObject* item) {
    auto module = module_over(PyTuple_GET_ITEM(item, 1), text_from(PyTuple_GET_ITEM(item, 2)));
    children_.insert(name, module);
    for (const Part& part : parts) if (name == part.name) part.set(module);
  });
  face_->tensors.clear();
  for (auto& [name, tensor] : tensor_fields()) {
    const at::Tensor* found = parameters_.find(name);
    if (!found) found = buffers_.find(name);
    *tensor = found ? *found : at::Tensor();
    face_->tensors.push_back(tensor->object());
  }
  face_->parts.clear();
  for (const Part& part : part_fields()) face_->parts.push_back(seen_behind(part.get()));
  face_->mark = mark_of(options_fields());
  face_->is_training = bool_from(checked(PyObject_GetAttrString(face_->object, "training")).get());
  if (!face_->is_training) train(false);
}

// --- keeping in step --------------------------------------------------------------------------------------------------

void Layer::follow() const {
  const uint64_t mark = mark_of(options_fields());
  if (mark != face_->mark) {
    Object words = words_of(options_fields());
    module_call("retune", {face_->object, words.get()});
    face_->mark = mark;
  }
  size_t place = 0;
  for (auto& [name, tensor] : const_cast<Layer*>(this)->tensor_fields()) {
    void*& seen = face_->tensors[place++];
    if (seen == tensor->object()) continue;
    Object text(wrap(std::string_view(name))), value(wrap(*tensor));
    module_call("replace", {face_->object, text.get(), value.get()});
    seen = tensor->object();
  }
  if (is_training() != face_->is_training) {
    face_->is_training = is_training();
    Object on(wrap(face_->is_training));
    if (PyObject_SetAttrString(face_->object, "training", on.get()) < 0) throw_python();
  }
  place = 0;
  for (const Part& part : const_cast<Layer*>(this)->part_fields()) {
    const std::shared_ptr<Module> module = part.get();
    std::vector<std::shared_ptr<Module>> now = seen_behind(module);
    std::vector<std::shared_ptr<Module>>& seen = face_->parts[place++];
    if (!module) continue;                                      // a layer without this part
    if (seen != now) {
      Object text(wrap(std::string_view(part.name))), object = part_object(module);
      module_call("replace_part", {face_->object, text.get(), object.get()});
      seen = std::move(now);
    } else if (auto* child = children_.find(part.name); !child || *child != module) {
      for (const auto& one : now)                               // it was put here, but is no child that is followed below
        if (auto* layer = dynamic_cast<const Layer*>(one.get())) layer->follow();
    }
  }
  follow_below(*this, [](const Layer& layer) { layer.follow(); });
}

std::shared_ptr<Face> Layer::face() const {
  Lock lock;
  follow();
  return face_;
}

void Layer::reset_parameters() {
  Lock lock;
  module_call("reset_parameters", {face()->object});
}

void Layer::pretty_print(std::ostream& stream) const {
  Lock lock;
  stream << text_from(module_call("printed", {face()->object}).get());
}

// --- calls ------------------------------------------------------------------------------------------------------------

Object call_layer(const Layer& layer, const char* method, PyObject* const* arguments, size_t count) {
  PyObject* object = layer.face()->object;
  if (!method) return checked(PyObject_Vectorcall(object, arguments, count, nullptr));
  Object target = checked(PyObject_GetAttrString(object, method));
  return checked(PyObject_Vectorcall(target.get(), arguments, count, nullptr));
}

Object call_function(const char* name, const std::vector<Field>& options, const char* const* names, PyObject* const* arguments, size_t count) {
  Object target = checked(PyObject_GetAttrString(module("rushlight.nn.functional"), name));
  Object words = words_of(options);
  for (size_t i = 1; i < count; ++i)
    if (PyDict_SetItemString(words.get(), names[i], arguments[i]) < 0) throw_python();
  return checked(PyObject_VectorcallDict(target.get(), arguments, 1, words.get()));
}

std::tuple<Tensor, Tensor> with_indices(const Layer& layer, const Tensor& input) {
  Lock lock;
  Object given(wrap(input));
  return Result<std::tuple<Tensor, Tensor>>::of(module_call("with_indices", {layer.face()->object, given.get()}).get());
}

Tensor causal_mask(int64_t size) {
  Lock lock;
  Object number(wrap(size));
  return tensor_from(module_call("causal_mask", {number.get()}).get());
}

Object packed_object(const PackedSequence& sequence) {
  Object data(wrap(sequence.data())), sizes(wrap(sequence.batch_sizes())), sorted(wrap(sequence.sorted_indices())), unsorted(wrap(sequence.unsorted_indices()));
  return module_call("packed", {data.get(), sizes.get(), sorted.get(), unsorted.get()});
}
PackedSequence packed_from(PyObject* object) {
  auto part = [&](const char* name) { return tensor_from(checked(PyObject_GetAttrString(object, name)).get()); };
  return PackedSequence(part("data"), part("batch_sizes"), part("sorted_indices"), part("unsorted_indices"));
}

}  // namespace rushlight::nn

using namespace rushlight;

namespace torch::nn {

namespace {

using rushlight::nn::Convert;

template <class... Args>
Object call_in(const char* package, const char* name, const Args&... args) {
  Object target = checked(PyObject_GetAttrString(module(package), name));
  const Object values[] = {Object(Convert::to(args))...};
  PyObject* list[sizeof...(Args)];
  for (size_t i = 0; i < sizeof...(Args); ++i) list[i] = values[i].get();
  return checked(PyObject_Vectorcall(target.get(), list, sizeof...(Args), nullptr));
}
template <class... Args>
Tensor filled(const char* name, const Tensor& tensor, const Args&... args) {
  Lock lock;
  call_in("rushlight.nn.init", name, tensor, args...);
  return tensor;
}
template <class... Args>
Object sequences(const char* name, const Args&... args) { return call_in("rushlight.nn.utils.rnn", name, args...); }

}  // namespace

namespace init {

double calculate_gain(const NonlinearityType& nonlinearity, double param) {
  Lock lock;
  return double_from(call_in("rushlight.nn.init", "calculate_gain", nonlinearity, param).get());
}
Tensor constant_(Tensor tensor, at::Scalar value) { return filled("constant_", tensor, value.toDouble()); }
Tensor dirac_(Tensor tensor) { return filled("dirac_", tensor); }
Tensor eye_(Tensor matrix) { return filled("eye_", matrix); }
Tensor normal_(Tensor tensor, double mean, double std) { return filled("normal_", tensor, mean, std); }
Tensor ones_(Tensor tensor) { return filled("ones_", tensor); }
Tensor orthogonal_(Tensor tensor, double gain) { return filled("orthogonal_", tensor, gain); }
Tensor sparse_(Tensor tensor, double sparsity, double std) { return filled("sparse_", tensor, sparsity, std); }
Tensor trunc_normal_(Tensor tensor, double mean, double std, double a, double b) { return filled("trunc_normal_", tensor, mean, std, a, b); }
Tensor uniform_(Tensor tensor, double low, double high) { return filled("uniform_", tensor, low, high); }
Tensor kaiming_normal_(Tensor tensor, double a, const FanModeType& mode, const NonlinearityType& nonlinearity) { return filled("kaiming_normal_", tensor, a, mode, nonlinearity); }
Tensor kaiming_uniform_(Tensor tensor, double a, const FanModeType& mode, const NonlinearityType& nonlinearity) { return filled("kaiming_uniform_", tensor, a, mode, nonlinearity); }
Tensor xavier_normal_(Tensor tensor, double gain) { return filled("xavier_normal_", tensor, gain); }
Tensor xavier_uniform_(Tensor tensor, double gain) { return filled("xavier_uniform_", tensor, gain); }
Tensor zeros_(Tensor tensor) { return filled("zeros_", tensor); }
std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  Lock lock;
  Object fans = call_in("rushlight.nn.init", "_calculate_fan_in_and_fan_out", tensor);
  return {int_from(PyTuple_GET_ITEM(fans.get(), 0)), int_from(PyTuple_GET_ITEM(fans.get(), 1))};
}

}  // namespace init

namespace utils {

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  Lock lock;
  Object norm = call_in("rushlight.nn.utils", "clip_grad_norm_", at::TensorList(parameters), max_norm, norm_type, error_if_nonfinite);
  return tensor_from(norm.get()).item<double>();
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  c10::NoGradGuard guard;
  for (const Tensor& p : parameters)
    if (Tensor grad = p.grad(); grad.defined()) grad.detach().clamp_(-clip_value, clip_value);
}
Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) flat.push_back(p.view({-1}));
  return at::cat(flat);
}
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  int64_t start = 0;
  for (const Tensor& p : parameters) {
    p.set_data(vector.detach().slice(0, start, start + p.numel()).view_as(p));
    start += p.numel();
  }
}

namespace rnn {

PackedSequence::PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices, Tensor unsorted_indices)
    : data_(std::move(data)), batch_sizes_(std::move(batch_sizes)), sorted_(std::move(sorted_indices)), unsorted_(std::move(unsorted_indices)) {
  if (sorted_.defined() && !unsorted_.defined()) unsorted_ = sorted_.argsort();
  TORCH_CHECK(batch_sizes_.device().is_cpu(), "PackedSequence: batch_sizes should always be on CPU, it is on ", batch_sizes_.device());
}
PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first, bool enforce_sorted) {
  Lock lock;
  return rushlight::nn::packed_from(sequences("pack_padded_sequence", input, lengths, batch_first, enforce_sorted).get());
}
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first, double padding_value, std::optional<int64_t> total_length) {
  Lock lock;
  return rushlight::nn::Result<std::tuple<Tensor, Tensor>>::of(sequences("pad_packed_sequence", sequence, batch_first, padding_value, total_length).get());
}
Tensor pad_sequence(at::ArrayRef<Tensor> list, bool batch_first, double padding_value, std::string_view padding_side) {
  Lock lock;
  return tensor_from(sequences("pad_sequence", list, batch_first, padding_value, std::string(padding_side)).get());
}
PackedSequence pack_sequence(at::ArrayRef<Tensor> list, bool enforce_sorted) {
  Lock lock;
  return rushlight::nn::packed_from(sequences("pack_sequence", list, enforce_sorted).get());
}

}  // namespace rnn
}  // namespace utils

}  // namespace torch::nn
