"""Options of calls that make tensors, as PyTorch hands them down: the device, and that memory is not pinned.

Enters: a call by ATen's overload. Leaves: the same call with PyTorch's options.
"""

from __future__ import annotations

from typing import Any

from ..devices.base import default_device

_FRESH = frozenset(("ones", "zeros", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "linspace",
                    "logspace", "eye", "empty_strided", "empty_permuted", "tril_indices", "triu_indices",
                    "scalar_tensor", "hann_window", "hamming_window", "blackman_window", "bartlett_window",
                    "kaiser_window", "normal"))
_LIKE = frozenset(("ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
                   "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided"))
_ORDER = ("generator", "names", "dtype", "layout", "device", "pin_memory", "memory_format")


def is_factory(name: str) -> bool:
    """Whether an op makes a tensor that depends on no element of another."""
    return name in _FRESH or name in _LIKE


def with_options(func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
    """A call that makes a tensor, with its options spelled out."""
    name = func._opname
    if name not in _FRESH and name not in _LIKE:
        return func, args, kwargs
    options = dict(kwargs)
    if name in _FRESH and name != "normal":
        options["device"] = options.get("device") or default_device()
    if name != "normal":
        options.setdefault("pin_memory", False)
    options = {k: v for k, v in options.items() if v is not None}
    return func, args, {k: options[k] for k in (*[k for k in options if k not in _ORDER],
                                                 *[k for k in _ORDER if k in options])}
