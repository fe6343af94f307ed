"""Train a small GPT on the docstrings of Python's standard library, let it write, and save it.

Enters: the standard library of the interpreter that runs this; nothing is downloaded. Leaves: held-out loss, a sample,
and a checkpoint that `finetune.py` (or PyTorch) reads.

    python examples/gpt.py                        some minutes on two cores
    python examples/gpt.py --steps 50             a quick look
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import asdict, dataclass

from characters import read_text, show_progress

import rushlight as torch  # the one line in which this differs from a program for PyTorch

nn, F = torch.nn, torch.nn.functional


@dataclass
class Config:
    letters: int
    context: int = 128
    layers: int = 4
    heads: int = 4
    width: int = 128
    spread: float = 0.02        # of the weights at the start


class Block(nn.Module):
    """Attention, then a layer of its own for each position; both added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        # each (batch, heads, length, width / heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Letters in (batch, length), logits of the next letter out (batch, length, letters)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.letters = nn.Embedding(config.letters, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.letters, bias=False)
        self.apply(self.start)

    def start(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.spread)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = self.letters(numbers) + self.places(torch.arange(numbers.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def write(self, numbers: torch.Tensor, count: int, temperature: float = 0.8) -> torch.Tensor:
        """`numbers` (1, length) continued by `count` letters."""
        for _ in range(count):
            logits = self(numbers[:, -self.config.context :])[:, -1] / temperature
            numbers = torch.cat([numbers, torch.multinomial(F.softmax(logits, -1), 1)], 1)
        return numbers


def batch_of(data: torch.Tensor, size: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`size` stretches of the text, and the same moved on by one letter."""
    starts = torch.randint(0, len(data) - context - 1, (size, 1))
    where = starts + torch.arange(context)
    return data[where], data[where + 1]


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    numbers, targets = batch
    return F.cross_entropy(model(numbers).flatten(0, 1), targets.flatten())


def train(model: nn.Module, data: torch.Tensor, steps: int, rate: float, context: int, batch: int = 16) -> None:
    """AdamW with a warm start and a cosine end, over the parameters that require gradients."""
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=rate, betas=(0.9, 0.95), weight_decay=0.1)
    warm = min(100, steps // 10 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, 0.05 + 0.95 * (1 + math.cos(math.pi * min(step / steps, 1))) / 2)
    )
    started, smooth = time.perf_counter(), None
    model.train()
    for step in range(1, steps + 1):
        loss = loss_of(model, batch_of(data, batch, context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        schedule.step()
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        show_progress(step, steps, smooth, started)
    model.eval()


@torch.no_grad()
def held_out_loss(model: nn.Module, data: torch.Tensor, context: int) -> float:
    return sum(loss_of(model, batch_of(data, 16, context)).item() for _ in range(8)) / 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--save", default="gpt.pt", help="where the checkpoint goes")
    options = parser.parse_args()
    torch.manual_seed(0)
    text = read_text(limit=1_200_000)
    letters = "".join(sorted(set(text)))
    data = torch.tensor([letters.index(letter) for letter in text])
    model = GPT(Config(letters=len(letters)))
    print(f"{len(text):,} letters, {sum(p.numel() for p in model.parameters()):,} parameters")
    train(model, data[: -len(data) // 10], options.steps, rate=1e-3, context=model.config.context)
    print(f"held-out loss {held_out_loss(model, data[-len(data) // 10 :], model.config.context):.3f} nats a letter")
    opening = torch.tensor([[letters.index(letter) for letter in "Return the "]])
    print("".join(letters[i] for i in model.write(opening, 200)[0].tolist()))
    torch.save({"config": asdict(model.config), "letters": letters, "state": model.state_dict()}, options.save)
    print(f"saved as {options.save}")


if __name__ == "__main__":
    main()
