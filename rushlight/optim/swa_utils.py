"""Averages of models over training: stochastic weight averaging and exponential moving averages.

Enters: a module. Leaves: `AveragedModel`, a module with averaged parameters; `SWALR`, the schedule that goes with it;
and `update_bn`, which collects batch statistics for it.
Averages of lists go through the optimizers' multi-tensor kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from ..tensors.interop import tensor
from .lr_scheduler.base import LRScheduler, Rates, _format_param, _warn_get_lr_called_within_step
from .optimizer import Optimizer
from .rule import Numbers, Rule, functional_update

PARAM_LIST = tuple[Tensor, ...] | list[Tensor]


class LerpRule(Rule):
    """The average, moved towards the present value by `weight` of the distance."""

    name = "lerp"
    names = ("weight",)

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return ()

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ()

    def numbers(self, hyper: dict[str, Any]) -> tuple:
        return (hyper["weight"],)

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any) -> tuple:
        return (param + n.weight * (grad - param),)


RULE = LerpRule()


def check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"decay: expected a number in [0, 1], got {decay}.")


def is_averaged(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """An exponential moving average of lists of parameters, in place."""
    check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: PARAM_LIST, current_param_list: PARAM_LIST, _: Any) -> None:
        if is_averaged(ema_param_list[0]):
            functional_update(RULE, list(ema_param_list), list(current_param_list), {}, {"weight": 1 - decay})
            return
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """The plain average of lists of parameters, in place."""

    @no_grad()
    def swa_update(averaged_param_list: PARAM_LIST, current_param_list: PARAM_LIST, num_averaged: Tensor | int) -> None:
        if is_averaged(averaged_param_list[0]):
            functional_update(
                RULE, list(averaged_param_list), list(current_param_list), {}, {"weight": 1 / (int(num_averaged) + 1)}
            )
            return
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            average.add_((current - average) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """An exponential moving average of one parameter, as a new tensor."""
    check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable:
    """The plain average of one parameter, as a new tensor."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages, updated by `update_parameters`.

    The average is the plain one unless `avg_fn` (one parameter) or `multi_avg_fn` (lists) say otherwise. Buffers are
    averaged too with `use_buffers`, else copied.
    """

    def __init__(self, model: Module, device: Any = None, avg_fn: Callable | None = None,
                 multi_avg_fn: Callable | None = None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=_C.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, module: Module) -> Iterable[Tensor]:
        return itertools.chain(module.parameters(), module.buffers()) if self.use_buffers else module.parameters()

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average."""
        averages = [p.detach() for p in self._tensors(self.module)]
        current = [p.detach().to(a.device) for a, p in zip(averages, self._tensors(model), strict=False)]
        if self.n_averaged == 0:
            for a, p in zip(averages, current, strict=True):
                a.copy_(p)
        elif self.avg_fn is not None:
            for a, p in zip(averages, current, strict=True):
                a.copy_(self.avg_fn(a, p, self.n_averaged.to(a.device)))
        else:
            self._average_lists(averages, current)
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                a.detach().copy_(b.detach().to(a.device))
        self.n_averaged += 1

    def _average_lists(self, averages: list[Tensor], current: list[Tensor]) -> None:
        average = self.multi_avg_fn or get_swa_multi_avg_fn()
        groups: dict[tuple, tuple[list[Tensor], list[Tensor]]] = {}
        for a, p in zip(averages, current, strict=True):
            lists = groups.setdefault((a.device, a.dtype), ([], []))
            lists[0].append(a)
            lists[1].append(p)
        for (device, _), lists in groups.items():
            average(*lists, self.n_averaged.to(device))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Collect the running statistics of the model's batch norms anew, from one pass over `loader`."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta, was_training = [m.momentum for m in norms], model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """To the rate `swa_lr`, along a line or half a cosine, in `anneal_epochs` steps; then constant."""

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        for rate, group in zip(_format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy: expected 'cos' or 'linear', got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs: expected 0 or more, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _get_initial_lr(lr: Any, swa_lr: Any, alpha: float) -> Any:
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self) -> Rates:
        _warn_get_lr_called_within_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0, min(1, k / max(1, self.anneal_epochs)))) for k in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            first = self._get_initial_lr(group["lr"], group["swa_lr"], before)
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = self._cosine_anneal if anneal_strategy == "cos" else self._linear_anneal

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the function that anneals."""
        return {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "anneal_func")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)


__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
