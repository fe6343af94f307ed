"""A convolutional net with its own dataset, a loader, mixed precision and a sequential model."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split


class Squares(Dataset[tuple[torch.Tensor, int]]):
    """Images of noise, labelled by their mean."""

    def __init__(self, count: int = 32) -> None:
        self.images = torch.rand(count, 1, 8, 8)

    def __len__(self) -> int:
        return self.images.shape[0]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index]
        return image, int(image.mean() > 0.5)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for step in range(4):
            yield torch.full((2,), float(step))


class Net(nn.Module):
    def __init__(self, widths: Sequence[int] = (8, 16)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        previous = 1
        for width in widths:
            layers += [
                nn.Conv2d(previous, width, kernel_size=3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            previous = width
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.heads = nn.ModuleList([nn.Linear(previous, 2) for _ in range(2)])
        self.named = nn.ModuleDict({"act": nn.SiLU(), "flat": nn.Flatten()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.body(x))
        x = torch.flatten(x, 1)
        outputs = [head(x) for head in self.heads]
        return torch.stack(outputs, dim=0).mean(dim=0)


def collate(batch: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = zip(*batch)
    return torch.stack(list(images)), torch.tensor(labels, dtype=torch.int64)


def main() -> None:
    data = Squares()
    train, valid = random_split(data, [24, 8], generator=torch.Generator().manual_seed(0))
    few = Subset(data, [0, 1, 2])
    loader: DataLoader[tuple[torch.Tensor, int]] = DataLoader(
        train, batch_size=8, shuffle=True, num_workers=0, collate_fn=collate
    )
    plain = DataLoader(TensorDataset(torch.randn(8, 2), torch.zeros(8)), batch_size=4, drop_last=True)
    model = Net()
    groups: list[dict[str, Any]] = [
        {"params": model.body.parameters(), "lr": 0.01},
        {"params": model.heads.parameters()},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        for step, (images, labels) in enumerate(loader):
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                logits = model(images)
                loss = criterion(logits.float(), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 2 == 0:
                print(epoch, step, f"{loss.item():.3f}", len(few), len(valid), len(loader))
    with torch.inference_mode():
        for images, labels in DataLoader(valid, batch_size=4):
            values, indices = model(images).softmax(-1).max(dim=1)
            print(values.tolist(), (indices == labels).sum().item())
    for x, y in plain:
        print(x.shape, y.dtype)
    for part in DataLoader(Stream(), batch_size=None):
        print(part.sum().item())


if __name__ == "__main__":
    main()
