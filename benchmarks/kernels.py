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

IMAGES = """
x = torch.randn({n}, 64, 56, 56, requires_grad=True)
w, b = torch.ones(64, requires_grad=True), torch.zeros(64, requires_grad=True)
mean, var = torch.zeros(64), torch.ones(64)
g = torch.randn({n}, 64, 56, 56)
"""

TABLE = """
table = torch.randn(50000, 256, requires_grad=True)
tokens = torch.randint(0, 50000, (8192,))
g = torch.randn(8192, 256)
"""

SCORES = """
x = torch.randn(8192, 32000, requires_grad=True)
target = torch.randint(0, 32000, (8192,))
g = torch.ones(())
"""

NORMS = Group("norms", "Normalisation, embedding and cross entropy, forward and backward", (
    *(step(f"batch_norm [{n}, 64, 56, 56]", IMAGES.format(n=n), "F.batch_norm(x, mean, var, w, b, True)", "x w b") for n in (8, 32)),
    *(step(f"group_norm [{n}, 64, 56, 56]", IMAGES.format(n=n), "F.group_norm(x, 8, w, b)", "x w b") for n in (8, 32)),
    step("instance_norm [8, 64, 56, 56]", IMAGES.format(n=8), "F.instance_norm(x, None, None, w, b)", "x w b"),
    step("embedding 50000x256, 8192 tokens", TABLE, "F.embedding(tokens, table)", "table"),
    step("cross_entropy [8192, 32000]", SCORES, "F.cross_entropy(x, target)", "x"),
), worst_bar=1.0)

GROUPS = (RANDOM, ATTENTION, SHORT, NORMS,)


def run(session: Session) -> list[Section]:
    return [session.compare(group) for group in GROUPS]
