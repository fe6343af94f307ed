"""An operator in C++, compiled by the program that uses it.

Enters: C++ text. Leaves: a function whose gradient is written in C++ too, compared with the same in Python. Needs a C++
compiler and pybind11.
"""

from __future__ import annotations

import rushlight as torch
from rushlight.utils.cpp_extension import load_inline

SOURCE = """
struct SoftClip : torch::autograd::Function<SoftClip> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, double limit) {
    auto y = (x / limit).tanh();
    ctx->save_for_backward({y});
    return y * limit;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto y = ctx->get_saved_variables()[0];
    return {grads[0] * (1 - y * y), at::Tensor()};
  }
};

at::Tensor softclip(const at::Tensor& x, double limit) {
  TORCH_CHECK_VALUE(limit > 0, "softclip: expected a positive limit, got ", limit);
  return SoftClip::apply(x, limit);
}
"""


def main() -> None:
    module = load_inline("softclip_example", SOURCE, functions=["softclip"])
    x = torch.linspace(-3, 3, 7, requires_grad=True)
    y = module.softclip(x, 2.0)
    y.sum().backward()
    expected = torch.tanh(x.detach() / 2) * 2
    print("largest difference:", (y - expected).abs().max().item())
    print("gradient:", x.grad)


if __name__ == "__main__":
    main()
