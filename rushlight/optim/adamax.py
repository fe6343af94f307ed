"""Adamax: Adam with the largest decayed gradient in place of the root of mean squares."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, check_betas, functional_update


class AdamaxRule(Rule):
    name = "adamax"
    scalars = ("step",)
    names = ("lr", "beta1", "beta2", "eps", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return "exp_avg", "exp_inf"

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        step, (beta1, beta2) = step + 1, hyper["betas"]
        return step, hyper["lr"] / (1 - beta1**step), 1 - beta1, beta2, hyper["eps"], hyper["weight_decay"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, mean: Any, largest: Any) -> tuple:
        maximize, decays = choices
        grad = -grad if maximize else grad
        grad = grad + n.weight_decay * param if decays else grad
        mean = mean + n.beta1 * (grad - mean)
        largest = s.maximum(n.beta2 * largest, s.abs(grad) + n.eps)
        return param - n.lr * s.near_div(mean, largest), mean, largest


RULE = AdamaxRule()


class Adamax(RuledOptimizer):
    """Steps along the running mean of gradients, divided by their largest magnitude so far,
    which decays by betas[1]."""

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        super().__init__(params,
                         {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                          "maximize": maximize, "differentiable": differentiable,
                          "capturable": capturable})


def adamax(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_infs: list[Tensor],
           state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
           capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float,
           weight_decay: float) -> None:
    """The update of `Adamax` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
             "capturable": capturable, "differentiable": differentiable}
    functional_update(RULE, params, grads, {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}, hyper)


__all__ = ["Adamax", "adamax"]


describe(globals(), Optimizer, __file__)
