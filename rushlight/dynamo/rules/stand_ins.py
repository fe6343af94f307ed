"""Python that is interpreted in the place of functions of Python's library which look things up in caches of theirs.

Enters: the arguments of those functions, in captured programs. Leaves: what they give, without the cache. Refuses
nothing: what these call, the program would call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def bound_dispatch(descriptor: Any, owner: Any, cls: type | None = None) -> Callable:
    """`functools.singledispatchmethod.__get__`: the method that is chosen by the class of its first argument."""
    dispatch = descriptor.dispatcher.dispatch

    def method(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{descriptor.func.__name__} requires at least 1 positional argument")
        return dispatch(args[0].__class__).__get__(owner, cls)(*args, **kwargs)

    method.register = descriptor.register  # type: ignore[attr-defined]
    return functools.update_wrapper(method, descriptor.func)
