"""Views of values that lie in another order of their dims than tracing saw."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F


def test_gradient_of_pieces_that_are_joined_for_a_convolution() -> None:
    rl.manual_seed(0)
    conv, linear = rl.nn.Conv2d(32, 16, 1), rl.nn.Linear(4, 16)

    def piece(x: rl.Tensor) -> rl.Tensor:
        rows = linear(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(2, 16, 8, 8)
        return F.interpolate(rows, size=(4, 4), mode="bilinear", align_corners=False)

    def joined(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
        return conv(rl.cat([piece(a), piece(b)], 1)).relu()

    a, b = (rl.randn(2, 4, 8, 8, requires_grad=True) for _ in range(2))
    wanted = rl.autograd.grad(joined(a, b).sum(), [a, b, *linear.parameters()])
    found = rl.autograd.grad(rl.compile(joined)(a, b).sum(), [a, b, *linear.parameters()])
    for f, w in zip(found, wanted, strict=True):
        rl.testing.assert_close(f, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16])
def test_convolutions_that_are_called_keep_the_order_of_their_dims(groups, dtype):
    """The graph of the gradients is made for it, also where no plan takes these layouts."""

    def run(function):
        rl.manual_seed(0)
        x, w = rl.randn(2, 4, 8, 6, dtype=dtype), rl.randn(4, 4 // groups, 1, 1, dtype=dtype)
        x, w = (t.to(memory_format=rl.channels_last).requires_grad_() for t in (x, w))
        y = function(x, w)
        (y * rl.arange(y.numel(), dtype=dtype).view_as(y) / 100).sum().backward()
        return y.detach(), x.grad, w.grad

    def convolve(x, w):
        return rl.nn.functional.conv2d(x, w, groups=groups)

    for ours, eager in zip(run(rl.compile(convolve)), run(convolve), strict=True):
        assert ours.stride() == eager.stride()
        assert rl.allclose(ours, eager, rtol=1e-2, atol=1e-2)
