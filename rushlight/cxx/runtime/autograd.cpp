// torch::autograd::Function. What a call records is made here and by the core, without Python; under a transform of
// functions it goes through Python's Function, which knows what the transform asks of one.
#include <rushlight/autograd.h>

#include <cxxabi.h>

#include <algorithm>

#include "runtime.h"

using namespace rushlight;

namespace torch::autograd {

namespace {

PyObject* object_of(const Variable& tensor) { return tensor.defined() ? static_cast<PyObject*>(tensor.object()) : Py_None; }

// References to objects, side by side; few are kept in place.
class Objects {
 public:
  explicit Objects(const variable_list& tensors) : many_(tensors.size() > kFew ? tensors.size() : 0) {
    for (size_t i = 0; i < tensors.size(); ++i) at(i) = object_of(tensors[i]);
  }
  PyObject*& at(size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  PyObject* const* data() { return many_.empty() ? few_ : many_.data(); }

 private:
  static constexpr size_t kFew = 8;
  PyObject* few_[kFew];
  std::vector<PyObject*> many_;
};

bool holds(const variable_list& tensors, PyObject* object) {
  return std::any_of(tensors.begin(), tensors.end(), [object](const Variable& t) { return object_of(t) == object; });
}

}  // namespace

variable_list AutogradContext::get_saved_variables() const {
  Lock lock;
  TORCH_CHECK(node_ || face_, "get_saved_variables: the context is used outside backward");
  Object values = node_ ? checked(core_calls().saved(static_cast<PyObject*>(node_))) : checked(PyObject_GetAttrString(static_cast<PyObject*>(face_), "saved_tensors"));
  return tensors_from(values.get());
}
bool AutogradContext::needs_input_grad(size_t tensor) const {
  TORCH_CHECK(node_ || face_, "needs_input_grad: the context is used outside backward");
  return face_ || core_calls().is_needed(static_cast<PyObject*>(node_), tensor);
}

namespace detail {

// A context while its backward runs.
struct Running {
  AutogradContext& ctx;
  Running(AutogradContext& ctx, PyObject* node, PyObject* face) : ctx(ctx), node_(ctx.node_), face_(ctx.face_) { ctx.node_ = node, ctx.face_ = face; }
  ~Running() { ctx.node_ = node_, ctx.face_ = face_; }
  static const variable_list& saved(const AutogradContext& ctx) { return ctx.to_save_; }
  static const variable_list& dirty(const AutogradContext& ctx) { return ctx.dirty_; }
  static const variable_list& constant(const AutogradContext& ctx) { return ctx.constant_; }
  static bool materializes(const AutogradContext& ctx) { return ctx.materializes_; }
  static void forget(AutogradContext& ctx) { ctx.to_save_.clear(), ctx.dirty_.clear(), ctx.constant_.clear(); }

