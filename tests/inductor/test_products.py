"""Products of a graph seen together: sums of short ones, and weights that are used again."""

from __future__ import annotations

import rushlight as rl
from rushlight.op.pack import packers
from tests.inductor.harness import check, kernels


def sum_of_products(*pairs):
    total = None
    for g, h in zip(pairs[::2], pairs[1::2]):
        total = g.t() @ h if total is None else total + g.t() @ h
    return total


def test_a_sum_of_short_products_is_one_product() -> None:
    tensors = [rl.randn(8, n) for _ in range(5) for n in (96, 64)]
    found = kernels(check(sum_of_products, *tensors, rtol=1e-4, atol=1e-4))
    assert next(k for k in found if "mm" in k).startswith("steps[mm]") and not any(
        "add" in k or "matmul" in k for k in found
    )


def test_a_product_that_is_read_elsewhere_stays() -> None:
    def f(*pairs):
        first = pairs[0].t() @ pairs[1]
        return first + pairs[2].t() @ pairs[3] + pairs[4].t() @ pairs[5], first * 2

    found = kernels(check(f, *[rl.randn(8, n) for _ in range(3) for n in (40, 30)], rtol=1e-4, atol=1e-4))
    assert sum("matmul" in k for k in found) >= 3


def test_weights_used_again_are_packed_once() -> None:
    weight, bias = rl.randn(512, 256), rl.randn(512)

    def f(w, b, *inputs):
        return [rl.nn.functional.linear(x, w, b) for x in inputs]

    made = check(f, weight, bias, *[rl.randn(16, 256) for _ in range(4)], rtol=1e-4, atol=1e-4)
    packs = [s for s in made.steps if s.kernel in packers]
    assert len(packs) == 1 and sum("linear" in k for k in kernels(made)) == 5


def test_weights_that_change_are_packed_again() -> None:
    def f(w, *inputs):
        w = w * 1
        made = []
        for x in inputs:
            made.append(x @ w)
            w.add_(1)
        return made

    check(f, rl.randn(256, 512), *[rl.randn(16, 256) for _ in range(4)], rtol=1e-4, atol=1e-3)


def test_two_products_of_one_turned_operand() -> None:
    """Each has it copied into place: the copies are results of their own, which others find where they were."""
    x, a, b = rl.randn(2, 16, 16), rl.randn(16, 16), rl.randn(16, 16)
    check(lambda x, a, b: (rl.nn.functional.linear(x.mT, a), rl.nn.functional.linear(x.mT, b)), x, a, b)
