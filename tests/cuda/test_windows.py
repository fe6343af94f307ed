"""Gradients of windows, interpolations and grid samples: by a CPU that has the schedules of a GPU, and on a card."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.devices import register
from tests.devices.reference_device import ReferenceDevice

F = rl.nn.functional
DEVICE = ReferenceDevice("windowform")
DEVICE.scheduler = "gpu"
register(DEVICE)
on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
PLACES = ["windowform", pytest.param("cuda", marks=on_card)]


def grid(x):
    return ((rl.arange(2 * 5 * 7 * 2) * 7919 % 1013) / 400 - 1.2).reshape(2, 5, 7, 2).to(x.device)


CASES = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2), "smaller": lambda x: F.interpolate(x, size=(5, 4)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "corners": lambda x: F.interpolate(x, size=(13, 9), mode="bilinear", align_corners=True),
    "average": lambda x: F.avg_pool2d(x, 2), "overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "large windows": lambda x: F.avg_pool2d(x, (11, 10), 1), "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "samples": lambda x: F.grid_sample(x, grid(x), align_corners=False),
    "border": lambda x: F.grid_sample(x, grid(x), padding_mode="border", align_corners=True),
    "nearest samples": lambda x: F.grid_sample(x, grid(x), mode="nearest", align_corners=False),
    "bicubic samples": lambda x: F.grid_sample(x, grid(x), mode="bicubic", align_corners=False),
}


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_windows_have_the_cpus_gradients(name, last, device):
    found = []
    for place in ("cpu", device):
        x = ((rl.arange(2 * 9 * 11 * 10) * 7919 % 1013) / 1013).reshape(2, 9, 11, 10).to(place)
        x = (x.contiguous(memory_format=rl.channels_last) if last else x).requires_grad_()
        y = CASES[name](x)
        y.backward(y.detach() * 2 + 1)
        found.append((y.detach().cpu(), x.grad.cpu()))
    for want, got in zip(*found, strict=True):
        assert rl.allclose(got, want, rtol=1e-5, atol=1e-5)
