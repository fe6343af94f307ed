"""accelerate: prepare, accumulation, clipping, mixed precision, saved state, big-model helpers."""

from __future__ import annotations

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

NEEDS = "accelerate"
TOLERANCE = 1e-3   # bfloat16 rounds products in other places


def pieces() -> tuple:
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 1))
    x = torch.randn(24, 6)
    return (
        model,
        torch.optim.AdamW(model.parameters(), lr=0.01),
        DataLoader(TensorDataset(x, x.sum(-1, keepdim=True)), batch_size=6, shuffle=True),
    )


def trained(accelerator: Accelerator, epochs: int = 2) -> dict:
    model, optimizer, data = accelerator.prepare(*pieces())
    losses = []
    for _ in range(epochs):
        for x, y in data:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean())
    return {"losses": losses, "state": dict(accelerator.unwrap_model(model).state_dict())}


def case_plain() -> dict:
    return trained(Accelerator(cpu=True))


def case_accumulation() -> dict:
    return trained(Accelerator(cpu=True, gradient_accumulation_steps=2))


def case_bf16() -> dict:
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    result = trained(Accelerator(cpu=True, mixed_precision="bf16"))
    AcceleratorState._reset_state(reset_partial_state=True)
    return {
        "losses": torch.stack([loss.float() for loss in result["losses"]]),
        "dtypes": [str(v.dtype) for v in result["state"].values()],
    }


def case_saved_state() -> dict:
    set_seed(3)
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(*pieces())[0]
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.data.zero_()
        accelerator.load_state(folder)
    return {"same": all(torch.equal(a, b) for a, b in zip(before, model.parameters()))}


def case_empty_weights() -> dict:
    with init_empty_weights():
        model = torch.nn.Linear(1000, 1000)
    return {"device": str(model.weight.device), "shape": list(model.weight.shape)}