 private:
  void *node_, *face_;
};

const char* type_name(const std::type_info& type) {
  int status = 0;
  char* found = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  return status == 0 ? found : type.name();
}

namespace {

struct Derivative {
  AutogradContext ctx;
  Backward backward;
  std::vector<char> is_tensor;
  const char* name;
  std::vector<std::tuple<size_t, std::vector<int64_t>, at::TensorOptions>> constants;   // outputs that have no gradient
};

void check_dirty(const AutogradContext& ctx, const variable_list& results) {
  for (const Variable& one : Running::dirty(ctx))
    TORCH_CHECK(holds(results, object_of(one)), "mark_dirty: a tensor marked as dirty is not among the outputs of forward. The inputs that are modified inplace must all be outputs of the Function.");
}

variable_list run_unrecorded(const Call& call) {
  AutogradContext ctx;
  c10::NoGradGuard guard;
  variable_list results = call.forward(call.arguments, &ctx);
  check_dirty(ctx, results);
  return results;
}

// What backward gave, one for each tensor among the arguments of forward.
variable_list of_tensors(const Derivative& d, variable_list grads) {
  const size_t count = d.is_tensor.size();
  while (grads.size() > count && !grads.back().defined()) grads.pop_back();
  TORCH_CHECK(grads.size() == count, "function ", d.name, ": expected ", count, " gradients, one for each argument of forward, got ", grads.size());
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    TORCH_CHECK(d.is_tensor[i] || !grads[i].defined(), "function ", d.name, " gave a gradient at position ", i, ", and that argument of forward is not a tensor. Return an undefined tensor for it.");
    if (d.is_tensor[i] && kept++ != i) grads[kept - 1] = std::move(grads[i]);
  }
  grads.resize(kept);
  return grads;
}

void add_zeros(const Derivative& d, PyObject* node, variable_list& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) continue;
    Object made = checked(core_calls().zeros(node, i));
    grads[i] = tensor_from(made.get());
  }
  for (const auto& [at, sizes, options] : d.constants)
    if (!grads[at].defined()) grads[at] = at::zeros(sizes, options);
}

bool run_backward(void* context, PyObject* node, PyObject* const* given, PyObject** out, size_t count) {
  auto& d = *static_cast<Derivative*>(context);
  variable_list grads(count);
  bool is_complete = true;
  for (size_t i = 0; i < count; ++i) {
    if (given[i]) grads[i] = Variable::borrowed(given[i]);
    else is_complete = false;
  }
  if (!is_complete && Running::materializes(d.ctx)) add_zeros(d, node, grads);
  Running running(d.ctx, node, nullptr);
  grads = of_tensors(d, d.backward(&d.ctx, std::move(grads)));
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined()) out[i] = Py_NewRef(static_cast<PyObject*>(grads[i].object()));
  return true;
}

bool run_derivative(void* context, PyObject* node, PyObject* const* grads, size_t count, PyObject** out) {
  try {
    return run_backward(context, node, grads, out, count);
  } catch (...) {
    set_current_error();
    return false;
  }
}

struct Edges {                     // of the arguments, until a node takes them over
  std::vector<GraphEdge> of;
  Edges(Objects& inputs, size_t count) : of(count) {
    if (!core_calls().collect_edges(inputs.data(), count, of.data())) of.clear(), throw_python();
  }
  ~Edges() { for (GraphEdge& e : of) Py_XDECREF(e.node); }
};

// Outputs as the caller gets them: an input that comes back is an alias of it, and each has its role.
std::vector<OutputRole> finish(Derivative& d, Objects& inputs, size_t num_inputs, variable_list& results) {
  const CoreCalls& core = core_calls();
  std::vector<OutputRole> roles(results.size(), OutputRole::kFresh);
  for (size_t i = 0; i < results.size(); ++i) {
    PyObject* o = object_of(results[i]);
    const bool is_input = std::find(inputs.data(), inputs.data() + num_inputs, o) != inputs.data() + num_inputs;
    const bool is_dirty = holds(Running::dirty(d.ctx), o);
    if (!results[i].defined() || holds(Running::constant(d.ctx), o) || !core.is_differentiable(o)) {
      roles[i] = OutputRole::kConstant;
      if (results[i].defined()) d.constants.emplace_back(i, results[i].sizes().vec(), results[i].options());
      if (results[i].defined() && is_input && !is_dirty) results[i] = tensor_from(checked(core.alias(o)).get());
    } else if (is_dirty) {
      roles[i] = OutputRole::kDirty;
      TORCH_CHECK(!results[i].requires_grad() || !results[i].is_leaf(), "a leaf Variable that requires grad has been used in an in-place operation.");
    } else if (is_input || results[i].requires_grad()) {
      results[i] = tensor_from(checked(core.alias(o)).get());
    }
  }
  return roles;
}

