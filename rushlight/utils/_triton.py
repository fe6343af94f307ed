"""`torch.utils._triton`: whether kernels in Triton can be made here. The package may be installed; what it makes runs
on GPUs only."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from ..base import late

__all__ = ["get_triton_version", "has_triton", "has_triton_package"]


@cache
def has_triton_package() -> bool:
    """Whether the package `triton` is installed."""
    return find_spec("triton") is not None


@cache
def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The installed version's first two numbers; `fallback` where there is none."""
    if not has_triton_package():
        return fallback
    from triton import __version__ as version  # the package is large, and hardly anybody asks

    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@cache
def has_triton() -> bool:
    """Whether Triton's kernels run here: with the package, on a GPU it serves."""
    if not has_triton_package() or late.provided("cuda device")() is None:
        return False
    return late.provided("cuda").get_device_capability()[0] >= 7
