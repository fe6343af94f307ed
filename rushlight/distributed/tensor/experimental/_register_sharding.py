"""`register_sharding`: how an op of the program's own may be spread, or one of ours otherwise than its kind says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import _C
from ....aten.overloads import AtenOverload
from .. import _dispatch

__all__ = ["register_sharding"]


def register_sharding(op: Any) -> Callable[[Callable[..., Sequence[tuple]]], Callable[..., Sequence[tuple]]]:
    """A decorator for a function that says how `op` (an overload, or a list of them) may be spread over one dimension
    of a mesh. It gets the op's arguments, with a layout (`shape`, `ndim`, `placements`, ...) in place of each tensor,
    and gives pairs: placements of the results, and of the arguments (None for what is no tensor)."""
    overloads = [_own(one) for one in (op if isinstance(op, (list, tuple)) else [op])]

    def register(rule: Callable[..., Sequence[tuple]]) -> Callable[..., Sequence[tuple]]:
        if not callable(rule):
            raise TypeError(f"register_sharding: expected a function of the op's arguments, got {rule!r}")
        for overload in overloads:
            _dispatch.registered[overload.name] = rule
        return rule

    return register


def _own(op: Any) -> Any:
    """The overload that runs when `op` is called."""
    if isinstance(op, AtenOverload):
        if op.counterpart is None:
            raise NotImplementedError(
                f"register_sharding: what PyTorch has in {op} is several ops here, each of which has a rule already"
            )
        op = op.counterpart
    if not isinstance(op, _C.Overload):
        raise TypeError(f"register_sharding: expected an overload such as ops.aten.relu.default, got {op!r}")
    return op
