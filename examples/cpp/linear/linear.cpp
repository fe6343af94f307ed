// A line through points, fitted by gradient descent in C++: factories, ops, autograd.
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  const auto x = torch::randn({64, 3});
  const auto truth = torch::tensor({1.0, -2.0, 0.5});
  const auto y = x.mv(truth);
  auto weight = torch::zeros({3}, torch::requires_grad());
  double loss_at_end = 0;
  for (int step = 0; step < 200; ++step) {
    auto loss = torch::mse_loss(x.mv(weight), y);
    loss.backward();
    {
      torch::NoGradGuard guard;
      weight -= weight.grad() * 0.1;
      weight.set_grad({});
    }
    loss_at_end = loss.item<double>();
  }
  std::cout << "weights: " << weight << "\nloss: " << loss_at_end << "\n";
  try {
    torch::ones({2}).view({3});
  } catch (const c10::Error& error) {
    std::cout << "refused: " << error.what_without_backtrace() << "\n";
  }
  return loss_at_end < 1e-6 ? 0 : 1;
}
