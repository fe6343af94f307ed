// torch::optim over Python's optimizers and schedulers.
#include <rushlight/ivalue_python.h>

#include <iostream>

#include "fields.h"

using namespace rushlight;
using rushlight::nn::Convert;
using rushlight::nn::Face;
using rushlight::nn::Field;
using rushlight::nn::module_call;

namespace torch::optim {

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  for (const Tensor& p : group.params()) {
    TORCH_CHECK(p.is_leaf(), "can't optimize a non-leaf Tensor");
    for (const auto& other : param_groups_)
      for (const Tensor& known : other.params())
        TORCH_CHECK(!known.is_same(p), "some parameters appear in more than one parameter group");
  }
  param_groups_.emplace_back(group);
  if (!group.has_options()) param_groups_.back().set_options(defaults_->clone());
}
void Optimizer::zero_grad(bool set_to_none) {
  for (auto& group : param_groups_) {
    for (Tensor& p : group.params()) {
      Tensor grad = p.grad();
      if (!grad.defined()) continue;
      if (set_to_none) p.set_grad({});
      else grad.detach().zero_();
    }
  }
}
void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  auto& first = param_groups_.at(0).params();
  first.insert(first.end(), parameters.begin(), parameters.end());
}
size_t Optimizer::size() const noexcept {
  size_t count = 0;
  for (const auto& group : param_groups_) count += group.params().size();
  return count;
}

// --- schedulers -------------------------------------------------------------------------------------------------------

void LRScheduler::step() {
  const std::vector<double> rates = get_lrs();
  set_optimizer_lrs(rates);
  ++step_count_;
}
std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}
void LRScheduler::set_optimizer_lrs(const std::vector<double>& rates) {
  auto& groups = optimizer_.param_groups();
  TORCH_CHECK(rates.size() == groups.size(), "get_lrs: expected ", groups.size(), " learning rates, one for each group of parameters, got ", rates.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
}
std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ != 0 && step_count_ % step_size_ == 0)
    for (double& rate : rates) rate *= gamma_;
  return rates;
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode, float factor, int patience, double threshold, ThresholdMode threshold_mode, int cooldown, const std::vector<float>& min_lr, double eps, bool verbose)
    : optimizer_(optimizer), verbose_(verbose) {
  Lock lock;
  const size_t count = optimizer.param_groups().size();
  TORCH_CHECK(min_lr.empty() || min_lr.size() == count, "ReduceLROnPlateauScheduler: expected ", count, " lowest rates in min_lr, one for each group, got ", min_lr.size());
  const std::vector<double> least = min_lr.empty() ? std::vector<double>(count, 0.0) : std::vector<double>(min_lr.begin(), min_lr.end());
  Object least_rates(Convert::to(least));
  Object words(Py_BuildValue("{s:s, s:d, s:i, s:d, s:s, s:i, s:O, s:d}", "mode", mode == min ? "min" : "max", "factor", double(factor), "patience", patience, "threshold", threshold,
                             "threshold_mode", threshold_mode == rel ? "rel" : "abs", "cooldown", cooldown, "min_lr", least_rates.get(), "eps", eps));
  Object groups(wrap(static_cast<int64_t>(count)));
  face_ = std::make_shared<Face>(module_call("plateau", {groups.get(), words.get()}).release());
}
void ReduceLROnPlateauScheduler::step(float metric) {
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  std::vector<double> next;
  {
    Lock lock;
    Object value(wrap(double(metric))), now(Convert::to(rates));
    next = doubles_from(module_call("plateau_step", {face_->object, value.get(), now.get()}).get());
  }
  ++epoch_;
  for (size_t i = 0; i < next.size(); ++i) {
    if (verbose_ && next[i] != rates[i]) std::cout << "Epoch " << epoch_ << ": reducing learning rate of group " << i << " to " << next[i] << "\n";
    optimizer_.param_groups()[i].options().set_lr(next[i]);
  }
}

}  // namespace torch::optim

// --- the optimizers ---------------------------------------------------------------------------------------------------

namespace rushlight::optim {

using torch::optim::OptimizerParamGroup;

namespace {
uint64_t mark_of(OptimizerParamGroup& group) {
  uint64_t mark = nn::mark_of(group.options().python_fields());
  for (const at::Tensor& p : group.params()) mark = nn::Convert::mix(mark, p);
  return mark;
}
}  // namespace

PythonOptimizer::PythonOptimizer(const char* python_class, const std::vector<OptimizerParamGroup>& groups, std::unique_ptr<torch::optim::OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)), python_class_(python_class) {
  Lock lock;
  Object list(PyList_New(0));
  for (auto& group : param_groups_) {
    Object params(wrap(at::TensorList(group.params()))), words = nn::words_of(group.options().python_fields());
    Object pair(PyTuple_Pack(2, params.get(), words.get()));
    if (PyList_Append(list.get(), pair.get()) < 0) throw_python();
    marks_.push_back(mark_of(group));
  }
  Object name(wrap(std::string_view(python_class)));
  face_ = std::make_shared<Face>(module_call("make_optimizer", {name.get(), list.get()}).release());
}

