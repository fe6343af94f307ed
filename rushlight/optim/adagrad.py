"""Adagrad: steps divided by the root of the sum of all squared gradients; dense or sparse."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT, _device_dtype_check_for_fused
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, check_fused, functional_update, new_scalar, skips


class AdagradRule(Rule):
    name = "adagrad"
    scalars = ("step",)
    names = ("lr", "eps", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["maximize"], bool(hyper["weight_decay"] != 0)

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("sum",)

    def numbers(self, hyper: dict[str, Any], step: float) -> tuple:
        return step + 1, hyper["lr"] / (1 + step * hyper["lr_decay"]), hyper["eps"], hyper["weight_decay"]

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, total: Any) -> tuple:
        maximize, decays = choices
        grad = -grad if maximize else grad
        grad = grad + n.weight_decay * param if decays else grad
        total = total + grad * grad
        return param - n.lr * s.near_div(grad, s.sqrt(total) + n.eps), total


RULE = AdagradRule()


class Adagrad(RuledOptimizer):
    """p -= lr * g / (sqrt(sum of g * g) + eps), with lr falling as 1 / (1 + lr_decay * step).
    Sparse gradients touch their rows only.

    Arguments:
        fused: whether the step must be one kernel over all parameters; None leaves the choice
    """

    _rule = RULE
    _later = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        check_at_least_zero(learning_rate=lr, lr_decay=lr_decay, weight_decay=weight_decay,
                            initial_accumulator_value=initial_accumulator_value, eps=eps)
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "fused": fused})
        check_fused(self, fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self._begin(group, p, self.state[p])

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        first = self.defaults["initial_accumulator_value"]
        state["step"] = new_scalar(group, p)
        state["sum"] = find_op("full_like")(p, complex(first, first) if p.is_complex() else first)

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["fused"]:
            for p in group["params"]:
                _device_dtype_check_for_fused(p)

    def share_memory(self) -> None:
        """Let other processes see the sums."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _take_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        for p in params:
            if p.grad.is_sparse:
                if group["fused"]:
                    raise RuntimeError("`fused` does not support sparse gradients")
                if not self.state[p]:
                    self._begin(group, p, self.state[p])
                update_sparse(p, p.grad, self.state[p]["sum"], self.state[p]["step"], group)
        return [p for p in params if not p.grad.is_sparse]


def _make_sparse(grad: Tensor, grad_indices: Tensor, values: Tensor) -> Tensor:
    return find_op("sparse_coo_tensor")(grad_indices, values, grad.size())


def update_sparse(param: Tensor, grad: Tensor, total: Tensor, step: Tensor, hyper: dict[str, Any]) -> None:
    """The update for a sparse gradient."""
    if hyper["weight_decay"] != 0:
        raise RuntimeError("sparse gradients cannot be combined with weight_decay: set it to 0")
    step += 1
    grad = (-grad if hyper["maximize"] else grad).coalesce()
    rows, values = grad._indices(), grad._values()
    total.add_(_make_sparse(grad, rows, values * values))
    root = total.sparse_mask(grad)._values().sqrt() + hyper["eps"]
    rate = float(hyper["lr"]) / (1 + (step.item() - 1) * hyper["lr_decay"])
    param.add_(_make_sparse(grad, rows, values / root), alpha=-rate)


def adagrad(params: list[Tensor], grads: list[Tensor], state_sums: list[Tensor], state_steps: list[Tensor],
            fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
            has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False,
            has_complex: bool = False, *, lr: float, weight_decay: float, lr_decay: float, eps: float,
            maximize: bool) -> None:
    """The update of `Adagrad` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "weight_decay": weight_decay, "lr_decay": lr_decay, "eps": eps, "maximize": maximize,
             "differentiable": differentiable, "fused": fused, "grad_scale": grad_scale,
             "found_inf": found_inf}
    sparse = [i for i, g in enumerate(grads) if g.is_sparse]
    for i in sparse:
        if not skips(dict(hyper)):
            update_sparse(params[i], grads[i], state_sums[i], state_steps[i], hyper)
    dense = [i for i, g in enumerate(grads) if not g.is_sparse]
    params, grads, sums, steps = ([values[i] for i in dense] for values in (params, grads, state_sums, state_steps))
    functional_update(RULE, params, grads, {"step": steps, "sum": sums}, hyper)


__all__ = ["Adagrad", "adagrad"]


describe(globals(), Optimizer, __file__)
