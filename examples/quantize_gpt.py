"""A small GPT with weights of 8 and 4 bits: rounding, SmoothQuant, AWQ and GPTQ side by side.

Enters: a checkpoint of `gpt.py`, or nothing (then one is trained first). Leaves: for each way the loss on text the
model has not seen, how much of it the rounding cost, and the size of the file. Four bits stand in groups of 32 weights
with a scale and a zero point each; eight bits have one scale for each row.

    python examples/quantize_gpt.py --steps 400          trains, then quantizes
    python examples/quantize_gpt.py --load gpt.pt        quantizes what gpt.py saved
"""

from __future__ import annotations

import argparse
import copy
import io
from collections.abc import Callable

from characters import read_text
from gpt import GPT, Config, batch_of, held_out_loss, train

import rushlight as torch

nn, F = torch.nn, torch.nn.functional
GROUP, LEVELS = 32, 15      # weights that share a scale; 4 bits count from 0 to 15


# --- layers of few bits ----------------------------------------------------------------------------------------------


class FourBitLinear(nn.Module):
    """A linear layer whose weights are 4-bit integers, two in a byte. `shrunk`: what inputs are divided by first."""

    def __init__(self, integers: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, bias: torch.Tensor | None,
                 shrunk: torch.Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("packed", (integers[:, ::2] | integers[:, 1::2] << 4).to(torch.uint8))
        self.register_buffer("scales", scales.to(torch.bfloat16))
        self.register_buffer("zeros", zeros.to(torch.bfloat16))
        self.register_buffer("bias", bias)
        self.register_buffer("shrunk", shrunk)

    def weight(self) -> torch.Tensor:
        rows = self.packed.shape[0]
        integers = torch.stack([self.packed & 15, self.packed >> 4], -1).view(rows, -1, GROUP)
        return (integers * self.scales.float().unsqueeze(-1) + self.zeros.float().unsqueeze(-1)).view(rows, -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x if self.shrunk is None else x / self.shrunk, self.weight(), self.bias)


class EightBitLinear(nn.Module):
    """A linear layer of 8-bit weights; with `whole`, its inputs are rounded to 8 bits too, and the product is one of
    integers."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, whole: bool) -> None:
        super().__init__()
        scales = weight.abs().amax(1).clamp(min=1e-8) / 127
        self.register_buffer("integers", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)
        self.whole = whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self.whole:
            spread = rows.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
            sums = torch._int_mm((rows / spread).round().to(torch.int8), self.integers.t())
            result = sums * spread * self.scales
        else:
            result = torch._weight_int8pack_mm(rows, self.integers, self.scales)
        result = result if self.bias is None else result + self.bias
        return result.view(*x.shape[:-1], -1)


def grid_of(groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and zero point of each group (..., GROUP): the 16 levels reach from its least to its largest weight."""
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    return ((high - low) / LEVELS).clamp(min=1e-8).to(torch.bfloat16).float(), low.to(torch.bfloat16).float()


def to_levels(weights: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    return ((weights - zeros) / scales).round().clamp(0, LEVELS)


def four_bits(weight: torch.Tensor, bias: torch.Tensor | None, shrunk: torch.Tensor | None = None) -> FourBitLinear:
    """Every weight rounded to the nearest level of its group."""
    groups = weight.view(weight.shape[0], -1, GROUP)
    scales, zeros = grid_of(groups)
    integers = to_levels(groups, scales.unsqueeze(-1), zeros.unsqueeze(-1))
    return FourBitLinear(integers.view_as(weight).to(torch.int32), scales, zeros, bias, shrunk)


# --- what layers see -------------------------------------------------------------------------------------------------


def linears(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """The layers that are quantized, in the order in which they run: those of the blocks; embeddings and head stay."""
    return [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear) and name.startswith("blocks")]


def replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


@torch.no_grad()
def inputs_of(model: nn.Module, layer: nn.Module, numbers: torch.Tensor) -> torch.Tensor:
    """What enters a layer while the model reads `numbers`, as rows."""
    seen = []
    handle = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].reshape(-1, given[0].shape[-1])))
    model(numbers)
    handle.remove()
    return seen[0]


# --- the ways --------------------------------------------------------------------------------------------------------


def rounded(bits: int, whole: bool = False) -> Callable:
    """Every layer by itself, without looking at data."""

    def quantize(model: nn.Module, numbers: torch.Tensor) -> None:
        for name, layer in linears(model):
            made = four_bits(layer.weight, layer.bias) if bits == 4 else EightBitLinear(layer.weight, layer.bias, whole)
            replace(model, name, made)

    return quantize


