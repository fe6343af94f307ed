"""A small GPT over characters, trained on the device `xla`: one program for each step, compiled by XLA.

    pip install 'rushlight[xla]'
    python examples/xla_gpt.py --steps 60

With `--save folder` the trained model leaves as StableHLO, and is called again from there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import rushlight as torch
from rushlight import nn, xla
from rushlight.nn import functional as F
from rushlight.xla import stablehlo
from rushlight.xla.core import xla_model as xm
from rushlight.xla.debug import metrics

TEXT = ("what is written down is not done, and what is done need not be written down: the step that ends it all is one "
        "program, compiled once and called as often as the loop goes round. ") * 20


class Block(nn.Module):
    """Attention to what came before, and a network for each place."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.mixed(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.between(x))


class GPT(nn.Module):
    """Characters in, scores of the next character out."""

    def __init__(self, letters: int, width: int = 64, blocks: int = 2, length: int = 32) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(blocks)])
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.last(self.blocks(self.letter(x) + self.place[: x.shape[1]])))


def batches(data: torch.Tensor, steps: int, length: int, size: int = 16) -> Iterator[tuple]:
    """Stretches of the text, and the same one character later."""
    for _ in range(steps):
        starts = torch.randint(0, len(data) - length - 1, (size,)).tolist()
        parts = torch.stack([data[s : s + length + 1] for s in starts])
        yield parts[:, :-1], parts[:, 1:]


def train(steps: int, folder: str | None) -> tuple[float, float]:
    """The first and the last loss."""
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT])
    device, length = xm.xla_device(), 32
    model = GPT(len(letters), length=length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    metrics.clear_all()
    first = last = 0.0
    begin = time.perf_counter()
    for k, (x, y) in enumerate(batches(data, steps, length)):
        loss = F.cross_entropy(model(x.to(device)).flatten(0, 1), y.to(device).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xla.sync()
        if k in (0, steps - 1):
            last = loss.item()
            first = first or last
    print(f"{steps} steps in {time.perf_counter() - begin:.1f} s: loss {first:.2f} to {last:.2f};"
          f" {metrics.counter_value('UncachedCompile')} programs were compiled")
    if folder:
        model = model.to("cpu").eval()
        x = data[:length].unsqueeze(0)
        stablehlo.save_torch_model_as_stablehlo(model, (x,), folder)
        again = stablehlo.StableHLOGraphModule.load(folder)
        assert torch.allclose(again(x), model(x), atol=1e-3)
        print(f"saved as StableHLO in {folder}, and loaded again")
    return first, last


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save", help="a folder for the trained model as StableHLO")
    options = parser.parse_args()
    train(options.steps, options.save)
