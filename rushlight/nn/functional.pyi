"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
from rushlight.nn.scaling import ScalingType as ScalingType
from rushlight.nn.scaling import SwizzleType as SwizzleType
def adaptive_avg_pool1d(
    input: Tensor, output_size: Any, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_avg_pool2d(
    input: Tensor, output_size: Any, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_avg_pool3d(
    input: Tensor, output_size: Any, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: builtins.bool = False, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: builtins.bool = True, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: builtins.bool = False, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: builtins.bool = True, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: builtins.bool = False, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: builtins.bool = True, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def affine_grid(
    theta: Tensor, size: builtins.int | Sequence[builtins.int], align_corners: builtins.bool | None = None,
) -> Tensor: ...
@overload
def alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...
@overload
def alpha_dropout(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False,
) -> Tensor: ...
def avg_pool1d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True,
    divisor_override: builtins.int | None = None, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True,
    divisor_override: builtins.int | None = None, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
@overload
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool,
) -> Tensor: ...
@overload
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float = 0.1,
    eps: builtins.float = 1e-05,
) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
@overload
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction: builtins.int) -> Tensor: ...
@overload
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None, reduction: builtins.str = 'mean', pos_weight: Tensor | None = None,
) -> Tensor: ...
@overload
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: builtins.int,
) -> Tensor: ...
def celu(input: Tensor, alpha: builtins.float = 1.0) -> Tensor: ...
def celu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor: ...
def channel_shuffle(
    input: Tensor, groups: builtins.int, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., dilation: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.str = 'valid', dilation: builtins.int | Sequence[builtins.int] = ..., groups: builtins.int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., dilation: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.str = 'valid', dilation: builtins.int | Sequence[builtins.int] = ..., groups: builtins.int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., dilation: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.str = 'valid', dilation: builtins.int | Sequence[builtins.int] = ..., groups: builtins.int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: builtins.int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., output_padding: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1, dilation: builtins.int | Sequence[builtins.int] = ...,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., output_padding: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1, dilation: builtins.int | Sequence[builtins.int] = ...,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: builtins.int | Sequence[builtins.int] = ...,
    padding: builtins.int | Sequence[builtins.int] = ..., output_padding: builtins.int | Sequence[builtins.int] = ...,
    groups: builtins.int = 1, dilation: builtins.int | Sequence[builtins.int] = ...,
) -> Tensor: ...
@overload
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float, reduction: builtins.int,
) -> Tensor: ...
@overload
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0,
    size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor: ...
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
    ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
    label_smoothing: builtins.float = 0.0,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: builtins.int = 0,
    reduction: builtins.str = 'mean', zero_infinity: builtins.bool = False,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: builtins.int | Sequence[builtins.int],
    target_lengths: builtins.int | Sequence[builtins.int], blank: builtins.int = 0, reduction: builtins.str = 'mean',
    zero_infinity: builtins.bool = False,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: builtins.int = 0,
    reduction: builtins.int = 1, zero_infinity: builtins.bool = False,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: builtins.int | Sequence[builtins.int],
    target_lengths: builtins.int | Sequence[builtins.int], blank: builtins.int = 0, reduction: builtins.int = 1,
    zero_infinity: builtins.bool = False,
) -> Tensor: ...
@overload
def dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...
@overload
def dropout(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False,
) -> Tensor: ...
def dropout1d(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False,
) -> Tensor: ...
def dropout2d(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False,
) -> Tensor: ...
def dropout3d(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False,
) -> Tensor: ...
def elu(input: Tensor, alpha: Number = 1.0) -> Tensor: ...
def elu_(input: Tensor, alpha: Number = 1.0) -> Tensor: ...
def embedding(
    input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None, max_norm: builtins.float | None = None,
    norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False,
) -> Tensor: ...
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: builtins.float | None = None,
    norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, mode: builtins.str = 'mean',
    sparse: builtins.bool = False, per_sample_weights: Tensor | None = None, include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
) -> Tensor: ...
@overload
def feature_alpha_dropout(input: Tensor, p: builtins.float, train: builtins.bool) -> Tensor: ...
@overload
def feature_alpha_dropout(
    input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False,
) -> Tensor: ...
def fold(
    input: Tensor, output_size: builtins.int | Sequence[builtins.int],
    kernel_size: builtins.int | Sequence[builtins.int], dilation: builtins.int | Sequence[builtins.int] = 1,
    padding: builtins.int | Sequence[builtins.int] = 0, stride: builtins.int | Sequence[builtins.int] = 1,
) -> Tensor: ...
def fractional_max_pool2d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    output_size: builtins.int | Sequence[builtins.int] | None = None, output_ratio: Any = None,
    return_indices: builtins.bool = False, _random_samples: Tensor | None = None,
) -> Tensor: ...
def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    output_size: builtins.int | Sequence[builtins.int] | None = None, output_ratio: Any = None,
    return_indices: builtins.bool = True, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def fractional_max_pool3d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    output_size: builtins.int | Sequence[builtins.int] | None = None, output_ratio: Any = None,
    return_indices: builtins.bool = False, _random_samples: Tensor | None = None,
) -> Tensor: ...
def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    output_size: builtins.int | Sequence[builtins.int] | None = None, output_ratio: Any = None,
    return_indices: builtins.bool = True, _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | Number, full: builtins.bool = False, eps: builtins.float = 1e-06,
    reduction: builtins.str = 'mean',
) -> Tensor: ...
def gelu(
    input: Tensor, *, approximate: builtins.str = 'none', out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def glu(input: Tensor, dim: builtins.int = -1, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def grid_sample(
    input: Tensor, grid: Tensor, mode: builtins.str = 'bilinear', padding_mode: builtins.str = 'zeros',
    align_corners: builtins.bool | None = None,
) -> Tensor: ...
def group_norm(
    input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: builtins.float = 1e-05,
) -> Tensor: ...
def grouped_mm(
    input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: _dtype | None = None, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def gumbel_softmax(
    logits: Tensor, tau: builtins.float = 1.0, hard: builtins.bool = False, eps: builtins.float = 1e-10,
    dim: builtins.int = -1,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: Number = 0.5, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def hardsigmoid(input: Tensor) -> Tensor: ...
def hardsigmoid_(input: Tensor) -> Tensor: ...
def hardswish(input: Tensor) -> Tensor: ...
def hardswish_(input: Tensor) -> Tensor: ...
def hardtanh(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor: ...
@overload
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float, reduction: builtins.int) -> Tensor: ...
@overload
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: builtins.float = 1.0, size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def huber_loss(
    input: Tensor, target: Tensor, reduction: builtins.str = 'mean', delta: builtins.float = 1.0,
    weight: Tensor | None = None,
) -> Tensor: ...
@overload
def huber_loss(input: Tensor, target: Tensor, reduction: builtins.int, delta: builtins.float = 1.0) -> Tensor: ...
@overload
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    use_input_stats: builtins.bool, momentum: builtins.float, eps: builtins.float, cudnn_enabled: builtins.bool,
) -> Tensor: ...
@overload
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: builtins.bool = True, momentum: builtins.float = 0.1,
    eps: builtins.float = 1e-05,
) -> Tensor: ...
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: builtins.str = 'nearest',
    align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None,
    antialias: builtins.bool = False,
) -> Tensor: ...
@overload
def kl_div(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean', log_target: builtins.bool = False,
) -> Tensor: ...
@overload
def kl_div(input: Tensor, target: Tensor, reduction: builtins.int, *, log_target: builtins.bool = False) -> Tensor: ...
@overload
def l1_loss(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean', weight: Tensor | None = None,
) -> Tensor: ...
@overload
def l1_loss(input: Tensor, target: Tensor, reduction: builtins.int) -> Tensor: ...
def layer_norm(
    input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True,
) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: Number = 0.01) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: Number = 0.01) -> Tensor: ...
def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: builtins.str = 'mean', ignore_index: builtins.int | None = None,
    label_smoothing: builtins.float = 0.0, options: Any = None,
) -> Tensor: ...
def local_response_norm(
    input: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75,
    k: builtins.float = 1.0,
) -> Tensor: ...
@overload
def log_softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None) -> Tensor: ...
@overload
def log_softmax(
    input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: _dtype | None = None,
) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def lp_pool1d(
    input: Tensor, norm_type: builtins.float, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, ceil_mode: builtins.bool = False,
) -> Tensor: ...
def lp_pool2d(
    input: Tensor, norm_type: builtins.float, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, ceil_mode: builtins.bool = False,
) -> Tensor: ...
def lp_pool3d(
    input: Tensor, norm_type: builtins.float, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, ceil_mode: builtins.bool = False,
) -> Tensor: ...
@overload
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float, reduction: builtins.int,
) -> Tensor: ...
@overload
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0,
    size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
