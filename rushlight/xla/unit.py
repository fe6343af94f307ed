"""The device `xla` as the table of devices knows it: a lazy device of its own, with XLA behind it.

Enters: tensors moved to or made on "xla". Leaves: what `lazy` does with them. Refuses: machines without jaxlib, naming
it; types of elements that XLA does not have.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..lazy.device import LazyDevice, registered
from ..lazy.engines import register_engine
from .client import MISSING, check_dtype, is_installed
from .engine import XlaEngine

NAME = "xla"
_found: list[XlaDevice] = []


class XlaDevice(LazyDevice):
    """One unit, the processor, as XLA's CPU client has it."""

    name = NAME

    def from_host(self, target: Any, source: Any) -> None:
        check_dtype(source.dtype)
        super().from_host(target, source)


def find() -> XlaDevice | None:
    """The device; registered when it is first named. None where jaxlib is not installed."""
    if not _found and is_installed():
        register_engine(NAME, XlaEngine())
        _found.append(registered(XlaDevice()))
    return _found[0] if _found else None


def is_available() -> bool:
    """Whether tensors can be on "xla": whether jaxlib is installed."""
    return find() is not None


def require() -> XlaDevice:
    """The device, or a RuntimeError that names what is missing."""
    device = find()
    if device is None:
        raise RuntimeError(f"xla: {MISSING}")
    return device


def units() -> list[Any]:
    """The units, as devices."""
    return [_C.device(NAME, k) for k in range(require().device_count())]
