"""A training loop with three planted bottlenecks, for `rushlight profile` to find.

Enters: nothing; the data is made up. Leaves: the loss, and how long an epoch took. The mistakes are ones that real
programs make, each marked below, and each can be mended:

    python -m rushlight profile --out before examples/profile_bottlenecks.py
    python -m rushlight profile --out after examples/profile_bottlenecks.py --mend data,loop,float64

    data       every example is read slowly (a sleep stands for a disk), and the loader has no workers
    loop       the columns of a batch are standardized one by one, in a loop in Python
    float64    statistics come from NumPy, so a large product runs in double precision
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES, CLASSES, BATCH = 192, 10, 32


class SlowExamples(Dataset):
    """Rows of random numbers, each read as slowly as a small file."""

    def __init__(self, count: int) -> None:
        generator = np.random.default_rng(0)
        self.rows = generator.standard_normal((count, FEATURES)).astype(np.float32)
        self.labels = generator.integers(0, CLASSES, count)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.0003)                                                     # planted: data
        return torch.from_numpy(self.rows[index]), int(self.labels[index])


def standardized(batch: torch.Tensor, is_mended: bool) -> torch.Tensor:
    """Every column with mean 0 and variance 1."""
    if is_mended:
        return (batch - batch.mean(0)) / batch.std(0).clamp(min=1e-6)
    columns = []
    for k in range(batch.shape[1]):
        column = batch[:, k]
        centred = column - column.mean()                                       # planted: loop
        columns.append(centred / centred.square().mean().sqrt().clamp(min=1e-6))
    return torch.stack(columns, 1)


def whiten(batch: torch.Tensor, matrix: np.ndarray, is_mended: bool) -> torch.Tensor:
    """The features with correlations removed, as statistics of the whole set have it; several rounds of them."""
    rotation = torch.from_numpy(matrix)
    if is_mended:
        rotation = rotation.float()
    wide = batch.to(rotation.dtype).repeat(1, rotation.shape[0] // batch.shape[1])
    for _ in range(3):
        wide = wide @ rotation                                                 # planted: float64
    return wide[:, : batch.shape[1]].float()


def train(epochs: int, count: int, mended: set[str]) -> float:
    """The last loss."""
    torch.manual_seed(0)
    width = 4 * FEATURES
    matrix = np.random.default_rng(1).standard_normal((width, width)) / width**0.5
    loader = DataLoader(SlowExamples(count), BATCH, num_workers=2 if "data" in mended else 0)
    model = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    for _ in range(epochs):
        for batch, labels in loader:
            features = whiten(standardized(batch, "loop" in mended), matrix, "float64" in mended)
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return float(loss.detach())


def main() -> None:
    """Trains, and says how long that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=1024)
    parser.add_argument("--mend", default="", metavar="WHICH", help="of data, loop and float64, joined by commas")
    options = parser.parse_args()
    mended = {name for name in options.mend.split(",") if name}
    unknown = mended - {"data", "loop", "float64"}
    if unknown:
        parser.error(f"--mend: expected data, loop or float64, got {', '.join(sorted(unknown))}")
    start = time.perf_counter()
    loss = train(options.epochs, options.examples, mended)
    print(f"loss {loss:.3f} after {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
