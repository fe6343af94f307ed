"""Where models run: the devices that an operator or an archive names.

Enters: names of devices, by model ("" for all others), and what model-config.yaml says. Leaves: the devices of a
model, of which each worker gets one. Refuses: devices that the machine does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .refusals import LoadError

Devices = Mapping[str, tuple[str, ...]]


def check_device(name: str, what: str = "--device") -> None:
    """LoadError where this machine has no such device."""
    if name == "cpu":
        return
    from .. import cuda  # opens the driver, which few servers need

    count = cuda.device_count() if cuda.is_available() else 0
    if int(name.partition(":")[2] or 0) >= count:
        raise LoadError(f"{what}: expected a device of this machine, which has {count} of CUDA, got {name!r}")


def devices_of(name: str, devices: Devices, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a model runs: what the command says of it, else its own file, else what the command says of all."""
    found = devices.get(name) or _configured(config) or devices.get("", ("cpu",))
    for one in found:
        check_device(one, f"model {name!r}")
    return found


def _configured(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What TorchServe's keys say: `deviceType` and `deviceIds`."""
    kind, numbers = config.get("deviceType"), config.get("deviceIds")
    if kind is None and numbers is None:
        return None
    if kind not in (None, "cpu", "gpu"):
        raise LoadError(f"model-config.yaml: expected cpu or gpu as deviceType, got {str(kind)[:40]!r}")
    if kind == "cpu":
        return ("cpu",)
    if numbers is not None and (not isinstance(numbers, list) or not numbers
                                or not all(type(n) is int and 0 <= n < 1000 for n in numbers)):
        raise LoadError(f"model-config.yaml: expected a list of numbers from 0 as deviceIds, got {str(numbers)[:40]!r}")
    return tuple(f"cuda:{n}" for n in numbers) if numbers is not None else ("cuda",)
