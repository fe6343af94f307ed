"""A program as people write them, with types where they would write types. Type-checked by test_type_checkers.py,
and run there too."""

from __future__ import annotations

from collections.abc import Iterator

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(self.inner(self.norm(x)))
        return x + self.dropout(self.outer(h))


class Classifier(nn.Module):
    def __init__(self, features: int, width: int, classes: int, depth: int = 2) -> None:
        super().__init__()
        self.entry = nn.Linear(features, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_data(rows: int, features: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, features)
    y = (x.sum(dim=1) > 0).long()
    return x, y


def batches(x: torch.Tensor, y: torch.Tensor, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    loader = DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)
    for part, target in loader:
        yield part, target.view(-1)


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
    losses: list[float] = []
    for _ in range(epochs):
        for part, target in batches(x, y, 16):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(part), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    best = model(x).max(1)
    return (best.indices == y).float().mean().item()


def shapes(x: torch.Tensor) -> int:
    rows, columns = x.shape
    total: int = x.size(0) * x.shape[-1]
    return total + rows * columns + len(x.shape) + x.numel()


def decompose(x: torch.Tensor) -> torch.Tensor:
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    values, order = torch.sort(s, descending=True)
    return (u * values) @ vh + order.sum() * 0


def main() -> float:
    torch.manual_seed(0)
    device = torch.device("cpu")
    x, y = make_data(64, 8)
    model = Classifier(8, 16, 2).to(device)
    losses = train(model, x.to(device), y, epochs=2)
    with torch.no_grad():
        mixed = torch.stack([x[:2], x[2:4]]).mean(dim=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(mixed)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    assert low.dtype is torch.bfloat16 or low.dtype is torch.float32
    assert shapes(x) > 0 and decompose(x).shape == x.shape and losses
    return accuracy(model, x, y)


if __name__ == "__main__":
    print(f"accuracy {main():.2f}")
