"""Batch normalization, with its lazy forms.

Enters: [N, C, …]. Leaves: the same shape, shifted and scaled per channel; statistics of batches are kept in buffers
while training. Refuses inputs of another rank.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...base import late
from ...op import find_op
from .. import functional as F, init
from ..parameter import UninitializedBuffer, UninitializedParameter
from .descriptions import describe_layers
from .lazy import LazyModuleMixin
from .module import Module
from .settings import register_scale, settings

_zeros, _ones = find_op("zeros"), find_op("ones")
_int64 = _C.int64


class _NormBase(Module):
    """What batch and instance norm share."""

    _version = 2
    __constants__ = ("track_running_stats", "momentum", "eps", "num_features", "affine")

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        register_scale(self, (num_features,), affine, bias, options)
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
        return (
            f"{self.num_features}, "
            + settings(self, "eps", "momentum", "affine")
            + shift
            + settings(self, "track_running_stats")
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # States of version 1 did not count batches.
            count = self.num_batches_tracked
            state_dict[key] = count if count is not None and not count.is_meta else _zeros((), dtype=_int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Normalization by the statistics of batches, or by those kept of them.

    Shape:
        input (N, C, {sizes}); output of the same shape

    Example:
        >>> layer = rl.nn.{name}(4)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {8})
    """

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
        return self._normalize(input, mean, var, by_batch, momentum)

    def _normalize(self, input: Tensor, mean: Any, var: Any, by_batch: bool, momentum: float) -> Tensor:
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


def _expect(input: Tensor, *ranks: int) -> None:
    if input.dim() not in ranks:
        raise ValueError(f"expected {' or '.join(f'{r}D' for r in ranks)} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalization of vectors [N, C] or sequences [N, C, L].

    Shape:
        input (N, C, L) or (N, C); output of the same shape
    """

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
    """Batch normalization over all processes: while training, statistics are those of their batches together.

    Outside a process group, and in evaluation, it is BatchNorm.

    Arguments:
        process_group: processes that share statistics

    Shape:
        input (N, C, ...); output of the same shape
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _normalize(self, input: Tensor, mean: Any, var: Any, by_batch: bool, momentum: float) -> Tensor:
        if by_batch and self.training and late.is_loaded("distributed"):
            distributed = late.provided("distributed")
            if distributed.is_initialized() and distributed.get_world_size(self.process_group) > 1:
                synced = late.provided("synced_batch_norm")
                return synced(input, mean, var, self.weight, self.bias, momentum, self.eps, self.process_group)
        return super()._normalize(input, mean, var, by_batch, momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The same tree with every BatchNorm replaced by a SyncBatchNorm of the same state."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            if module.affine:
                result.weight, result.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _LazyNormBase(LazyModuleMixin):
    """A norm that takes num_features from its first input.

    Example:
        >>> layer = rl.nn.{name}()
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {8})
    """

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
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

    def _count_features(self, input: Tensor) -> int:
        return input.shape[1]

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes from the first input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = self._count_features(input)
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


describe_layers(globals())
