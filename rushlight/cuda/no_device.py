"""Functions that need a CUDA device: they work where there is one, and raise NoDeviceError where there is none, an
AssertionError as of PyTorch built for the CPU alone, and a RuntimeError as of others."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base import late
from ..devices.base import NoDeviceError, no_cuda


def found() -> Any:
    """The CUDA device, or None: the driver is looked for when this is first asked."""
    return late.provided("cuda device")()


def _real() -> Any:
    """What the functions do where there is a device."""
    from . import on_device as functions  # most programs never come here

    return functions


def _no_device(what: str) -> NoReturn:
    if found() is not None:
        raise NotImplementedError(
            f"cuda.{what}: not written yet for Rushlight's CUDA device. Do without it, or use device='cpu'."
        )
    raise NoDeviceError(f"cuda.{what}: {no_cuda()}")


def _needs_device(name: str, module: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        function = getattr(_real(), name, None) if found() is not None else None
        return _no_device(name) if function is None else function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__module__ = module
    call.__doc__ = f"Needs a CUDA device: raises AssertionError where there is none. ({name})"
    return call