void PythonOptimizer::follow() {
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    auto& group = param_groups_[i];
    const uint64_t mark = mark_of(group);
    if (i < marks_.size() && marks_[i] == mark) continue;
    Object params(wrap(at::TensorList(group.params()))), words = nn::words_of(group.options().python_fields());
    if (i < marks_.size()) {
      Object place(wrap(static_cast<int64_t>(i)));
      module_call("set_group", {face_->object, place.get(), params.get(), words.get()});
      marks_[i] = mark;
    } else {
      module_call("add_group", {face_->object, params.get(), words.get()});
      marks_.push_back(mark);
    }
  }
  if (has_states_) write_states();
}

at::Tensor PythonOptimizer::step(LossClosure closure) {
  Lock lock;
  follow();
  Object function, loss;
  if (closure) function = Object(function_object("closure", [&closure](PyObject*, PyObject*) { return wrap(closure()); }));
  loss = checked(closure ? PyObject_CallMethod(face_->object, "step", "O", function.get()) : PyObject_CallMethod(face_->object, "step", nullptr));
  if (has_states_) read_states();
  return tensor_from(loss.get());
}

// --- what is kept of parameters ---------------------------------------------------------------------------------------

void PythonOptimizer::follow_states() {
  Lock lock;
  follow();
  read_states();
  has_states_ = true;
}

void PythonOptimizer::write_states() {
  for (auto& [key, state] : state_) {
    if (!state) continue;
    std::vector<Field> changed;
    std::vector<uint64_t>& known = state_marks_[key];
    const std::vector<Field> all = state->python_fields();
    known.resize(all.size());      // a value that was never written differs: no mark is 0
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t mark = nn::mark_of({all[i]});
      if (mark != std::exchange(known[i], mark)) changed.push_back(all[i]);
    }
    if (changed.empty()) continue;
    Object parameter(wrap(key.tensor())), words = nn::words_of(changed);
    module_call("set_state", {face_->object, parameter.get(), words.get()});
  }
  for (auto it = state_marks_.begin(); it != state_marks_.end();) {
    auto found = state_.find(it->first);
    if (found != state_.end() && found->second) { ++it; continue; }
    Object parameter(wrap(it->first.tensor()));
    module_call("set_state", {face_->object, parameter.get(), Py_None});
    it = state_marks_.erase(it);
  }
}

// References to states stay valid: what Python says is written into those that are there.
void PythonOptimizer::read_states() {
  for (auto& group : param_groups_) {
    for (at::Tensor& p : group.params()) {
      const torch::optim::ParamKey key(p.unsafeGetTensorImpl());
      Object given(wrap(p)), words = module_call("state_of", {face_->object, given.get()});
      if (!PyDict_GET_SIZE(words.get())) continue;      // nothing yet
      std::unique_ptr<torch::optim::OptimizerParamState> read = empty_state(python_class_);
      std::vector<uint64_t> marks;
      for (const Field& field : read->python_fields()) {
        PyObject* value = PyDict_GetItemString(words.get(), field.name);
        if (value && value != Py_None) field.from(value, field.at);
        marks.push_back(nn::mark_of({field}));
      }
      auto& known = state_marks_[key];
      if (known == marks && state_.count(key)) continue;
      known = std::move(marks);
      auto& mine = state_[key];
      if (mine) mine->take_over(*read);
      else mine = std::move(read);
    }
  }
}

at::Tensor PythonOptimizer::state_tensor(const at::Tensor& parameter, const std::string& name) {
  Lock lock;
  Object given(wrap(parameter)), state = module_call("state_of", {face_->object, given.get()});
  PyObject* found = PyDict_GetItemString(state.get(), name.c_str());
  return found && is_tensor(found) ? tensor_from(found) : at::Tensor();
}
c10::IValue PythonOptimizer::state_dict() {
  Lock lock;
  follow();
  Object state = checked(PyObject_CallMethod(face_->object, "state_dict", nullptr));
  return {c10::IValue::Tag::Python, c10::make_intrusive<c10::TensorImpl>(state.release())};
}
void PythonOptimizer::load_state_dict(const c10::IValue& state) {
  Lock lock;
  follow();
  Object given(wrap(state));
  checked(PyObject_CallMethod(face_->object, "load_state_dict", "O", given.get()));
  size_t place = 0;   // the options come with the state
  for (auto& group : param_groups_) {
    Object position(wrap(static_cast<int64_t>(place))), words = module_call("group_options", {face_->object, position.get()});
    for (const Field& field : group.options().python_fields())
      if (PyObject* value = PyDict_GetItemString(words.get(), field.name)) field.from(value, field.at);
    marks_[place++] = mark_of(group);
  }
  state_.clear(), state_marks_.clear();
  if (has_states_) read_states();
}

}  // namespace rushlight::optim
