"""Compiles and trains small models on a driver without a device, and leaves the text of every kernel in a folder.

    RUSHLIGHT_CUDA_DRIVER=libsimulated.so python tests/cuda/compiled_models.py FOLDER
"""

from __future__ import annotations

import os
import sys

import rushlight as rl
from rushlight import nn
from rushlight.devices.cuda import kernels, libraries

F = nn.functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Language(nn.Module):
    """Four layers, in mixed precision: the joined gradients of its norms are the longest folds of columns there are."""

    def __init__(self, width: int = 128, layers: int = 4, words: int = 512, length: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        h = self.words(x) + self.places(rl.arange(x.shape[1], device=x.device))
        return self.head(self.last(self.blocks(h)))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.GroupNorm(4, 16), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 64, 10), nn.Softmax(-1),
    )


def train(model: nn.Module, x: rl.Tensor, target: rl.Tensor, half: bool) -> None:
    compiled = rl.compile(model)
    optimizer = rl.optim.AdamW(model.parameters())
    with rl.autocast("cuda", dtype=rl.bfloat16, enabled=half):
        loss = F.cross_entropy(compiled(x).flatten(0, -2), target)
    loss.backward()
    optimizer.step()


def main(folder: str) -> None:
    libraries.places = lambda names: []      # real libraries know no simulated device
    original, texts = kernels.Variants.compiled, []

    def compiled(self: kernels.Variants, ptx: str, *rest: object) -> int:
        texts.append(self.entry())
        with open(os.path.join(folder, f"{len(texts)}_{self.entry()[:80]}.ptx"), "w") as file:
            file.write(ptx)
        return original(self, ptx, *rest)

    kernels.Variants.compiled = compiled
    tokens = rl.zeros(32, 128, dtype=rl.int64, device="cuda")
    train(Language().cuda(), tokens, tokens.flatten(), half=True)
    pictures, labels = rl.zeros(8, 3, 16, 16, device="cuda"), rl.zeros(8, dtype=rl.int64, device="cuda")
    train(images().cuda(), pictures, labels, half=False)
    rl.sort(rl.zeros(64, 1000, device="cuda")), rl.cumsum(rl.zeros(64, 1000, device="cuda"), -1)


if __name__ == "__main__":
    main(sys.argv[1])