def smoothquant(model: nn.Module, numbers: torch.Tensor, share: float = 0.5) -> None:
    """Inputs of 8 bits suffer from channels that are far larger than others. Such channels are divided by a factor,
    inside of the norm before the layer, and the layer's weights for them multiplied by it: what a channel loses the
    weights gain, and both are easier to round."""
    for name, layer in linears(model):
        before = {"qkv": "norm1", "mlp.0": "norm2"}.get(name.split(".", 2)[2])
        if before is not None:
            norm = model.get_submodule(name.rsplit(".", 2 if "mlp" in name else 1)[0] + "." + before)
            largest = inputs_of(model, layer, numbers).abs().amax(0).clamp(min=1e-5)
            factor = largest**share / layer.weight.abs().amax(0).clamp(min=1e-5) ** (1 - share)
            norm.weight /= factor
            norm.bias /= factor
            layer.weight *= factor
    rounded(8, whole=True)(model, numbers)


def awq(model: nn.Module, numbers: torch.Tensor, steps: int = 20) -> None:
    """Weights that meet large inputs matter most. They are multiplied before rounding and the inputs divided, so that
    the error left in them is small; how far is tried out for each layer by the error of its results."""
    for name, layer in linears(model):
        rows = inputs_of(model, layer, numbers)
        wanted = F.linear(rows, layer.weight)
        size = rows.abs().mean(0).clamp(min=1e-5)
        best, chosen = float("inf"), None
        for step in range(steps):
            factor = (size ** (step / steps)).clamp(min=1e-4)
            factor = factor / (factor.max() * factor.min()).sqrt()
            tried = four_bits(layer.weight * factor, layer.bias, factor)
            error = (F.linear(rows / factor, tried.weight()) - wanted).square().mean().item()
            if error < best:
                best, chosen = error, tried
        replace(model, name, chosen)


def gptq(model: nn.Module, numbers: torch.Tensor, damping: float = 0.01, block: int = GROUP) -> None:
    """Columns are rounded one after another, and what a column's rounding spoils is made good by those after it. How
    much each must give is in the inverse of the inputs' second moments; its Cholesky factor has it for every column
    with the ones before it already fixed."""
    for name, layer in linears(model):
        rows = inputs_of(model, layer, numbers)
        moments = rows.t() @ rows / len(rows)
        moments.diagonal().add_(damping * moments.diagonal().mean() + 1e-8)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(moments))
        upper = torch.linalg.cholesky(inverse, upper=True)
        weight, integers = layer.weight.clone(), torch.zeros_like(layer.weight)
        scales, zeros = [], []
        for start in range(0, weight.shape[1], block):
            end, errors = start + block, torch.zeros_like(weight[:, start : start + block])
            scale, zero = grid_of(weight[:, start:end])
            for column in range(start, end):
                level = to_levels(weight[:, column], scale, zero)
                lost = (weight[:, column] - (level * scale + zero)) / upper[column, column]
                weight[:, column:end] -= lost[:, None] * upper[column, column:end]
                integers[:, column], errors[:, column - start] = level, lost
            weight[:, end:] -= errors @ upper[start:end, end:]
            scales.append(scale), zeros.append(zero)
        made = FourBitLinear(integers.to(torch.int32), torch.stack(scales, 1), torch.stack(zeros, 1), layer.bias)
        replace(model, name, made)


WAYS: dict[str, Callable] = {
    "8 bits, weights": rounded(8),
    "8 bits, weights and inputs": rounded(8, whole=True),
    "8 bits, SmoothQuant": smoothquant,
    "4 bits, rounded": rounded(4),
    "4 bits, AWQ": awq,
    "4 bits, GPTQ": gptq,
}


# --- the program -----------------------------------------------------------------------------------------------------


def file_size(model: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return len(file.getvalue())


def get_model(options: argparse.Namespace) -> tuple[GPT, torch.Tensor]:
    """A trained model and its text as numbers."""
    text = read_text(limit=1_200_000)
    if options.load:
        kept = torch.load(options.load)
        data = torch.tensor([kept["letters"].index(letter) for letter in text if letter in kept["letters"]])
        model = GPT(Config(**kept["config"]))
        model.load_state_dict(kept["state"])
        return model, data
    letters = "".join(sorted(set(text)))
    data = torch.tensor([letters.index(letter) for letter in text])
    model = GPT(Config(letters=len(letters)))
    train(model, data[: -len(data) // 10], options.steps, rate=1e-3, context=model.config.context)
    return model, data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="of training, where no model is loaded")
    parser.add_argument("--load", help="a checkpoint of gpt.py")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, data = get_model(options)
    model.eval().requires_grad_(False)
    context = model.config.context
    numbers, _ = batch_of(data[: -len(data) // 10], 16, context)      # what the ways may look at
    unseen = data[-len(data) // 10 :]
    torch.manual_seed(1)
    whole = held_out_loss(model, unseen, context)
    print(f"{'way':28} {'loss':>7} {'added':>7} {'file':>9}")
    print(f"{'32 bits':28} {whole:7.4f} {'':7} {file_size(model) / 1024:7.0f} K")
    for name, quantize in WAYS.items():
        made = copy.deepcopy(model)
        quantize(made, numbers)
        torch.manual_seed(1)      # the same stretches of text for each
        loss = held_out_loss(made, unseen, context)
        print(f"{name:28} {loss:7.4f} {100 * (loss / whole - 1):+6.2f}% {file_size(made) / 1024:7.0f} K")


if __name__ == "__main__":
    main()
