"""Gradients of normalizations from the statistics that their forward ops return.

Enters: ATen's arguments; `output_mask` says which of the gradients (input, weight, bias) are wanted. Leaves: those,
None for the others.
"""

from __future__ import annotations

from rushlight.op import Composite, find_op


def _masked(gradients, mask):
    return tuple(g if wanted else None for g, wanted in zip(gradients, mask, strict=True))


class NativeLayerNormBackward(Composite):
    """Gradients of native_layer_norm."""

    schema = (
        "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd,"
        " Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
        found = find_op("_layer_norm_backward")(grad_out, input, mean, rstd, weight, bias, normalized_shape)
        return _masked(found, output_mask)


class NativeGroupNormBackward(Composite):
    """Gradients of native_group_norm."""

    schema = (
        "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N,"
        " SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):  # noqa: N803 - ATen's names
        found = find_op("_group_norm_rows_backward")(grad_out, input, weight, mean, rstd, group, 0.0)
        return _masked(found, output_mask)


class NativeBatchNormBackward(Composite):
    """Gradients of native_batch_norm: in training through the statistics of the batch, else with the running ones."""

    schema = (
        "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor?"
        " running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor,"
        " Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
                output_mask):
        if train:
            if save_mean is None or save_invstd is None:
                raise RuntimeError("native_batch_norm_backward: train=True needs save_mean and save_invstd, got None")
            found = find_op("_channel_norm_backward")(grad_out, input, weight, save_mean, save_invstd, eps)
            return _masked(found, output_mask)
        if running_mean is None or running_var is None:
            raise RuntimeError("native_batch_norm_backward: train=False needs running_mean and running_var, got None")
        shape = (1, -1, *[1] * (input.ndim - 2))
        dims = [0, *range(2, input.ndim)]
        invstd = (running_var + eps).rsqrt()
        scale = invstd if weight is None else invstd * weight
        normal = (input - running_mean.view(shape)) * invstd.view(shape)
        return _masked((grad_out * scale.view(shape), (grad_out * normal).sum(dims), grad_out.sum(dims)), output_mask)
