"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, check_betas, functional_update, new_scalar


class NAdamRule(Rule):
    name = "nadam"
    scalars = ("step", "mu_product")
    names = ("along_grad", "along_mean", "correction", "eps", "beta1", "beta2", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0), hyper["decoupled_weight_decay"]

    def state(self, choices: tuple) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def numbers(self, hyper: dict[str, Any], step: float, product: float) -> tuple:
        step, (beta1, beta2), lr, decay = step + 1, hyper["betas"], hyper["lr"], hyper["weight_decay"]
        mu, after = (beta1 * (1.0 - 0.5 * 0.96 ** (k * hyper["momentum_decay"])) for k in (step, step + 1))
        product = product * mu
        return (step, product, lr * (1.0 - mu) / (1.0 - product), lr * after / (1.0 - product * after),
                (1 - beta2**step) ** -0.5, hyper["eps"], 1 - beta1, 1 - beta2,
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
        ahead = n.along_grad * grad + n.along_mean * mean
        return param - s.near_div(ahead, s.sqrt(square) * n.correction + n.eps), mean, square


RULE = NAdamRule()


class NAdam(RuledOptimizer):
    """`Adam` whose step also looks ahead along the gradient, the momentum warming up by `momentum_decay`."""

    _rule = RULE
    _later = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
             "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
             "capturable": capturable, "differentiable": differentiable})

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        super()._begin(group, p, state)
        state["mu_product"] = new_scalar(group, p, 1.0)


def nadam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
          mu_products: list[Tensor], state_steps: list[Tensor], decoupled_weight_decay: bool = False,
          foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
          has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: float,
          weight_decay: float, momentum_decay: float, eps: float) -> None:
    """The update of `NAdam` on lists of parameters, gradients and state."""
    if not all(isinstance(t, Tensor) for t in mu_products):
        raise RuntimeError("mu_products: expected a list of tensors of one element each, one for each parameter")
    hyper = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay,
             "momentum_decay": momentum_decay, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
             "capturable": capturable, "differentiable": differentiable}
    lists = {"step": state_steps, "mu_product": mu_products, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    functional_update(RULE, params, grads, lists, hyper)


__all__ = ["NAdam", "nadam"]


describe(globals(), Optimizer, __file__)
