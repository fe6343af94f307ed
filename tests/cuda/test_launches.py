"""Many small kernels in a row on the card, whichever way they reach the driver: every one runs once, in order, with its
own arguments. One process each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rushlight as rl

pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")

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


@pytest.mark.parametrize("queue", ["0", "1"])
def test_small_kernels_in_a_row(queue):
    environment = {**os.environ, "RUSHLIGHT_CUDA_QUEUE": queue}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
