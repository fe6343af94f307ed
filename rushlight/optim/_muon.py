"""Muon: momentum made orthogonal before it is applied, for matrices."""

from __future__ import annotations

import math
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT

EPS = 1e-7
DEFAULT_A, DEFAULT_B, DEFAULT_C = 3.4445, -4.7750, 2.0315
DEFAULT_NS_STEPS = 5
OPTIONS = ("lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")


def _zeropower_via_newtonschulz(
    grad: Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Tensor:
    """An orthogonal matrix near `grad`, by iterating an odd polynomial of degree 5 on its singular values,
    in bfloat16."""
    if ns_steps >= 100:
        raise ValueError("ns_steps: expected fewer than 100 steps")
    if grad.ndim != 2:
        raise ValueError("the gradient must be a matrix (2 dims)")
    if len(ns_coefficients) != 3:
        raise ValueError("ns_coefficients: expected three values")
    a, b, c = ns_coefficients
    addmm = find_op("addmm")
    is_tall = grad.size(0) > grad.size(1)
    x = grad.bfloat16()
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: Any) -> float:
    """The rate for a matrix of this shape."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns)) if adjust_lr_fn in (None, "original") else lr


class Muon(Optimizer):
    """Momentum whose singular values are all brought near 1 (Newton-Schulz, `ns_steps` of it),
    with decoupled weight decay.

    Example:
        >>> w = rl.nn.Parameter(rl.tensor([[1.0, 2.0]]))
        >>> optimizer = rl.optim.{name}([w], lr=0.1)
        >>> for step in range(3):
        ...     loss = (w * w).sum()
        ...     optimizer.zero_grad()
        ...     loss.backward()
        ...     _ = optimizer.step()
        >>> bool((w * w).sum() < 5)
        True
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (DEFAULT_A, DEFAULT_B, DEFAULT_C),
                 eps: float = EPS, ns_steps: int = DEFAULT_NS_STEPS,
                 adjust_lr_fn: str | None = None) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for label, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not 0.0 <= value:
                raise ValueError(f"{label} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon updates matrices (2 dims) only, got a parameter of size {p.size()}: give the others to"
                        " AdamW"
                    )

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient;
        `closure` evaluates the model again and returns the loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if p.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                if p.grad.is_sparse:
                    raise RuntimeError("Muon does not support sparse gradients")
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = find_op("zeros_like")(p.grad)
            options = {key: value for key, value in group.items() if key in OPTIONS}
            muon(
                params,
                [p.grad for p in params],
                [self.state[p]["momentum_buffer"] for p in params],
                has_complex=False,
                **options,
            )
        return loss


@no_grad()
def muon(params: list[Tensor], grads: list[Tensor], muon_momentum_bufs: list[Tensor], *, foreach: bool | None = None,
         lr: float, weight_decay: float, momentum: float, nesterov: bool, ns_coefficients: tuple[float, float, float],
         ns_steps: int, eps: float, adjust_lr_fn: str | None, has_complex: bool) -> None:
    """The update of `Muon` on lists of parameters, gradients and momentum buffers."""
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    lr = float(lr)
    for param, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        if grad.ndim != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        buffer.lerp_(grad, 1 - momentum)
        update = _zeropower_via_newtonschulz(
            grad.lerp(buffer, momentum) if nesterov else buffer, ns_coefficients, ns_steps, eps
        )
        param.mul_(1 - lr * weight_decay)
        param.add_(update, alpha=-_adjust_lr(lr, adjust_lr_fn, param.shape))


__all__ = ["Muon", "muon"]


describe(globals(), Optimizer, __file__)
