"""Averaged stochastic gradient descent."""

from __future__ import annotations

import struct
from typing import Any

from .._C import Tensor, float32
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT, _get_scalar_dtype
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, functional_update, new_scalar


class ASGDRule(Rule):
    """PyTorch's two forms differ by rounding: with `foreach`,
    decays are added to the gradient and eta is computed in its state's dtype.

    Arguments:
        alpha: how fast the step size falls: eta = lr / (1 + lambd * lr * step) ** alpha
    """

    name = "asgd"
    scalars = ("step", "eta", "mu")
    names = ("lambd", "keep", "eta", "mu", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0), bool(hyper.get("foreach"))

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("ax",)

    def numbers(self, hyper: dict[str, Any], step: float, eta: float, mu: float) -> tuple:
        step, lambd = step + 1, hyper["lambd"]
        falling = (_next_eta_of_tensors if hyper.get("foreach") else _next_eta)(
            hyper["lr"], lambd, hyper["alpha"], step
        )
        mean = 1 / _at_least_one(step - hyper["t0"])
        return step, falling, mean, lambd, 1 - lambd * eta, eta, mu, hyper["weight_decay"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, average: Any) -> tuple:
        maximize, decays, is_foreach = choices
        grad = -grad if maximize else grad
        grad = s.fma(n.weight_decay, param, grad) if decays else grad
        if is_foreach:
            param = s.fma(-s.fma(n.lambd, param, grad), n.eta, param)
            return param, s.fma(param - average, n.mu, average)
        param = s.fma(-n.eta, grad, param * n.keep)
        return param, s.where(s.lt(n.mu, 1.0), average + (param - average) * n.mu, param)


def _at_least_one(value: Any) -> Any:
    return value.clamp(min=1) if isinstance(value, Tensor) else max(1, value)


def _next_eta(lr: Any, lambd: float, alpha: float, step: float) -> Any:
    return lr / (1 + lambd * lr * step) ** alpha


def _next_eta_of_tensors(lr: Any, lambd: float, alpha: float, step: float) -> Any:
    """The same, rounded after every operation as tensors of one element are;
    a number over one is multiplied by its reciprocal."""
    if isinstance(lr, Tensor):
        return _next_eta(lr, lambd, alpha, step)
    if isinstance(step, Tensor) or _get_scalar_dtype() is not float32:
        return lr * (1 / (1 + lambd * lr * step) ** alpha)
    grown = single(1 + single(single(lambd * lr) * step))
    return single(single(lr) * single(1 / single(grown ** single(alpha))))


def single(value: float) -> float:
    """`value` rounded to float32."""
    return struct.unpack("f", struct.pack("f", value))[0]


RULE = ASGDRule()


class ASGD(RuledOptimizer):
    """p shrinks by lambd * eta and goes down eta * g, where eta falls with the step;
    state["ax"] is the average since step `t0`."""

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, weight_decay=weight_decay)
        super().__init__(params,
            {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
             "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        near = {**group, "capturable": True}
        state["step"], state["eta"], state["mu"] = (
            new_scalar(near, p, value) for value in (0.0, float(group["lr"]), 1.0)
        )
        state["ax"] = find_op("zeros_like")(p)


def asgd(params: list[Tensor], grads: list[Tensor], axs: list[Tensor], mus: list[Tensor], etas: list[Tensor],
         state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
         capturable: bool = False, has_complex: bool = False, *, lambd: float, lr: float, t0: float, alpha: float,
         weight_decay: float) -> None:
    """The update of `ASGD` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
             "capturable": capturable, "differentiable": differentiable, "foreach": foreach}
    functional_update(RULE, params, grads, {"step": state_steps, "eta": etas, "mu": mus, "ax": axs}, hyper)


__all__ = ["ASGD", "asgd"]


describe(globals(), Optimizer, __file__)
