"""LeNet on handwritten digits, on the lazy device: each step is written down, and runs as one graph.

    pip install 'rushlight[datasets]'
    python examples/lazy_mnist.py --epochs 3

The loop is that of eager mode, with a `mark_step()` at the end of each step. The first step compiles, the second once
more (the state of the optimizer is there then), and all others find their graph by what was written down.
"""

from __future__ import annotations

import argparse
import time

import rushlight as torch
from rushlight import lazy, nn
from rushlight.lazy import metrics
from rushlight.nn import functional as F


def lenet() -> nn.Module:
    """LeNet for images of 8 x 8."""
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images and what they show."""
    from sklearn.datasets import load_digits  # the extra `datasets`

    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(found.target).long()


def train(epochs: int, size: int = 64, device: str = "lazy") -> float:
    """The share of digits that were kept apart which the network then knows."""
    torch.manual_seed(0)
    images, labels = digits()
    order = torch.randperm(len(images))
    images, labels = images[order], labels[order]
    apart = len(images) // 5
    model = lenet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    metrics.reset()
    steps = 0
    for epoch in range(epochs):
        begin, total = time.perf_counter(), torch.zeros((), device=device)
        starts = range(apart, len(images) - size + 1, size)
        for start in starts:
            x, y = images[start : start + size].to(device), labels[start : start + size].to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()              # not looked at before the epoch ends
            lazy.mark_step(device)
            steps += 1
        print(f"epoch {epoch + 1}: loss {total.item() / len(starts):.3f}, {time.perf_counter() - begin:.1f} s")
    model.eval()
    with torch.no_grad():
        right = (model(images[:apart].to(device)).argmax(1) == labels[:apart].to(device)).float().mean().item()
    graphs = metrics.counter_value("UncachedCompile")
    print(f"{steps} steps, {graphs} graphs compiled, {right:.1%} of the rest are right")
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    train(parser.parse_args().epochs)
