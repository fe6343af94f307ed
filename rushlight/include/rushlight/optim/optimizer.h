// torch::optim: groups of parameters with options, the optimizers over Python's, and schedulers of the learning rate.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include <rushlight/ivalue.h>
#include <rushlight/nn/module.h>

namespace rushlight::nn {
struct Face;
}

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}

namespace torch::optim {

using at::Tensor;

// What an optimizer keeps of one parameter. Those of Python's optimizers are generated; an optimizer of yours has its own.
class OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState&) = default;
  OptimizerParamState& operator=(const OptimizerParamState&) = default;
  virtual ~OptimizerParamState() = default;
  virtual std::unique_ptr<OptimizerParamState> clone() const { throw c10::NotImplementedError("clone: derive the state from OptimizerCloneableParamState"); }
  virtual void serialize(serialize::InputArchive&) { throw c10::NotImplementedError("serialize: this state is not written by itself; save the optimizer, or override it"); }
  virtual void serialize(serialize::OutputArchive&) const { throw c10::NotImplementedError("serialize: this state is not written by itself; save the optimizer, or override it"); }
  virtual std::vector<::rushlight::nn::Field> python_fields() { return {}; }
  virtual void take_over(const OptimizerParamState&) {}      // the values of another one of its type
};
template <class Derived>
class OptimizerCloneableParamState : public OptimizerParamState {
 public:
  std::unique_ptr<OptimizerParamState> clone() const override { return std::make_unique<Derived>(static_cast<const Derived&>(*this)); }
  void take_over(const OptimizerParamState& other) override { static_cast<Derived&>(*this) = static_cast<const Derived&>(other); }
};

// A parameter as a key: what `unsafeGetTensorImpl()` gives. All handles of one tensor are one key, which keeps it alive.
class ParamKey {
 public:
  ParamKey(const void* impl) : impl_(static_cast<c10::TensorImpl*>(const_cast<void*>(impl))) {}
  operator void*() const { return impl_.get(); }
  Tensor tensor() const { return Tensor(impl_); }
  friend bool operator==(const ParamKey& a, const ParamKey& b) { return a.object() == b.object(); }
  friend bool operator!=(const ParamKey& a, const ParamKey& b) { return !(a == b); }
  friend bool operator==(const ParamKey& a, const void* b) { return a == ParamKey(b); }
  friend bool operator!=(const ParamKey& a, const void* b) { return !(a == b); }
  friend bool operator==(const void* a, const ParamKey& b) { return b == a; }
  friend bool operator!=(const void* a, const ParamKey& b) { return !(b == a); }
  struct Hash {
    size_t operator()(const ParamKey& key) const { return std::hash<const void*>()(key.object()); }
  };

 private:
  const void* object() const { return impl_ ? impl_->object : nullptr; }
  c10::intrusive_ptr<c10::TensorImpl> impl_;
};
using ParamStates = std::unordered_map<ParamKey, std::unique_ptr<OptimizerParamState>, ParamKey::Hash>;

class OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const { throw c10::NotImplementedError("get_lr: these options have no learning rate; override get_lr"); }
  virtual void set_lr(const double) { throw c10::NotImplementedError("set_lr: these options have no learning rate; override set_lr"); }
  virtual std::vector<::rushlight::nn::Field> python_fields() { return {}; }   // of the options that Python's optimizers take
};
template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override { return std::make_unique<Derived>(static_cast<const Derived&>(*this)); }
};

// Parameters that are stepped with the same options; without options of its own a group gets the optimizer's.
class OptimizerParamGroup {
 public:
  OptimizerParamGroup(const OptimizerParamGroup& o) : params_(o.params_), options_(o.options_ ? o.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup& operator=(const OptimizerParamGroup& o) { return *this = OptimizerParamGroup(o); }
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) = default;
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options) : params_(std::move(params)), options_(std::move(options)) {}
  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() {
    TORCH_CHECK(options_, "OptimizerParamGroup: the group has no options yet; an optimizer gives them");
    return *options_;
  }
  const OptimizerOptions& options() const { return const_cast<OptimizerParamGroup*>(this)->options(); }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

