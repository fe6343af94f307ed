"""Half the channels of a residual network taken out, and what is left taught by the whole.

Enters: nothing; the images are made here: ten patterns, each shifted and under noise. Leaves: the accuracy, size and
time of the teacher, of the student that pruning leaves, and of the student after the teacher's lessons.

    python examples/distill.py                    under a minute on one core
    python examples/distill.py --keep 0.25        a quarter of the channels
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import rushlight as torch
from rushlight import nn
from rushlight.ao.pruning import shrink
from rushlight.nn import functional as F
from rushlight.nn.utils import prune

CLASSES, SIZE = 10, 12


def make_images(count: int, patterns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(count, 1, SIZE, SIZE) images and their classes: patterns shifted by up to two pixels, under noise."""
    labels = torch.randint(CLASSES, (count,))
    shifts = torch.randint(-2, 3, (count, 2)).tolist()
    shifted = [torch.roll(patterns[label], shift, (0, 1)) for label, shift in zip(labels.tolist(), shifts)]
    return torch.stack(shifted).unsqueeze(1) + 0.5 * torch.randn(count, 1, SIZE, SIZE), labels


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(hidden)))


class Network(nn.Module):
    """A stem, three blocks, and a linear layer over means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(Block(width), Block(width), Block(width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.stem_norm(self.stem(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def mask_channels(makers: list[tuple[nn.Module, nn.Module]], keep: float) -> None:
    """Mask the channels of smallest weight of convolutions with their norms; those of one list are summed, so all of
    them lose the same."""
    score = sum(conv.weight.detach().flatten(1).norm(dim=1) * norm.weight.detach().abs() for conv, norm in makers)
    kept = torch.zeros_like(score)
    kept[score.topk(max(1, round(keep * len(score)))).indices] = 1
    for conv, norm in makers:
        prune.custom_from_mask(conv, "weight", kept.view(-1, 1, 1, 1).expand_as(conv.weight))
        prune.custom_from_mask(norm, "weight", kept)
        prune.custom_from_mask(norm, "bias", kept)


def train(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float,
          measure: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    """Minimize `measure(answers, images, labels)` over shuffled batches."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate)
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            loss = measure(network(images[batch]), images[batch], labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def report(name: str, network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Print and leave the accuracy."""
    network.eval()
    with torch.no_grad():
        network(images)                                     # kernels are made at the first call
        started = time.perf_counter()
        accuracy = (network(images).argmax(1) == labels).float().mean().item()
    size = sum(p.numel() for p in network.parameters())
    milliseconds = 1000 * (time.perf_counter() - started)
    print(f"{name:<24} accuracy {accuracy:6.1%}, {size:7,} parameters, {milliseconds:6.1f} ms", flush=True)
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=float, default=0.5, help="the share of channels that stay")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=1500)
    options = parser.parse_args()
    torch.manual_seed(0)
    patterns = torch.randn(CLASSES, SIZE, SIZE)
    learned, tested = make_images(options.images, patterns), make_images(500, patterns)

    teacher = Network(width=24)
    train(teacher, *learned, options.epochs, 3e-3, lambda answers, _, labels: F.cross_entropy(answers, labels))
    report("teacher", teacher, *tested)

    masked = Network(width=24)
    masked.load_state_dict(teacher.state_dict())
    masked.eval()
    blocks = list(masked.blocks)
    for block in blocks:
        mask_channels([(block.first, block.first_norm)], options.keep)
    mask_channels([(masked.stem, masked.stem_norm), *((b.second, b.second_norm) for b in blocks)], options.keep)
    student = shrink(masked, tested[0][:2])
    report("student, pruned", student, *tested)

    def lesson(answers: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The teacher's answers, softened, and the right ones."""
        with torch.no_grad():
            wanted = F.softmax(teacher(images) / 2, dim=1)
        taught = F.kl_div(F.log_softmax(answers / 2, dim=1), wanted, reduction="batchmean") * 4
        return 0.7 * taught + 0.3 * F.cross_entropy(answers, labels)

    train(student, *learned, options.epochs, 2e-3, lesson)
    report("student, taught", student, *tested)


if __name__ == "__main__":
    main()
