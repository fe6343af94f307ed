"""`torch.distributed.rpc.functions`: functions that answer a call later."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that returns a `Future`: the caller gets what that gives, and no thread waits meanwhile."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn      # type: ignore[attr-defined]
    return wrapper