def max_pool1d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = True, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def max_pool2d_with_indices(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = True, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pool3d(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def max_pool3d_with_indices(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    dilation: builtins.int | Sequence[builtins.int] = 1, ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = True, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    output_size: builtins.int | Sequence[builtins.int] | None = None,
) -> Tensor: ...
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    output_size: builtins.int | Sequence[builtins.int] | None = None,
) -> Tensor: ...
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    stride: builtins.int | Sequence[builtins.int] | None = None, padding: builtins.int | Sequence[builtins.int] = 0,
    output_size: builtins.int | Sequence[builtins.int] | None = None,
) -> Tensor: ...
def mish(input: Tensor) -> Tensor: ...
def mish_(input: Tensor) -> Tensor: ...
@overload
def mse_loss(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean', weight: Tensor | None = None,
) -> Tensor: ...
@overload
def mse_loss(input: Tensor, target: Tensor, reduction: builtins.int) -> Tensor: ...
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: builtins.int, num_heads: builtins.int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: builtins.bool, dropout_p: builtins.float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: builtins.bool = True, key_padding_mask: Tensor | None = None, need_weights: builtins.bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: builtins.bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: builtins.bool = True,
    is_causal: builtins.bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def multi_margin_loss(
    input: Tensor, target: Tensor, p: Number = 1, margin: builtins.float = 1.0, weight: Tensor | None = None,
    size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def multi_margin_loss(
    input: Tensor, target: Tensor, p: builtins.int, margin: builtins.float, weight: Tensor | None,
    reduction: builtins.int,
) -> Tensor: ...
@overload
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: builtins.int) -> Tensor: ...
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
def native_channel_shuffle(
    input: Tensor, groups: builtins.int, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
@overload
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
    ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: builtins.int, ignore_index: builtins.int = -100,
) -> Tensor: ...
def normalize(
    input: Tensor, p: builtins.float = 2.0, dim: Any = 1, eps: builtins.float = 1e-12, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def one_hot(input: Tensor, num_classes: builtins.int = -1) -> Tensor: ...
def pad(
    input: Tensor, pad: builtins.int | Sequence[builtins.int], mode: builtins.str = 'constant',
    value: builtins.float | None = None,
) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False,
) -> Tensor: ...
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor: ...
def pixel_shuffle(
    input: Tensor, upscale_factor: builtins.int, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def pixel_unshuffle(
    input: Tensor, downscale_factor: builtins.int, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
@overload
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False,
    size_average: builtins.bool | None = None, eps: builtins.float = 1e-08, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: builtins.bool, full: builtins.bool, eps: builtins.float,
    reduction: builtins.int,
) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
from rushlight.op.registry import published as published
def relu(input: Tensor) -> Tensor: ...
def relu6(input: Tensor) -> Tensor: ...
def relu6_(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def rms_norm(
    input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None,
    eps: builtins.float | None = None,
) -> Tensor: ...
@overload
def rrelu(
    input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False, inplace: builtins.bool = False,
) -> Tensor: ...
@overload
def rrelu(
    input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False, generator: _Generator | None = None,
) -> Tensor: ...
@overload
def rrelu_(
    input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False, inplace: builtins.bool = False,
) -> Tensor: ...
@overload
def rrelu_(
    input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False, generator: _Generator | None = None,
) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0,
    is_causal: builtins.bool = False, *, scale: builtins.float | None = None, enable_gqa: builtins.bool = False,
) -> Tensor: ...
def scaled_grouped_mm(
    mat_a: Tensor, mat_b: Tensor, scale_a: Any, scale_recipe_a: Any, scale_b: Any, scale_recipe_b: Any,
    swizzle_a: Any = None, swizzle_b: Any = None, bias: Tensor | None = None, offs: Tensor | None = None,
    output_dtype: Any = 'bfloat16', contraction_dim: builtins.int | Sequence[builtins.int] = ...,
    use_fast_accum: builtins.bool = False,
) -> Tensor: ...
def scaled_mm(
    mat_a: Tensor, mat_b: Tensor, scale_a: Any, scale_recipe_a: Any, scale_b: Any, scale_recipe_b: Any,
    swizzle_a: Any = None, swizzle_b: Any = None, bias: Tensor | None = None, output_dtype: Any = 'bfloat16',
    contraction_dim: builtins.int | Sequence[builtins.int] = ..., use_fast_accum: builtins.bool = False,
) -> Tensor: ...
def selu(input: Tensor) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def silu(input: Tensor) -> Tensor: ...
def silu_(input: Tensor) -> Tensor: ...
@overload
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean', beta: builtins.float = 1.0,
) -> Tensor: ...
@overload
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: builtins.int, beta: builtins.float = 1.0) -> Tensor: ...
@overload
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
    reduction: builtins.str = 'mean',
) -> Tensor: ...
@overload
def soft_margin_loss(input: Tensor, target: Tensor, reduction: builtins.int) -> Tensor: ...
@overload
def softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None) -> Tensor: ...
@overload
def softmax(
    input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: _dtype | None = None,
) -> Tensor: ...
@overload
def softmin(input: Tensor, dim: builtins.int, dtype: _dtype | None = None) -> Tensor: ...
@overload
def softmin(
    input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: _dtype | None = None,
) -> Tensor: ...
def softplus(
    input: Tensor, beta: Number = 1.0, threshold: Number = 20.0, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def softshrink(
    input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
from rushlight.op.registry import spelled as spelled
def tanh(input: Tensor, *, out: Tensor | tuple[Tensor, ...] | None = None) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def threshold(
    input: Tensor, threshold: Number, value: Number, *, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def threshold_(input: Tensor, threshold: Number, value: Number) -> Tensor: ...
@overload
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float, p: builtins.float, eps: builtins.float,
    swap: builtins.bool, reduction: builtins.int,
) -> Tensor: ...
@overload
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2.0,
    eps: builtins.float = 1e-06, swap: builtins.bool = False, size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None, reduction: builtins.str = 'mean',
) -> Tensor: ...
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: builtins.float = 1.0,
    swap: builtins.bool = False, reduction: builtins.str = 'mean',
) -> Tensor: ...
def unfold(
    input: Tensor, kernel_size: builtins.int | Sequence[builtins.int],
    dilation: builtins.int | Sequence[builtins.int] = 1, padding: builtins.int | Sequence[builtins.int] = 0,
    stride: builtins.int | Sequence[builtins.int] = 1,
) -> Tensor: ...
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: builtins.str = 'nearest',
    align_corners: builtins.bool | None = None,
) -> Tensor: ...
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor: ...
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor: ...
