"""Training: six small models, a few steps each, to the losses and weights that the host comes to.

Models and data are made on the host from a seed, so that both start from the same bits. Losses agree within a bound
that grows with the steps, since sums may be made in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

from .case import Case, Chip, case
from .expect import same
from .family import family

Step = Callable[[], rl.Tensor]


def data(*shape: int, scale: float = 1.0, shift: float = 0.0) -> rl.Tensor:
    """Numbers between -1 and 1 that are the same everywhere."""
    count = 1
    for size in shape:
        count *= size
    at = rl.arange(count, dtype=rl.float64)
    return ((at * 0.7391 + (at * at).remainder(61) * 0.113 + shift).sin() * scale).to(rl.float32).reshape(shape)


def labels(count: int, classes: int) -> rl.Tensor:
    """Classes that are the same everywhere."""
    at = rl.arange(count)
    return (at * 7 + at // 3) % classes


class Mlp(nn.Module):
    """Three layers for 20 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 5))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.layers(x)


class LeNet(nn.Module):
    """Convolutions and pooling for pictures of 14 x 14."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classes = nn.Sequential(nn.Flatten(), nn.Linear(32, 20), nn.ReLU(), nn.Linear(20, 5))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.classes(self.features(x))


class Normalized(nn.Module):
    """Convolutions with batch norms, and a path around one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.other = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.last = nn.Linear(6, 5)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(y + self.other(self.second(y)))
        return self.last(y.mean((2, 3)))


class Recurrent(nn.Module):
    """An LSTM over nine steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.last(self.cells(x)[0][:, -1])


class Gpt(nn.Module):
    """Two blocks of causal attention over 12 tokens."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(17, width), nn.Embedding(12, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(5)])
        self.mixes = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.joins = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.wide = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(2)])
        self.narrow = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(2)])
        self.last = nn.Linear(width, 17)

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(rl.arange(length, device=tokens.device))
        for k in range(2):
            parts = self.mixes[k](self.norms[2 * k](x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
            x = x + self.joins[k](mixed.transpose(1, 2).reshape(batch, length, -1))
            x = x + self.narrow[k](F.gelu(self.wide[k](self.norms[2 * k + 1](x))))
        return self.last(self.norms[4](x)).flatten(0, 1)


class Bags(nn.Module):
    """Means of embeddings of bags of words, many of them the same."""

    def __init__(self) -> None:
        super().__init__()
        self.bags, self.words, self.last = nn.EmbeddingBag(50, 8, mode="mean"), nn.Embedding(50, 8), nn.Linear(16, 5)

    def forward(self, words: rl.Tensor) -> rl.Tensor:
        return self.last(rl.cat([self.bags(words), self.words(words).amax(1)], 1))


def words(batch: int, length: int, most: int) -> rl.Tensor:
    """Words of a few bags; small ones are frequent."""
    at = rl.arange(batch * length)
    return ((at * 13 + at * at % 11) % most % (at % 7 + 3)).reshape(batch, length)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[rl.Tensor, rl.Tensor]]]] = {
    "mlp": (Mlp, lambda: (data(32, 20), labels(32, 5))),
    "lenet": (LeNet, lambda: (data(8, 1, 14, 14), labels(8, 5))),
    "batch_norm": (Normalized, lambda: (data(6, 2, 9, 9), labels(6, 5))),
    "lstm": (Recurrent, lambda: (data(7, 9, 6), labels(7, 5))),
    "gpt": (Gpt, lambda: (words(4, 12, 17), labels(48, 17))),
    "embedding_bag": (Bags, lambda: (words(20, 6, 50), labels(20, 5))),
}

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda weights: rl.optim.SGD(weights, lr=0.1, momentum=0.9),
    "adam": lambda weights: rl.optim.Adam(weights, lr=0.01),
    "adamw": lambda weights: rl.optim.AdamW(weights, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda weights: rl.optim.RMSprop(weights, lr=0.01),
    "adagrad": lambda weights: rl.optim.Adagrad(weights, lr=0.05),
}


