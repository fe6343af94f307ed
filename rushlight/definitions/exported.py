"""Ops that exported graphs name and programs do not: forms of public ops under the names ATen has for them.

Enters: tensors. Leaves: composites of public ops, so that graphs captured elsewhere run. Nothing here computes anything
of its own.
"""

from __future__ import annotations

from typing import Any

from rushlight.definitions.products.einsum import contract
from rushlight.op import Composite, find_op
from rushlight.op.pointwise import broadcast_sizes


class _Exported(Composite):
    """Ops of a namespace only: `ops.aten.<name>`."""

    function = False
    method = False
    out = False


class AdaptiveAvgPool2d(_Exported):
    """`adaptive_avg_pool2d`."""

    schema = "_adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor"

    def compute(self, input, output_size):
        return find_op("adaptive_avg_pool2d")(input, output_size)


class AdaptiveAvgPool3d(_Exported):
    """`adaptive_avg_pool3d`."""

    schema = "_adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor"

    def compute(self, input, output_size):
        return find_op("adaptive_avg_pool3d")(input, output_size)


class NativeBatchNormNoTraining(_Exported):
    """`batch_norm` by its running statistics, and two empty results that stand where training has statistics."""

    schema = (
        "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
        "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )

    def compute(self, input, weight, bias, running_mean, running_var, momentum, eps):
        result = find_op("batch_norm")(input, weight, bias, running_mean, running_var, False, momentum, eps, False)
        return result, input.new_empty((0,)), input.new_empty((0,))


class NativeBatchNormFunctional(_Exported):
    """`native_batch_norm` with the new running statistics as results."""

    schema = (
        "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
        "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    def compute(self, input, weight, bias, running_mean, running_var, training, momentum, eps):
        mean, var = running_mean.clone(), running_var.clone()
        result = find_op("native_batch_norm")(input, weight, bias, mean, var, training, momentum, eps)
        return (*result, mean, var)


def define_same(name: str, schema: str, body: Any) -> None:
    """An op that is a public one by another name."""
    label = "".join(word.capitalize() for word in name.split("_"))
    type(label, (_Exported,), {"schema": schema, "compute": body, "__doc__": f"ATen's `{name}`.",
                               "__module__": __name__})


for _name in ("lift_fresh_copy", "lift", "lift_fresh"):
    define_same(_name, f"{_name}(Tensor input) -> Tensor", lambda self, input: input.clone())
for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _d in (1, 2, 3):
        define_same(
            f"{_name}_pad{_d}d",
            f"{_name}_pad{_d}d(Tensor input, int[] padding) -> Tensor",
            lambda self, input, padding, mode=_mode: find_op("pad")(input, padding, mode),
        )
define_same("_unsafe_view", "_unsafe_view(Tensor input, int[] size) -> Tensor",
            lambda self, input, size: input.reshape(size))
define_same("log_sigmoid", "log_sigmoid(Tensor input) -> Tensor", lambda self, input: find_op("logsigmoid")(input))
define_same("numpy_T", "numpy_T(Tensor input) -> Tensor",
            lambda self, input: input.permute(*range(input.ndim - 1, -1, -1)))
define_same("mT", "mT(Tensor input) -> Tensor", lambda self, input: input.transpose(-2, -1))
define_same("mH", "mH(Tensor input) -> Tensor", lambda self, input: input.transpose(-2, -1).conj())
define_same("matrix_H", "matrix_H(Tensor input) -> Tensor", lambda self, input: input.transpose(-2, -1).conj())


class Einsum(_Exported):
    """`einsum`, its operands as a list."""

    schema = "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"

    def compute(self, equation, tensors, path):
        return contract(equation, list(tensors))


class BroadcastTensors(_Exported):
    """`broadcast_tensors`, of a list."""

    schema = "broadcast_tensors(Tensor[] tensors) -> Tensor[]"

    def compute(self, tensors):
        sizes = broadcast_sizes("broadcast_tensors", [t.shape for t in tensors])
        return [t.expand(sizes) for t in tensors]


class OldConvolution(_Exported):
    """`convolution` with the switches of libraries that choose nothing here."""

    schema = (
        "_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
        "transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool "
        "allow_tf32) -> Tensor"
    )

    def compute(self, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
        return find_op("convolution")(
            input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )


class EmbeddingBagWhole(_Exported):
    """`embedding_bag`, with all its arguments."""

    schema = (
        "_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool "
        "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
        "(Tensor, Tensor, Tensor, Tensor)"
    )

    def compute(self, weight, indices, offsets, scale, mode, sparse, per_sample_weights, include_last, padding_idx):
        return find_op("embedding_bag")(
            weight, indices, offsets, scale, mode, sparse, per_sample_weights, include_last,
            None if padding_idx < 0 else padding_idx,
        )
