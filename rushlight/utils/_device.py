"""Default devices as contexts: what `with device:` does, under the names libraries import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..op import published
from ._contextlib import context_decorator

_CONSTRUCTORS = (
    "empty empty_permuted empty_strided ones arange bartlett_window blackman_window eye full fill hamming_window"
    " hann_window kaiser_window linspace logspace rand randn randint randperm range sparse_coo_tensor tril_indices"
    " triu_indices zeros scalar_tensor"
)


class DeviceContext:
    """`with DeviceContext(device):` new tensors go to the device."""

    def __init__(self, device: Any) -> None:
        self.device = _C.device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.device.__exit__(*exc)


def _device_constructors() -> set[Any]:
    """The functions that make tensors where the default device says."""
    result = published("")
    return {result[name] for name in _CONSTRUCTORS.split() if name in result}


def device_decorator(device: Any, func: Callable) -> Callable:
    """`func` with another default device."""
    return context_decorator(lambda: DeviceContext(device), func)


def set_device(device: Any) -> Callable:
    """Decorator: the function runs with another default device."""
    return lambda func: device_decorator(_C.device(device), func)
