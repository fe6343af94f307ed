"""Programs in the manner of the tutorials, on the machinery: own gradients, per-sample gradients, loaders, checkpoints,
subclasses."""

from __future__ import annotations

import os
import random
import tempfile

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap
from torch.nn.utils import prune
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

NEEDS = ""


class Legendre(torch.autograd.Function):
    """The third Legendre polynomial, with its derivative."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return 0.5 * (5 * x ** 3 - 3 * x)

    @staticmethod
    def backward(ctx: object, grad_output: torch.Tensor) -> torch.Tensor:
        x, = ctx.saved_tensors
        return grad_output * 1.5 * (5 * x ** 2 - 1)


class Straight(torch.autograd.Function):
    """Rounding whose gradient passes through where the input lies in range."""

    @staticmethod
    def forward(x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return x.clamp(low, high).round()

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: torch.Tensor) -> None:
        x, ctx.low, ctx.high = inputs
        ctx.mark_non_differentiable()
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: object, grad_output: torch.Tensor) -> tuple:
        x, = ctx.saved_tensors
        return grad_output * ((x >= ctx.low) & (x <= ctx.high)), None, None


def case_own_functions() -> dict:
    x = torch.linspace(-3.14, 3.14, 200)
    y, p = torch.sin(x), [torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3)]
    losses = []
    for _ in range(20):
        loss = (p[0] + p[1] * Legendre.apply(p[2] + p[3] * x) - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for parameter in p:
                parameter -= 5e-6 * parameter.grad
                parameter.grad = None
    z = torch.randn(6, requires_grad=True)
    (Straight.apply(z * 3, -2.0, 2.0) * torch.arange(6.0)).sum().backward()
    checked = torch.autograd.gradcheck(Legendre.apply, (torch.rand(4, dtype=torch.double, requires_grad=True),))
    return {"losses": losses, "parameters": p, "straight": z.grad, "checked": checked}


def case_per_sample_gradients() -> dict:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.detach() for name, value in model.named_buffers()}
    pictures, labels = torch.randn(6, 1, 8, 8), torch.randint(5, (6,))

    def loss(parameters: dict, buffers: dict, picture: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        scores = functional_call(model, (parameters, buffers), (picture.unsqueeze(0),))
        return F.cross_entropy(scores, label.unsqueeze(0))

    each = vmap(grad(loss), in_dims=(None, None, 0, 0))(parameters, buffers, pictures, labels)
    norms = torch.stack([value.flatten(1).norm(dim=1) for value in each.values()]).norm(dim=0)
    clipped = {
        name: (value * (1 / norms).clamp(max=1).view(-1, *[1] * (value.dim() - 1))).mean(0)
        for name, value in each.items()
    }
    return {"each": each, "norms": norms, "clipped": clipped}


def case_jacobians_and_tangents() -> dict:
    weight, bias, x = torch.randn(4, 6), torch.randn(4), torch.randn(6)

    def predict(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight, bias).tanh()

    value, tangent = jvp(predict, (x,), (torch.ones(6),))
    _, back = vjp(predict, x)
    ensembles = [nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)) for _ in range(3)]
    stacked, held = torch.func.stack_module_state(ensembles)
    base = ensembles[0]
    scores = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(stacked, held, x)
    kernel = jacrev(lambda p: functional_call(base, p, (torch.ones(2, 6),)))(dict(base.named_parameters()))
    return {
        "jacobian": jacrev(predict)(x),
        "hessian": hessian(lambda x: predict(x).sum())(x),
        "value": value,
        "tangent": tangent,
        "back": back(torch.ones(4)),
        "scores": scores,
        "kernel": kernel,
        "rows": vmap(jacrev(predict))(torch.randn(3, 6)),
    }


class Squares(Dataset):
    def __len__(self) -> int:
        return 23

    def __getitem__(self, i: int) -> dict:
        return {
            "x": torch.full((3,), float(i)) + torch.rand(3),
            "label": i % 4,
            "name": f"item {i}",
            "noise": float(numpy.random.rand()),
            "chance": random.random(),
        }


class Shards(IterableDataset):
    def __iter__(self) -> object:
        info = get_worker_info()
        return iter(torch.arange(info.id if info else 0, 20, info.num_workers if info else 1))


def seed_worker(worker: int) -> None:
    seed = torch.initial_seed() % 2 ** 32
    numpy.random.seed(seed)
    random.seed(seed + worker)


def rows(loader: DataLoader) -> list:
    return [[batch["x"], batch["label"], batch["name"], batch["noise"], batch["chance"]] for batch in loader]


def case_loaders_with_workers() -> dict:
    generator = torch.Generator().manual_seed(3)
    workers = DataLoader(
        Squares(),
        batch_size=5,
        shuffle=True,
        num_workers=2,
        worker_init_fn=seed_worker,
        generator=generator,
        persistent_workers=True,
    )
    here = DataLoader(
        Squares(), batch_size=4, sampler=WeightedRandomSampler(torch.arange(1.0, 24.0), 10), drop_last=True
    )
    left, right = random_split(range(10), [0.7, 0.3], generator=torch.Generator().manual_seed(42))
    return {
        "first": rows(workers),
        "second": rows(workers),
        "here": [batch["name"] for batch in here],
        "split": [list(left), list(right)],
        "shards": list(DataLoader(Shards(), batch_size=3, num_workers=2)),
        "ragged": list(
            DataLoader(
                [torch.ones(n) for n in (2, 5, 3)],
                batch_size=3,
                collate_fn=lambda items: nn.utils.rnn.pad_sequence(items, True),
            )
        ),
    }


def training(path: str, stop_after: int | None = None) -> list[float]:
    """Five epochs over a fixed set, resumed from `path` when it exists."""
    torch.manual_seed(7)
    data = TensorDataset(torch.randn(24, 5), torch.randn(24, 1))
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4),
        ],
        milestones=[2],
    )
    start, losses = 0, []
    if os.path.exists(path):
        held = torch.load(path)
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
        schedule.load_state_dict(held["schedule"])
        torch.set_rng_state(held["rng"])
        start, losses = held["epoch"], held["losses"]
    for epoch in range(start, 5):
        for x, y in DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = F.huber_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        if epoch + 1 == stop_after:
            torch.save(
                {
                    "epoch": epoch + 1,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "rng": torch.get_rng_state(),
                    "losses": losses,
                },
                path,
            )
            break
    return losses


def case_checkpoint_and_resume() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        whole = training(path)
        stopped = training(path, stop_after=2)
        resumed = training(path)
        held = torch.load(path, map_location="cpu", weights_only=True)
    return {
        "whole": whole,
        "stopped": stopped,
        "resumed": resumed,
        "same": whole == resumed,
        "keys": sorted(held),
        "groups": held["optimizer"]["param_groups"],
    }


def case_averaged_weights_and_accumulation() -> dict:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    averaged = torch.optim.swa_utils.AveragedModel(model)
    moving = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    swa_rate = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    x, y, losses, rates = torch.randn(16, 4), torch.randn(16, 1), [], []
    for epoch in range(5):
        optimizer.zero_grad()
        for part_x, part_y in zip(x.chunk(4), y.chunk(4)):
            loss = F.mse_loss(model(part_x), part_y) / 4
            loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        moving.update_parameters(model)
        if epoch < 3:
            plateau.step(loss)
        else:
            swa_rate.step()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
    torch.optim.swa_utils.update_bn(DataLoader(TensorDataset(x), batch_size=8), averaged)
    return {
        "losses": losses,
        "rates": rates,
        "averaged": dict(averaged.state_dict()),
        "moving": dict(moving.state_dict()),
    }


class Tagged(torch.Tensor):
    """A tensor that carries a note through every function."""

    @classmethod
    def __torch_function__(cls, function: object, types: tuple, args: tuple = (), kwargs: dict | None = None) -> object:
        result = super().__torch_function__(function, types, args, kwargs or {})
        notes = [value.note for value in args if isinstance(value, Tagged) and hasattr(value, "note")]
        if isinstance(result, Tagged) and notes:
            result.note = "+".join([*notes, function.__name__])
        return result


def case_subclasses_and_parametrizations() -> dict:
    x = torch.randn(3).as_subclass(Tagged)
    x.note = "x"
    y = torch.sin(x) * x

    class Symmetric(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight.triu() + weight.triu(1).transpose(-1, -2)

    layer = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    orthogonal = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))
    pruned = nn.Linear(6, 6)
    prune.l1_unstructured(pruned, "weight", amount=0.3)
    (
        layer(torch.ones(2, 4)).sum()
        + normed(torch.ones(2, 4)).sum()
        + orthogonal(torch.ones(2, 4)).square().sum()
        + pruned(torch.ones(2, 6)).sum()
    ).backward()
    return {
        "note": y.note,
        "kind": type(y).__name__,
        "y": y.as_subclass(torch.Tensor),
        "weight": layer.weight,
        "normed": normed.weight,
        "mask": pruned.weight_mask,
        "grads": [p.grad for module in (layer, normed, pruned) for p in module.parameters()],
        "keys": [*layer.state_dict(), *normed.state_dict(), *pruned.state_dict()],
        "orthogonal": orthogonal.weight @ orthogonal.weight.T,
    }
