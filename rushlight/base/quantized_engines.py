"""Which engine of quantized kernels a program asked for. One set of kernels serves all of them.

Enters: PyTorch's names. Leaves: the name in force, and those this machine takes. Refuses: names that PyTorch does not
know, and engines of other processors.
"""

from __future__ import annotations

import platform

NAMES = ("none", "fbgemm", "qnnpack", "onednn", "x86")       # by PyTorch's number
_chosen: list[str] = []


def supported() -> list[str]:
    """The engines that can be chosen on this machine."""
    own = ["x86", "fbgemm"] if platform.machine() in ("x86_64", "AMD64") else []
    return ["qnnpack", "onednn", *own]


def current() -> str:
    """The engine in force."""
    return _chosen[0] if _chosen else "x86" if "x86" in supported() else "qnnpack"


def choose(name: str) -> None:
    """Ask for another engine."""
    name = name or "none"
    if name not in NAMES:
        raise RuntimeError(f"quantized.engine: expected one of {', '.join(NAMES)}, got {name}")
    if name not in supported():
        raise RuntimeError(
            f"quantized.engine: quantized engine {name} is not supported on this machine: {', '.join(supported())}"
        )
    _chosen[:] = [name]
