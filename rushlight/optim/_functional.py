"""The functional forms of optimizers in one place, under PyTorch's names, and that of SparseAdam."""

from __future__ import annotations

import math

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from .adadelta import adadelta
from .adagrad import _make_sparse, adagrad
from .adam import adam
from .adamax import adamax
from .adamw import adamw
from .asgd import asgd
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop
from .rprop import rprop
from .sgd import sgd


@no_grad()
def sparse_adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
                state_steps: list[int], *, eps: float, beta1: float, beta2: float, lr: float | Tensor,
                maximize: bool) -> None:
    """The update of `SparseAdam` on lists of parameters, sparse gradients and state; steps count this one."""
    for param, grad, mean, square, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        grad = (-grad if maximize else grad).coalesce()
        at, values = grad._indices(), grad._values()
        if values.numel() == 0:
            continue
        old_mean, old_square = mean.sparse_mask(grad)._values(), square.sparse_mask(grad)._values()
        mean_change = (values - old_mean) * (1 - beta1)
        square_change = (values * values - old_square) * (1 - beta2)
        mean.add_(_make_sparse(grad, at, mean_change))
        square.add_(_make_sparse(grad, at, square_change))
        rate = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        update = (old_mean + mean_change) / ((old_square + square_change).sqrt() + eps)
        param.add_(_make_sparse(grad, at, -rate * update))


__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]
