"""Adadelta: steps scaled by the running size of past steps over that of gradients."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, functional_update


class AdadeltaRule(Rule):
    name = "adadelta"
    scalars = ("step",)
    names = ("lr", "rho", "rest", "eps", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return "square_avg", "acc_delta"

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        return step + 1, hyper["lr"], hyper["rho"], 1 - hyper["rho"], hyper["eps"], hyper["weight_decay"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, square: Any, deltas: Any) -> tuple:
        maximize, decays = choices
        grad = -grad if maximize else grad
        grad = grad + n.weight_decay * param if decays else grad
        square = n.rho * square + n.rest * grad * grad
        delta = s.near_div(s.sqrt(deltas + n.eps), s.sqrt(square + n.eps)) * grad
        return param - n.lr * delta, square, n.rho * deltas + n.rest * delta * delta


RULE = AdadeltaRule()


class Adadelta(RuledOptimizer):
    """p -= lr * d, where d is the gradient times the root mean square of past d over that of gradients,
    each decaying by `rho`."""

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least_zero(eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach,
                                  "differentiable": differentiable})


def adadelta(params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], acc_deltas: list[Tensor],
             state_steps: list[Tensor], capturable: bool = False, foreach: bool | None = None,
             differentiable: bool = False, has_complex: bool = False, *, lr: float,
             rho: float, eps: float, weight_decay: float, maximize: bool) -> None:
    """The update of `Adadelta` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
             "capturable": capturable, "differentiable": differentiable}
    functional_update(
        RULE, params, grads, {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}, hyper
    )


__all__ = ["Adadelta", "adadelta"]


describe(globals(), Optimizer, __file__)
