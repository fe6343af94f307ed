"""Adam and, with decoupled weight decay, AdamW."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..base.descriptions import describe
from .optimizer import Optimizer, ParamsT, _to_scalar
from .rule import Numbers, Rule, RuledOptimizer, check_at_least_zero, check_betas, check_fused, functional_update


class AdamRule(Rule):
    name = "adam"
    scalars = ("step",)
    names = ("lr", "eps", "beta1", "beta2", "weight_decay")

    def choices(self, hyper: dict[str, Any]) -> tuple:
        return hyper["amsgrad"], hyper["maximize"], bool(hyper["weight_decay"] != 0), hyper["decoupled_weight_decay"]

    def state(self, choices: tuple) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if choices[0] else ("exp_avg", "exp_avg_sq")

    def numbers(self, hyper: dict[str, Any], step: Any) -> tuple:
        step, (beta1, beta2), lr, decay = step + 1, hyper["betas"], hyper["lr"], hyper["weight_decay"]
        root = (1 - beta2**step) ** 0.5   # corrects the root of `square`; multiplied through, it touches no element
        return (step, -lr * root / (1 - beta1**step), hyper["eps"] * root, 1 - beta1, 1 - beta2,
                1 - lr * decay if hyper["decoupled_weight_decay"] else decay)

    def expr(
        self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, mean: Any, square: Any, largest: Any = None
    ) -> tuple:
        amsgrad, maximize, decays, decoupled = choices
        grad = -grad if maximize else grad
        if decays and decoupled:
            param = param * n.weight_decay
        elif decays:
            grad = s.fma(n.weight_decay, param, grad)
        mean = s.fma(n.beta1, grad - mean, mean)
        square = s.fma(n.beta2, grad * grad - square, square)
        largest = s.maximum(largest, square) if amsgrad else square
        param = s.fma(n.lr, s.near_div(mean, s.sqrt(largest) + n.eps), param)
        return (param, mean, square, largest) if amsgrad else (param, mean, square)


RULE = AdamRule()


def check_tensor_options(lr: Any, betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    """Refuse options that are tensors where PyTorch takes none."""
    if not (all(isinstance(b, float) for b in betas) or all(isinstance(b, Tensor) for b in betas)):
        raise ValueError("betas: expected two floats or two Tensors, not one of each")
    for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
        if isinstance(value, Tensor):
            if foreach and not capturable:
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
            if value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")


class Adam(RuledOptimizer):
    """Steps along the running mean of gradients, divided by the root of the running mean of their squares.

    Both means start at 0 and are corrected for it. `weight_decay` adds to the gradient, or with
    `decoupled_weight_decay` shrinks the parameter itself. `amsgrad` divides by the largest mean of squares so far.
    """

    _rule = RULE
    _later = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
              "fused": None, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:
        check_at_least_zero(learning_rate=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        check_tensor_options(lr, betas, foreach, capturable)
        defaults = {"lr": lr, "betas": tuple(map(_to_scalar, betas)), "eps": eps, "weight_decay": weight_decay,
                    "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach, "capturable": capturable,
                    "differentiable": differentiable, "fused": fused,
                    "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError("a Tensor lr with foreach=True needs capturable=True")

    def _take_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        if any(p.grad.is_sparse for p in params):
            raise RuntimeError("Adam takes dense gradients only, and got a sparse one: use SparseAdam for it")
        return params


def adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
         max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None,
         capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
         grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False,
         decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float | Tensor, beta2: float | Tensor,
         lr: float | Tensor, weight_decay: float, eps: float, maximize: bool) -> None:
    """The update of `Adam` on lists of parameters, gradients and state."""
    hyper = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
             "maximize": maximize, "capturable": capturable, "differentiable": differentiable, "fused": fused,
             "grad_scale": grad_scale, "found_inf": found_inf,
             "decoupled_weight_decay": decoupled_weight_decay}
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs}
    functional_update(RULE, params, grads, lists, hyper)


__all__ = ["Adam", "adam"]


describe(globals(), Optimizer, __file__)
