"""Many small kernels in a row on the card, whichever way they reach the driver: every one runs once, in order, with its
own arguments. One process each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.nvptx.many import CHUNK, most_rows
from rushlight.devices.cuda import many_norms

from .on_host import HostKernel
from .test_simulated_driver import driver, run  # noqa: F401 - a fixture

on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")

PROGRAM = """
import rushlight as rl
rl.manual_seed(0)
numbers = rl.randint(1, 100, (4000,)).tolist()

def chain(device):
    x = rl.zeros(37, dtype=rl.int64, device=device)
    others = [rl.full((37,), n, dtype=rl.int64, device=device) for n in numbers[:50]]
    kept = []
    for k, n in enumerate(numbers):
        x = x * 3 + others[k % 50] if k % 3 else x - n
        if k % 500 == 0:
            kept.append(x)             # others reuse memory at once
        if k % 700 == 0:
            x = x + rl.ones(1 << 18, dtype=rl.int64, device=device).sum()
    return [t.cpu() for t in (*kept, x)]

assert all(map(rl.equal, chain("cuda"), chain("cpu")))

side = rl.cuda.Stream()
first, second = rl.zeros(8, device="cuda"), rl.zeros(8, device="cuda")
for k in range(300):
    first += k
    with rl.cuda.stream(side):
        second += k
rl.cuda.current_stream().wait_stream(side)
assert (first + second).tolist() == [2.0 * sum(range(300))] * 8

graph, y = rl.cuda.CUDAGraph(), rl.zeros(8, device="cuda")
with rl.cuda.graph(graph):
    for k in range(40):
        y += k
for _ in range(3):
    graph.replay()
    y += 1
assert y.tolist() == [3.0 * (sum(range(40)) + 1)] * 8

weight = rl.randint(-2, 3, (16, 16)).double()

def products(device):
    w, z = weight.to(device), rl.eye(16, dtype=rl.float64, device=device)
    for _ in range(60):
        z = (z @ w + 1) % 97
    return z.cpu()

assert rl.equal(products("cuda"), products("cpu"))
"""


@on_card
@pytest.mark.parametrize("queue", ["0", "1"])
def test_small_kernels_in_a_row(queue):
    environment = {**os.environ, "RUSHLIGHT_CUDA_QUEUE": queue}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_gradients_are_clipped_by_a_launch_each_and_four(driver, monkeypatch):  # noqa: F811
    """A norm for each; one gathers them, one more norm, and one scales all by a factor that it reads on the device."""
    monkeypatch.setenv("RUSHLIGHT_CUDA_QUEUE", "0")      # launches are counted when they were asked for
    run(driver, """
parameters = [rl.empty(33, k + 1, device="cuda").requires_grad_() for k in range(40)]
for p in parameters:
    p.grad = rl.zeros_like(p)
versions = [p.grad._version for p in parameters]
for turn in (1, 2):
    before = count(LAUNCHES)
    rl.nn.utils.clip_grad_norm_(parameters, 1.0)
    assert count(LAUNCHES) - before <= 40 + 7, count(LAUNCHES) - before
    assert [p.grad._version - v for p, v in zip(parameters, versions)] == [turn] * 40
