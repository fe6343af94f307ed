"""Errors of a device's methods, as ones that say where they come from.

Enters: what a method of a device raised, or returned that it must not. Leaves: an error that names device, method and
the kernel it was about, with what was raised as its cause. The device, and others, can be used on: nothing was changed.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late


def failure(handler: Any, method: str, error: Exception, kernel: Any = None) -> Exception:
    """The error to raise in the place of one that a device's method raised: an AcceleratorError that is of the class of
    the other too. Those that say what a device lacks, or that it is full, keep theirs."""
    op = "" if kernel is None else name_of(kernel)
    told = f"{op}: " if op else ""
    text = f"{told}device '{handler.name}' failed in {method}: {type(error).__name__}: {error}"
    kind = next((k for k in (_C.OutOfMemoryError, NotImplementedError) if isinstance(error, k)), None)
    result: Exception = (kind or kind_of(type(error)))(text)
    result.__cause__ = error
    return result


_kinds: dict[type, type[Exception]] = {}


def kind_of(raised: type[Exception]) -> type[Exception]:
    """AcceleratorError and another class in one, where Python lets them be."""
    if raised not in _kinds:
        _kinds[raised] = _joined(_C.AcceleratorError, raised)
    return _kinds[raised]


def _joined(own: type[Exception], raised: type[Exception]) -> type[Exception]:
    if issubclass(own, raised) or issubclass(raised, own):
        return own
    try:
        return type(own.__name__, (own, raised), {"__module__": own.__module__, "__init__": Exception.__init__,
                                                  "__str__": Exception.__str__})
    except TypeError:
        return own


def name_of(kernel: Any) -> str:
    """What a kernel computes: the name of its nest, which is that of the op it was made for."""
    source = late.provided("source of a kernel")(kernel) or kernel
    return str(getattr(source, "name", "")).strip("_")


_C.set_device_failure(failure)
