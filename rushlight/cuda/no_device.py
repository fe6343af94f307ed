"""Functions that need a CUDA device, of which there is none: they raise AssertionError, as PyTorch built for the CPU alone does."""

from __future__ import annotations

from typing import Any, NoReturn


def _no_device(what: str) -> NoReturn:
    raise AssertionError(f"cuda.{what}: Torch not compiled with CUDA enabled: this build of Rushlight has no CUDA devices")


def _needs_device(name: str, module: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _no_device(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__doc__ = f"Needs a CUDA device, of which there is none: raises AssertionError. ({name})"
    return refuse
