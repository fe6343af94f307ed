"""Everyday tensor code: indexing, shapes, reductions that give pairs, linear algebra, autograd, contexts, errors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function


class Clamp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * (x >= ctx.low), None


def indexing(x: Tensor) -> Tensor:
    row, column, corner = x[0], x[:, 1], x[..., -1:]
    picked = x[torch.tensor([0, 1])]
    positive = x[x > 0]
    x[0, 1] = 2.5
    x[x < 0] = 0
    x[:, 0] += 1
    grown = x[None].expand(2, -1, -1)
    for line in x:
        row = row + line
    first, *rest = x.unbind(0)
    return (
        row.sum() + column.sum() + corner.sum() + picked.sum() + positive.sum() + grown.sum() + first.sum() + len(rest)
    )


def shapes(x: Tensor) -> list[int]:
    rows, columns = x.shape
    last: int = x.shape[-1]
    size = x.size()
    count: int = size.numel()
    assert x.ndim == x.dim() == len(x.shape)
    y = x.view(-1).reshape(rows, columns).permute(1, 0).contiguous().unsqueeze(0).squeeze(0)
    y = torch.cat([x, y.t()], dim=0)
    a, b = torch.chunk(y, 2, dim=0)
    total = int(a.shape[0]) + b.size(1) + last + count + size[0]
    return [total, *list(x.shape), *x.stride()]


def pairs(x: Tensor) -> float:
    best = x.max(dim=1)
    values, indices = best.values, best.indices
    top = torch.topk(x, k=2)
    ordered, order = torch.sort(x, dim=-1, descending=True)
    middle = x.median(0).values
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    again = torch.linalg.svd(x).S
    q, r = torch.linalg.qr(x)
    square = x @ x.T + torch.eye(x.shape[0])
    values2, vectors = torch.linalg.eigh(square)
    low, info = square.inverse(), torch.linalg.det(square)
    kinds, counts = torch.unique(indices, return_counts=True)
    total = (
        values.sum()
        + top.values.sum()
        + ordered.sum()
        + middle.sum()
        + (u * s @ vh).sum()
        + again.sum()
        + (q @ r).sum()
    )
    return float(total + values2.sum() + vectors.sum() + low.sum() + info + order.sum() + kinds.sum() + counts.sum())


def gradients() -> Tensor:
    x = torch.randn(3, requires_grad=True)
    y = Clamp.apply(x, 0.0)
    (y * 2).sum().backward()
    (gradient,) = torch.autograd.grad((x**2).sum(), x, create_graph=True)
    assert x.grad is not None
    with torch.no_grad():
        x.sub_(0.1 * x.grad)
        x.grad.zero_()
    with torch.enable_grad(), torch.set_grad_enabled(True):
        z = 1 - x / 2 + 3 * x
    with torch.inference_mode():
        w = z.detach().clone()
    jacobian = torch.func.jacrev(torch.sin)(w.clone())
    return gradient + w + jacobian.sum()


def devices() -> Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.device("cpu"):
        x = torch.zeros(2, 3, dtype=torch.float32)
    x = x.to(device, non_blocking=True).to(torch.float64).to("cpu").type_as(x)
    y = torch.from_numpy(np.ones((2, 3), dtype=np.float32))
    array: np.ndarray = (x + y).cpu().numpy()
    print(device.type, x.dtype.is_floating_point, torch.finfo(x.dtype).eps, array.shape, x.device == y.device)
    return torch.where(x > 0, x, torch.zeros_like(x)) + torch.as_tensor(array)


def arithmetic(x: Tensor) -> bool:
    y = (-x + 1) * 2 / 3 - x**2 % 2 // 1
    same = torch.allclose(x, y, atol=1e-6) or torch.equal(x, y)
    flags = (x > 0) & ~(y > 0) | (x == y)
    y += 1
    y.add_(x).mul_(2).clamp_(0, 1)
    einsum = torch.einsum("ij,kj->ik", x, y)
    norm, mean, std = einsum.norm(), x.mean(dim=(0, 1), keepdim=True), x.std(dim=0, unbiased=False)
    print(
        norm.item(),
        mean.tolist(),
        std,
        f"{x.sum().item():.3f}",
        torch.arange(0, 1, 0.1),
        torch.linspace(0, 1, steps=5),
        torch.pi,
    )
    return bool(flags.any()) or same or bool((x.abs().max() > y.min()).item())


def errors() -> str:
    try:
        print(torch.zeros(2) @ torch.zeros(3))
    except (RuntimeError, torch.OutOfMemoryError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    x = torch.randn(3, 4)
    print(
        indexing(x.clone()),
        shapes(x),
        pairs(x),
        gradients(),
        devices(),
        arithmetic(x),
        errors(),
        torch.__version__,
        torch.Size([1, 2]) + (3,),
    )
