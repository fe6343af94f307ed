"""RAdam: Adam that divides by the mean of squares only once enough steps make it trustworthy."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, TensorMath, check_at_least_zero, check_betas, functional_update


class RAdamRule(Rule):
    name = "radam"
    scalars = ("step",)
    names = ("lr", "factor", "eps", "beta1", "beta2", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0), hyper["decoupled_weight_decay"]

    def state(self, choices: tuple) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        step, (beta1, beta2), lr, decay = step + 1, hyper["betas"], hyper["lr"], hyper["weight_decay"]
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        is_long = length > 5.0   # with too few steps: no division
        if isinstance(is_long, Tensor) or is_long:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            factor = TensorMath.where(is_long, (rectified * correction) ** 0.5, 0.0)
        else:
            factor = 0.0
        return (step, lr / (1 - beta1**step), factor, hyper["eps"], 1 - beta1, 1 - beta2,
                1 - lr * decay if hyper["decoupled_weight_decay"] else decay)

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, mean: Any, square: Any) -> tuple:
        maximize, decays, decoupled = choices
        grad = -grad if maximize else grad
        if decays and decoupled:
            param = param * n.weight_decay
        elif decays:
            grad = grad + n.weight_decay * param
        mean = mean + n.beta1 * (grad - mean)
        square = square + n.beta2 * (grad * grad - square)
        scale = s.where(s.gt(n.factor, 0.0), s.near_div(n.factor, s.sqrt(square) + n.eps), 1.0)
        return param - n.lr * mean * scale, mean, square


RULE = RAdamRule()


class RAdam(RuledOptimizer):
    """`Adam` with its division by the mean of squares rectified, and left out while too few steps were made."""

    _rule = RULE
    _later = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        super().__init__(params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
             "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
             "differentiable": differentiable})


def radam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
          state_steps: list[Tensor], decoupled_weight_decay: bool = False, foreach: bool | None = None,
          differentiable: bool = False, capturable: bool = False, has_complex: bool = False, maximize: bool = False, *,
          beta1: float, beta2: float, lr: float, weight_decay: float, eps: float) -> None:
    """The update of `RAdam` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
             "decoupled_weight_decay": decoupled_weight_decay, "capturable": capturable,
             "differentiable": differentiable}
    functional_update(RULE, params, grads, {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}, hyper)


__all__ = ["RAdam", "radam"]


describe(globals(), Optimizer, __file__)
