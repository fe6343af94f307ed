"""`torch.autograd.profiler`: labels for stretches of a program.
The profiler that would collect them is not written yet.

Enters: labels. Leaves: nothing while no profiler runs, as in PyTorch; `profile` itself refuses when it is used.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

from ..base.refusals import names_of


class ProfilerActivity(enum.Enum):
    """What a profiler can watch."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class record_function:  # noqa: N801 - PyTorch's name
    """Labels what runs within a `with`, or a function as its decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: the name must be a str, got {type(name).__name__}")
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return labelled


def kineto_available() -> bool:
    """Whether the tracing library of PyTorch's profiler is there."""
    return False


globals().update(names_of("torch.autograd.profiler"))
