"""SparseAdam: Adam for sparse gradients, touching only the elements a gradient names."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.descriptions import describe
from ..op import find_op
from ._functional import sparse_adam
from .optimizer import Optimizer, ParamsT


class SparseAdam(Optimizer):
    """`Adam` on the elements of sparse gradients; the means of others wait, undecayed.

    Example:
        >>> table = rl.nn.Embedding(3, 2, sparse=True)
        >>> optimizer = rl.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> before = table.weight.detach().clone()
        >>> table(rl.tensor([1])).sum().backward()
        >>> _ = optimizer.step()
        >>> (table.weight != before).any(1)
        tensor([False,  True, False])
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, maximize: bool = False) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [([g, i], p) for g, group in enumerate(self.param_groups) for i, p in enumerate(group["params"])]
        sparse, is_complex = [place for place, p in places if p.is_sparse], [
            place for place, p in places if p.is_complex()
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if is_complex:
            raise ValueError(f"Complex params at indices {is_complex}: SparseAdam does not support complex parameters")

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient;
        `closure` evaluates the model again and returns the loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        zeros = find_op("zeros_like")
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not p.grad.is_sparse:
                    raise RuntimeError("SparseAdam takes sparse gradients only, and got a dense one: use Adam for it")
                if not self.state[p]:
                    self.state[p].update(step=0, exp_avg=zeros(p), exp_avg_sq=zeros(p))
                self.state[p]["step"] += 1
            states, (beta1, beta2) = [self.state[p] for p in params], group["betas"]
            means, squares, steps = ([s[key] for s in states] for key in ("exp_avg", "exp_avg_sq", "step"))
            sparse_adam(params, [p.grad for p in params], means, squares, steps, eps=group["eps"], beta1=beta1,
                        beta2=beta2, lr=group["lr"], maximize=group.get("maximize", False))
        return loss


__all__ = ["SparseAdam"]


describe(globals(), Optimizer, __file__)
