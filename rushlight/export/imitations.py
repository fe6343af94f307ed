"""Results of calls that are recorded whole but run step by step: their sizes alone, where the number of steps varies.

Enters: a call of a recurrent network on fakes. Leaves: fakes like its results; None where the call may simply run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._C import Tensor
from .._higher_order_ops.core import device_of

NETWORKS = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))


def imitated(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: Any) -> Any:
    """Tensors like the results of a call, if running it would fix how many steps there are."""
    if getattr(target, "_opname", None) not in NETWORKS or len(args) < 9 or kwargs:
        return None
    input, hx, _, _, _, _, _, bidirectional, batch_first = args[:9]
    if not isinstance(input, Tensor) or isinstance(args[3], (tuple, list)) or input.ndim != 3:
        return None
    if type(input.shape[1 if batch_first else 0]) is int:
        return None
    states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
    width = states[0].shape[2] * (2 if bidirectional else 1)

    def like(shape: tuple) -> Any:
        return mode.empty(shape, None, input.dtype, device_of(input))

    return like((*input.shape[:2], width)), *[like(tuple(s.shape)) for s in states]


__all__ = ["imitated"]
