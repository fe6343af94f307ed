"""Stochastic gradient descent, with momentum, dampening and Nesterov's form."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT, _device_dtype_check_for_fused
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, check_fused, functional_update


class SGDRule(Rule):
    name = "sgd"
    names = ("lr", "weight_decay", "momentum", "share")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["momentum"] != 0, hyper["nesterov"], hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("momentum_buffer",) if choices[0] else ()

    def numbers(self, hyper: dict[str, Any]) -> tuple:
        return hyper["lr"], hyper["weight_decay"], hyper["momentum"], 1 - hyper["dampening"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, *state: Any) -> tuple:
        has_momentum, nesterov, maximize, decays = choices
        grad = -grad if maximize else grad
        if decays:
            grad = grad + n.weight_decay * param
        if not has_momentum:
            return (param - n.lr * grad,)
        buffer = n.momentum * state[0] + n.share * grad
        return param - n.lr * (grad + n.momentum * buffer if nesterov else buffer), buffer


RULE = SGDRule()


class SGD(RuledOptimizer):
    """p -= lr * g, or, with momentum, p -= lr * b where b = momentum * b + (1 - dampening) * g.

    `weight_decay` adds weight_decay * p to g. The first b is g itself. `nesterov` looks ahead: g + momentum * b.
    """

    _rule = RULE
    _later = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        check_at_least_zero(learning_rate=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov=True needs momentum above 0 and a dampening of 0")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                    "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                    "fused": fused}
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    def _is_begun(self, group: dict[str, Any], p: Tensor) -> bool:
        return group["momentum"] == 0 or self.state[p].get("momentum_buffer") is not None

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["fused"]:
            for p in group["params"]:
                _device_dtype_check_for_fused(p)

    def _first_hyper(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**group, "dampening": 0}   # onto a buffer of zeros: the gradient itself

    def _take_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        sparse = [p for p in params if p.grad.is_sparse]
        if sparse and group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        for p in sparse:
            kept = [self.state[p].get("momentum_buffer")] if group["momentum"] != 0 else []
            update_sparse(p, p.grad, kept, group)
            if kept:
                self.state[p]["momentum_buffer"] = kept[0]
        return [p for p in params if not p.grad.is_sparse]


def update_sparse(param: Tensor, grad: Tensor, kept: list[Tensor | None], hyper: dict[str, Any]) -> None:
    """The update for a sparse gradient; `kept` holds the momentum buffer, itself sparse at first, if there is one."""
    grad = -grad if hyper["maximize"] else grad
    if hyper["weight_decay"] != 0:
        grad = grad.add(param, alpha=hyper["weight_decay"])
    if kept:
        buffer = kept[0]
        kept[0] = buffer = (
            grad.detach().clone() if buffer is None else buffer * hyper["momentum"] + grad * (1 - hyper["dampening"])
        )
        grad = grad + buffer * hyper["momentum"] if hyper["nesterov"] else buffer
    param.add_(grad, alpha=-float(hyper["lr"]))


def sgd(params: list[Tensor], d_p_list: list[Tensor], momentum_buffer_list: list[Tensor | None],
        has_sparse_grad: bool = False, foreach: bool | None = None, fused: bool | None = None,
        grad_scale: Tensor | None = None, found_inf: Tensor | None = None, *,
        weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
        maximize: bool) -> None:
    """The update of `SGD` on lists; missing momentum buffers are made, and put into `momentum_buffer_list`."""
    hyper = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "dampening": dampening, "nesterov": nesterov,
             "maximize": maximize, "fused": fused, "grad_scale": grad_scale, "found_inf": found_inf}
    for i, (p, g) in enumerate(zip(params, d_p_list, strict=True)):
        if g.is_sparse:
            kept = momentum_buffer_list[i : i + 1] if momentum != 0 else []
            update_sparse(p, g, kept, hyper)
            momentum_buffer_list[i : i + 1] = kept or momentum_buffer_list[i : i + 1]
            continue
        own = dict(hyper)
        if momentum != 0 and momentum_buffer_list[i] is None:
            own["dampening"] = 0
            momentum_buffer_list[i] = find_op("zeros_like")(p)
        functional_update(
            RULE, [p], [g], {"momentum_buffer": momentum_buffer_list[i : i + 1]} if momentum != 0 else {}, own
        )


__all__ = ["SGD", "sgd"]


describe(globals(), Optimizer, __file__)
