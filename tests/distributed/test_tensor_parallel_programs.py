"""Programs as their authors wrote them for PyTorch: tensor and sequence parallel models, started by the launcher."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import os
import sys

import torch
import torch.nn as nn
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class FeedForward(nn.Module):
    """Two layers, the first cut by columns and the second by rows."""

    def __init__(self, hidden=32):
        super().__init__()
        self.in_proj = nn.Linear(10, hidden)
        self.relu = nn.ReLU()
        self.out_proj = nn.Linear(hidden, 5)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.head_dim = dim // heads
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, self.head_dim).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(dim, heads), nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.w1, self.w3 = nn.Linear(dim, 32, bias=False), nn.Linear(dim, 32, bias=False)
        self.w2 = nn.Linear(32, dim, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        return x + self.w2(torch.nn.functional.silu(self.w1(h)) * self.w3(h))


class Transformer(nn.Module):
    def __init__(self, vocabulary=20, dim=16, heads=4, layers=2):
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.output = nn.RMSNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def small(mesh):
    """The first tutorial: a layer by columns, one by rows."""
    torch.manual_seed(0)
    model = parallelize_module(FeedForward(), mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    for step in range(4):
        torch.manual_seed(step)
        optimizer.zero_grad()
        output = model(torch.rand(20, 10))
        loss = output.square().sum()
        loss.backward()
        optimizer.step()
        yield loss.item()


def sequences(mesh):
    """The second: activations between the layers cut along the sequence."""
    torch.manual_seed(0)
    plan = {"in_proj": ColwiseParallel(input_layouts=Shard(0)), "out_proj": RowwiseParallel(output_layouts=Shard(0))}
    model = parallelize_module(FeedForward(), mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    for step in range(4):
        torch.manual_seed(step * dist.get_world_size() + dist.get_rank())
        optimizer.zero_grad()
        loss = model(torch.rand(20, 10)).square().sum()
        loss.backward()
        optimizer.step()
        yield loss.item()


def transformer(mesh):
    """The third: a transformer, with norms and residuals along the sequence, attention and the rest along features."""
    torch.manual_seed(0)
    model = parallelize_module(Transformer(), mesh, {
        "embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    })
    for layer in model.layers:
        parallelize_module(layer, mesh, {
            "norm1": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "norm2": SequenceParallel(),
            "w1": ColwiseParallel(input_layouts=Shard(1)), "w3": ColwiseParallel(input_layouts=Shard(1)),
            "w2": RowwiseParallel(output_layouts=Shard(1)),
        })
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
    for step in range(3):
        torch.manual_seed(step)
        tokens = torch.randint(20, (4, 8))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        yield loss.item()


mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
lines = []
for program in (small, sequences, transformer):
    lines.append(program.__name__ + " " + " ".join(f"{loss:.5f}" for loss in program(mesh)))
with open(os.path.join(sys.argv[1], str(dist.get_rank())), "w") as file:
    file.write("\\n".join(lines))
dist.destroy_process_group()
'''


def _losses(start: list[str], folder: Path, ranks: int) -> dict[str, list[float]]:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "out").mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *start, str(folder / "program.py"), str(folder / "out")], capture_output=True, text=True,
        timeout=200, env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line.split() for r in range(ranks) for line in (folder / "out" / str(r)).read_text().splitlines()]
    return {f"{name} {k}": [float(x) for x in rest] for k, (name, *rest) in enumerate(lines)}


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_tensor_parallel_programs_lose_what_pytorch_loses(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what they are compared with")
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    ours = _losses(["rushlight", "run", "--nproc", "2"], tmp_path / "ours", 2)
    theirs = _losses(["torch.distributed.run", "--standalone", "--nproc-per-node=2"], tmp_path / "theirs", 2)
    assert ours.keys() == theirs.keys() and len(ours) == 6
    for name in theirs:
        assert ours[name] == pytest.approx(theirs[name], rel=2e-4), name
