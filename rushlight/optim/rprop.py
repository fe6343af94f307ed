"""Rprop: step sizes that grow while a gradient keeps its sign and shrink when it changes."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, functional_update


class RpropRule(Rule):
    name = "rprop"
    scalars = ("step",)
    names = ("shrink", "grow", "smallest", "largest")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return (hyper["maximize"],)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return "prev", "step_size"

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        return step + 1, *hyper["etas"], *hyper["step_sizes"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, before: Any, size: Any) -> tuple:
        grad = -grad if choices[0] else grad
        agreement = grad * before
        transposed = s.lt(agreement, 0.0)
        size = s.where(s.gt(agreement, 0.0), size * n.grow, s.where(transposed, size * n.shrink, size))
        size = s.clamp(size, n.smallest, n.largest)
        grad = s.where(transposed, 0.0, grad)
        return param - s.sign(grad) * size, grad, size


RULE = RpropRule()


class Rprop(RuledOptimizer):
    """p -= sign(g) * size, a size per element starting at `lr`, multiplied by etas[1] or, when the sign turns,
    etas[0]."""

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_at_least_zero(learning_rate=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params,
                         {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                          "differentiable": differentiable, "capturable": capturable})

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        super()._begin(group, p, state)
        first = float(group["lr"])
        state["step_size"] = find_op("full_like")(p, complex(first, first) if p.is_complex() else first)


def rprop(params: list[Tensor], grads: list[Tensor], prevs: list[Tensor], step_sizes: list[Tensor],
          state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False, maximize: bool = False,
          differentiable: bool = False, has_complex: bool = False, *, step_size_min: float, step_size_max: float,
          etaminus: float, etaplus: float) -> None:
    """The update of `Rprop` on lists of parameters, gradients and state."""
    hyper = {"etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
             "capturable": capturable, "differentiable": differentiable}
    functional_update(RULE, params, grads, {"step": state_steps, "prev": prevs, "step_size": step_sizes}, hyper)


__all__ = ["Rprop", "rprop"]


describe(globals(), Optimizer, __file__)
