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

HEADS = """
q, k, v = (torch.randn(4, 8, 512, 64, requires_grad=True) for _ in range(3))
g = torch.randn(4, 8, 512, 64)
"""

ATTENTION = Group("attention", "scaled_dot_product_attention, batch 4, 8 heads, 512 positions, 64 wide", (
    step("causal forward+backward", HEADS, "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "q k v"),
), worst_bar=1.0)

SHORT = Group("attention_short", "scaled_dot_product_attention forward, batch 1, 4 heads, 64 wide", tuple(
    Case(f"{length} positions", "F.scaled_dot_product_attention(x, x, x)", SETUP + f"x = torch.randn(1, 4, {length}, 64)") for length in (32, 128)))

GROUPS = (RANDOM, ATTENTION, SHORT,)


def run(session: Session) -> list[Section]:
    return [session.compare(group) for group in GROUPS]
