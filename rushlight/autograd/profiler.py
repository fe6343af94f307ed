"""`torch.autograd.profiler`: labels for stretches of a program.
The profiler that would collect them is not written yet.

Enters: labels. Leaves: nothing while no profiler runs, as in PyTorch; `profile` itself refuses when it is used.
"""

from __future__ import annotations

import enum

from ..base.refusals import names_of
from .labels import record_function as record_function


class ProfilerActivity(enum.Enum):
    """What a profiler can watch."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def kineto_available() -> bool:
    """Whether the tracing library of PyTorch's profiler is there."""
    return False


globals().update(names_of("torch.autograd.profiler"))
