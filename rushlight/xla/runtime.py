"""torch_xla.runtime: what runs the programs. One process, one unit, the processor.

Enters: questions. Leaves: answers. Refuses: other kinds of devices, and SPMD.
"""

from __future__ import annotations

import os
from typing import Any

from .stepping import device as _device
from .stored import initialize_cache as initialize_cache
from .unit import require

KIND = "CPU"


def device_type() -> str:
    """The kind of PJRT's device."""
    require()
    return KIND


def set_device_type(pjrt_device: str) -> None:
    """Choose the kind of device. There is one."""
    if pjrt_device != KIND:
        raise NotImplementedError(f"set_device_type: programs run on {KIND!r} here, got {pjrt_device!r}")
    os.environ["PJRT_DEVICE"] = KIND


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """The unit `n`, which is on this process's list."""
    if devkind is not None and devkind != KIND:
        raise RuntimeError(f"xla_device: expected the kind {KIND!r}, which is the one here, got {devkind!r}")
    return _device(n)


def _one() -> int:
    require()
    return 1


def _first() -> int:
    require()
    return 0


def world_size() -> int:
    """How many units take part."""
    return _one()


def global_device_count() -> int:
    """How many units all processes have together."""
    return _one()


def global_runtime_device_count() -> int:
    """The same, as the runtime counts."""
    return _one()


def local_device_count() -> int:
    """How many units this machine has."""
    return _one()


def addressable_device_count() -> int:
    """How many units this process sees."""
    return _one()


def addressable_runtime_device_count() -> int:
    """The same, as the runtime counts."""
    return _one()


def local_process_count() -> int:
    """How many processes of this machine take part."""
    return 1


def process_count() -> int:
    """How many processes take part."""
    return 1


def process_index() -> int:
    """Which process this is."""
    return 0


def global_ordinal() -> int:
    """Which of all units this thread works for."""
    return _first()


def local_ordinal() -> int:
    """Which of this machine's units this thread works for."""
    return _first()


def is_bf16_supported() -> bool:
    """Whether programs may have elements of bfloat16."""
    return True


def is_spmd() -> bool:
    """Whether tensors are cut over units."""
    return False


def use_spmd(auto: bool = False) -> None:
    """Refused: tensors are not cut over units here."""
    raise NotImplementedError("use_spmd: sharding over units (SPMD) is not here; rushlight.distributed has DTensor,"
                              " FSDP and pipelines over processes")
