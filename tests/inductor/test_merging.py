"""Units that meet in a node, or read the same, share a kernel; what must run in between keeps them apart."""

from __future__ import annotations

import rushlight as rl
from rushlight import nn
from rushlight.inductor import settings
from tests.inductor.harness import check, kernels


def test_products_that_meet_in_a_sum_are_one_kernel() -> None:
    x, y = rl.randn(40, 6), rl.randn(40, 6)
    made = check(lambda x, y: (x * y + 1).abs() * 0.5 - 3 * y, x, y)
    assert len(kernels(made)) == 1


def test_ops_that_read_the_same_are_one_kernel() -> None:
    x = rl.randn(40, 6)
    made = check(lambda x: (x + 1, x * 2), x)
    assert len(kernels(made)) == 1


def test_two_sums_of_the_same_rows_are_one_kernel() -> None:
    x = rl.randn(40, 64)
    made = check(lambda x: (x.sum(-1), (x * x).sum(-1), x.exp()), x)
    assert len(kernels(made)) == 1


def test_what_runs_in_between_keeps_them_apart() -> None:
    x, w = rl.randn(16, 16), rl.randn(16, 16)
    made = check(lambda x, w: (x + 1) * ((x + 1) @ w), x, w)
    assert len([k for k in kernels(made) if k.startswith("points")]) == 2


def test_views_of_what_is_made_are_read_from_memory() -> None:
    x = rl.randn(16, 16)
    made = check(lambda x: (x + 1) * (x + 1).t(), x)
    assert len(kernels(made)) == 2


def test_what_is_written_in_between_is_read_before_and_after() -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        y = x.clone()
        before = y * 3
        y[0] = 7.0
        return before - y * 2

    check(f, rl.randn(4, 5))


def test_heavy_kernels_stay_apart() -> None:
    x = rl.randn(40, 6)
    made = check(lambda x: (x.tanh(), x.sigmoid(), x.exp(), x.sin(), x.cos(), x.erf()), x)
    assert 1 < len(kernels(made)) < 6


def test_nothing_merges_without_fusion() -> None:
    x = rl.randn(40, 6)
    with settings.applied({"fuse": False}):
        made = check(lambda x: (x + 1, x * 2), x)
    assert len(kernels(made)) == 2


def test_sums_over_rows_read_what_an_output_keeps_before_it_is_overwritten() -> None:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.LayerNorm(32), nn.LayerNorm(32), nn.LayerNorm(32)
            self.left, self.right = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            x = self.first(x)
            x = x + self.left(self.second(x))
            return x + self.right(nn.functional.gelu(self.third(x)))

    rl.manual_seed(0)
    model, x = Blocks(), rl.randn(2, 6, 32)
    found = []
    for run in (model, rl.compile(model)):
        model.zero_grad()
        (run(x) ** 3).sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    rl.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_elements_wait_for_later_loops_in_rows_of_any_length() -> None:
    w = rl.randn(1)
    for cols in (5, 1000, 4096, 4097):
        x, y = rl.randn(3, cols), rl.randn(3, cols)
        check(lambda x, y: rl.nn.functional.layer_norm(x + y, (x.shape[-1],)), x, y)
        check(lambda x, y: (x + y, rl.nn.functional.layer_norm(x + y, (x.shape[-1],)) * w), x, y)
        check(lambda x, y: ((x * y).softmax(-1) + y, (x * y).amax(-1)), x, y)
        check(lambda x, y: rl.nn.functional.layer_norm(x + y, (x.shape[-1],)).sum(0), x, y)


def test_gradient_of_a_norm_of_a_norm() -> None:
    rl.manual_seed(0)
    first, second = rl.nn.LayerNorm(32), rl.nn.LayerNorm(32)

    def twice(x: rl.Tensor) -> rl.Tensor:
        h = first(x)
        return h + second(h) * 2

    x, w = rl.randn(2, 17, 32, requires_grad=True), rl.randn(2, 17, 32)
    (expected,) = rl.autograd.grad((twice(x) * w).sum(), x)
    (found,) = rl.autograd.grad((rl.compile(twice)(x) * w).sum(), x)
    rl.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
