"""Compiled pointwise groups on the GPU's schedules, run by a CPU."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

from .test_schedules import DEVICE
from .test_simulated_driver import driver, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.share(2)   # of each test that has several cases

F = rl.nn.functional
CASES = {
    "plain": lambda x, y, z: F.gelu(x) * y + 1,
    "row": lambda x, y, z: (x + z).tanh() * y,
    "column": lambda x, y, z: (x * y[:, :1]).exp() + z,
    "slices": lambda x, y, z: (x[:, 1:] - y[:, :-1]).sigmoid() * 2,
    "turned": lambda x, y, z: (x.t() + y.t()).relu() * 0.5,
    "four ranges": lambda x, y, z: (x.reshape(2, 3, 5, 7).permute(2, 0, 3, 1) * 2).contiguous(),
    "turned and copied": lambda x, y, z: (x.reshape(2, 3, 35) * 2).transpose(1, 2).reshape(70, 3),
    "copied and read": lambda x, y, z: (x.reshape(6, 5, 7) - 1).permute(2, 0, 1).contiguous().sin() + z.view(7, 1, 5),
    "two numbers": lambda x, y, z: (x * 0.5 + 3) * y,
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


class ManyDims(ReferenceDevice):
    """Pointwise kernels along more than two dims, as the core of CUDA launches them."""

    scheduler = "gpu"
    many_dims = True
    most = 0

    def launch(self, handle, pointers, params, begin, end, index):
        n = len(pointers)
        further = [params[k : k + 1 + n] for k in range(1 + 2 * n, len(params), 1 + n)] if handle in self.points else []
        self.most = max(self.most, 2 + len(further))
        for at in itertools.product(*[range(size) for size, *_ in further]):
            moved = [
                p if isinstance(p, bytes) else p + sum([i * one[1 + k] for i, one in zip(at, further, strict=True)])
                for k, p in enumerate(pointers)
            ]
            super().launch(handle, moved, params[: 1 + 2 * n] if further else params, begin, end, index)

    def load(self, nest):
        result = super().load(nest)
        if nest.point:
            self.points.append(result)
        return result


MANY = ManyDims("manydims")
MANY.points = []
register(MANY)


@pytest.mark.parametrize("name", CASES)
def test_a_group_of_many_dims_has_the_cpus_numbers(name):
    rl.manual_seed(0)
    MANY.most = 0
    given = [rl.randn(shape) for shape in ((6, 35), (6, 35), (35,))]
    there = rl.compile(CASES[name])(*[t.to("manydims") for t in given]).cpu()
    wanted = CASES[name](*given)
    assert rl.allclose(there, wanted, rtol=1e-5, atol=1e-5) and there.stride() == wanted.stride()
    wanted = {"four ranges": 4, "three ranges": 3, "turned and copied": 3, "copied and read": 3}
    assert MANY.most == wanted.get(name, 2)


def test_turned_dims_go_in_vectors_where_rows_stay_whole(driver):  # noqa: F811
    run(driver, """
x = rl.empty(3, 2, 12, 64, 64, dtype=rl.bfloat16, device="cuda")
rl.compile(lambda x: x.permute(1, 3, 0, 2, 4).contiguous())(x)
text = sim.simulated_ptx().decode()
assert "ld.global.v4" in text and "st.global.v4" in text and "div." not in text, text
""")


def test_a_chain_with_numbers_is_one_kernel_in_vectors(driver):  # noqa: F811
    run(driver, """
x, y = rl.empty(256, 1024, dtype=rl.bfloat16, device="cuda"), rl.empty(256, 1024, dtype=rl.bfloat16, device="cuda")
run = rl.compile(lambda x, y: (F.gelu(x) * y + 1.0).sigmoid() * x.tanh() - y)
run(x, y)
before = count(LAUNCHES)
run(x, y)
assert count(LAUNCHES) == before + 1
text = sim.simulated_ptx().decode()
assert "ld.global.v4" in text and "st.global.v4" in text, text
""")
