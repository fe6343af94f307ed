"""Small eager ops: 4x4 tensors, where the time is the framework's own, without and with a graph recorded."""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

# One source for both columns: GRAD is False or True. `c` is a mask, `a` and `b` plain tensors.
SETUP = """
x = torch.arange(16, dtype=torch.float32).reshape(4, 4) / 10
x.requires_grad_(GRAD)
a = torch.ones(4, 4)
b = torch.ones(4, 4) * 0.5
c = torch.arange(16).reshape(4, 4) > 7
"""

STATEMENTS = {
    "add": "x + b",
    "relu": "torch.relu(x)",
    "sum": "x.sum()",
    "softmax": "torch.softmax(x, 1)",
    "matmul": "x @ b",
    "view": "x.view(16)",
    "transpose": "x.transpose(0, 1)",
    "slicing": "x[1:3]",
    "cat": "torch.cat((x, b))",
    "cast": "x.to(torch.float64)",
    "clone": "x.clone()",
    "zeros": "torch.zeros(4, 4, requires_grad=GRAD)",
    "where": "torch.where(c, x, b)",
}


def cases(grad: bool) -> list[Case]:
    suffix = ", grad" if grad else ""
    setup = SETUP.replace("GRAD", str(grad))
    made = [Case(name + suffix, code.replace("GRAD", str(grad)), setup, unroll=10) for name, code in STATEMENTS.items()]
    # In place on a tensor that requires grad: a fresh alias every ten steps keeps the graph from growing forever.
    multiply = Case("mul_" + suffix, "y.mul_(w)", setup + f"\nw = torch.ones(4, 4, requires_grad={grad})",
                    prologue="y = a.detach()", unroll=10)
    return [made[0], multiply, *made[1:]]


GROUP = Group("small", "Small eager ops, 4x4 float32", tuple(cases(False) + cases(True)), mean_bar=4, worst_bar=2)


def run(session: Session) -> list[Section]:
    return [session.compare(GROUP)]