variable_list run_recorded(const Call& call, Objects& inputs) {
  const size_t count = call.tensors.size();
  Edges edges(inputs, count);
  auto d = std::make_unique<Derivative>();
  d->backward = call.backward, d->is_tensor = call.is_tensor, d->name = call.name;
  variable_list results;
  {
    c10::NoGradGuard guard;
    results = call.forward(call.arguments, &d->ctx);
  }
  check_dirty(d->ctx, results);
  const std::vector<OutputRole> roles = finish(*d, inputs, count, results);
  if (std::all_of(roles.begin(), roles.end(), [](OutputRole r) { return r == OutputRole::kConstant; })) return results;
  Objects outputs(results), saved(Running::saved(d->ctx));
  const variable_list kept = Running::saved(d->ctx);      // alive until the node has them
  Running::forget(d->ctx);
  const NativeDerivative rule{run_derivative, [](void* context) { delete static_cast<Derivative*>(context); }, d.release(), call.name};
  const NodeRequest request{rule, edges.of.data(), count, outputs.data(), roles.data(), results.size(), saved.data(), kept.size()};
  checked(core_calls().make_node(&request));
  return results;
}

// --- under transforms of functions ------------------------------------------------------------------------------------

Object tuple_of(const variable_list& tensors) {
  Object made = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(made.get(), i, wrap(tensors[i]));
  return made;
}
void tell(PyObject* face, const char* method, const variable_list& tensors) {
  if (tensors.empty()) return;
  Object run = checked(PyObject_GetAttrString(face, method));
  checked(PyObject_Call(run.get(), tuple_of(tensors).get(), nullptr));
}

variable_list run_by_python(const Call& call) {
  auto d = std::make_shared<Derivative>();
  d->backward = call.backward, d->is_tensor = call.is_tensor, d->name = call.name;
  Object forward(function_object("forward", [&call, d](PyObject* args, PyObject*) {
    PyObject* face = PyTuple_GET_ITEM(args, 0);
    Object results = tuple_of(call.forward(call.arguments, &d->ctx));
    tell(face, "save_for_backward", Running::saved(d->ctx));
    tell(face, "mark_dirty", Running::dirty(d->ctx));
    tell(face, "mark_non_differentiable", Running::constant(d->ctx));
    checked(PyObject_CallMethod(face, "set_materialize_grads", "O", Running::materializes(d->ctx) ? Py_True : Py_False));
    Running::forget(d->ctx);
    return results.release();
  }));
  Object derive(function_object("backward", [d](PyObject* args, PyObject*) {
    Running running(d->ctx, nullptr, PyTuple_GET_ITEM(args, 0));
    return tuple_of(of_tensors(*d, d->backward(&d->ctx, tensors_from(PyTuple_GET_ITEM(args, 1))))).release();
  }));
  return tensors_from(call_runtime("apply_function", {forward.get(), derive.get(), tuple_of(call.tensors).get()}).get());
}

}  // namespace

variable_list apply(Call call) {
  Lock lock;
  Objects inputs(call.tensors);
  switch (core_calls().recording(inputs.data(), call.tensors.size())) {
    case Recording::kUnwanted: return run_unrecorded(call);
    case Recording::kWanted: return run_recorded(call, inputs);
    default: return run_by_python(call);
  }
}

}  // namespace detail

namespace {
Object list_or_none(const variable_list& tensors) { return tensors.empty() ? Object::borrowed(Py_None) : Object(wrap(at::TensorList(tensors))); }
Object truth_or_none(std::optional<bool> value) { return value ? Object(wrap(*value)) : Object::borrowed(Py_None); }
}  // namespace

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& given, std::optional<bool> retain, bool create, bool unused) {
  Lock lock;
  Object of(wrap(at::TensorList(outputs))), by(wrap(at::TensorList(inputs))), start = list_or_none(given), keep = truth_or_none(retain), make(wrap(create)), allow(wrap(unused));
  return tensors_from(call_runtime("grad", {of.get(), by.get(), start.get(), keep.get(), make.get(), allow.get()}).get());
}
void backward(const variable_list& tensors, const variable_list& given, std::optional<bool> retain, bool create, const variable_list& inputs) {
  Lock lock;
  Object of(wrap(at::TensorList(tensors))), start = list_or_none(given), keep = truth_or_none(retain), make(wrap(create)), into = list_or_none(inputs);
  call_runtime("backward", {of.get(), start.get(), keep.get(), make.get(), into.get()});
}

}  // namespace torch::autograd
