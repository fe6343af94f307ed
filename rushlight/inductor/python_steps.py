"""Steps of a plan that are calls of Python. Plans that were found on disk need these and nothing else of the inductor.

Enters: what a step calls, and how its operands are looked at. Leaves: a function of the operands' tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..devices.rehearsal import rehearsal
from ..op.extern import called_into
from .values import Value, is_value, map_values


def called(overload: Any, inputs: Sequence[Value], args: Any, single: bool, begins: Callable | None) -> Callable:
    """An op that is called: its results are copied to where the plan has room for them. `begins`: the same for one that
    fills that room itself, later."""
    count = len(inputs)
    parts = [None if v.is_whole else v for v in inputs]
    is_one_list = len(args) == 1 and isinstance(args[0], (list, tuple)) and all(map(is_value, args[0]))

    def run(*tensors: Any) -> None:
        operands = [t if v is None else v.of(t) for v, t in zip(parts, tensors[:count], strict=True)]
        if is_one_list:
            given = (operands,)
        else:
            left = iter(operands)
            given = map_values(args, lambda v: next(left), is_value)
        if begins is not None:
            begins(tensors[count], *given)
            return
        writes_only = len(tensors) == count       # to what it is given: nothing comes out
        if not single or writes_only or tensors[0].device.type == "cpu":
            fresh = overload.call(*given)
        else:
            fresh = called_into(overload, tensors[count], given)
        for target, source in zip(tensors[count:], (fresh,) if single else fresh, strict=False):
            if target is not source:
                target.copy_(source)

    return run


def looking(kernel: Callable, looks: Sequence[Value | None]) -> Callable:
    """A function that is handed tensors which look at part of a buffer."""

    def call(*tensors: Any) -> None:
        if rehearsal.running and not getattr(kernel, "rehearses", False):
            return
        kernel(*[t if v is None else v.of(t) for v, t in zip(looks, tensors, strict=True)])

    return call
