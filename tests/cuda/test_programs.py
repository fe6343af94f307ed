"""Programs written for PyTorch, run unmodified on the card by both libraries: what they print must agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import rushlight as rl

pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
"""
PROGRAMS = {
    "training": """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for epoch in range(3):
    total = 0.0
    for x, y in DataLoader(data, batch_size=64, pin_memory=True):
        assert x.is_pinned()
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    print(round(total, 2), scaler.get_scale())
""",
    "graphs": """
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
head = nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
model = torch.cuda.make_graphed_callables(model, (torch.randn(32, 8, device="cuda"),))
for step in range(5):
    x = torch.linspace(-1, 1, 256, device="cuda").view(32, 8) * (step + 1)
    loss = (head(model(x)) - 1).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
static, g = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    static * 2 + 1
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(g):
    out = static * 2 + 1
static.copy_(torch.arange(4.0))
g.replay()
print(out.tolist())
""",
    "loading": """
import io
model = nn.LSTM(4, 5, num_layers=2).cuda()
file = io.BytesIO()
torch.save({"model": model.state_dict(), "step": 3, "x": torch.arange(6, device="cuda").view(2, 3)}, file)
for place in ("cpu", "cuda", "cuda:0", torch.device("cuda"), {"cuda:0": "cpu"}, lambda storage, where: storage):
    file.seek(0)
    found = torch.load(file, map_location=place, weights_only=not callable(place))
    print(found["step"], found["x"].device.type, found["x"].sum().item(),
          sorted({str(v.device.type) for v in found["model"].values()}))
file.seek(0)
print(torch.load(file)["x"].device)
other = nn.LSTM(4, 5, num_layers=2).cuda()
other.load_state_dict(found["model"])
x = torch.linspace(-1, 1, 24, device="cuda").view(3, 2, 4)
print(torch.allclose(model(x)[0], other(x)[0]), round(model(x)[0].sum().item(), 3))
""",
    "distributions": """
import torch.distributions as D
torch.cuda.manual_seed(5)
one = torch.tensor(1.0, device="cuda")
for law in (D.Normal(one, one * 2), D.Gamma(one * 2, one), D.Beta(one * 0.5, one * 3), D.Dirichlet(one.expand(4)),
            D.Categorical(probs=one.expand(5) / 5), D.Poisson(one * 9), D.Binomial(20, one * 0.3),
            D.Exponential(one), D.Laplace(one, one), D.MultivariateNormal(one.expand(3), torch.eye(3, device="cuda")),
            D.VonMises(one, one * 4), D.Geometric(one * 0.2)):
    x = law.sample((64,))
    assert x.is_cuda
    print(type(law).__name__, [round(v, 3) for v in x.float().flatten()[:5].tolist()],
          round(law.log_prob(x).mean().item(), 3))
print(round(D.kl_divergence(D.Normal(one, one), D.Normal(one * 0, one * 3)).item(), 4))
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 32))
    def forward(self, x):
        return x + self.inner(x)
torch.manual_seed(3)
blocks = nn.ModuleList([Block() for _ in range(3)]).cuda()
x = torch.linspace(-1, 1, 320, device="cuda").view(10, 32).requires_grad_()
sums = []
for use in (False, True):
    torch.cuda.manual_seed(11)
    y = x
    for block in blocks:
        y = checkpoint(block, y, use_reentrant=False) if use else block(y)
    y.square().mean().backward()
    sums.append(round(x.grad.abs().sum().item(), 3))
    x.grad = None
print(sums, sums[0] == sums[1], torch.cuda.max_memory_allocated() > 0)
""",
}


def agree(one: str, other: str) -> bool:
    """Whether texts are the same but for the last digits of numbers."""
    number = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
    if number.sub("#", one) != number.sub("#", other):
        return False
    pairs = zip(number.findall(one), number.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 2e-2 * max(1.0, abs(float(b))) for a, b in pairs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / f"{name}.py"
    path.write_text(HEAD + PROGRAMS[name])
    commands = ([sys.executable, str(path)], [sys.executable, "-m", "rushlight", "run", str(path)])
    done = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
                             cwd=str(tmp_path)) for c in commands]
    (theirs, their_errors), (ours, our_errors) = [p.communicate(timeout=120) for p in done]
    assert done[0].returncode == 0, their_errors
    assert done[1].returncode == 0, our_errors
    assert agree(ours, theirs), f"{ours}\n--- and PyTorch:\n{theirs}"