// Base of optimizers; one written in C++ derives from it and steps over param_groups_.
class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  explicit Optimizer(const std::vector<OptimizerParamGroup>& groups, std::unique_ptr<OptimizerOptions> defaults) : defaults_(std::move(defaults)) {
    for (const auto& group : groups) add_param_group(group);
  }
  explicit Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
      : Optimizer({OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}
  virtual ~Optimizer() = default;

  void add_param_group(const OptimizerParamGroup& group);
  virtual Tensor step(LossClosure closure = nullptr) = 0;
  void zero_grad(bool set_to_none = true);
  void add_parameters(const std::vector<Tensor>& parameters);   // to the first group
  const std::vector<Tensor>& parameters() const noexcept { return param_groups_.at(0).params(); }
  std::vector<Tensor>& parameters() noexcept { return param_groups_.at(0).params(); }
  size_t size() const noexcept;
  OptimizerOptions& defaults() noexcept { return *defaults_; }
  const OptimizerOptions& defaults() const noexcept { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return param_groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const noexcept { return param_groups_; }
  ParamStates& state() {
    follow_states();
    return state_;
  }
  const ParamStates& state() const { return const_cast<Optimizer*>(this)->state(); }

 protected:
  virtual void follow_states() {}      // of an optimizer that keeps them elsewhere: makes both say the same
  ParamStates state_;
  std::vector<OptimizerParamGroup> param_groups_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

// A multiple of the learning rates, step by step: the base, which asks get_lrs.
class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual ~LRScheduler() = default;
  void step();

 protected:
  virtual std::vector<double> get_lrs() = 0;            // one for each group
  std::vector<double> get_current_lrs() const;
  void set_optimizer_lrs(const std::vector<double>& rates);
  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};

// `gamma` times the rates every `step_size` steps.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1) : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

 private:
  std::vector<double> get_lrs() override;
  unsigned step_size_;
  double gamma_;
};

// `factor` times the rates once a metric has not become better for more than `patience` steps. Python's, over groups
// that carry only rates.
class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  explicit ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min, float factor = 0.1, int patience = 10, double threshold = 1e-4, ThresholdMode threshold_mode = rel, int cooldown = 0, const std::vector<float>& min_lr = {}, double eps = 1e-8, bool verbose = false);
  virtual ~ReduceLROnPlateauScheduler() = default;
  void step(float metric);

 private:
  Optimizer& optimizer_;
  std::shared_ptr<::rushlight::nn::Face> face_;
  bool verbose_;
  int epoch_ = 0;
};

}  // namespace torch::optim

namespace rushlight::optim {

std::unique_ptr<torch::optim::OptimizerParamState> empty_state(std::string_view optimizer);      // generated

// An optimizer of Python, given what was set in C++ before each step. Its states are Python's: C++ has them typed from
// when they are first asked for, and what is changed there is Python's with the next step.
class PythonOptimizer : public torch::optim::Optimizer {
 public:
  at::Tensor step(LossClosure closure = nullptr) override;
  // What is kept of a parameter, by name: "exp_avg" of Adam; undefined where there is nothing yet.
  at::Tensor state_tensor(const at::Tensor& parameter, const std::string& name);
  c10::IValue state_dict();                              // Python's dictionary, for archives
  void load_state_dict(const c10::IValue& state);

 protected:
  PythonOptimizer(const char* python_class, const std::vector<torch::optim::OptimizerParamGroup>& groups, std::unique_ptr<torch::optim::OptimizerOptions> defaults);

 private:
  void follow();
  void follow_states() override;
  void write_states();
  void read_states();
  const char* python_class_;
  std::shared_ptr<nn::Face> face_;
  std::vector<uint64_t> marks_;                          // of the groups as Python has them
  bool has_states_ = false;                              // they were asked for
  std::unordered_map<torch::optim::ParamKey, std::vector<uint64_t>, torch::optim::ParamKey::Hash> state_marks_;   // of each value
};

}  // namespace rushlight::optim
