"""Compiled pointwise groups on the GPU's schedules, run by a CPU."""

from __future__ import annotations

import pytest

import rushlight as rl

from .test_schedules import DEVICE

F = rl.nn.functional
CASES = {
    "plain": lambda x, y, z: F.gelu(x) * y + 1,
    "row": lambda x, y, z: (x + z).tanh() * y,
    "column": lambda x, y, z: (x * y[:, :1]).exp() + z,
    "slices": lambda x, y, z: (x[:, 1:] - y[:, :-1]).sigmoid() * 2,
    "turned": lambda x, y, z: (x.t() + y.t()).relu() * 0.5,
    "three ranges": lambda x, y, z: (x.reshape(6, 5, 7) * y.reshape(6, 5, 7)[:, :1] + z.reshape(5, 7)[:, :1]).tanh(),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_a_group_has_the_cpus_numbers(name, dtype):
    assert DEVICE.name == "gpuform"
    rl.manual_seed(0)
    given = [rl.randn(shape).to(dtype) for shape in ((6, 35), (6, 35), (35,))]
    there = rl.compile(CASES[name])(*[t.to("gpuform") for t in given]).cpu()
    tolerance = 2e-2 if dtype is rl.bfloat16 else 1e-5
    assert rl.allclose(there.float(), CASES[name](*given).float(), rtol=tolerance, atol=tolerance)
