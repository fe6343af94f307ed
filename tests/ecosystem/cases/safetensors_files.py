"""safetensors: files of tensors, written and read, whole and by name."""

from __future__ import annotations

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

NEEDS = "safetensors"


def tensors() -> dict:
    return {
        "weight": torch.randn(3, 4),
        "half": torch.randn(5).half(),
        "brain": torch.randn(5).bfloat16(),
        "int": torch.arange(6).view(2, 3),
        "flags": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }


def case_files() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        save_file(tensors(), path, metadata={"format": "pt"})
        whole = load_file(path)
        with safe_open(path, framework="pt") as file:
            parts = {name: file.get_tensor(name) for name in file.keys()}
            piece, metadata = file.get_slice("weight")[1:, :2], file.metadata()
        with open(path, "rb") as file:
            raw = file.read()
    return {"whole": whole, "parts": parts, "piece": piece, "metadata": metadata, "bytes": len(raw)}


def case_bytes() -> dict:
    raw = save(tensors())
    return {"raw": raw.hex(), "again": load(raw)}


def case_models() -> dict:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        save_model(model, path)
        other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        other[1].weight = other[0].weight
        missing, unexpected = load_model(other, path)
    return {"state": dict(other.state_dict()), "missing": sorted(missing), "unexpected": sorted(unexpected)}


def case_shared_memory_is_refused() -> dict:
    whole = torch.randn(4, 4)
    try:
        save({"a": whole, "b": whole[:2]})
    except RuntimeError as refused:
        return {"refused": "share memory" in str(refused)}
    return {"refused": False}
