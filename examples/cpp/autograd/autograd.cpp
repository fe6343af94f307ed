// Gradients in C++: of an expression, of a layer, of a gradient, and of a function with a backward of its own.
#include <torch/torch.h>

#include <iostream>

using namespace torch::autograd;

// y = x W^T + b, with the gradients written by hand.
struct LinearFunction : public Function<LinearFunction> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor input, torch::Tensor weight, torch::Tensor bias = torch::Tensor()) {
    ctx->save_for_backward({input, weight, bias});
    auto output = input.mm(weight.t());
    return bias.defined() ? output + bias.unsqueeze(0).expand_as(output) : output;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const auto grad = grad_outputs[0];
    auto grad_bias = torch::Tensor();
    if (saved[2].defined()) grad_bias = grad.sum(0);
    return {grad.mm(saved[1]), grad.t().mm(saved[0]), grad_bias};
  }
};

int main() {
  torch::manual_seed(0);

  auto x = torch::ones({2, 2}, torch::requires_grad());
  auto y = x + 2;
  auto z = y * y * 3;
  z.mean().backward();
  std::cout << "d mean(3 (x + 2)^2) / dx:\n" << x.grad() << "\n";

  // The gradient of a gradient's norm: a penalty that keeps a critic smooth.
  auto model = torch::nn::Linear(4, 3);
  auto input = torch::randn({3, 4}).requires_grad_(true);
  auto loss = torch::nn::MSELoss()(model(input), torch::randn({3, 3}));
  auto gradient = torch::autograd::grad({loss}, {input}, {torch::ones_like(loss)}, true, true)[0];
  auto penalty = torch::pow(gradient.norm(2, 1) - 1, 2).mean();
  penalty.backward();
  std::cout << "penalty: " << penalty.item<float>() << "\nits gradient:\n" << input.grad() << "\n";

  auto a = torch::randn({2, 3}).requires_grad_();
  auto w = torch::randn({4, 3}).requires_grad_();
  LinearFunction::apply(a, w).sum().backward();
  std::cout << "by hand:\n" << a.grad() << "\n" << w.grad() << "\n";

  {
    torch::NoGradGuard guard;
    std::cout << "recorded without gradients: " << std::boolalpha << (a * 2).requires_grad() << "\n";
  }
  return 0;
}
