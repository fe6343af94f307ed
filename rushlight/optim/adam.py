"""Adam and, with decoupled weight decay, AdamW."""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor
from ..op import find_op
from .optimizer import ParamsT, _get_scalar_dtype, _to_scalar
from .rule import Numbers, Rule, RuledOptimizer, functional_update


class AdamRule(Rule):
    name = "adam"
    scalars = ("step",)
    names = ("lr", "correction", "eps", "beta1", "beta2", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["amsgrad"], hyper["maximize"], hyper["weight_decay"] != 0, hyper["decoupled_weight_decay"]

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if choices[0] else ("exp_avg", "exp_avg_sq")

    def numbers(self, hyper: dict[str, Any], step: Any) -> tuple:
        step, (beta1, beta2), lr, decay = step + 1, hyper["betas"], hyper["lr"], hyper["weight_decay"]
        return (step, lr / (1 - beta1**step), (1 - beta2**step) ** -0.5, hyper["eps"], 1 - beta1, 1 - beta2,
                1 - lr * decay if hyper["decoupled_weight_decay"] else decay)  # fmt: skip

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, mean: Any, square: Any, largest: Any = None) -> tuple:
        amsgrad, maximize, decays, decoupled = choices
        grad = -grad if maximize else grad
        if decays and decoupled:
            param = param * n.weight_decay
        elif decays:
            grad = grad + n.weight_decay * param
        mean = mean + n.beta1 * (grad - mean)
        square = square + n.beta2 * (grad * grad - square)
        largest = s.maximum(largest, square) if amsgrad else square
        param = param - n.lr * mean / (s.sqrt(largest) * n.correction + n.eps)
        return (param, mean, square, largest) if amsgrad else (param, mean, square)


RULE = AdamRule()


def check_rates(lr: Any, foreach: bool | None, capturable: bool) -> None:
    """Refuse a learning rate no optimizer can use."""
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_betas(betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    """Refuse betas outside [0, 1), of two kinds, or as tensors where PyTorch takes none."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    if not (all(isinstance(b, float) for b in betas) or all(isinstance(b, Tensor) for b in betas)):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if not capturable and foreach:
                raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")


def new_step(group: dict[str, Any], p: Tensor, value: float = 0.0) -> Tensor:
    """A step count: with the parameter if the group is fused or capturable, else on the host."""
    near = group.get("capturable") or group.get("fused")
    return find_op("full")((), value, dtype=_get_scalar_dtype(is_fused=group.get("fused")), device=p.device if near else _C.device("cpu"))


class Adam(RuledOptimizer):
    """Steps along the running mean of gradients, divided by the root of the running mean of their squares.

    Both means start at 0 and are corrected for it. `weight_decay` adds to the gradient, or with `decoupled_weight_decay`
    shrinks the parameter itself. `amsgrad` divides by the largest mean of squares so far.
    """

    _rule = RULE

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        check_rates(lr, foreach, capturable)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        check_betas(betas, foreach, capturable)
        defaults = {"lr": lr, "betas": tuple(map(_to_scalar, betas)), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                    "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                    "fused": fused, "decoupled_weight_decay": decoupled_weight_decay}  # fmt: skip
        super().__init__(params, defaults)
        if fused:
            if differentiable:
                raise RuntimeError("`fused` does not support `differentiable`")
            self._step_supports_amp_scaling = True
            if foreach:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key in ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay"):
                group.setdefault(key, False)
            for key in ("foreach", "fused"):
                group.setdefault(key, None)
            for p in group["params"]:
                kept = self.state.get(p)
                if kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = new_step(group, p, float(kept["step"]))

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        zeros = find_op("zeros_like")
        state["step"] = new_step(group, p)
        for key in self._rule.state(self._rule.choices(group)):
            state[key] = zeros(p)

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")

    def _take_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        if any(p.grad.is_sparse for p in params):
            raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
        return params


def adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
         state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
         fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
         decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor,
         weight_decay: float, eps: float, maximize: bool) -> None:  # fmt: skip
    """The update of `Adam` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
             "capturable": capturable, "differentiable": differentiable, "fused": fused, "grad_scale": grad_scale, "found_inf": found_inf,
             "decoupled_weight_decay": decoupled_weight_decay}  # fmt: skip
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs}
    functional_update(RULE, params, grads, lists, hyper)


__all__ = ["Adam", "adam"]
