"""`torch.nn.functional` in the language of scripts.

In Python the functions of that namespace are ops, which have no source. Here are their bodies for programs that are
compiled: they run on the same ops, and go by PyTorch's names (`__torch__.torch.nn.functional.relu`), which archives hold.
`script_of` finds the body of an op; what has none here is a builtin of the language (`conv2d`, `linear`, `gelu`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...base import late
from ...base.late import import_module

_FILES = ("activations", "attention", "losses", "norms", "pooling", "sampling")


@functools.cache
def _by_identity() -> dict[int, Callable]:
    """Bodies by the identity of the function that programs name."""
    public = late.provided("package").nn.functional
    found: dict[int, Callable] = {}
    for file in _FILES:
        for name, held in vars(import_module(f"{__name__}.{file}")).items():
            if inspect.isfunction(held) and held.__module__.startswith(__name__) and not name.startswith("_"):
                op = getattr(public, name, None)
                if op is not None:
                    found[id(op)] = held
    return found


def script_of(obj: Any) -> Callable | None:
    """The body of a function of the namespace; None for anything else."""
    return _by_identity().get(id(obj))
