// What optimizers keep of parameters, typed: each line names what it shows and gives its numbers, which the test compares
// with Python's optimizers. Compiled against PyTorch 2.13 it prints the same.
#include <torch/torch.h>

#include <iomanip>
#include <sstream>

using at::Tensor;
namespace optim = torch::optim;

static void show(const std::string& name, double number) { std::cout << name << ": " << number << std::endl; }
static void show(const std::string& name, const Tensor& values) {
  std::cout << name << ":";
  if (values.defined())
    for (int64_t i = 0; i < values.numel(); ++i) std::cout << " " << values.detach().reshape({-1})[i].item<double>();
  std::cout << std::endl;
}
template <class Lists>
static void show_all(const std::string& name, const Lists& list) {
  std::vector<Tensor> defined;
  for (const Tensor& one : list) if (one.defined()) defined.push_back(one.reshape({-1}));
  show(name, torch::cat(defined));
}
static Tensor parameter() { return torch::tensor({0.5, -1.0, 1.5}).set_requires_grad(true); }
template <class State>
static State& state_of(optim::Optimizer& optimizer, const Tensor& p) { return static_cast<State&>(*optimizer.state().at(p.unsafeGetTensorImpl())); }
static void step(optim::Optimizer& optimizer, const Tensor& p) {
  optimizer.step([&] {
    optimizer.zero_grad();
    Tensor loss = p.pow(4).sum() / 4;
    loss.backward();
    return loss;
  });
}

// The state, that one reference stays, and what is written by C++ and used by the next step.
static void adam() {
  Tensor p = parameter(), other = parameter();
  optim::Adam optimizer({p, other}, optim::AdamOptions(0.1).amsgrad(true));
  show("adam empty", static_cast<double>(optimizer.state().size()));
  step(optimizer, p);
  auto& state = state_of<optim::AdamParamState>(optimizer, p);
  show("adam first.step", static_cast<double>(state.step()));
  step(optimizer, p);
  show("adam.step", static_cast<double>(state.step())), show("adam.exp_avg", state.exp_avg()), show("adam.exp_avg_sq", state.exp_avg_sq()), show("adam.max_exp_avg_sq", state.max_exp_avg_sq()), show("adam.p", p);
  show("adam entries", static_cast<double>(optimizer.state().size()));      // the other one had no gradient
  show("adam found", optimizer.state().find(other.unsafeGetTensorImpl()) != optimizer.state().end());
  for (auto& one : optimizer.state()) show("adam key", one.first == static_cast<void*>(p.unsafeGetTensorImpl()));
  auto copy = static_cast<optim::OptimizerParamState&>(state).clone();
  state.step(9), state.exp_avg(torch::ones({3})), state.exp_avg_sq().mul_(4);
  step(optimizer, p);
  show("adam written.step", static_cast<double>(state.step())), show("adam written.exp_avg", state.exp_avg()), show("adam written.exp_avg_sq", state.exp_avg_sq()), show("adam written.p", p);
  show("adam copy.step", static_cast<double>(static_cast<optim::AdamParamState&>(*copy).step()));
  std::stringstream stream;
  torch::save(optimizer, stream);
  optim::Adam loaded({p, other}, optim::AdamOptions(0.3));
  torch::load(loaded, stream);
  show("adam loaded.step", static_cast<double>(state_of<optim::AdamParamState>(loaded, p).step()));
  show("adam loaded.exp_avg", state_of<optim::AdamParamState>(loaded, p).exp_avg());
  optimizer.state().erase(p.unsafeGetTensorImpl());
  step(optimizer, p);
  show("adam anew.step", static_cast<double>(state_of<optim::AdamParamState>(optimizer, p).step())), show("adam anew.p", p);
}

// A state that C++ makes before the first step.
static void sgd() {
  Tensor p = parameter();
  optim::SGD optimizer({p}, optim::SGDOptions(0.1).momentum(0.9));
  auto made = std::make_unique<optim::SGDParamState>();
  made->momentum_buffer(torch::full({3}, 2.0));
  optimizer.state()[p.unsafeGetTensorImpl()] = std::move(made);
  step(optimizer, p);
  show("sgd.momentum_buffer", state_of<optim::SGDParamState>(optimizer, p).momentum_buffer()), show("sgd.p", p);
  optimizer.state().clear();
  step(optimizer, p);
  show("sgd anew.momentum_buffer", state_of<optim::SGDParamState>(optimizer, p).momentum_buffer()), show("sgd anew.p", p);
}

