"""Devices that do what they must not: the error names device, method and op, and everything else goes on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.devices import register

from .async_device import AsyncDevice
from .reference_device import ReferenceDevice

numbers = itertools.count()


def chip(**methods: Any) -> ReferenceDevice:
    """A sound device of a class of its own, whose methods can be exchanged, registered."""
    device = type("Chip", (ReferenceDevice,), methods)(f"badchip{next(numbers)}")
    register(device)
    return device


OTHER, CHIP = chip(), chip()      # the core has room for 64 kinds of devices: tests share where they can


def boom(*args: Any) -> Any:
    raise ValueError("boom")


def works(*names: str) -> bool:
    return all((rl.ones(2, device=name) + 1).tolist() == [2, 2] for name in ("cpu", *names))


CALLS: dict[str, Callable[[Any], Any]] = {
    "launch": lambda x: x.exp(), "load": lambda x: x.sin(), "copy_to_host": lambda x: x.tolist(),
    "copy_from_host": lambda x: rl.ones(3).to(x.device), "synchronize": lambda x: rl._C.synchronize(x.device, -1),
}


@pytest.mark.parametrize("method", CALLS)
def test_what_a_method_raises_says_where(method):
    other, device = OTHER, CHIP
    x = rl.ones(3, device=device.name)
    setattr(type(device), method, boom)
    op = {"launch": "exp", "load": "sin"}.get(method, "")
    with pytest.raises(rl.AcceleratorError, match=f"{op}.*device '{device.name}' failed in {method}.*boom") as caught:
        CALLS[method](x)
    assert isinstance(caught.value.__cause__, ValueError)
    assert works(other.name)
    delattr(type(device), method)
    assert works(device.name) and x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("address", [None, "here", 0, 7, -64, 1 << 70, 2.5])
def test_addresses_that_are_none(address):
    device, much = CHIP, 8 << 20      # what is cached has no room for it
    type(device).allocate = lambda self, nbytes, index: address
    with pytest.raises(rl.AcceleratorError, match=f"device '{device.name}' failed in allocate.*address"):
        rl.empty(much, device=device.name)
    del type(device).allocate
    assert works(device.name)


def test_memory_that_is_given_twice():
    device = chip()
    place = device.allocate(64 << 20, 0)
    type(device).allocate = lambda self, nbytes, index: place
    x = rl.ones(3, device=device.name)
    with pytest.raises(rl.AcceleratorError, match=f"allocate: device '{device.name}:0' gave address .* still in use"):
        for _ in range(3):
            rl.empty(8 << 20, device=device.name)
    assert x.tolist() == [1, 1, 1]


def test_a_full_device_is_out_of_memory():
    def allocate(self: Any, nbytes: int, index: int) -> int:
        raise MemoryError("all of it is in use")

    type(CHIP).allocate = allocate
    with pytest.raises(rl.OutOfMemoryError, match=f"{CHIP.name}:0.*all of it is in use"):
        rl.empty(8 << 20, device=CHIP.name)
    del type(CHIP).allocate
    assert works(CHIP.name)


@pytest.mark.parametrize("answer", ["two", -2])
def test_units_that_cannot_be_counted(answer):
    device = chip(device_count=lambda self: answer)
    with pytest.raises(rl.AcceleratorError, match=f"device_count: device '{device.name}'"):
        rl.ones(1, device=device.name)


def test_a_kernel_that_is_none():
    device = chip(load=lambda self, nest: None)
    with pytest.raises(rl.AcceleratorError, match=f"fill: device '{device.name}' failed in load.*None"):
        rl.ones(1, device=device.name)


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [(name, RuntimeError, "already") for name in ("cpu", "meta", "cuda")]
    + [(name, ValueError, "tensors have") for name in ("add", "sparse", "grad")]
    + [(name, ValueError, "a word") for name in ("", "a b", "chip:0", None)],
)
def test_names_that_are_taken(name, kind, why):
    before = rl.Tensor.add
    with pytest.raises(kind, match=why):
        register(ReferenceDevice(name))
    assert rl.Tensor.add is before and works()


def test_a_device_is_registered_once():
    device = OTHER
    x = rl.ones(2, device=device.name)
    with pytest.raises(RuntimeError, match=f"there is a device '{device.name}' already"):
        register(ReferenceDevice(device.name))
    assert (x + 1).tolist() == [2, 2]
    with pytest.raises(TypeError, match="expected a Device, got object"):
        register(object())


def test_a_worker_that_raises_is_heard_when_it_is_waited_for():
    class Worker(AsyncDevice):
        is_broken = False

        def launch(self, *args: Any) -> None:
            index, stream = args[-2:]
            self.later(index, stream, boom) if self.is_broken else super().launch(*args)

    device = Worker("badworker", rest=0.0)
    register(device)
    x = rl.ones(3, device="badworker")
    device.is_broken = True
    with pytest.raises(rl.AcceleratorError, match="device 'badworker' failed in synchronize.*boom"):
        (x + 1).tolist()
    device.is_broken = False
    assert (x + 1).tolist() == [2, 2, 2]


def test_launches_that_fail_in_a_backward_and_in_threads():
    device = CHIP
    x = rl.ones(3, device=device.name).requires_grad_()
    loss = (x.exp() * 2).sum()
    type(device).launch = boom
    with pytest.raises(rl.AcceleratorError, match=f"device '{device.name}' failed in launch"):
        loss.backward()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            x.detach() + 1
        except rl.AcceleratorError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "add" in str(errors[0])
    del type(device).launch
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_programs_that_are_stopped_stop():
    def stop(*args: Any) -> Any:
        raise KeyboardInterrupt

    x = rl.ones(3, device=CHIP.name)
    type(CHIP).launch = stop
    with pytest.raises(KeyboardInterrupt):
        x + 1
    del type(CHIP).launch
