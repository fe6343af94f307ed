"""Kernels: convolution, pooling, normalisation, attention, sorting, scans, gathers and random numbers, float32.

Every case is the same source on both libraries; groups carry the bars. A step is a forward and a backward pass.
"""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

SETUP = """
torch.manual_seed(0)
F = torch.nn.functional
"""


def step(name: str, setup: str, call: str, clear: str) -> Case:
    """A forward and a backward pass; `clear` names the tensors whose gradients are dropped."""
    forget = "\n".join(f"{tensor}.grad = None" for tensor in clear.split())
    return Case(name, f"{call}.backward(g)\n{forget}", SETUP + setup)


RANDOM = Group("random", "Random numbers, 16M, PyTorch's exact stream", (
    Case("randn", "torch.randn(16777216)", SETUP),
    Case("bernoulli", "torch.bernoulli(p)", SETUP + "p = torch.full((16777216,), 0.5)"),
    Case("dropout", "F.dropout(x, 0.1)", SETUP + "x = torch.randn(16777216)"),
), worst_bar=1.0)

GROUPS = (RANDOM,)


def run(session: Session) -> list[Section]:
    return [session.compare(group) for group in GROUPS]
