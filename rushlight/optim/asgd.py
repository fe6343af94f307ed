"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..op import find_op
from .optimizer import ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, functional_update, new_scalar


class ASGDRule(Rule):
    name = "asgd"
    scalars = ("step", "eta", "mu")
    names = ("keep", "eta", "mu", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("ax",)

    def numbers(self, hyper: dict[str, Any], step: float, eta: float, mu: float) -> tuple:
        step, lr, lambd = step + 1, hyper["lr"], hyper["lambd"]
        return (step, lr / (1 + lambd * lr * step) ** hyper["alpha"], 1 / max(1, step - hyper["t0"]),
                1 - lambd * eta, eta, mu, hyper["weight_decay"])  # fmt: skip

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, average: Any) -> tuple:
        maximize, decays = choices
        grad = -grad if maximize else grad
        grad = grad + n.weight_decay * param if decays else grad
        param = param * n.keep - n.eta * grad
        return param, average + n.mu * (param - average)


RULE = ASGDRule()


class ASGD(RuledOptimizer):
    """p shrinks by lambd * eta and goes down eta * g, where eta falls with the step; state["ax"] is the average since step `t0`."""

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:  # fmt: skip
        check_at_least_zero(learning_rate=lr, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})  # fmt: skip

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        near = {**group, "capturable": True}
        state["step"], state["eta"], state["mu"] = (new_scalar(near, p, value) for value in (0.0, float(group["lr"]), 1.0))
        state["ax"] = find_op("zeros_like")(p)


def asgd(params: list[Tensor], grads: list[Tensor], axs: list[Tensor], mus: list[Tensor], etas: list[Tensor], state_steps: list[Tensor],
         foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
         has_complex: bool = False, *, lambd: float, lr: float, t0: float, alpha: float, weight_decay: float) -> None:  # fmt: skip
    """The update of `ASGD` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
             "differentiable": differentiable}  # fmt: skip
    functional_update(RULE, params, grads, {"step": state_steps, "eta": etas, "mu": mus, "ax": axs}, hyper)


__all__ = ["ASGD", "asgd"]
