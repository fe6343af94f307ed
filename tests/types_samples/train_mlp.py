"""A multilayer perceptron: training, evaluation, schedulers, saving and loading."""

import math
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, ReduceLROnPlateau, StepLR


class MLP(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int, p: float = 0.1) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(p)
        self.last = nn.Linear(hidden, outputs, bias=True)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.drop(F.gelu(self.norm(self.first(x))))
        if mask is not None:
            x = x.masked_fill(mask == 0, 0.0)
        return self.last(x) * self.scale


def accuracy(logits: Tensor, target: Tensor) -> float:
    best = logits.argmax(dim=-1)
    return (best == target).float().mean().item()


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    logits = model(x)
    model.train()
    return accuracy(logits, y)


def train(epochs: int = 3, device: str = "cpu") -> dict[str, float]:
    torch.manual_seed(0)
    where = torch.device(device)
    model = MLP(8, 16, 3).to(where)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, betas=(0.9, 0.99))
    warm = LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 10))
    cosine = CosineAnnealingLR(optimizer, T_max=epochs)
    plateau = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    x, y = torch.randn(64, 8, device=where), torch.randint(0, 3, (64,), device=where)
    history: dict[str, float] = {}
    for epoch in range(epochs):
        permutation = torch.randperm(x.size(0))
        total = 0.0
        for start in range(0, x.shape[0], 16):
            rows = permutation[start : start + 16]
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(x[rows]), y[rows])
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            total += loss.item() * rows.numel()
            assert float(norm) >= 0
        warm.step()
        cosine.step()
        plateau.step(total)
        history[f"epoch{epoch}"] = total / len(x)
        print(f"{epoch}: {total:.3f} lr={optimizer.param_groups[0]['lr']:.4f} {cosine.get_last_lr()[0]:.2e}")
    history["accuracy"] = evaluate(model, x, y)
    return history


def save_and_load(path: Path) -> MLP:
    model = MLP(8, 16, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    decay = StepLR(optimizer, step_size=2, gamma=0.5)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "decay": decay.state_dict()}, path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    other = MLP(8, 16, 3)
    other.load_state_dict(state["model"], strict=True)
    optimizer.load_state_dict(state["optimizer"])
    count = sum(p.numel() for p in other.parameters() if p.requires_grad)
    for name, parameter in other.named_parameters():
        if parameter.grad is not None:
            print(name, tuple(parameter.shape), parameter.grad.norm().item(), count)
    return other


if __name__ == "__main__":
    print(train())
    save_and_load(Path("mlp.pt"))
