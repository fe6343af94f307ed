"""RMSprop: steps divided by the root of the running mean of squared gradients."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, functional_update


class RMSpropRule(Rule):
    name = "rmsprop"
    scalars = ("step",)
    names = ("lr", "alpha", "rest", "eps", "momentum", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["momentum"] > 0, hyper["centered"], hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("square_avg", *(("momentum_buffer",) if choices[0] else ()), *(("grad_avg",) if choices[1] else ()))

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        return (
            step + 1,
            hyper["lr"],
            hyper["alpha"],
            1 - hyper["alpha"],
            hyper["eps"],
            hyper["momentum"],
            hyper["weight_decay"],
        )

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, square: Any, *state: Any) -> tuple:
        has_momentum, centered, maximize, decays = choices
        grad = -grad if maximize else grad
        grad = grad + n.weight_decay * param if decays else grad
        square = n.alpha * square + n.rest * grad * grad
        spread, rest = square, ()
        if centered:
            mean = state[-1] + n.rest * (grad - state[-1])
            spread, rest = square - mean * mean, (mean,)
        step = s.near_div(grad, s.sqrt(spread) + n.eps)
        if not has_momentum:
            return param - n.lr * step, square, *rest
        buffer = n.momentum * state[0] + step
        return param - n.lr * buffer, square, buffer, *rest


RULE = RMSpropRule()


class RMSprop(RuledOptimizer):
    """p -= lr * g / (sqrt(mean of g * g) + eps), the mean decaying by `alpha`; `centered` takes the variance;
    `momentum` adds a buffer."""

    _rule = RULE
    _later = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params,
            {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
             "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
             "differentiable": differentiable})


def rmsprop(params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], grad_avgs: list[Tensor],
            momentum_buffer_list: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None,
            maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False,
            *, lr: float, alpha: float, eps: float, weight_decay: float, momentum: float,
            centered: bool) -> None:
    """The update of `RMSprop` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
             "centered": centered, "maximize": maximize, "capturable": capturable,
             "differentiable": differentiable}
    lists = {
        "step": state_steps,
        "square_avg": square_avgs,
        "grad_avg": grad_avgs,
        "momentum_buffer": momentum_buffer_list,
    }
    functional_update(RULE, params, grads, lists, hyper)


__all__ = ["RMSprop", "rmsprop"]


describe(globals(), Optimizer, __file__)
