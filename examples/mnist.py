"""Recognise handwritten digits with a small convolutional network.

Enters: a folder with the four MNIST files (compressed or not), or nothing: then the 1,797 digits that scikit-learn
carries (`pip install rushlight[datasets]`). Leaves: the accuracy on held-out digits after each epoch.

    python examples/mnist.py                      seconds on two cores
    python examples/mnist.py --mnist FOLDER       the full 60,000
    python examples/mnist.py --library torch      the same program on PyTorch, for comparison
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any


def read_digits(torch: Any, folder: str | None) -> tuple[Any, Any]:
    """Training and test sets of (image (1, height, width) in [0, 1], label) pairs."""
    datasets = importlib.import_module("rushlight.datasets")
    TensorDataset = torch.utils.data.TensorDataset
    if folder is not None:
        parts = [datasets.MNIST(folder, train=train) for train in (True, False)]
        return tuple(
            TensorDataset(torch.tensor(part.data.numpy()).unsqueeze(1) / 255, torch.tensor(part.targets.numpy()))
            for part in parts
        )
    digits = datasets.Digits()
    whole = TensorDataset(torch.tensor(digits.data.numpy()).unsqueeze(1) / 16, torch.tensor(digits.targets.numpy()))
    held_out = len(whole) // 5
    return tuple(torch.utils.data.random_split(whole, [len(whole) - held_out, held_out]))


def make_network(torch: Any, size: int) -> Any:
    """Two convolutions, one pool, two linear layers; for square images of `size` pixels."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),        # (batch, 16, size, size)
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),       # (batch, 32, size, size)
        nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),                      # (batch, 32 * (size // 2)²)
        nn.Linear(32 * (size // 2) ** 2, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def train_epoch(torch: Any, network: Any, optimizer: Any, loader: Any) -> float:
    """One pass over the training set; the mean loss."""
    network.train()
    total = 0.0
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def measure_accuracy(torch: Any, network: Any, loader: Any) -> float:
    network.eval()
    right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((network(images).argmax(1) == labels).sum())
            count += len(labels)
    return right / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mnist", metavar="FOLDER", help="folder with MNIST's files; scikit-learn's digits without it")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--library", default="rushlight", help="rushlight or torch")
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    torch.manual_seed(0)

    train, test = read_digits(torch, options.mnist)
    train_loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True)
    test_loader = torch.utils.data.DataLoader(test, batch_size=256)
    network = make_network(torch, size=train[0][0].shape[-1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=options.epochs)
    print(f"{options.library}: {len(train):,} digits to learn from, {len(test):,} to be tested on")
    for epoch in range(1, options.epochs + 1):
        started = time.perf_counter()
        loss = train_epoch(torch, network, optimizer, train_loader)
        schedule.step()
        print(
            f"epoch {epoch}: loss {loss:.3f}, accuracy {measure_accuracy(torch, network, test_loader):.1%},"
            f" {time.perf_counter() - started:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
