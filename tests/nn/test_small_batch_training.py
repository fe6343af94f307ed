"""Two training steps of small convolutional networks with batch norm over few images, against a run in float64.

Batch norm over a few values divides by deviations that nearly vanish, and so enlarges the rounding errors of the
convolutions before it. Rushlight may stray from the float64 run at most about twice as far as PyTorch's own float32
does. The networks are smooth: where a ReLU or a maximum decides otherwise,
gradients move by more than all the roundings, in either library.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

SIZE, IMAGES = 24, 2


def unit(nn: Any, channels: int, outs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
    """Convolution, batch norm, activation."""
    return nn.Sequential(
        nn.Conv2d(channels, outs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outs),
        nn.SiLU(),
    )


def regnet(torch: Any) -> tuple[Any, Callable]:
    """Bottlenecks with grouped convolutions and shortcuts."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, channels: int, outs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                unit(nn, channels, outs, 1),
                unit(nn, outs, outs, 3, stride, outs // 16),
                nn.Conv2d(outs, outs, 1, bias=False),
                nn.BatchNorm2d(outs),
            )
            self.short = nn.Sequential(nn.Conv2d(channels, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

        def forward(self, x: Any) -> Any:
            return nn.functional.silu(self.body(x) + self.short(x))

    net = nn.Sequential(
        unit(nn, 3, 32),
        unit(nn, 32, 32),
        Block(32, 64, 2),
        Block(64, 96, 2),
        Block(96, 160, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(160, 10),
    )
    return net, lambda x, y: nn.functional.cross_entropy(net(x), y)


def densenet(torch: Any) -> tuple[Any, Callable]:
    """Every layer reads all results before it."""
    nn = torch.nn

    class Dense(nn.Module):
        def __init__(self, channels: int, count: int, growth: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(
                    nn.BatchNorm2d(channels + k * growth),
                    nn.SiLU(),
                    nn.Conv2d(channels + k * growth, 4 * growth, 1, bias=False),
                    nn.BatchNorm2d(4 * growth),
                    nn.SiLU(),
                    nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
                )
                for k in range(count)
            )

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            return x

    net = nn.Sequential(
        unit(nn, 3, 32),
        Dense(32, 3, 16),
        unit(nn, 80, 40, 1),
        nn.AvgPool2d(2),
        Dense(40, 3, 16),
        unit(nn, 88, 44, 1),
        nn.AvgPool2d(2),
        Dense(44, 3, 16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(92, 10),
    )
    return net, lambda x, y: nn.functional.cross_entropy(net(x), y)


def siamese(torch: Any) -> tuple[Any, Callable]:
    """One network for both halves of a batch; their distance is compared."""
    nn = torch.nn
    net = nn.Sequential(
        unit(nn, 3, 32),
        unit(nn, 32, 64),
        nn.AvgPool2d(2),
        unit(nn, 64, 128),
        nn.AvgPool2d(2),
        unit(nn, 128, 128),
        nn.Flatten(),
        nn.Linear(128 * 36, 32),
    )

    def loss(x: Any, y: Any) -> Any:
        first, second = net(x[:1]), net(x[1:])
        distance = (first - second).square().sum(1).add(1e-6).sqrt()
        same = (y[:1] == y[1:]).to(distance.dtype)
        return (same * distance.square() + (1 - same) * nn.functional.softplus(2 - distance).square()).mean()

    return net, loss


def unet(torch: Any) -> tuple[Any, Callable]:
    """Down and up again, with results of the way down joined."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(unit(nn, 3, 32), unit(nn, 32, 32))
            self.second = nn.Sequential(unit(nn, 32, 64), unit(nn, 64, 64))
            self.third = nn.Sequential(unit(nn, 64, 128), unit(nn, 128, 128))
            self.up, self.higher = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
            self.fourth = nn.Sequential(unit(nn, 128, 64), unit(nn, 64, 64))
            self.fifth = nn.Sequential(unit(nn, 64, 32), nn.Conv2d(32, 10, 1))

        def forward(self, x: Any) -> Any:
            pool = nn.functional.avg_pool2d
            a = self.first(x)
            b = self.second(pool(a, 2))
            c = self.fourth(torch.cat([b, self.up(self.third(pool(b, 2)))], 1))
            return self.fifth(torch.cat([a, self.higher(c)], 1))

    net = Net()
    return net, lambda x, y: nn.functional.cross_entropy(net(x), y[:, None, None].expand(IMAGES, SIZE, SIZE))


class Run(NamedTuple):
    """Losses of two steps and all gradients of the second."""

    losses: list[float]
    gradients: list[np.ndarray]


def train(name: str, make: Callable, dtype: str, seed: int) -> Run:
    """Two steps of SGD from numbers that do not depend on the library."""
    torch = importlib.import_module(name)
    net, loss_of = make(torch)
    numbers = np.random.default_rng(seed)
    wide = getattr(torch, dtype)
    net = net.to(wide)
    with torch.no_grad():
        for p in net.parameters():
            spread = (2 / np.prod(tuple(p.shape)[1:])) ** 0.5 if p.ndim > 1 else 0.1
            values = numbers.standard_normal(tuple(p.shape)) * spread + (1.0 if p.ndim == 1 else 0.0)
            p.copy_(torch.from_numpy(values.astype(np.float32)).to(wide))
    x = torch.from_numpy(numbers.standard_normal((IMAGES, 3, SIZE, SIZE)).astype(np.float32)).to(wide)
    y = torch.tensor([1, 7])
    stepper = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for _ in range(2):
        stepper.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        losses.append(loss.item())
        gradients = [p.grad.detach().double().numpy().copy() for p in net.parameters()]
        stepper.step()
    return Run(losses, gradients)


def distance(run: Run, exact: Run) -> tuple[float, float]:
    """How far losses and gradients (as one vector) are from the exact ones, relative to those."""
    apart = sum(float(((a - b) ** 2).sum()) for a, b in zip(run.gradients, exact.gradients, strict=True))
    whole = sum(float((b**2).sum()) for b in exact.gradients)
    return max(abs(a - b) / abs(b) for a, b in zip(run.losses, exact.losses, strict=True)), (apart / whole) ** 0.5


@pytest.mark.share(2)
@pytest.mark.parametrize("make", [regnet, densenet, siamese, unet])
def test_two_steps_stray_no_further_than_twice_pytorchs(make: Callable) -> None:
    exact = train("torch", make, "float64", 0)
    mine, other = (distance(train(name, make, "float32", 0), exact) for name in ("rushlight", "torch"))
    # A loss is one number, and its error scatters about zero in both libraries; gradients are many.
    assert mine[0] < 2 * max(other[0], 1e-6), f"losses: {mine[0]:.1e}, PyTorch's {other[0]:.1e}"
    assert mine[1] < 2 * max(other[1], 5e-7), f"gradients: {mine[1]:.1e}, PyTorch's {other[1]:.1e}"


def features(name: str, dtype: str) -> np.ndarray:
    """Results of eight 3x3 convolutions with batch norm over two images."""
    torch = importlib.import_module(name)
    nn, wide, numbers = torch.nn, getattr(torch, dtype), np.random.default_rng(3)
    net = nn.Sequential(unit(nn, 32, 192), *(unit(nn, 192, 192) for _ in range(7))).to(wide)
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim > 1:
                p.copy_(torch.from_numpy((numbers.standard_normal(tuple(p.shape)) * 0.03).astype(np.float32)).to(wide))
        return (
            net(torch.from_numpy(numbers.standard_normal((2, 32, 8, 8)).astype(np.float32)).to(wide)).double().numpy()
        )


def test_features_stray_no_further_than_twice_pytorchs() -> None:
    exact = features("torch", "float64")
    mine, other = (
        float(np.sqrt(((features(name, "float32") - exact) ** 2).mean() / (exact**2).mean()))
        for name in ("rushlight", "torch")
    )
    assert mine < 2 * max(other, 5e-7), f"{mine:.1e}, PyTorch's {other:.1e}"
