"""Large tensors: pointwise ops and row reductions over 16M floats, where memory and vector units decide."""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

SETUP = """
torch.manual_seed(0)
F = torch.nn.functional
x = torch.randn(4096, 4096)
y = torch.randn(4096, 4096)
"""

NORM = SETUP + """
w = torch.ones(4096, requires_grad=True)
b = torch.zeros(4096, requires_grad=True)
g = torch.ones(4096, 4096)
v = torch.randn(4096, 4096, requires_grad=True)
"""

STATEMENTS = {
    "add": "x + y",
    "exp": "torch.exp(x)",
    "gelu": "F.gelu(x)",
    "tanh": "torch.tanh(x)",
    "sum": "x.sum(1)",
    "mean": "x.mean(1)",
    "max": "x.max(1)",
    "softmax": "torch.softmax(x, 1)",
    "layer_norm": "F.layer_norm(x, (4096,))",
}

BACKWARD = {
    "gelu": "F.gelu(v).backward(g)",
    "tanh": "torch.tanh(v).backward(g)",
    "softmax": "torch.softmax(v, 1).backward(g)",
}

NORM_STEP = "F.layer_norm(v, (4096,), w, b).backward(g)\nv.grad = w.grad = b.grad = None"

GROUP = Group("large", "Pointwise ops and row reductions, 4096x4096 float32", (
    *(Case(name, code, SETUP) for name, code in STATEMENTS.items()),
    Case("layer_norm forward+backward", NORM_STEP, NORM),
), mean_bar=1.5, worst_bar=1.0)

GRADIENTS = Group("large_backward", "Forward and backward, 4096x4096 float32", tuple(
    Case(name, code + "\nv.grad = None", NORM) for name, code in BACKWARD.items()))


def run(session: Session) -> list[Section]:
    return [session.compare(GROUP), session.compare(GRADIENTS)]
