"""Programs for TorchScript's benchmark: their source must be in a file, and `torch` may be either library."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def functions(torch: ModuleType) -> dict[str, Any]:
    """Functions by name, not compiled."""

    def chain(x, y):  # noqa: ANN001, ANN202 - tensors, as the language takes it
        for _ in range(10):
            x = x * y
            x = x + 0.5
            x = torch.tanh(x)
            x = x - y
            x = torch.sigmoid(x)
            x = x / 1.5
        return x

    def cell(x, h):  # noqa: ANN001, ANN202
        for _ in range(50):
            gate = torch.sigmoid(x + h * 0.5)
            h = gate * torch.tanh(x - h) + (1 - gate) * h
        return h

    def mixed_cell(x, h, w):  # noqa: ANN001, ANN202
        for i in range(50):
            gates = torch.mm(h, w) + x
            a, b = gates.chunk(2, 1)
            h = torch.sigmoid(a) * torch.tanh(b)
            if i % 10 == 9:
                h = h * 0.9
        return h

    def count(n: int) -> int:
        total = 0
        for i in range(n):
            if i % 3 == 0:
                total += i
            else:
                total -= 1
        return total

    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    return {found.__name__: found for found in (chain, cell, mixed_cell, count, collatz)}


def mlp(torch: ModuleType) -> Any:
    """Eight layers."""
    nn = torch.nn
    layers: list[Any] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers)


def voice(torch: ModuleType) -> Any:
    """A detector of speech that is handed sound bit by bit: it keeps what it last heard, and its state."""
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self, width: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, 64, width, stride)
            self.layers = nn.ModuleList([nn.Conv1d(64, 64, 3, padding=1) for _ in range(3)])
            self.norm = nn.BatchNorm1d(64)

        def forward(self, x):  # noqa: ANN001, ANN202
            x = torch.relu(self.first(x))
            for layer in self.layers:
                x = torch.relu(layer(x)) + x
            return self.norm(x)

    class Voice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.fast = Encoder(64, 32), Encoder(128, 64)
            self.cell = nn.LSTMCell(64, 64)
            self.out = nn.Linear(64, 1)
            self.register_buffer("context", torch.zeros(1, 64))
            self.register_buffer("h", torch.zeros(1, 64))
            self.register_buffer("c", torch.zeros(1, 64))

        def forward(self, x, rate: int):  # noqa: ANN001, ANN202
            if rate != 8000 and rate != 16000:
                raise ValueError("rate must be 8000 or 16000")
            joined = torch.cat([self.context, x], 1)
            self.context = x[:, -64:]
            sound = joined.unsqueeze(1)
            if rate == 16000:
                seen = self.fast(sound)
            else:
                seen = self.slow(sound)
            h, c = self.cell(seen.mean(2), (self.h, self.c))
            self.h, self.c = h, c
            return torch.sigmoid(self.out(torch.relu(h)))

    return Voice()


def resnet50(torch: ModuleType) -> Any:
    """The residual network of fifty layers, without annotations: a parameter without one is a tensor."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or inside != 4 * width:
                self.shortcut = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False),
                                              nn.BatchNorm2d(4 * width))

        def forward(self, x):  # noqa: ANN001, ANN202
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            if self.shortcut is not None:
                x = self.shortcut(x)
            return self.relu(y + x)

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                                      nn.MaxPool2d(3, 2, 1))
            inside, layers = 64, []
            for stage, count in enumerate((3, 4, 6, 3)):
                for i in range(count):
                    layers.append(Bottleneck(inside, 64 << stage, 2 if stage and not i else 1))
                    inside = 256 << stage
            self.layers = nn.Sequential(*layers)
            self.pool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2048, 1000)

        def forward(self, x):  # noqa: ANN001, ANN202
            return self.fc(torch.flatten(self.pool(self.layers(self.stem(x))), 1))

    return ResNet()
