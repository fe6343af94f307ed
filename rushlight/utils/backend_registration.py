"""Devices outside the tree: PyTorch has one name to give away,
Rushlight any number of devices with names of their own."""

from __future__ import annotations

from typing import Any

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

_HOW = (
    "A device here is a class: derive from rushlight.devices.Device and call rushlight.devices.register; it brings its"
    " own name and methods."
)


def rename_privateuse1_backend(backend_name: str) -> None:
    """Refused: devices are registered under their own names."""
    raise NotImplementedError(f"rename_privateuse1_backend({backend_name!r}): {_HOW}")


def generate_methods_for_privateuse1_backend(for_tensor: bool = True, for_module: bool = True,
                                             for_packed_sequence: bool = True, for_storage: bool = False,
                                             unsupported_dtype: Any = None) -> None:
    """Refused: registering a device makes its methods."""
    raise NotImplementedError(f"generate_methods_for_privateuse1_backend: {_HOW}")


def _get_custom_mod_func(func_name: str) -> Any:
    raise NotImplementedError(f"_get_custom_mod_func({func_name!r}): {_HOW}")
