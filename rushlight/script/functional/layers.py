"""Layers of `nn` whose source is not of the language: their methods as scripts.

A class here stands for the layer of its name. What it defines is compiled in the place of the layer's own method;
everything else of a layer, and every layer that is not here, is compiled from its source.
"""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import List, Optional

from ..._C import Tensor
from .language import F, torch


class Conv1d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode == "zeros":
            return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = torch.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return F.conv1d(padded, weight, bias, self.stride, (0,), self.dilation, self.groups)


class Conv2d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode == "zeros":
            return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = torch.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return F.conv2d(padded, weight, bias, self.stride, (0, 0), self.dilation, self.groups)


class Conv3d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode == "zeros":
            return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = torch.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return F.conv3d(padded, weight, bias, self.stride, (0, 0, 0), self.dilation, self.groups)


def _ints(values: List[int]) -> List[int]:
    return values


def _spatial(sizes: List[int], rank: int, dims: int) -> List[int]:
    """The last numbers of an output size, which may name batch and channels too."""
    last = sizes[rank - dims:] if len(sizes) == rank else sizes
    if len(last) != dims:
        raise ValueError(f"ConvTranspose{dims}d: output_size must have {dims} elements, or {rank} with all dims of the"
                         f" input, got {sizes}")
    return last


class _ConvTransposeNd:
    def _output_padding(self, input: Tensor, output_size: Optional[List[int]], stride: List[int], padding: List[int],
                        kernel_size: List[int], num_spatial_dims: int,
                        dilation: Optional[List[int]] = None) -> List[int]:
        if output_size is None:
            return _ints(self.output_padding)
        wanted = _spatial(output_size, input.dim(), num_spatial_dims)
        missing: List[int] = []
        for d in range(num_spatial_dims):
            gap = 1 if dilation is None else dilation[d]
            reach = gap * (kernel_size[d] - 1) + 1
            least = (input.size(d - num_spatial_dims) - 1) * stride[d] + reach - 2 * padding[d]
            missing.append(wanted[d] - least)
            if missing[d] < 0 or missing[d] >= stride[d]:
                raise ValueError(f"output_size {wanted}: dim {d} can be {least} to {least + stride[d] - 1}")
        return missing


class ConvTranspose1d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"ConvTranspose1d pads with zeros alone, got padding_mode '{self.padding_mode}'")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 1,
                                     self.dilation)
        return F.conv_transpose1d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                                  self.dilation)


class ConvTranspose2d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"ConvTranspose2d pads with zeros alone, got padding_mode '{self.padding_mode}'")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 2,
                                     self.dilation)
        return F.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                                  self.dilation)


class ConvTranspose3d:
    __annotated__ = {"bias": Optional[Tensor], "_reversed_padding_repeated_twice": List[int]}

    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"ConvTranspose3d pads with zeros alone, got padding_mode '{self.padding_mode}'")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, 3,
                                     self.dilation)
        return F.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                                  self.dilation)


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:      # the plain average of all batches
                    share = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        is_kept = self.track_running_stats or not self.training
        return F.batch_norm(input, self.running_mean if is_kept else None, self.running_var if is_kept else None,
                            self.weight, self.bias, by_batch, share, self.eps)


class BatchNorm1d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")


class _InstanceNorm:
    def _normalized(self, batch: Tensor) -> Tensor:
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(batch, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum,
                               self.eps)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self._sample_rank()
        if self.affine:
            if input.size(channels) != self.num_features:
                raise ValueError(f"input must have num_features ({self.num_features}) channels in dim {channels}, got"
                                 f" {input.size(channels)}")
        if channels == 0:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)


class InstanceNorm1d:
    def _sample_rank(self) -> int:
        return 2

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class InstanceNorm2d:
    def _sample_rank(self) -> int:
        return 3

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class InstanceNorm3d:
    def _sample_rank(self) -> int:
        return 4

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class MaxPool1d:
    def forward(self, input: Tensor):
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class MaxUnpool1d:
    def forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class LPPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class AdaptiveAvgPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool1d:
    def forward(self, input: Tensor):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class MaxPool2d:
    def forward(self, input: Tensor):
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class MaxUnpool2d:
    def forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class LPPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class AdaptiveAvgPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveMaxPool2d:
    def forward(self, input: Tensor):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AvgPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class FractionalMaxPool2d:
    def forward(self, input: Tensor):
        return F.fractional_max_pool2d(input, self.kernel_size, self.output_size, self.output_ratio,
                                       self.return_indices, _random_samples=self._random_samples)


class MaxPool3d:
    def forward(self, input: Tensor):
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
                            return_indices=self.return_indices)


class MaxUnpool3d:
    def forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class LPPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class AdaptiveAvgPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool3d:
    def forward(self, input: Tensor):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class AvgPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class FractionalMaxPool3d:
    def forward(self, input: Tensor):
        return F.fractional_max_pool3d(input, self.kernel_size, self.output_size, self.output_ratio,
                                       self.return_indices, _random_samples=self._random_samples)


class _ConstantPadNd:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class _ReflectionPadNd:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class _ReplicationPadNd:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class _CircularPadNd:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class CircularPad2d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 3 and input.dim() != 4:
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class CircularPad3d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4 and input.dim() != 5:
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class LayerNorm:
    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm:
    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class ReLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class Threshold:
    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, float(self.threshold), float(self.value), self.inplace)


class LogSigmoid:
    def forward(self, input: Tensor) -> Tensor:
        return torch.log_sigmoid(input)


class Upsample:
    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             recompute_scale_factor=self.recompute_scale_factor)


class Sequential:
    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class GaussianNLLLoss:
    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
