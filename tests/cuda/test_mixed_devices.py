"""Compiled functions of tensors on the host and on a GPU."""

from __future__ import annotations

import sys

import pytest

import rushlight as rl
from tests.cuda.test_philox import on_card
from tests.cuda.test_simulated_driver import CC, driver, run

__all__ = ["driver"]


@pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
def test_numbers_on_the_host_go_to_the_device(driver):
    run(driver, """
x, s, rows = rl.ones(10, 4).cuda(), rl.tensor(2.0), rl.ones(3)

def places(f, *args):
    result = rl.compile(f, fullgraph=True)(*args)
    return [str(t.device) for t in (result if isinstance(result, tuple) else (result,))]

assert places(lambda a, s: a * s, x, s) == places(lambda a: a * rl.tensor(2.0), x) == ["cuda:0"]
assert places(lambda a, s: rl.where(a > 0, a, s), x, s) == ["cuda:0"]
assert places(lambda a, s: (a * s, s + 1), x, s) == ["cuda:0", "cpu"]
assert places(lambda a, b: (a + 1, b.sum()), rows, x) == ["cpu", "cuda:0"]

class Scaled(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", rl.tensor(3.0))
        self.weight = rl.nn.Parameter(rl.ones(4, device="cuda"))

    def forward(self, x):
        return (x * self.weight * self.scale).sum()

net = Scaled()
rl.compile(net)(x).backward()
assert net.weight.grad.is_cuda
""")


@on_card
def test_numbers_on_the_host_are_read_at_each_call():
    x = rl.arange(12.0, device="cuda").reshape(3, 4)

    def scaled(x, s):
        return x * s + s.exp()

    called = rl.compile(scaled, mode="reduce-overhead")
    for value in (2.0, 2.0, -0.0, 0.0, 3.5, float("inf"), 1.0, 7.0, 7.0, 8.0, 9.0, 10.0):
        s = rl.tensor(value)
        assert rl.allclose(called(x, s), scaled(x, s), equal_nan=True)
    s = rl.tensor(1.0)
    for _ in range(8):
        s.add_(1)
        assert rl.allclose(called(x, s), scaled(x, s))
    exact = rl.compile(lambda x, n: x.long() + n)
    assert exact(x, rl.tensor((1 << 60) + 1))[0, 0].item() == (1 << 60) + 1