static void others() {
  Tensor p = parameter();
  optim::AdamW decayed({p}, optim::AdamWOptions(0.1));
  step(decayed, p), step(decayed, p);
  auto& w = state_of<optim::AdamWParamState>(decayed, p);
  show("adamw.step", static_cast<double>(w.step())), show("adamw.exp_avg", w.exp_avg()), show("adamw.exp_avg_sq", w.exp_avg_sq()), show("adamw.max_exp_avg_sq", w.max_exp_avg_sq());
  p = parameter();
  optim::Adagrad adagrad({p}, optim::AdagradOptions(0.1).initial_accumulator_value(0.5));
  show("adagrad before.sum", state_of<optim::AdagradParamState>(adagrad, p).sum());
  step(adagrad, p), step(adagrad, p);
  auto& a = state_of<optim::AdagradParamState>(adagrad, p);
  show("adagrad.step", static_cast<double>(a.step())), show("adagrad.sum", a.sum());
  p = parameter();
  optim::RMSprop rms({p}, optim::RMSpropOptions(0.01).momentum(0.9).centered(true));
  step(rms, p), step(rms, p);
  auto& r = state_of<optim::RMSpropParamState>(rms, p);
  show("rmsprop.step", static_cast<double>(r.step())), show("rmsprop.square_avg", r.square_avg()), show("rmsprop.momentum_buffer", r.momentum_buffer()), show("rmsprop.grad_avg", r.grad_avg());
  p = parameter();
  optim::LBFGS lbfgs({p}, optim::LBFGSOptions(0.5).max_iter(4).history_size(5));
  step(lbfgs, p);
  auto& l = state_of<optim::LBFGSParamState>(lbfgs, p);
  show("lbfgs.func_evals", static_cast<double>(l.func_evals())), show("lbfgs.n_iter", static_cast<double>(l.n_iter())), show("lbfgs.t", l.t()), show("lbfgs.prev_loss", l.prev_loss());
  show("lbfgs.d", l.d()), show("lbfgs.H_diag", l.H_diag()), show("lbfgs.prev_flat_grad", l.prev_flat_grad());
  show_all("lbfgs.old_dirs", l.old_dirs()), show_all("lbfgs.old_stps", l.old_stps()), show_all("lbfgs.ro", l.ro());
  show("lbfgs al", static_cast<double>(l.al()->size())), show("lbfgs al.first", l.al()->front());
}

// Options of each group, read and written by their type.
static void groups() {
  Tensor p = parameter(), q = parameter();
  std::vector<optim::OptimizerParamGroup> both;
  both.emplace_back(std::vector<Tensor>{p});
  both.emplace_back(std::vector<Tensor>{q}, std::make_unique<optim::AdamOptions>(optim::AdamOptions(0.5).betas({0.5, 0.6})));
  optim::Adam optimizer(both, optim::AdamOptions(0.1));
  auto& first = static_cast<optim::AdamOptions&>(optimizer.param_groups()[0].options());
  auto& second = static_cast<optim::AdamOptions&>(optimizer.param_groups()[1].options());
  show("groups lr", torch::tensor({first.lr(), second.lr()})), show("groups betas", torch::tensor({std::get<0>(second.betas()), std::get<1>(second.betas())}));
  for (auto* one : {&first, &second}) one->weight_decay(0.25), one->lr(one->lr() * 2);
  first.betas({0.1, 0.2});
  optimizer.zero_grad();
  (p.pow(4).sum() + q.pow(4).sum()).backward();
  optimizer.step();
  show("groups.p", p), show("groups.q", q), show("groups first.exp_avg", state_of<optim::AdamParamState>(optimizer, p).exp_avg()), show("groups second.exp_avg", state_of<optim::AdamParamState>(optimizer, q).exp_avg());
}

// An optimizer of one's own keeps its states where the others' are.
struct CountState : optim::OptimizerCloneableParamState<CountState> {
  TORCH_ARG(int64_t, count) = 0;
};
struct CountOptions : optim::OptimizerCloneableOptions<CountOptions> {
  TORCH_ARG(double, lr) = 0.5;
};
struct Counting : optim::Optimizer {
  explicit Counting(std::vector<Tensor> parameters) : Optimizer(std::move(parameters), std::make_unique<CountOptions>()) {}
  Tensor step(LossClosure closure = nullptr) override {
    Tensor loss = closure ? closure() : Tensor();
    torch::NoGradGuard guard;
    for (auto& group : param_groups_) {
      const double rate = static_cast<CountOptions&>(group.options()).lr();
      for (auto& p : group.params()) {
        auto& state = state_[p.unsafeGetTensorImpl()];
        if (!state) state = std::make_unique<CountState>();
        auto& count = static_cast<CountState&>(*state);
        count.count(count.count() + 1);
        p.add_(p.grad(), -rate / static_cast<double>(count.count()));
      }
    }
    return loss;
  }
};
static void own() {
  Tensor p = parameter();
  Counting optimizer({p});
  ::step(optimizer, p), ::step(optimizer, p);
  show("own.count", static_cast<double>(state_of<CountState>(optimizer, p).count())), show("own.p", p);
}

int main() {
  std::cout << std::setprecision(9);
  adam();
  sgd();
  others();
  groups();
  own();
  std::cout << "end" << std::endl;
}
