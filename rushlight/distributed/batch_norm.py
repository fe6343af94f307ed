"""Batch normalization whose batch is that of all processes: what `nn.SyncBatchNorm` does in training.

Two exchanges: sums and counts give the mean, squared deviations from it the variance; processes may have batches of
different sizes. Gradients go back through the same exchanges.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad
from ..op import find_op
from ._functional_collectives import all_reduce_autograd

_cat = find_op("cat")


def synced_batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float, group: Any
) -> Any:
    """The input with every channel's mean 0 and variance 1 over all processes, scaled and shifted; running statistics
    are brought up to date. Refuses a single value per channel."""
    x = input.float() if input.dtype in (_C.float16, _C.bfloat16) else input
    dims, shape = [0, *range(2, x.dim())], [1, -1, *(1,) * (x.dim() - 2)]
    own = x.new_full((1,), x.numel() // max(x.shape[1], 1))
    sums = all_reduce_autograd(_cat([x.sum(dims), own]), "sum", group)
    count = sums[-1].detach()
    if float(count) <= 1:
        raise ValueError(
            f"SyncBatchNorm: training needs more than one value per channel in all processes together, got an input of "
            f"shape {tuple(input.shape)}"
        )
    mean = sums[:-1] / count
    centered = x - mean.view(shape)
    variance = all_reduce_autograd((centered * centered).sum(dims), "sum", group) / count
    if running_mean is not None:
        with no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * (count / (count - 1))).to(running_var.dtype), momentum)
    result = centered * (variance + eps).rsqrt().view(shape)
    if weight is not None:
        result = result * weight.view(shape)
    if bias is not None:
        result = result + bias.view(shape)
    return result.to(input.dtype)