""")


@on_card
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float64])
def test_clipped_gradients_are_the_hosts(dtype):
    found = []
    for device in ("cuda", "cpu"):
        rl.manual_seed(0)
        sizes = ((3,), (40, 7), (9000,), ())
        parameters = [rl.zeros(size, dtype=dtype, device=device).requires_grad_() for size in sizes]
        for p in parameters:
            p.grad = rl.randn(p.shape).to(dtype).to(device)
        norm = rl.nn.utils.clip_grad_norm_(parameters, 2.0)
        found.append([norm.cpu(), *[p.grad.cpu() for p in parameters]])
    rough = {rl.bfloat16: 2e-2, rl.float32: 1e-5, rl.float64: 1e-12}[dtype]
    for a, b in zip(*found, strict=True):
        rl.testing.assert_close(a, b, rtol=rough, atol=rough)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("code, dtype", [("f32", np.float32), ("f64", np.float64)])
def test_the_kernel_of_many_norms(code, dtype, tmp_path):
    """Its text, compiled for the host: tensors of several blocks, of few elements, and that begin between vectors."""
    kernel = HostKernel(tmp_path, "many_norms", many_norms.source(code), "T", 0, 0, "many_norms(*(Table*)p[0])")
    whole = np.random.default_rng(0).standard_normal(3 * CHUNK).astype(dtype)
    tensors = [whole[: 2 * CHUNK + 5], whole[1:8], whole[3 : CHUNK + 3], whole[:1]]
    sums, words, blocks = np.zeros(len(tensors)), [len(tensors)], 0
    for k, t in enumerate(tensors):
        blocks += -(-len(t) // CHUNK)
        words += [t.ctypes.data, sums[k:].ctypes.data, len(t), blocks]
    table = np.zeros(1 + 4 * most_rows(2), np.int64)
    table[: len(words)] = words
    kernel([table], [], 256, blocks)
    assert np.allclose(sums, [(t.astype(np.float64) ** 2).sum() for t in tensors], rtol=1e-5)


@on_card
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16, rl.float64])
def test_norms_of_many_tensors(dtype):
    rl.manual_seed(0)
    tensors = [rl.randn(n, device="cuda").to(dtype) for n in (1, 7, 8192, 8193, 100_000)] * 60
    tensors += [tensors[4][1:], rl.randn(30, 40, device="cuda").to(dtype).t(), rl.zeros(0, device="cuda", dtype=dtype)]
    for given in (tensors, [*tensors, rl.randn(6, 6, device="cuda").to(dtype)[:, ::2]]):      # one has gaps
        norms = rl._foreach_norm(given)
        assert len(norms) == len(given) and all(n.dtype is dtype and n.shape == () for n in norms)
        for t, norm in zip(given, norms, strict=True):
            rough = 1e-2 if dtype.itemsize == 2 else 1e-5
            assert norm.item() == pytest.approx(t.double().norm().item(), rel=rough)


@on_card
def test_clipping_is_captured():
    rl.manual_seed(0)
    weights = [rl.zeros(size, device="cuda").requires_grad_() for size in (5, 3000, 70)]
    grads = [rl.randn_like(w) for w in weights]
    for w in weights:
        w.grad = rl.zeros_like(w)

    def step():
        for w, g in zip(weights, grads, strict=True):
            w.grad.copy_(g)
        return rl.nn.utils.clip_grad_norm_(weights, 1.0)

    step()
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        norm = step()
    for factor in (2.0, 0.5):
        for g in grads:
            g.mul_(factor)
        graph.replay()
        wanted = rl.cat([g.flatten() for g in grads]).norm().item()
        assert norm.item() == pytest.approx(wanted, rel=1e-5)
        assert rl.cat([w.grad.flatten() for w in weights]).norm().item() == pytest.approx(min(wanted, 1.0), rel=1e-4)


LISTS = {
    "add a number": lambda x, y: rl._foreach_add(x, 1.5), "add": lambda x, y: rl._foreach_add(x, y),
    "add times": lambda x, y: rl._foreach_add(x, y, alpha=0.3), "mul_": lambda x, y: rl._foreach_mul_(x, 3),
    "div": lambda x, y: rl._foreach_div(x, [t.abs() + 1 for t in y]), "sub_": lambda x, y: rl._foreach_sub_(x, y),
    "lerp_": lambda x, y: rl._foreach_lerp_(x, y, 1), "lerp": lambda x, y: rl._foreach_lerp(x, y, 0.7),
    "sqrt": lambda x, y: rl._foreach_sqrt(x), "neg_": lambda x, y: rl._foreach_neg_(x),
    "number each": lambda x, y: rl._foreach_mul(x, [float(k) for k in range(len(x))]),
    "of one": lambda x, y: rl._foreach_add(x, [y[0].sum()] * len(x)),
}


@on_card
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float64, rl.int64])
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tensors(name, dtype):
    if dtype is rl.int64 and name in ("div", "lerp", "lerp_", "add a number", "add times", "sqrt"):
        pytest.skip("is not for whole numbers")
    found = []
    for device in ("cuda", "cpu"):
        rl.manual_seed(0)
        x, y = ([(rl.randn(shape) * 9).to(dtype) for shape in ((3,), (40, 7), (9000,), (), (0, 2))] for _ in range(2))
        if name == "sqrt":
            x = [t.abs() for t in x]
        x, y = ([t.to(device) for t in some] for some in (x, y))
        x[1], y[1] = x[1].t(), y[1].t()
        result = LISTS[name](x, y)
        found.append([t.cpu() for t in (x if result is None else result)])
        assert (result is None) == name.endswith("_")
    for a, b in zip(*found, strict=True):
        rl.testing.assert_close(a, b, rtol=2e-2 if dtype is rl.bfloat16 else 1e-5, atol=1e-5)


def test_lists_of_tensors_are_one_launch(driver, monkeypatch):  # noqa: F811
    monkeypatch.setenv("RUSHLIGHT_CUDA_QUEUE", "0")      # launches are counted when they were asked for
    run(driver, """
x, y = ([rl.empty(5, k + 1, device="cuda") for k in range(40)] for _ in range(2))
for call in (lambda: rl._foreach_add(x, 1.0), lambda: rl._foreach_lerp_(x, y, 0.1), lambda: rl._foreach_sqrt(x)):
    before = count(LAUNCHES)
    call()
    assert count(LAUNCHES) == before + 1
leaves = [t.clone().requires_grad_() for t in x]
sum(t.sum() for t in rl._foreach_mul(leaves, 2.0)).backward()
assert all(t.grad.shape == t.shape for t in leaves)
versions = [t._version for t in x]
rl._foreach_add_(x, y, alpha=2)
assert [t._version for t in x] == [v + 1 for v in versions]
""")
