"""The GPU scheduler's nests, run by a CPU on a device of its own, have the CPU's results: what is left to a card is how nests become PTX."""

from __future__ import annotations

import pytest
from devices.reference_device import ReferenceDevice

import rushlight as rl
from rushlight.codegen.schedule import SCHEDULERS, gpu
from rushlight.devices import register

from .cases import CASES, compare

register(ReferenceDevice("gpuform"))
SCHEDULERS["gpuform"] = gpu.schedule


@pytest.mark.filterwarnings("ignore:.*computed on the host")
@pytest.mark.parametrize("name", CASES)
def test_op(name):
    compare(name, "gpuform")


@pytest.mark.parametrize("shape", [(1 << 20,), (4096, 300), (300, 4096), (7, 3000, 11), (5, 100_000), (100_000, 5)])
def test_chunks_of_folds(shape):
    rl.manual_seed(0)
    x = rl.rand(shape)
    y = x.to("gpuform")
    assert rl.allclose(y.sum().cpu(), x.double().sum().float(), rtol=1e-4)
    for d in range(len(shape)):
        assert rl.allclose(y.sum(d).cpu(), x.double().sum(d).float(), rtol=1e-4)
        assert (y.amax(d).cpu() == x.amax(d)).all() and (y.argmax(d).cpu() == x.argmax(d)).all()
        assert rl.allclose(y.var(d).cpu(), x.var(d), rtol=1e-4)
