"""ATen signatures that our ops of the same name do not have: what they compute, with our ops.

Enters: arguments by ATen's names. Leaves: results. `ADAPTERS` says for which ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..op import find_op


def _elu(self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if scale == 1 and input_scale == 1:
        return find_op("elu")(self, alpha)
    below = ((self * input_scale).expm1() * alpha) * scale
    return find_op("where")(self > 0, self * scale, below)


def _tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    return find_op("tensordot")(self, other, (list(dims_self), list(dims_other)))


def _with_indices(name: str) -> Callable:
    def pool(self: Any, output_size: Any) -> Any:
        return find_op(name)(self, output_size, True)

    return pool


_REDUCTIONS = ("none", "mean", "sum")


def _kl_div(self: Any, target: Any, reduction: int = 1, log_target: bool = False) -> Any:
    return find_op("kl_div")(self, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def _huber_loss(self: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    return find_op("huber_loss")(self, target, reduction=_REDUCTIONS[reduction], delta=delta)


def _unpool(count: int) -> Callable:
    def put_back(self: Any, indices: Any, output_size: Any, stride: Any = None, padding: Any = None) -> Any:
        """Zeros with elements at the places that a pooling found them at; a size is any that holds them."""
        lead, sizes = tuple(self.shape[: self.ndim - count]), tuple(output_size)
        flat = self.new_zeros((*lead, math.prod(sizes)))
        return flat.scatter(-1, indices.flatten(-count), self.flatten(-count)).view((*lead, *sizes))

    return put_back


def _fractional(name: str) -> Callable:
    def pool(self: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
        return find_op(name)(self, kernel_size, output_size, None, True, _random_samples=random_samples)

    return pool


ADAPTERS: dict[str, Callable] = {
    **{f"max_unpool{d}d": _unpool(d) for d in (2, 3)},
    **{f"fractional_max_pool{d}d": _fractional(f"fractional_max_pool{d}d") for d in (2, 3)},
    "elu": _elu, "tensordot": _tensordot, "kl_div": _kl_div, "huber_loss": _huber_loss,
    **{f"adaptive_max_pool{d}d": _with_indices(f"adaptive_max_pool{d}d") for d in (1, 2, 3)},
}