def trained(device: Any, name: str, optimizer: str, steps: int) -> tuple[rl.Tensor, dict[str, rl.Tensor]]:
    """The losses of some steps, and the weights after them."""
    make, batch = MODELS[name]
    rl.manual_seed(1)
    model = make().to(device)
    inputs, targets = (part.to(device) for part in batch())
    update = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for _ in range(steps):
        update.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        update.step()
        losses.append(loss.detach())
    return rl.stack(losses).cpu(), {key: value.cpu() for key, value in model.state_dict().items()}


def trains_like_on_the_host(chip: Chip, name: str, optimizer: str, steps: int) -> None:
    got, weights = trained(chip.device, name, optimizer, steps)
    want, wanted = trained("cpu", name, optimizer, steps)
    assert float(want[-1]) < float(want[0]), f"the host's own losses do not fall: {want.tolist()}"
    same(got, want, rtol=2e-4 * (1 + steps / 5), atol=1e-5, what=f"the losses of {steps} steps of {name}")
    for key, value in wanted.items():
        same(weights[key], value, rtol=1e-2, atol=2e-3, what=f"{key} after {steps} steps")


@case()
def gradients_add_up_over_batches(chip: Chip) -> None:
    def gradients(device: Any, parts: int) -> list[rl.Tensor]:
        rl.manual_seed(1)
        model, (inputs, targets) = Mlp().to(device), MODELS["mlp"][1]()
        for x, y in zip(inputs.chunk(parts), targets.chunk(parts), strict=True):
            (F.cross_entropy(model(x.to(device)), y.to(device)) / parts).backward()
        return [p.grad for p in model.parameters()]

    for number, (got, want) in enumerate(zip(gradients(chip.device, 4), gradients("cpu", 1), strict=True)):
        same(got, want, rtol=1e-4, atol=1e-6, what=f"gradient {number}, summed over four batches")


@case()
def gradients_are_clipped(chip: Chip) -> None:
    def clipped(device: Any) -> tuple[rl.Tensor, list[rl.Tensor]]:
        rl.manual_seed(1)
        model, (inputs, targets) = Mlp().to(device), MODELS["mlp"][1]()
        (F.cross_entropy(model(inputs.to(device)), targets.to(device)) * 50).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return norm, [p.grad for p in model.parameters()]

    (norm, got), (wanted, want) = clipped(chip.device), clipped("cpu")
    same(norm, wanted, rtol=1e-4, what="the norm of all gradients")
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        same(one, other, rtol=1e-4, atol=1e-6, what=f"gradient {number}, clipped")


@case()
def running_means_are_kept_and_used(chip: Chip) -> None:
    def outputs(device: Any) -> tuple[rl.Tensor, rl.Tensor]:
        rl.manual_seed(1)
        model = Normalized().to(device)
        for k in range(3):
            model(data(6, 2, 9, 9, shift=float(k)).to(device))
        return model.norm.running_var, model.eval()(data(3, 2, 9, 9).to(device))

    same(outputs(chip.device), outputs("cpu"), rtol=1e-4, atol=1e-5, what="(running_var, output in eval mode)")


@case()
def a_long_run_stays_on_its_way(chip: Chip) -> None:
    steps = 60 if chip.quick else 300
    got, _ = trained(chip.device, "mlp", "sgd", steps)
    want, _ = trained("cpu", "mlp", "sgd", steps)
    same(got, want, rtol=2e-2, atol=2e-3, what=f"the losses of {steps} steps")


def cases(chip: Chip) -> Iterator[Case]:
    """The six models; the optimizers on the smallest."""
    steps = 5 if chip.quick else 20
    for name, by in zip(MODELS, ("sgd", "sgd", "sgd", "adam", "adamw", "adam"), strict=True):
        yield from family(trains_like_on_the_host, {name: (name, by, steps)})
    others = {f"mlp with {by}": ("mlp", by, steps) for by in OPTIMIZERS if by != "sgd"}
    yield from family(trains_like_on_the_host, others)
