"""PyTorch's place for `RemovableHandle`; it is made in `rushlight.autograd.hooks`."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd.hooks import RemovableHandle
from ..base import late


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that pickling should warn about and drop."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn about hooks that will not be pickled with `tensor`."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. Decorate it with"
                " @utils.hooks.unserializable_hook to silence this.",
                stacklevel=2,
            )


__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]  # noqa: F822 - one is late


def __getattr__(name: str) -> Any:
    if name == "BackwardHook":   # of modules, which are above this layer
        return late.provided("BackwardHook")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
