"""A first compiled call takes no more of a device's memory than later ones: on a driver without a device behind it."""

from __future__ import annotations

from .test_simulated_driver import driver, pytestmark, run

__all__ = ["driver", "pytestmark"]


def test_graphs_are_read_without_memory_for_their_values(driver):
    run(driver, """
words, rows = 4003, 256
layer, x = rl.nn.Linear(64, words, bias=False).cuda(), rl.randn(rows, 64).cuda()
y = (rl.arange(rows) % words).cuda()
loss = rl.compile(lambda x, y: F.cross_entropy(layer(x), y))
peaks = []
for _ in range(2):
    layer.weight.grad = None
    rl.cuda.reset_peak_memory_stats()
    before = rl.cuda.memory_allocated()
    with rl.autocast("cuda", dtype=rl.bfloat16):
        result = loss(x, y)
    result.backward()
    del result
    peaks.append(rl.cuda.max_memory_allocated() - before)
assert peaks[0] <= 1.1 * peaks[1], peaks
""")
