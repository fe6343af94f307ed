"""Models leave as MLIR text, and come back: a small ResNet, a GPT and an LSTM as StableHLO.

Each is exported, its text is loaded again, and both are compared; the loaded one is also compiled, and trained for a
step. The text is what XLA, IREE and others take. Run from anywhere: `python examples/mlir_roundtrip.py [--out folder]`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import rushlight as torch
from rushlight import mlir, nn
from rushlight.nn import functional as F


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1),
        Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    ).eval()


class Layer(nn.Module):
    """Attention to what came before, and an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    """Words in, what may follow each of them out."""

    def __init__(self, words: int = 64, width: int = 32, longest: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.Sequential(Layer(width, 4), Layer(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        return self.head(self.norm(self.layers(self.words(words) + self.places(places))))


class Lstm(nn.Module):
    """The last state of a sequence, as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Models, and an example for each."""
    torch.manual_seed(0)
    return {
        "resnet": (resnet(), torch.randn(2, 3, 64, 64)), "gpt": (Gpt().eval(), torch.randint(64, (2, 12))),
        "lstm": (Lstm().eval(), torch.randn(3, 5, 8)),
    }


def round_trip(model: nn.Module, example: torch.Tensor, weights: str = "resource") -> tuple[str, Any, float]:
    """The text of a model, the text as a module, and how far apart the results of both are."""
    text = str(mlir.export(model, (example,), dialect="stablehlo", weights=weights))
    loaded = mlir.load(text)
    return text, loaded, (loaded(example) - model(example)).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="Export models as StableHLO and load them again.")
    parser.add_argument("--out", type=Path, help="a folder for the texts")
    options = parser.parse_args()
    for name, (model, example) in models().items():
        begin = time.perf_counter()
        text, loaded, apart = round_trip(model, example)
        nodes = len(loaded.graph_module.graph.nodes)
        print(f"{name}: {len(text.splitlines())} lines of StableHLO, {nodes} nodes of ATen,"
              f" at most {apart:.1e} apart, {time.perf_counter() - begin:.2f} s")
        compiled = torch.compile(loaded)
        print(f"  compiled: at most {(compiled(example) - loaded(example)).abs().max().item():.1e} apart")
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{name}.mlir").write_text(text)

    # A step of training written by others: the gradient goes through what was loaded.
    step = mlir.load("""
      func.func @main(%w: tensor<3x2xf32>, %x: tensor<4x3xf32>) -> tensor<f32> {
        %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
        %t = stablehlo.tanh %y : tensor<4x2xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0, 1]
          : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
        return %s : tensor<f32>
      }""")
    w, x = torch.randn(3, 2, requires_grad=True), torch.randn(4, 3)
    step(w, x).backward()
    assert w.grad is not None
    print(f"a gradient through a loaded function: {w.grad.abs().sum().item():.3f}")


if __name__ == "__main__":
    main()
