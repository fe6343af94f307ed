"""`ops.quantized`: normalisation of quantized tensors.

Enters: tensors quantized per tensor, float32 statistics, weights and biases, the scale and zero point of the result.
Leaves: quantized tensors with PyTorch's integers. Refuses: weights of other sizes, inputs of other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..definitions.quantized.norms import batch_normalised, check_input, group_normalised, layer_normalised
from .namespace import define


def _batch_norm(name: str, ranks: Sequence[int], relu: bool) -> None:
    def run(
        qx: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, output_scale: float, output_zero_point: int
    ) -> Any:
        return batch_normalised(
            f"quantized::{name}", ranks, qx, weight, bias, mean, var, eps, output_scale, output_zero_point, relu
        )

    define(
        f"quantized::{name}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float"
        " output_scale, int output_zero_point) -> Tensor"
    )(run)


for _name, _ranks in (("batch_norm", (2, 3, 4, 5)), ("batch_norm1d", (2, 3)), ("batch_norm2d", (4,)),
                      ("batch_norm3d", (5,))):
    _batch_norm(_name, _ranks, False)
    _batch_norm(_name + "_relu", _ranks, True)


@define(
    "quantized::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, float"
    " output_scale, int output_zero_point) -> Tensor"
)
def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float, output_scale: float,
    output_zero_point: int,
) -> Any:
    check_input("quantized::layer_norm", input)
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError("quantized::layer_norm: expected normalized_shape to be at least 1-dimensional, got []")
    for label, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != shape:
            raise RuntimeError(
                f"quantized::layer_norm: expected {label} to be of same shape as normalized_shape, got {list(t.shape)}"
                f" and {list(shape)}"
            )
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"quantized::layer_norm: given normalized_shape={list(shape)}, expected input with shape [*,"
            f" {', '.join(map(str, shape))}], but got input of size {list(input.shape)}"
        )
    count = 1
    for n in shape:
        count *= n
    return layer_normalised(input, count, weight, bias, eps, output_scale, output_zero_point)


def check_groups(name: str, input: Any, groups: int, weight: Any, bias: Any) -> None:
    """Raise for inputs without channels and pixels, and for numbers of groups and weights that do not fit."""
    check_input(f"quantized::{name}", input)
    if input.ndim < 3:
        raise RuntimeError(f"quantized::{name}: expected an input with at least 3 dimensions, got {input.ndim}")
    channels = input.shape[1]
    if groups < 1 or channels % groups or not channels:
        raise RuntimeError(
            f"quantized::{name}: expected channels to be divisible by groups, got {channels} channels and {groups}"
            " groups"
        )
    for label, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.numel() != channels:
            raise RuntimeError(
                f"quantized::{name}: expected one element of {label} for each of {channels} channels, got {t.numel()}"
            )


@define(
    "quantized::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, float output_scale,"
    " int output_zero_point) -> Tensor"
)
def group_norm(
    input: Any, num_groups: int, weight: Any, bias: Any, eps: float, output_scale: float, output_zero_point: int
) -> Any:
    check_groups("group_norm", input, num_groups, weight, bias)
    return group_normalised(input, num_groups, weight, bias, eps, output_scale, output_zero_point)


@define(
    "quantized::instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, int"
    " output_zero_point) -> Tensor"
)
def instance_norm(
    input: Any, weight: Any, bias: Any, eps: float, output_scale: float, output_zero_point: int
) -> Any:
    check_groups("instance_norm", input, input.shape[1] if input.ndim > 1 else 1, weight, bias)
    return group_normalised(input, input.shape[1], weight, bias, eps, output_scale, output_zero_point)
