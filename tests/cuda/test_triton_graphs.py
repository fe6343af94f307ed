"""Triton's kernels inside compiled functions and ops, on the card."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rushlight as rl

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
HEAD = """
import sys
sys.path.insert(0, {folder!r})
import torch, triton
from triton_kernel import double_plus, tuned_add
x = torch.randn(1000, device="cuda")
y = torch.randn(1000, device="cuda")
"""
PROGRAMS = {
    "plain": """
def step(x):
    out = torch.empty_like(x)
    n = out.numel()
    double_plus[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.sin(), out, n, BLOCK=128)
    return out.cos()
got = torch.compile(step, fullgraph=True)(x)
assert torch.allclose(got, (x.sin() * 2 + 1).cos(), atol=1e-5)
""",
    "autotuned": """
def step(x, y):
    out = torch.empty_like(x)
    tuned_add[lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)](x, y, out, out.numel())
    return out * 2
run = torch.compile(step, fullgraph=True)
for _ in range(8):
    assert torch.allclose(run(x, y), (x + y) * 2)
""",
    "written argument": """
def step(x, into):
    double_plus[(8,)](x, into, 1000, BLOCK=128)
    return into.sum()
into = torch.zeros(1000, device="cuda")
total = torch.compile(step, fullgraph=True)(x, into)
assert torch.allclose(into, x * 2 + 1) and torch.allclose(total, into.sum())
""",
    "an op": """
@torch.library.triton_op("tests_cuda::double_plus", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(double_plus)[(8,)](x, out, 1000, BLOCK=128)
    return out
op.register_autograd(lambda ctx, g: g * 2)
given = x.clone().requires_grad_()
result = torch.compile(lambda t: op(t).square().sum(), fullgraph=True)(given)
result.backward()
assert torch.allclose(given.grad, (x * 2 + 1) * 4, atol=1e-4) and torch.allclose(op(x), x * 2 + 1)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(HEAD.format(folder=__file__.rpartition("/")[0]) + PROGRAMS[name])
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
