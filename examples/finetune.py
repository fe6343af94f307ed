"""Fine-tune a checkpoint with low-rank adapters: the model of `gpt.py` learns to write error messages.

Enters: the checkpoint that gpt.py saved, and the messages in the `raise` statements of Python's standard library.
Leaves: loss on held-out messages before and after, a few messages of the model's own,
and an adapter file of a few kilobytes.

    python examples/gpt.py && python examples/finetune.py
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
from pathlib import Path

from gpt import GPT, Config, held_out_loss, nn, torch, train


class Adapted(nn.Module):
    """A frozen linear layer plus a product of two narrow ones, which starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.up(self.down(x))


def adapt(model: nn.Module, rank: int) -> None:
    """Freeze the model and put an adapter on every attention projection."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.qkv, block.out = Adapted(block.qkv, rank), Adapted(block.out, rank)


def read_messages() -> str:
    """The constant messages of the standard library's errors, one a line."""
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = node.exc.args[0]
                if (
                    isinstance(text, ast.Constant)
                    and isinstance(text.value, str)
                    and text.value.isascii()
                    and text.value.isprintable()
                ):
                    found.append(text.value)
    return "\n".join(dict.fromkeys(found)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", default="gpt.pt")
    parser.add_argument("--adapter", default="adapter.pt", help="where the adapter goes")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rank", type=int, default=8)
    options = parser.parse_args()
    if not Path(options.checkpoint).exists():
        parser.error(f"there is no {options.checkpoint}: run gpt.py first, or name another with --checkpoint")
    torch.manual_seed(0)
    saved = torch.load(options.checkpoint)             # tensors and plain values only: nothing in the file is run
    letters, model = saved["letters"], GPT(Config(**saved["config"]))
    model.load_state_dict(saved["state"])
    data = torch.tensor([letters.index(letter) for letter in read_messages() if letter in letters])
    known, held_out, context = data[: -len(data) // 10], data[-len(data) // 10 :], model.config.context

    print(f"held-out messages before: {held_out_loss(model, held_out, context):.3f} nats a letter")
    adapt(model, options.rank)
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{learned:,} of {sum(p.numel() for p in model.parameters()):,} parameters are learned")
    train(model, known, options.steps, rate=3e-3, context=context)
    print(f"held-out messages after: {held_out_loss(model, held_out, context):.3f} nats a letter")
    opening = torch.tensor([[letters.index("\n")]])
    print("".join(letters[i] for i in model.write(opening, 200)[0].tolist()))
    torch.save(
        {name: value for name, value in model.state_dict().items() if ".up." in name or ".down." in name},
        options.adapter,
    )
    print(f"adapter saved as {options.adapter}: {Path(options.adapter).stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
