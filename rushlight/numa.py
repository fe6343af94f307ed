"""Which processors of a machine with several memories a process runs on. The settings can be made;
binding is not written yet."""

from __future__ import annotations

__path__: list[str] = []     # `torch.numa.binding` is found through `homes`


from dataclasses import dataclass
from enum import Enum


class AffinityMode(str, Enum):  # noqa: UP042 - as PyTorch's, whose text is that of an Enum
    """How far a process may spread."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """What is wished for, and whether a process may start without it."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
