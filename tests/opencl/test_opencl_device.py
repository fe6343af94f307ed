"""The OpenCL package of examples/: kernels printed as OpenCL C, compiled by the driver, equal to the host's.

Skipped where pyopencl or a driver with shared virtual memory is missing. PoCL, which runs on processors, shows two
units where it is asked to. To compile a kernel takes a quarter of a second, so there are few here: `python -m rushlight
check --device opencl --import rushlight_opencl` is the whole of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import rushlight as rl

os.environ.setdefault("POCL_DEVICES", "pthread pthread")
pytest.importorskip("pyopencl", reason="pyopencl is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "opencl_package"))
try:
    import rushlight_opencl
except Exception as error:  # noqa: BLE001 - drivers fail in ways of their own
    pytest.skip(f"no OpenCL device here: {error}", allow_module_level=True)

GROUPS = rushlight_opencl.OpenCL("opencl_groups", group=8)      # as a GPU would be asked
rl.devices.register(GROUPS)


def sample(*shape: int, dtype: rl.dtype = rl.float32) -> rl.Tensor:
    count = 1
    for n in shape:
        count *= n
    return ((rl.arange(count) * 37 % 23).to(rl.float64) / 7 - 1.5).to(dtype).reshape(shape)


CALLS = {
    "strided": lambda x: (x.t()[1:, ::2] * 2 - x.t()[:-1, ::2]).exp(),
    "four_dims": lambda x: x.reshape(2, 3, 2, -1).permute(2, 0, 1, 3).contiguous(),
    "rows": lambda x: rl.softmax(x, -1),
    "columns": lambda x: x.sum(0),
    "index_add": lambda x: rl.zeros(3, x.shape[1], device=x.device).index_add_(
        0, (rl.arange(12) % 3).to(x.device), x),
    "half": lambda x: (x.to(rl.float16) * 3).to(rl.bfloat16).to(rl.float32),
}


@pytest.mark.parametrize("name, device", [
    *[(name, "opencl") for name in CALLS], *[(name, "opencl_groups") for name in ("rows", "columns", "index_add")]])
def test_results_are_the_hosts(name, device):
    x = sample(12, 70)
    want, got = CALLS[name](x), CALLS[name](x.to(device))
    assert got.device.type == device and got.dtype is want.dtype
    rl.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


def test_products_run_in_tiles():
    x, y = sample(150, 130), sample(130, 140)
    rl.testing.assert_close((x.to("opencl") @ y.to("opencl")).cpu(), x @ y, rtol=1e-4, atol=1e-4)


def test_a_model_trains_as_on_the_host():
    losses = {}
    for device in ("cpu", "opencl"):
        rl.manual_seed(0)
        model = rl.nn.Linear(6, 1).to(device)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        x, y = sample(16, 6).to(device), sample(16, 1).to(device)
        losses[device] = []
        for _ in range(3):
            loss = rl.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["opencl"] == pytest.approx(losses["cpu"], rel=1e-5) and losses["cpu"][2] < losses["cpu"][0]


def test_streams_and_events():
    x = rl.ones(1 << 20, device="opencl")
    side = rl.Stream("opencl")
    start, end = (rl.Event("opencl", enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(4):
        x = x + 1
    end.record()
    side.wait_event(end)
    with side:
        total = x.sum()
    side.synchronize()
    assert total.item() == 5 * (1 << 20)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0


def test_out_of_memory_is_told_and_work_goes_on():
    x = rl.ones(4, device="opencl")
    with pytest.raises(rl.OutOfMemoryError, match="opencl"):
        rl.empty(1 << 45, device="opencl")
    assert (x + 1).tolist() == [2.0] * 4


def test_errors_are_found_on_the_device():
    picked = rl.ones(3, 2, device="opencl").index_select(0, rl.tensor([0, 5], device="opencl"))
    with pytest.raises(IndexError, match="index_select"):
        picked.tolist()
    assert rl.ones(2, device="opencl").tolist() == [1.0, 1.0]


def test_units_copy_to_each_other():
    if rushlight_opencl.opencl.device_count() < 2:
        pytest.skip("there is one OpenCL unit")
    x = rl.ones(1000, device="opencl:0") + 1
    y = x.to("opencl:1")
    assert str(y.device) == "opencl:1" and (y + 1).sum().item() == 3000
    with pytest.raises(RuntimeError, match="same device"):
        x + y


def test_memory_goes_back_to_the_driver():
    device = rushlight_opencl.opencl
    rl.devices.empty_cache("opencl")
    before = device.held[0]
    x = rl.empty(64 << 20, dtype=rl.uint8, device="opencl")
    assert device.held[0] >= before + (64 << 20)
    del x
    rl.devices.empty_cache("opencl")
    assert device.held[0] == before
