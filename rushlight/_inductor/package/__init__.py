"""PyTorch's names for packages of compiled programs."""

from __future__ import annotations

from typing import Any

from ...base import late

__all__ = ["load_package"]


def load_package(path: Any, model_name: str = "model", run_single_threaded: bool = False, num_runners: int = 1,
                 device_index: int = -1) -> Any:
    """The compiled program in a package."""
    packages = late.provided("compiled packages")
    return packages.load_package(path, model_name, run_single_threaded, num_runners, device_index)
