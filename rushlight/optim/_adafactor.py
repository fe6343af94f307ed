"""Adafactor: mean squares of a matrix kept as one row and one column."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.descriptions import describe
from ..base.dtype import finfo
from ..op import find_op
from .optimizer import Optimizer, ParamsT, _get_scalar_dtype


class Adafactor(Optimizer):
    """Steps of a size relative to the parameter, divided by the root of mean squares, which matrices keep factored.

    `eps` is (least mean of squares, least relative size), `d` the size above which updates are clipped,
    and the means decay by 1 - step ** beta2_decay.

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

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params,
            {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
             "maximize": maximize})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                kept = self.state.get(p)
                if kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = find_op("full")((), float(kept["step"]), dtype=_get_scalar_dtype())

    def _begin(self, p: Tensor) -> dict[str, Any]:
        state, g = self.state[p], p.grad
        if not state:
            state["step"] = find_op("zeros")((), dtype=_get_scalar_dtype())
            if g.dim() > 1:
                state["row_var"] = g.new_zeros((*g.shape[:-1], 1))
                state["col_var"] = g.new_zeros((*g.shape[:-2], 1, g.shape[-1]))
            else:
                state["variance"] = find_op("zeros_like")(g)
        return state

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
                    raise RuntimeError("Adafactor does not support complex parameters")
                if p.grad.is_sparse:
                    raise RuntimeError("Adafactor does not support sparse gradients")
            states = [self._begin(p) for p in params]
            rows, columns, variances = ([s.get(key) for s in states] for key in ("row_var", "col_var", "variance"))
            adafactor(params, [p.grad for p in params], rows, columns, variances, [s["step"] for s in states],
                      d=group["d"], lr=group["lr"], beta2_decay=group["beta2_decay"],
                      weight_decay=group["weight_decay"], eps1=group["eps"][0], eps2=group["eps"][1],
                      foreach=group["foreach"], maximize=group["maximize"],
                      grad_scale=getattr(self, "grad_scale", None),
                      found_inf=getattr(self, "found_inf", None))
        return loss


def mean_square(x: Tensor, dim: int) -> Tensor:
    return (x * x).mean(dim, keepdim=True)


def root_mean_square(x: Tensor) -> float:
    return x.norm(2).item() / x.numel() ** 0.5


@no_grad()
def adafactor(params: list[Tensor], grads: list[Tensor], row_vars: list[Tensor | None], col_vars: list[Tensor | None],
              variances: list[Tensor | None], state_steps: list[Tensor], foreach: bool | None = None,
              grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False, *, d: float,
              lr: float | Tensor, beta2_decay: float, weight_decay: float, eps1: float | None, eps2: float,
              maximize: bool) -> None:
    """The update of `Adafactor` on lists of parameters, gradients and state."""
    if not all(isinstance(t, Tensor) for t in state_steps):
        raise RuntimeError("state_steps: expected a list of tensors of one element each")
    if grad_scale is not None or found_inf is not None:
        raise AssertionError(
            "gradients must be unscaled before step() is called: grad_scale and found_inf are not taken here"
        )
    lr = float(lr)
    for param, grad, row, column, variance, count in zip(
        params, grads, row_vars, col_vars, variances, state_steps, strict=True
    ):
        grad = -grad if maximize else grad
        least = finfo(param.dtype).eps if eps1 is None else eps1
        count += 1
        step = count.item()
        share = step**beta2_decay
        size = max(eps2, root_mean_square(param)) * min(lr, 1 / step**0.5)
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            row.lerp_(mean_square(grad, -1), share)
            column.lerp_(mean_square(grad, -2), share)
            estimate = (row @ column) / row.mean(-2, keepdim=True).clamp(min=least)
        else:
            variance.lerp_(grad * grad, share)
            estimate = variance
        update = estimate.clamp(min=least * least).rsqrt() * grad
        param.add_(update, alpha=-size / max(1.0, root_mean_square(update) / d))


__all__ = ["Adafactor", "adafactor"]


describe(globals(), Optimizer, __file__)
