"""Instance normalization: every channel of every sample by itself, with its lazy forms.

Enters: [N,] C and the dims normalized over. Leaves: the same shape. Refuses inputs of another rank, and,
with learned scales, another number of channels.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
from .batchnorm import _expect, _LazyNormBase, _NormBase
from .descriptions import describe_layers


class _InstanceNorm(_NormBase):
    """Normalization of every channel of every sample by itself.

    Shape:
        input (N, C, {sizes}) or (C, {sizes}); output of the same shape

    Example:
        >>> layer = rl.nn.{name}(4)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {8})
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    rank = 3

    def _check_input_dim(self, input: Tensor) -> None:
        _expect(input, self.rank - 1, self.rank)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self.rank + 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got:"
                    f" {input.size(channels)}."
                )
        alone = input.dim() == self.rank - 1
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        batch = input.unsqueeze(0) if alone else input
        result = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum, self.eps
        )
        return result.squeeze(0) if alone else result

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if stale:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(repr(k) for k in stale)} for"
                    f" {type(self).__name__} with track_running_stats=False. If state_dict is a checkpoint saved before"
                    " 0.4.0, these keys can be removed from it."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalization of every sequence of every channel by itself."""


class InstanceNorm2d(_InstanceNorm):
    """Normalization of every image of every channel by itself."""

    rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Normalization of every volume of every channel by itself."""

    rank = 5


class _LazyInstanceNorm(_LazyNormBase):
    def _count_features(self, input: Tensor) -> int:
        return input.shape[input.dim() - self.rank + 1]


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d


describe_layers(globals())
