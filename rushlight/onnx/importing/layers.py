"""Operators that training and evaluation do differently, as modules: `train()` and `eval()` reach them.

Enters: tensors and attributes of a node. Leaves: its results. Weights are the importing module's own, and come in as
arguments; running figures of a normalization are moved in place.
"""

from __future__ import annotations

from typing import Any

from ... import _C, ops
from ...nn.modules.module import Module

aten = ops.aten


class BatchNormalization(Module):
    """Normalization over batches: by running figures in evaluation, by those of the batch (which move them) in
    training."""

    def forward(self, x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5,
                momentum: float = 0.9, training_mode: int = 0, count: int = 1, **older: Any) -> tuple:
        if training_mode:
            return _trained_norm(x, scale, shift, mean, variance, epsilon, momentum)
        kind = mean.dtype                        # figures may be wider than what is normalized
        wide = [v if v.dtype is kind else v.to(kind) for v in (x, scale, shift)]
        found = aten.batch_norm(*wide, mean, variance, self.training, 1 - momentum, epsilon, False)
        found = found if x.dtype is kind else found.to(x.dtype)
        return (found, *[None] * (count - 1))


def _trained_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, epsilon: float, momentum: float) -> tuple:
    dims = [d for d in range(x.ndim) if d != 1]
    now = aten.mean(x, dims)
    spread = aten.var(x, dims, correction=0)
    found = aten.batch_norm(x, scale.to(x.dtype), shift.to(x.dtype), None, None, True, 0.0, epsilon, False)
    return (found, mean * momentum + now.to(mean.dtype) * (1 - momentum),
            variance * momentum + spread.to(variance.dtype) * (1 - momentum))


class Dropout(Module):
    """Zeros at random while the module trains."""

    def forward(self, x: Any, ratio: Any = 0.5, training: Any = None, *, seed: int | None = None, count: int = 1,
                **older: Any) -> tuple:
        rate = float(ratio) if ratio is not None else 0.5
        if not (self.training or (training is not None and bool(training))) or rate == 0.0:
            return x, aten.ones_like(x, dtype=_C.bool)
        kept = aten.ge(aten.rand_like(x, dtype=_C.float32), rate)
        return aten.mul(aten.mul(x, kept.to(x.dtype)), 1 / (1 - rate)), kept


class OlderDropout(Module):
    """Dropout whose rate is an attribute."""

    def forward(self, x: Any, *, ratio: float = 0.5, is_test: int = 0, count: int = 1) -> tuple:
        rate = 0.0 if not self.training else ratio
        if rate == 0.0:
            return x, aten.ones_like(x, dtype=_C.bool)
        kept = aten.ge(aten.rand_like(x, dtype=_C.float32), rate)
        return aten.mul(aten.mul(x, kept.to(x.dtype)), 1 / (1 - rate)), kept
