"""Normalization layers: batch, instance, layer, group, RMS and local response, with their lazy forms.

Enters: [N, C, …] (layer and RMS norm: any leading dims). Leaves: the same shape, shifted and scaled. Batch statistics are
kept in buffers while training. Refuses inputs of another rank, and SyncBatchNorm in training mode: there is no
distributed reduction yet.
"""

from __future__ import annotations

import numbers
from typing import Any

from ... import _C
from ..._C import Tensor
from ...op.definition import find_op
from .. import functional as F, init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .settings import settings

_empty, _zeros, _ones = find_op("empty"), find_op("zeros"), find_op("ones")
_int64 = _C.int64


def _scale(module: Module, shape: tuple[int, ...], affine: bool, bias: bool, options: dict[str, Any]) -> None:
    """Register `weight` and `bias`, or their names without parameters."""
    for name, wanted in (("weight", affine), ("bias", affine and bias)):
        module.register_parameter(name, Parameter(_empty(shape, **options)) if wanted else None)


class _NormBase(Module):
    """What batch and instance norm share."""

    _version = 2
    __constants__ = ("track_running_stats", "momentum", "eps", "num_features", "affine")

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        _scale(self, (num_features,), affine, bias, options)
        tracks = track_running_stats
        self.register_buffer("running_mean", _zeros((num_features,), **options) if tracks else None)
        self.register_buffer("running_var", _ones((num_features,), **options) if tracks else None)
        self.register_buffer("num_batches_tracked", _zeros((), dtype=_int64, device=device) if tracks else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Statistics reset; scale 1, shift 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        shift = f", bias={self.bias is not None}, "
        return f"{self.num_features}, " + settings(self, "eps", "momentum", "affine") + shift + settings(self, "track_running_stats")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # States of version 1 did not count batches.
            count = self.num_batches_tracked
            state_dict[key] = count if count is not None and not count.is_meta else _zeros((), dtype=_int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if tracked else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


def _expect(input: Tensor, *ranks: int) -> None:
    if input.dim() not in ranks:
        raise ValueError(f"expected {' or '.join(f'{r}D' for r in ranks)} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalization of vectors [N, C] or sequences [N, C, L]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _expect(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of images [N, C, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _expect(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes [N, C, D, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _expect(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes; here only its evaluation mode, which needs none of them."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        process_group: Any = None, device: Any = None, dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            raise NotImplementedError("SyncBatchNorm: training needs a distributed reduction, which is not supported yet; use BatchNorm, or eval()")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The same tree with every BatchNorm replaced by a SyncBatchNorm of the same state."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            if module.affine:
                made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    rank = 3

    def _check_input_dim(self, input: Tensor) -> None:
        _expect(input, self.rank - 1, self.rank)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self.rank + 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: {input.size(channels)}.")
        alone = input.dim() == self.rank - 1
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        batch = input.unsqueeze(0) if alone else input
        made = F.instance_norm(batch, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum, self.eps)
        return made.squeeze(0) if alone else made

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool, missing_keys: list[str], unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:  # fmt: skip
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if stale:
                error_msgs.append(f"Unexpected running stats buffer(s) {' and '.join(repr(k) for k in stale)} for {type(self).__name__} with "
                                  "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, these keys can be removed from it.")  # fmt: skip
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class InstanceNorm1d(_InstanceNorm):
    """Normalization of every sequence of every channel by itself."""


class InstanceNorm2d(_InstanceNorm):
    """Normalization of every image of every channel by itself."""

    rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Normalization of every volume of every channel by itself."""

    rank = 5


class _LazyNormBase(LazyModuleMixin):
    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = _zeros((), dtype=_int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes from the first input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1] if not isinstance(self, _InstanceNorm) else input.shape[input.dim() - self.rank + 1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d


class LocalResponseNorm(Module):
    """Every channel divided by a power of the energy of its neighbours."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, " + settings(self, "alpha", "beta", "k")


class CrossMapLRN2d(Module):
    """LocalResponseNorm of images whose window is cut off at the first and last channel, as older networks had it."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2  # an even size counts as the odd one below it
        square = input * input
        energy = F.pad(square, (0, 0, 0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1).sum(-1)
        # PyTorch's running window never lets go of channel 0; its numbers are the ones trained networks know.
        later = input.size(1) - reach - 1
        if later > 0:
            energy = energy + F.pad(square[:, :1].expand(-1, later, -1, -1), (0, 0, 0, 0, reach + 1, 0))
        return input * (self.k + energy * (self.alpha / self.size)) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, " + settings(self, "alpha", "beta", "k")


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dims, then scaled and shifted."""

    __constants__ = ("normalized_shape", "eps", "elementwise_affine")

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _scale(self, self.normalized_shape, elementwise_affine, bias, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + settings(self, "eps", "elementwise_affine") + f", bias={self.bias is not None}"


class RMSNorm(Module):
    """Divided by the root of the mean square over the last dims, then scaled."""

    def __init__(self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", Parameter(_empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + settings(self, "eps", "elementwise_affine")


class GroupNorm(Module):
    """Mean 0 and variance 1 within groups of channels, then scaled and shifted per channel."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None, bias: bool = True
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _scale(self, (num_channels,), affine, bias, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, " + settings(self, "eps", "affine") + f", bias={self.bias is not None}"
