"""Autograd's own cost: a 20-op chain forward and backward, and backward per op as graphs grow long."""

from __future__ import annotations

from benchmarks.cases import Case, Check, Group, Section
from benchmarks.harness import Session

CHAIN_SETUP = """
x = torch.arange(16, dtype=torch.float32).reshape(4, 4) / 16
x.requires_grad_(True)
w = torch.ones(4, 4) * 0.9
def forward(x, w):
    y = x
    for _ in range(4):
        y = y * w
        y = y + x
        y = torch.tanh(y)
        y = torch.sigmoid(y)
        y = y - w
    return y.sum()
"""

LONG_SETUP = """
x = torch.ones(4, 4, requires_grad=True)
w = torch.ones(4, 4)
g = torch.ones(4, 4)
def sample(clock):
    y = x
    for _ in range(LENGTH):
        y = y * w
    start = clock()
    y.backward(g)
    stop = clock()
    x.grad = None
    return stop - start
"""

CHAIN = Group("chain", "Forward and backward of a 20-op chain, 4x4", (
    Case("forward+backward", "forward(x, w).backward()\nx.grad = None", CHAIN_SETUP),
    Case("forward only", "forward(x, w)", CHAIN_SETUP),
), mean_bar=None, worst_bar=4)

LENGTHS = (100, 1_000, 10_000, 100_000)
LONG = Group("backward", "Backward cost per op", tuple(
    Case(f"{length} ops", setup=LONG_SETUP.replace("LENGTH", str(length)), per=length) for length in LENGTHS))


def run(session: Session) -> list[Section]:
    chain, growth = session.compare(CHAIN), session.compare(LONG)
    costs = [cost for row in growth.rows if (cost := row.median("rushlight")) is not None]
    if len(costs) > 1:
        steepness = max(costs) / min(costs)
        growth.checks = [Check("highest / lowest cost per op on rushlight", f"{steepness:.2f}", "at most 1.20",
                               steepness <= 1.2 and len(costs) == len(growth.rows))]
    return [chain, growth]
