"""Products of complex matrices, which are real ones of pairs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from interpreter import Interpreter

import rushlight as rl
from rushlight.codegen.schedule.cpu.complex import schedule_complex, suits_pairs
from rushlight.codegen.schedule.cpu.product import Blocking, product_nest
from rushlight.loops.expr import const
from rushlight.loops.nest import Nest, Pack, operands, rows
from rushlight.loops.verify import IllegalNest, verify

SIZES = [(48, 48, 48), (8, 100, 130), (9, 33, 700), (131, 70, 257), (511, 65, 301), (40, 513, 64)]
BOUND = {"c8": 2.0**-20, "c16": 2.0**-49}        # of every element's sum of absolute products


def sample(seed: int, *shape: int, dtype: str) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def orders(x: np.ndarray) -> list[rl.Tensor]:
    """A matrix whose rows are runs of memory, one whose rows lie apart, and one whose columns are runs."""
    apart = rl.from_numpy(np.concatenate([x, x], -1))[..., : x.shape[-1]]
    turned = rl.from_numpy(np.ascontiguousarray(np.swapaxes(x, -1, -2))).transpose(-1, -2)
    return [rl.from_numpy(x), apart, turned]


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_products_of_all_orders_of_memory(m: int, n: int, k: int, dtype: str) -> None:
    assert suits_pairs(m, n, k)
    a, b = sample(m, m, k, dtype=dtype), sample(n, k, n, dtype=dtype)
    exact = a.astype("c16") @ b.astype("c16")
    bound = BOUND[dtype] * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
    for x in orders(a):
        for y in orders(b):
            assert (np.abs((x @ y).numpy() - exact) <= bound).all()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_batches_and_threads_change_no_complex_element(dtype: str) -> None:
    a, b = sample(1, 3, 140, 300, dtype=dtype), sample(2, 3, 300, 150, dtype=dtype)
    threads = rl.get_num_threads()
    try:
        for x in orders(a):
            for y in orders(b):
                rl.set_num_threads(1)
                alone = x @ y
                assert alone.equal(rl.stack([left @ right for left, right in zip(x, y, strict=True)]))
                assert (x @ y[1]).equal(rl.stack([left @ y[1] for left in x]))
                rl.set_num_threads(3)
                assert (x @ y).equal(alone)
    finally:
        rl.set_num_threads(threads)


def test_a_conjugate_is_multiplied_as_one() -> None:
    a, b = (rl.from_numpy(sample(s, 70, 70, dtype="c8")) for s in (3, 4))
    assert rl.allclose(a.mH @ b, a.t().conj().contiguous() @ b, atol=1e-5)
    assert rl.allclose(a.conj() @ b.mH, (a.conj().contiguous() @ b.t().conj().contiguous()), atol=1e-5)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("in_lines", [False, True])
def test_strips_of_pairs_on_every_width_of_vectors(bits: int, in_lines: bool) -> None:
    """Edges everywhere, several slices of k that hold whole numbers, several groups of strips."""
    if in_lines and bits == 128:
        pytest.skip("16-byte vectors take rows from lanes")
    cut = Blocking("f32", bits)
    nest = product_nest("f32", form="own", bits=bits, in_lines=in_lines, pairs=True)
    for m, n, k in ((cut.height + 1, cut.width // 2 + 3, 5), (3, 4, cut.sizes.slice // 2 + 3)):
        random = np.random.default_rng(k)
        a, b = ((random.integers(-9, 9, s) + 1j * random.integers(-9, 9, s)).astype("c8") for s in ((m, k + 1), (k, n)))
        out = np.full((m, n + 1), np.nan, "c8")
        lines, strips = -(-m // cut.height), -(-2 * n // cut.width)
        params = [m, 2 * n, 2 * k, 2 * (k + 1), 1, 2 * (n + 1), 0, 0, 0, lines * cut.height, 1, strips, 1, 1, 2 * n]
        arrays = [x.view("f4").ravel() for x in (a, b, out)]
        Interpreter(nest, arrays, params, cut.unit).run(0, 1)
        assert (out[:, :n] == a[:, :k] @ b).all() and np.isnan(out[:, n:]).all()


WIDE = """
import numpy as np
import rushlight as rl
from rushlight.codegen.llvm import cpu
from rushlight.codegen.schedule.cpu import product
from rushlight.codegen.stored import tile_objects
from rushlight.codegen.tiles import functions as tile_functions
tile_objects.vector_bits = product.vector_bits = lambda: 512     # LLVM splits vectors that there are not
tile_functions.TileShape.by_lane = property(lambda self: False)
host = cpu.host_target().but(vector_bits=512)
cpu.host_target = lambda: host
for m, n, k in ((9, 33, 700), (131, 70, 257), (40, 700, 65)):
    random = np.random.default_rng(m)
    a, b = ((random.standard_normal(s) + 1j * random.standard_normal(s)).astype("c8") for s in ((m, k), (k, n)))
    exact, bound = a.astype("c16") @ b.astype("c16"), 2.0**-20 * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
    results = []
    for threads in (1, 3):
        rl.set_num_threads(threads)
        results.append((rl.from_numpy(a) @ rl.from_numpy(b)).numpy())
        assert (np.abs(results[-1] - exact) <= bound).all(), (m, n, k, threads)
    assert (results[0] == results[1]).all()
"""


def test_complex_products_where_vectors_are_wide(tmp_path) -> None:
    env = {**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WIDE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pairs_that_are_no_neighbours_are_refused() -> None:
    one = const(1, "i64")
    beside = Pack(0, one, one, one, 1, one, one, one, one, one, 8, True)
    verify(Nest("pairs", operands(["f32"], ["f32"]), (), rows(beside)))
    apart = Pack(0, one, const(2, "i64"), one, 1, one, one, one, one, one, 8, True)
    with pytest.raises(IllegalNest, match="neighbours"):
        verify(Nest("pairs", operands(["f32"], ["f32"]), (), rows(apart)))


def test_parts_cover_all_columns_once() -> None:
    cut = Blocking("f32")
    for n in (40, 63, 64, 500, 1000):
        launch = schedule_complex("c64", 300, n, 64, 2, (64, n, n), (0, 0, 0)).launches[0]
        named = dict(zip(product_nest("f32", form="own", pairs=True).params, launch.params, strict=True))
        assert named["part"] * named["parts"] * cut.width >= 2 * n > (named["parts"] - 1) * named["part"] * cut.width
        assert launch.extent == 2 * named["blocks"] * named["parts"] and named["block"] * named["blocks"] >= 300
