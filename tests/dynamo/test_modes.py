"""Modes around compiled code and inside of it: what they see and do is what eager code shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.fake import FakeTensorMode
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._device import DeviceContext
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.flop_counter import FlopCounterMode

LAYER = nn.Linear(4, 4)
X = rl.linspace(-1, 1, 4)


class SeesKernels(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.told.append(str(func))
        return func(*args, **(kwargs or {}))


class ChangesKernels(TorchDispatchMode):
    told = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if "mul" in str(func) else result


class SeesCalls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.told.append(func.__name__)
        return func(*args, **(kwargs or {}))


class ChangesCalls(TorchFunctionMode):
    told = 0

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return (rl.cos if func is rl.sin else func)(*args, **(kwargs or {}))


class Counts(FlopCounterMode):
    def __init__(self) -> None:
        super().__init__(display=False)

    @property
    def told(self) -> int:
        return self.get_total_flops()


MODES = [SeesKernels, ChangesKernels, SeesCalls, ChangesCalls, Counts]


def body(x: Any) -> Any:
    return rl.sin(LAYER(x)) * 2 + x.sum()


def inside(kind: type) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x = x * 3
        with kind() as mode:
            y = body(x)
        return y.sin(), mode.told

    return run


def counted(x: Any) -> Any:
    with FlopCounterMode(display=False) as mode:
        y = LAYER(x[None].expand(8, 4))
    return y * 2, mode.get_total_flops()


def same(a: Any, b: Any) -> None:
    rl.testing.assert_close(a[0], b[0])
    assert a[1:] == b[1:]
    assert type(a[0]) is rl.Tensor      # no mode of capture is left behind


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("kind", MODES)
def test_entered_inside(kind: type, backend: str) -> None:
    function = inside(kind)
    compiled = rl.compile(function, backend=backend)
    for _ in range(2):
        same(compiled(X), function(X))


@pytest.mark.parametrize("was_compiled", [False, True])
@pytest.mark.parametrize("kind", MODES)
def test_active_outside(kind: type, was_compiled: bool) -> None:
    compiled = rl.compile(body)
    if was_compiled:
        compiled(X)
    found = []
    for function in (compiled, body):
        with kind() as mode:
            y = function(X)
        found.append((y, mode.told))
    same(*found)
    rl.testing.assert_close(compiled(X), body(X))


def test_a_mode_of_ours_ends_the_graph_and_says_so() -> None:
    same(rl.compile(counted)(X), counted(X))
    with pytest.raises(rl._dynamo.exc.Unsupported, match="FlopCounterMode changes what calls inside of its block do"):
        rl.compile(counted, fullgraph=True)(X)
    assert isinstance(rl.ones(2) + 1, rl.Tensor) and not rl._dynamo.is_compiling()


def made_elsewhere(x: Any) -> Any:
    with rl.device("meta"):
        z = rl.zeros(3) + 1
        y = x * 2
    return y, z.device.type, rl.ones(2).device.type


def made_by_a_context(x: Any) -> Any:
    with DeviceContext("meta"):
        z = rl.arange(3)
    return x + 1, z.device.type


def made_here(x: Any) -> Any:
    with rl.device("cpu"):
        return x + rl.ones(4), "cpu"


def chooses(x: Any) -> Any:
    rl.set_default_device("meta")
    z = rl.ones(2)
    rl.set_default_device(None)
    return x * 2, z.device.type


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [made_elsewhere, made_by_a_context, made_here, chooses])
def test_devices_as_contexts(function: Callable, backend: str) -> None:
    same(rl.compile(function, backend=backend)(X), function(X))


def test_a_device_that_is_the_default_anyway_does_not_end_the_graph() -> None:
    same(rl.compile(made_here, fullgraph=True)(X), made_here(X))
    with pytest.raises(rl._dynamo.exc.Unsupported, match="new tensors go to meta"):
        rl.compile(made_elsewhere, fullgraph=True)(X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_default_devices_are_seen(backend: str) -> None:
    compiled = rl.compile(lambda x: (x + 1, rl.zeros(3).device.type, rl.arange(3)), backend=backend)
    try:
        for device in (None, "meta", "cpu", "meta", None):
            rl.set_default_device(device)
            y, kind, made = compiled(X)
            assert kind == made.device.type == (device or "cpu") and y.device.type == "cpu"
    finally:
        rl.set_default_device(None)


def test_fake_tensors_go_to_the_default_device() -> None:
    with FakeTensorMode(), rl.device("meta"):
        assert rl.zeros(3).device.type == "meta"


def test_handles_of_hooks_may_be_made_in_a_frame() -> None:
    """They are contexts too, which change nothing until they are left."""
    layer = rl.nn.Linear(3, 3)
    seen: list[int] = []

    def hook(module: Any, args: Any, result: Any) -> None:
        seen.append(1)

    def program(x: rl.Tensor) -> rl.Tensor:
        if not layer._forward_hooks:
            layer.register_forward_hook(hook)
        return layer(x) * 2

    compiled = rl.compile(program, backend="eager", fullgraph=True)
    x = rl.ones(2, 3)
    for calls in (1, 2, 3):
        found = compiled(x)
        assert len(seen) == calls and len(layer._forward_hooks) == 1
    assert rl.allclose(found, layer(x) * 2)
