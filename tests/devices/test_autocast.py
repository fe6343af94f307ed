"""Mixed precision on registered devices: `autocast(name)` and `GradScaler(name)` have the rules of accelerators."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight.devices import register

from .reference_device import ReferenceDevice

DEVICE, BRAIN, PLAIN = (ReferenceDevice(f"amp{name}") for name in ("chip", "brain", "plain"))
BRAIN.dtypes = (rl.float32, rl.bfloat16)
PLAIN.dtypes = (rl.float32,)
for _device in (DEVICE, BRAIN, PLAIN):
    register(_device)


def test_ops_compute_in_the_types_that_accelerators_have_for_them():
    x = rl.ones(4, 4, device="ampchip")
    host = rl.ones(4, 4)
    with rl.autocast("ampchip"):
        assert (x @ x).dtype is rl.nn.functional.linear(x, x).dtype is rl.float16
        assert (x @ x).exp().dtype is (x @ x).sum().dtype is rl.float32
        assert (x + x).dtype is rl.float32 and (x.half() + x).dtype is rl.float32
        assert (host @ host).dtype is rl.float32
        assert rl.is_autocast_enabled("ampchip") and not rl.is_autocast_enabled("cpu")
        with rl.autocast("ampchip", enabled=False):
            assert (x @ x).dtype is rl.float32
    assert (x @ x).dtype is rl.float32
    with rl.autocast("ampchip", dtype=rl.bfloat16):
        assert (x @ x).dtype is rl.bfloat16


def test_a_device_claims_its_types():
    x = rl.ones(2, 2, device="ampbrain")
    assert rl.get_autocast_dtype("ampbrain") is rl.bfloat16
    with rl.autocast("ampbrain"):
        assert (x @ x).dtype is rl.bfloat16
    with pytest.warns(UserWarning, match="not supported"), rl.autocast("ampbrain", dtype=rl.float16):
        assert (x @ x).dtype is rl.float32
    with pytest.raises(RuntimeError, match="ampplain"):
        rl.autocast("ampplain")
    with pytest.raises(RuntimeError):
        rl.autocast("nosuchchip")


def test_a_scaler_steps_and_skips():
    x = rl.ones(3, device="ampchip", requires_grad=True)
    optimizer = rl.optim.SGD([x], lr=1.0)
    scaler = rl.amp.GradScaler("ampchip", init_scale=8.0, growth_interval=1)
    for factor, after, scale in ((0.5, 0.5, 16.0), (float("inf"), 0.5, 8.0)):
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler.scale((x * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert x.tolist() == [after] * 3 and scaler.get_scale() == scale


def test_a_compiled_region():
    x = rl.linspace(-1, 1, 16).reshape(4, 4).to("ampchip")

    def f(x):
        with rl.autocast("ampchip"):
            return (x @ x).relu() * 2

    eager, compiled = f(x), rl.compile(f)(x)
    assert compiled.dtype is eager.dtype is rl.float16
    assert rl.allclose(eager.cpu().float(), compiled.cpu().float(), atol=1e-2)
